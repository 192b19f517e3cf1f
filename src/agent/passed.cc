#include "passed.h"

#include "append.h"
#include "pages.h"

namespace rtrace::agent {
namespace {

constexpr uint64_t kWord = sizeof(uint64_t);

// What can be read, whether or not there is a tracer to ask.
struct Sight {
  const Control& control;
  uint64_t sp;
  bool traced;
  uint64_t bytes_from(uint64_t address, uint64_t size) const {
    const uint64_t seen = traced ? readable_bytes({control, sp}, address, size) : 0;
    // One that has died, or left, before it answered must not cost the function its arguments.
    const bool answered = traced && (seen == size || owner_lives(control));
    return answered ? seen : readable_bytes(sp, address, size);
  }
};

// Behind the frame lies the caller's rbp, then the return address.
Sight sight_from(const Control& control, const WrapperFrame& frame) {
  return {control, reinterpret_cast<uint64_t>(&frame) + sizeof frame + kWord,
          mode_now(control) != Mode::off && owner_lives(control)};
}

// Its characters one by one; 0 at its end, and where it cannot be read on, and from then on.
class Format {
 public:
  Format(const Sight& sight, uint64_t address, uint64_t unit)
      : sight_(sight), at_(address), end_(address), unit_(unit) {}
  RTRACE_ANY_MEMORY uint32_t next() {
    uint32_t character = 0;
    for (uint64_t i = 0; i < unit_ && !ended_; ++i, ++at_) {
      if (at_ == end_) end_ = at_ + sight_.bytes_from(at_, kPage - at_ % kPage);
      ended_ = at_ == end_;
      if (!ended_) character |= uint32_t{*reinterpret_cast<const uint8_t*>(at_)} << 8 * i;
    }
    ended_ |= character == 0;
    return ended_ ? 0 : character;
  }

 private:
  const Sight& sight_;
  uint64_t at_, end_, unit_;
  bool ended_ = false;
};

bool is_one_of(uint32_t character, const char* all) {
  for (; *all != 0; ++all)
    if (static_cast<uint32_t>(*all) == character) return true;
  return false;
}

bool is_digit(uint32_t character) {
  return character >= '0' && character <= '9';
}

// Words of memory for the arguments behind a format, as the psABI hands out registers (3.2.3): six for
// integers and pointers, eight for doubles, of which those in front of the format have some.
class ArgumentWords {
 public:
  explicit ArgumentWords(Passed passed)
      : integers_(passed.integers), vectors_(passed.vectors), words_(passed.bytes / kWord) {}
  void add_integer() { add(integers_, 6); }
  void add_double() { add(vectors_, 8); }
  void add_long_double() {
    words_ += words_ % 2 + 2;
    ++long_doubles_;
  }
  // One that the program has made itself (register_printf_specifier(3)): of many arguments, or of large ones.
  void add_unknown() { words_ += 64; }
  // `%2$d`: not the next one, but that. The highest tells how many there are.
  void add_numbered(uint64_t number) { highest_ = number > highest_ ? number : highest_; }
  uint64_t words() const {
    const uint64_t numbered = highest_ == 0 ? 0 : highest_ + 2 * long_doubles_;
    return words_ > numbered ? words_ : numbered;
  }

 private:
  void add(uint64_t& used, uint64_t registers) { used < registers ? ++used : ++words_; }
  uint64_t integers_, vectors_, words_;
  uint64_t long_doubles_ = 0, highest_ = 0;
};

// One conversion, whose `%` has been read.
struct Conversion {
  uint32_t letter = 0;
  bool is_long = false;  // of a floating-point number: a long double
  unsigned stars = 0;
};

// Up to its letter.
Conversion read_conversion(Format& format, ArgumentWords& arguments, const char* modifiers) {
  constexpr uint64_t kMostNumber = uint64_t{1} << 16;
  Conversion conversion;
  uint64_t number = 0;
  unsigned small_l = 0;
  for (;;) {
    const uint32_t character = conversion.letter = format.next();
    if (!is_digit(character) && !is_one_of(character, modifiers)) return conversion;
    conversion.stars += character == '*';
    if (character == '$') arguments.add_numbered(number);
    small_l += character == 'l';
    conversion.is_long |= character == 'L' || character == 'q' || small_l == 2;
    number = is_digit(character) && number < kMostNumber ? 10 * number + character - '0' : 0;
  }
}

void add_printed(Format& format, ArgumentWords& arguments) {
  const Conversion conversion = read_conversion(format, arguments, " #+-'.*$hlLqjztZI");
  for (unsigned i = 0; i < conversion.stars; ++i) arguments.add_integer();
  if (is_one_of(conversion.letter, "diouxXbBcCsSpn")) return arguments.add_integer();
  if (!is_one_of(conversion.letter, "eEfFgGaA")) {
    if (conversion.letter != 0 && !is_one_of(conversion.letter, "%m")) arguments.add_unknown();
    return;
  }
  if (conversion.is_long)
    arguments.add_long_double();
  else
    arguments.add_double();
}

// Pointers; `%*d` has none. In a set of characters a `]` comes first, or ends it.
void add_scanned(Format& format, ArgumentWords& arguments) {
  const Conversion conversion = read_conversion(format, arguments, "'*$hlLqjztZIm");
  if (conversion.letter != '%' && conversion.stars == 0) arguments.add_integer();
  if (conversion.letter != '[') return;
  uint32_t character = format.next();
  if (character == '^') character = format.next();
  do character = format.next();
  while (character != ']' && character != 0);
}

uint64_t words_of(Format format, Passed passed) {
  ArgumentWords arguments(passed);
  for (uint32_t character = format.next(); character != 0; character = format.next())
    if (character == '%') (passed.scans == 0 ? add_printed : add_scanned)(format, arguments);
  return arguments.words();
}

// They will lie as far below again: whoever has no room for that meets the page that guards the stack, not
// what lies behind it.
RTRACE_ANY_MEMORY void meet_guard(uint64_t sp, uint64_t bytes) {
  for (uint64_t below = kPage; below < bytes + kPage; below += kPage)
    (void)*reinterpret_cast<const volatile uint8_t*>(sp - below);
}

}  // namespace

uint64_t told_bytes(const Control& control, const WrapperFrame& frame, Passed passed) {
  if (passed.unit == 0) return passed.bytes;
  const uint64_t format = frame.entry.arguments[passed.integers - 1];
  return kWord * words_of({sight_from(control, frame), format, passed.unit}, passed);
}

uint64_t passed_bytes(const Control& control, const WrapperFrame& frame, Passed passed) {
  uint64_t bytes = told_bytes(control, frame, passed);
  if (passed.unit != 0 && bytes < kLeastOfFormats) bytes = kLeastOfFormats;
  const Sight sight = sight_from(control, frame);
  bytes = sight.bytes_from(sight.sp + kWord, bytes) / kWord * kWord;
  if (bytes > kPage / 2) meet_guard(sight.sp, bytes);
  return bytes;
}

}  // namespace rtrace::agent
