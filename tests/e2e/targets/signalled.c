// signalled: for each line of its standard input calls a function until signals have come while a jump stood
// where that begins, and says what their handler saw. `slow` spends its time in the second of its first
// instructions, `repeats` in one that is repeated. `hold` waits in the handler, that has interrupted slow(),
// for one more line. `calls` only calls both.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

enum { kSignals = 100, kJump = 5, kNear = 0xe9, kCalls = 1000, kRoom = 1 << 20 };

long slow(void);
void repeats(void* to, long count);
extern const char slow_end[], repeats_end[], __executable_start[], etext[];

__asm__(
    ".text\n"
    ".globl slow, slow_end, repeats, repeats_end\n"
    ".type slow, @function\n"
    "slow:\n"
    "  .cfi_startproc\n"
    "  push %rbx\n"
    "  .cfi_def_cfa_offset 16\n"
    "  .cfi_offset %rbx, -16\n"
    "  cpuid\n"
    "  pop %rbx\n"
    "  .cfi_def_cfa_offset 8\n"
    "  .cfi_restore %rbx\n"
    "  nop\n"
    "slow_end:\n"
    "  ret\n"
    "  .cfi_endproc\n"
    ".size slow, . - slow\n"
    ".balign 16\n"
    ".type repeats, @function\n"
    "repeats:\n"
    "  .cfi_startproc\n"
    "  xchg %rsi, %rcx\n"
    "  rep stosb\n"
    "repeats_end:\n"
    "  ret\n"
    "  .cfi_endproc\n"
    ".size repeats, . - repeats\n");

static volatile sig_atomic_t seen, in_jump, foreign, holds;
static const volatile unsigned char* entry;

static int lies_in(greg_t pc, const void* begin, greg_t length) {
  return pc >= (greg_t)begin && pc < (greg_t)begin + length;
}

static void handle(int signal, siginfo_t* info, void* context) {
  const greg_t pc = ((const ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  char byte;
  (void)signal, (void)info;
  if (*entry != kNear) return;
  seen++;
  in_jump += lies_in(pc, (const char*)entry + 1, kJump - 1);
  foreign += !lies_in(pc, __executable_start, etext - __executable_start);
  if (!holds || !lies_in(pc, slow, slow_end - (const char*)slow + 1)) return;
  holds = 0;
  if (write(STDOUT_FILENO, "held\n", 5) != 5 || read(STDIN_FILENO, &byte, 1) != 1) _exit(2);
}

static char room[kRoom];

static void call(int repeated) {
  if (repeated)
    repeats(room, kRoom);
  else
    slow();
}

static void call_until_seen(int repeated) {
  const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
  entry = repeated ? (const volatile unsigned char*)repeats : (const volatile unsigned char*)slow;
  seen = in_jump = foreign = 0;
  setitimer(ITIMER_REAL, &often, NULL);
  while (seen < kSignals || holds) call(repeated);
  setitimer(ITIMER_REAL, &never, NULL);
}

int main(void) {
  static char line[16];
  setvbuf(stdout, NULL, _IOLBF, 0);
  setvbuf(stdin, NULL, _IONBF, 0);
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  printf("pid %d\n", (int)getpid());
  while (fgets(line, sizeof line, stdin) != NULL) {
    holds = strcmp(line, "hold\n") == 0;
    if (strcmp(line, "calls\n") != 0) call_until_seen(strcmp(line, "repeats\n") == 0);
    for (int i = 0; i < kCalls && strcmp(line, "calls\n") == 0; i++) call(i & 1);
    printf("in the jump %d foreign %d\n", (int)in_jump, (int)foreign);
  }
  return 0;
}
