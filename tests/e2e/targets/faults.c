/* faults WAY COUNT: calls functions whose first instruction faults, COUNT times. The handler checks the
   address of the fault and its own rip, and goes on in the WAY that is asked for:

   fix      repairs the pointer in rdi, so that the instruction runs again (SIGSEGV)
   skip     steps rip over the instruction, as handlers that go by tables do (SIGSEGV)
   leave    siglongjmp (SIGSEGV)
   divide   skips a division by zero (SIGFPE)
   illegal  skips an invalid instruction (SIGILL) */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

long peek(const long* where); /* 3 bytes that read through rdi, and a return */
long quotient(long by);       /* 3 bytes that divide by rdi */
long invalid(void);           /* 2 bytes that are no instruction */
__asm__(
    ".text\n"
    ".globl peek, quotient, invalid\n"
    ".type peek, @function\n.type quotient, @function\n.type invalid, @function\n"
    "peek: mov (%rdi), %rax\n ret\n .size peek, .-peek\n"
    "quotient: idiv %rdi\n ret\n .size quotient, .-quotient\n"
    "invalid: ud2\n mov $7, %eax\n ret\n .size invalid, .-invalid\n");

static const char* way;
static const long good = 42;
static sigjmp_buf above;
static volatile int faults, wrong;

static void on_fault(int signal, siginfo_t* info, void* context) {
  greg_t* regs = ((ucontext_t*)context)->uc_mcontext.gregs;
  const char* at = (const char*)regs[REG_RIP];
  faults = faults + 1;
  if (signal == SIGSEGV) {
    if (at != (const char*)peek || info->si_addr != (void*)regs[REG_RDI]) wrong = 1;
    if (strcmp(way, "fix") == 0) regs[REG_RDI] = (greg_t)&good;
    if (strcmp(way, "skip") == 0) regs[REG_RIP] += 3, regs[REG_RAX] = good;
    if (strcmp(way, "leave") == 0) siglongjmp(above, 1);
    return;
  }
  const char* expected = signal == SIGFPE ? (const char*)quotient : (const char*)invalid;
  if (at != expected || info->si_addr != (void*)at) wrong = 2;
  regs[REG_RIP] += signal == SIGFPE ? 3 : 2;
  regs[REG_RAX] = good;
}

static long once(int round) {
  const long* bad = (const long*)(8L * (round + 1));
  if (strcmp(way, "divide") == 0) return quotient(0);
  if (strcmp(way, "illegal") == 0) return invalid() == 7 ? good : 0;
  if (sigsetjmp(above, 1) != 0) return good;
  return peek(bad);
}

int main(int argc, char** argv) {
  if (argc != 3) return 99;
  way = argv[1];
  int count = atoi(argv[2]);
  struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGFPE, &action, NULL);
  sigaction(SIGILL, &action, NULL);
  for (int i = 0; i < count; i++)
    if (once(i) != good) return 1;
  return wrong ? 2 + wrong : faults == count ? 0 : 2;
}
