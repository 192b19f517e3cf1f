// formats WAY N: so many rounds of calls whose arguments a format tells, most of them in memory; each is
// checked. How often printf's family and scanf's were called is printed at the end, by write(2).
#include <printf.h>
#include <pthread.h>
#include <stdio_ext.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <cwchar>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

// What compilers make of calls that they know is not what is meant.
auto* volatile format_text = &snprintf;
auto* volatile format_wide = &swprintf;
auto* volatile format_to = &fprintf;
auto* volatile scan_text = &sscanf;
long formatted = 0, wide = 0, written = 0, scanned = 0;

#define TEN(x) x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8, x + 9
#define TEN_D "%d %d %d %d %d %d %d %d %d %d "

bool is_many() {
  char text[512];
  std::string expected;
  for (int i = 1; i <= 60; ++i) expected += std::to_string(i) + " ";
  ++formatted;
  const int length = format_text(text, sizeof text, TEN_D TEN_D TEN_D TEN_D TEN_D TEN_D, TEN(1), TEN(11),
                                 TEN(21), TEN(31), TEN(41), TEN(51));
  return text == expected && length == static_cast<int>(expected.size());
}

bool is_mixed(int i) {
  char text[256], expected[32];
  formatted += 2;
  format_text(expected, sizeof expected, "%d", i);
  const int length = format_text(text, sizeof text, "%d %s %.1f %.2Lf %d %d %*d %-3s| %%%.*f %Lg %c", i,
                                 "text", 1.5, 2.25L, 4, 5, 3, 6, "x", 1, 8.25, 9.5L, '!');
  return text == expected + std::string(" text 1.5 2.25 4 5   6 x  | %8.2 9.5 !") &&
         length == static_cast<int>(strlen(text));
}

bool is_numbered() {
  char text[128];
  ++formatted;
  format_text(text, sizeof text, "%12$d %11$d %10$d %9$d %8$d %7$d %6$d %5$d %4$d %3$d %2$d %1$d", 1, 2, 3, 4,
              5, 6, 7, 8, 9, 10, 11, 12);
  return strcmp(text, "12 11 10 9 8 7 6 5 4 3 2 1") == 0;
}

bool is_wide() {
  wchar_t text[128];
  ++wide;
  format_wide(text, 128, L"%d %ls %d %d %d %d %d %d %.2f", 1, L"wide", 3, 4, 5, 6, 7, 8, 1.25);
  return wcscmp(text, L"1 wide 3 4 5 6 7 8 1.25") == 0;
}

bool is_scanned() {
  int numbers[8] = {};
  char word[16] = {};
  ++scanned;
  const int stored =
      scan_text("1 2 3 4 5 6 7 8 end", "%d %d %d %d %d %d %d %d %15[^]%]", &numbers[0], &numbers[1],
                &numbers[2], &numbers[3], &numbers[4], &numbers[5], &numbers[6], &numbers[7], word);
  for (int i = 0; i < 8; ++i)
    if (numbers[i] != i + 1) return false;
  return stored == 9 && strcmp(word, "end") == 0;
}

// Six arguments for one conversion, of a letter of our own.
int print_six(FILE* stream, const struct printf_info*, const void* const* arguments) {
  int sum = 0;
  for (int i = 0; i < 6; ++i) sum += *static_cast<const int*>(arguments[i]);
  return fprintf(stream, "%d", sum);
}

int six_integers(const struct printf_info*, size_t n, int* types, int* sizes) {
  for (size_t i = 0; i < n && i < 6; ++i) types[i] = PA_INT, sizes[i] = sizeof(int);
  return 6;
}

bool is_made_by_ourselves() {
  static const int registered = register_printf_specifier('P', print_six, six_integers);
  char text[64];
  ++formatted;
  written += 4;  // by print_six()
  format_text(text, sizeof text, "%P %P %P %P %d", 1, 2, 3, 4, 5, 6, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 4, 4,
              4, 4, 4, 4, 9);
  return registered == 0 && strcmp(text, "21 12 18 24 9") == 0;
}

// With nothing mapped behind its end.
ucontext_t home, small;
bool was_right = false;
void on_a_small_stack() {
  char text[32];
  ++formatted;
  was_right = format_text(text, sizeof text, "%d %d", 1, 2) == 3 && strcmp(text, "1 2") == 0;
}

