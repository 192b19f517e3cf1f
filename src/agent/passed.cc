#include "passed.h"

#include "append.h"
#include "pages.h"

namespace rtrace::agent {
namespace {

// What can be read, whether or not there is a tracer to ask.
struct Sight {
  const Control& control;
  uint64_t sp;
  bool traced;
  uint64_t bytes_from(uint64_t address, uint64_t size) const {
    return traced ? readable_bytes({control, sp}, address, size) : readable_bytes(sp, address, size);
  }
};

// Its characters one by one; 0 at its end, and where it cannot be read on.
class Format {
 public:
  Format(const Sight& sight, uint64_t address, uint64_t unit)
      : sight_(sight), at_(address), end_(address), unit_(unit) {}
  RTRACE_ANY_MEMORY uint32_t next() {
    if (end_ - at_ < unit_) end_ = at_ + sight_.bytes_from(at_, kPage - at_ % kPage);
    if (end_ - at_ < unit_) return 0;
    const uint64_t here = at_;
    at_ += unit_;
    return unit_ == 1 ? *reinterpret_cast<const uint8_t*>(here) : *reinterpret_cast<const uint32_t*>(here);
  }

 private:
  const Sight& sight_;
  uint64_t at_, end_, unit_;
};

bool is_digit(uint32_t character) {
  return character >= '0' && character <= '9';
}

// What may stand between a `%` and the letter that says what is converted.
bool is_modifier(uint32_t character) {
  static constexpr char kModifiers[] = " #+-'.*$hlLqjztZIw";
  for (const char* modifier = kModifiers; *modifier != 0; ++modifier)
    if (static_cast<uint32_t>(*modifier) == character) return true;
  return is_digit(character);
}

// How many words its arguments take at the most: a conversion's is no larger than a long double, which may
// leave out a word before it, and each `*` has one more. Where conversions are numbered the highest tells.
uint64_t words_of(Format format) {
  constexpr uint64_t kMostWords = 3, kMostNumber = uint64_t{1} << 16;
  uint64_t words = 0, highest = 0;
  for (uint32_t character = format.next(); character != 0; character = format.next()) {
    if (character != '%') continue;
    uint64_t number = 0;
    for (character = format.next(); is_modifier(character); character = format.next()) {
      words += character == '*';
      if (character == '$' && number > highest) highest = number;
      number = is_digit(character) && number < kMostNumber ? 10 * number + character - '0' : 0;
    }
    if (character == 0) break;
    if (character != '%') words += kMostWords;
  }
  return words > highest * kMostWords ? words : highest * kMostWords;
}

}  // namespace

uint64_t passed_bytes(const Control& control, const WrapperFrame& frame, Passed passed) {
  // Behind the frame lies the caller's rbp, then the return address.
  const uint64_t sp = reinterpret_cast<uint64_t>(&frame) + sizeof frame + 8;
  const Sight sight{control, sp, mode_now(control) != Mode::off && owner_lives(control)};
  uint64_t bytes = passed.bytes;
  if (passed.format != 0) {
    const uint64_t told = 8 * words_of({sight, frame.entry.arguments[passed.format - 1], passed.unit});
    if (told > bytes) bytes = (told + 15) & ~uint64_t{15};
  }
  return sight.bytes_from(sp + 8, bytes) & ~uint64_t{15};
}

}  // namespace rtrace::agent
