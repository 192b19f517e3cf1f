// faulting: for each line of its standard input calls functions whose first instructions fault, in a page
// that may not be read; the handler does what the line says: `throw` an exception, `retry` when the page may
// be read, or `skip` the instruction. Says in how many cases the handler saw the program's own instruction,
// and how many calls ended as they ought to.
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

extern "C" {
long first(const long* at);
long second(const long* at);
extern const greg_t second_faults_behind;
}

namespace {

enum class Way { throws, retries, skips };
Way way;
long* page;
greg_t traced, faults_behind;
int seen;
constexpr size_t kPage = 4096;
constexpr int kRounds = 10, kLength = 3;

void handle(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  greg_t& pc = registers[REG_RIP];
  seen += pc - traced == faults_behind;
  if (way == Way::throws) throw 7;
  if (way == Way::retries) mprotect(page, kPage, PROT_READ);
  if (way == Way::skips) pc += kLength, registers[REG_RDX] = 0;
}

long call(long (*function)(const long*)) {
  try {
    return function(page);
  } catch (int thrown) {
    return thrown;
  }
}

int run(long (*function)(const long*), greg_t faults, long result) {
  int right = 0;
  traced = reinterpret_cast<greg_t>(function);
  faults_behind = faults;
  for (int i = 0; i < kRounds; i++) {
    mprotect(page, kPage, PROT_NONE);
    right += call(function) == result;
  }
  return right;
}

}  // namespace

int main() {
  setvbuf(stdout, nullptr, _IOLBF, 0);
  page = static_cast<long*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  *page = 42;
  struct sigaction action {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  printf("pid %d\n", getpid());
  for (char line[16]; fgets(line, sizeof line, stdin) != nullptr;) {
    way = strcmp(line, "throw\n") == 0   ? Way::throws
          : strcmp(line, "retry\n") == 0 ? Way::retries
                                         : Way::skips;
    const long result = way == Way::throws ? 7 : way == Way::retries ? 42 : 0;
    seen = 0;
    const int right = run(first, 0, result) + run(second, second_faults_behind, result);
    printf("seen %d right %d of %d\n", seen, right, 2 * kRounds);
  }
}