bool is_near_the_end_of_a_stack() {
  constexpr size_t kSize = 1 << 16, kPage = 4096;
  auto* stack = static_cast<char*>(
      mmap(nullptr, kSize + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (stack == MAP_FAILED || mprotect(stack + kSize, kPage, PROT_NONE) != 0) return false;
  getcontext(&small);
  small.uc_stack = {stack, 0, kSize};
  small.uc_link = &home;
  makecontext(&small, on_a_small_stack, 0);
  was_right = false;
  swapcontext(&home, &small);
  munmap(stack, kSize + kPage);
  return was_right;
}

bool is_passed(int i) {
  return is_many() && is_mixed(i) && is_numbered() && is_wide() && is_scanned() && is_made_by_ourselves() &&
         is_near_the_end_of_a_stack();
}

// What the stream's writer does with the text.
struct Sink {
  enum class Deed { take, throw_it, jump, exit } deed = Deed::take;
  std::string text;
};
std::jmp_buf away;

ssize_t take(void* cookie, const char* text, size_t size) {
  auto& sink = *static_cast<Sink*>(cookie);
  sink.text.append(text, size);
  if (sink.text.size() < 20 || sink.deed == Sink::Deed::take) return static_cast<ssize_t>(size);
  if (sink.deed == Sink::Deed::throw_it) throw std::runtime_error(sink.text);
  if (sink.deed == Sink::Deed::jump) std::longjmp(away, 1);
  pthread_exit(cookie);
}

FILE* stream_to(Sink& sink) {
  FILE* stream = fopencookie(&sink, "w", {nullptr, take, nullptr, nullptr});
  __fsetlocking(stream, FSETLOCKING_BYCALLER);
  setvbuf(stream, nullptr, _IONBF, 0);
  return stream;
}

void write_to(FILE* stream) {
  ++written;
  format_to(stream, "%d %d %d %d %d %d %d %d %d %d %d", TEN(10), 20);
}

const std::string kWritten = "10 11 12 13 14 15 16 17 18 19 20";

struct Guard {
  explicit Guard(int& count) : count_(count) {}
  ~Guard() { ++count_; }
  int& count_;
};

bool is_caught() {
  Sink sink{Sink::Deed::throw_it, {}};
  FILE* stream = stream_to(sink);
  int destroyed = 0;
  bool caught = false;
  try {
    const Guard guard(destroyed);
    write_to(stream);
  } catch (const std::runtime_error& error) {
    caught = kWritten.rfind(error.what(), 0) == 0;
  }
  sink.deed = Sink::Deed::take;
  fclose(stream);
  return caught && destroyed == 1;
}

bool is_left() {
  static Sink sink;
  static FILE* volatile stream;
  sink = {Sink::Deed::jump, {}};
  stream = stream_to(sink);
  if (setjmp(away) == 0) {
    write_to(stream);
    return false;
  }
  sink.deed = Sink::Deed::take;
  fclose(stream);
  return kWritten.rfind(sink.text, 0) == 0;
}

void* exits(void* argument) {
  write_to(static_cast<FILE*>(argument));
  return nullptr;
}

bool is_ended() {
  Sink sink{Sink::Deed::exit, {}};
  FILE* stream = stream_to(sink);
  pthread_t thread{};
  void* answer = nullptr;
  if (pthread_create(&thread, nullptr, exits, stream) != 0) return false;
  pthread_join(thread, &answer);
  sink.deed = Sink::Deed::take;
  fclose(stream);
  return answer == &sink;
}

// In a thread of its own: what passes by it is never taken off its list of the C library's cleaning up.
bool in_a_thread(bool (*work)()) {
  bool right = false;
  std::thread([&] { right = work(); }).join();
  return right;
}

bool is_taken() {
  Sink sink;
  FILE* stream = stream_to(sink);
  write_to(stream);
  fclose(stream);
  return sink.text == kWritten;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const bool leaves = strcmp(argv[1], "leaving") == 0;
  const long rounds = atol(argv[2]);
  for (long i = 0; i < rounds; ++i)
    if (leaves ? !(is_taken() && in_a_thread(is_caught) && in_a_thread(is_left) && is_ended())
               : !is_passed(static_cast<int>(i)))
      return 1;
  const std::string counts = "snprintf " + std::to_string(formatted) + " swprintf " + std::to_string(wide) +
                             " fprintf " + std::to_string(written) + " sscanf " + std::to_string(scanned) +
                             "\n";
  return write(STDOUT_FILENO, counts.data(), counts.size()) < 0;
}
