#include "rtrace/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

// libstdc++'s demangler that hands out its text piece by piece (libsupc++, cp-demangle.c). 0 is success.
extern "C" int __gcclibcxx_demangle_callback(const char* mangled, void (*take)(const char*, size_t, void*),
                                             void* opaque);

namespace rtrace {

// Each substitution in a name may double its text: 300 bytes can stand for 36 GB, which abi::__cxa_demangle
// would make. The exception leaves the demangler, which owns nothing but its stack.
std::optional<std::string> demangle(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return std::nullopt;
  struct TooLong {};
  std::string text;
  auto take = [](const char* piece, size_t size, void* opaque) {
    auto& whole = *static_cast<std::string*>(opaque);
    if (whole.size() + size > kMaxDemangled) throw TooLong{};
    whole.append(piece, size);
  };
  try {
    const int status = __gcclibcxx_demangle_callback(std::string(symbol).c_str(), take, &text);
    return status == 0 ? std::optional(std::move(text)) : std::nullopt;
  } catch (const TooLong&) {
    return std::nullopt;
  }
}

size_t utf8_sequence(std::string_view text) {
  auto at = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  unsigned first = at(0);
  size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                  : (first & 0xf0) == 0xe0         ? 3
                  : first >= 0xf0 && first <= 0xf4 ? 4
                                                   : 0;
  unsigned low = first == 0xe0 || first == 0xc2 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
  unsigned high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
  if (length == 0 || at(1) < low || at(1) > high) return 0;
  for (size_t i = 2; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  return length;
}

size_t printable_sequence(std::string_view text) {
  const size_t length = utf8_sequence(text);
  if (length != 3) return length;
  const auto at = [&](size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  const unsigned code = (at(0) & 0xf) << 12 | (at(1) & 0x3f) << 6 | (at(2) & 0x3f);
  const bool unseen = code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) ||
                      (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
  return unseen ? 0 : length;
}

std::string caret_message(std::string_view what, std::string_view text, size_t position,
                          const std::string& message) {
  auto on_one_line = [](std::string line) {
    for (char& c : line)
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    return line;
  };
  const std::string shown = on_one_line(std::string(text));
  auto is_code_point = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; };
  auto before = shown.begin() + static_cast<std::ptrdiff_t>(std::min(position, shown.size()));
  auto column = static_cast<size_t>(std::count_if(shown.begin(), before, is_code_point));
  return fmt::format("{}: {}\n  {}\n  {:>{}}", what, on_one_line(message), shown, '^', column + 1);
}

void append_printable(std::string& out, std::string_view text, bool utf8) {
  for (size_t i = 0; i < text.size();) {
    auto c = static_cast<unsigned char>(text[i]);
    size_t length = c >= 0x20 && c < 0x7f ? 1 : utf8 ? printable_sequence(text.substr(i)) : 0;
    if (length == 0)
      fmt::format_to(std::back_inserter(out), "\\{:03o}", c);
    else
      out.append(text, i, length);
    i += length == 0 ? 1 : length;
  }
}

std::string_view basename_of(std::string_view path) {
  auto slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for_each_part(text, separator, [&](std::string_view part) { parts.push_back(part); });
  return parts;
}

std::optional<uint64_t> parse_number(std::string_view word) {
  int base = 10;
  if (word.starts_with("0x") || word.starts_with("0X")) {
    base = 16;
    word.remove_prefix(2);
  } else if (word.size() > 1 && word[0] == '0') {
    base = 8;
    word.remove_prefix(1);
  }
  uint64_t value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

std::optional<uint64_t> parse_duration(std::string_view word) {
  static constexpr std::pair<std::string_view, unsigned> kUnits[] = {
      {"ns", 0}, {"us", 3}, {"ms", 6}, {"s", 9}};
  for (const auto& [unit, zeros] : kUnits) {
    if (!word.ends_with(unit)) continue;
    const std::string_view amount = word.substr(0, word.size() - unit.size());
    const size_t point = amount.find('.');
    const std::string_view whole = amount.substr(0, point);
    std::string_view fraction = point == std::string_view::npos ? "0" : amount.substr(point + 1);
    for (std::string_view digits : {whole, fraction})
      if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
        return std::nullopt;
    // In nanoseconds the fraction has as many places as the unit has zeros.
    std::string digits(whole);
    for (unsigned place = 0; place < zeros; ++place)
      digits += place < fraction.size() ? fraction[place] : '0';
    uint64_t value = 0;
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc() ? std::optional(value) : std::nullopt;
  }
  return std::nullopt;
}

size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > limit) return limit + 1;
  // On the stack for all names but those of templates.
  std::array<size_t, 128> small{};
  std::vector<size_t> large(a.size() < small.size() ? 0 : a.size() + 1);
  const std::span<size_t> row =
      large.empty() ? std::span(small).first(a.size() + 1) : std::span<size_t>(large);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t j = 1; j <= b.size(); ++j) {
    size_t diagonal = std::exchange(row[0], j);
    size_t best = row[0];
    for (size_t i = 1; i <= a.size(); ++i) {
      size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[i];
      row[i] = std::min({replaced, row[i] + 1, row[i - 1] + 1});
      best = std::min(best, row[i]);
    }
    if (best > limit) return limit + 1;
  }
  return std::min(row[a.size()], limit + 1);
}

namespace {

// What all the names of a process are compared with: nearly all of them are told apart without an allocation
// and without a distance.
class NearTo {
 public:
  explicit NearTo(std::string_view name)
      : name_(name), words_(split(name, '_')), limit_(std::max<size_t>(2, name.size() / 3)) {}

  // How far off a candidate is; nullopt where it is not near.
  std::optional<size_t> score(std::string_view candidate) const {
    size_t distance = limit_ + 1;
    if (may_be_within_limit(candidate)) distance = edit_distance(name_, candidate, limit_);
    // Two words in common are what it takes without that.
    if (distance > limit_ && words_.size() < 2) return std::nullopt;
    const size_t words = shared_words(candidate);
    if (distance > limit_ && (words <= 1 || words * 2 < words_.size())) return std::nullopt;
    return distance + 2 * (words_.size() - std::min(words, words_.size()));
  }

 private:
  // A letter, by its low bits, that the other name has not takes at least one edit.
  static uint64_t letters(std::string_view text) {
    uint64_t set = 0;
    for (char c : text) set |= uint64_t{1} << (static_cast<unsigned char>(c) % 64);
    return set;
  }

  bool may_be_within_limit(std::string_view candidate) const {
    const size_t longer = std::max(name_.size(), candidate.size());
    if (longer - std::min(name_.size(), candidate.size()) > limit_) return false;
    const uint64_t theirs = letters(candidate);
    return static_cast<size_t>(std::popcount(letters_ & ~theirs)) <= limit_ &&
           static_cast<size_t>(std::popcount(theirs & ~letters_)) <= limit_;
  }

  // Each word counts as often as both have it.
  size_t shared_words(std::string_view candidate) const {
    size_t count = 0;
    uint64_t used = 0;
    const size_t words = std::min<size_t>(words_.size(), 64);
    for (bool more = true; more;) {
      const size_t end = candidate.find('_');
      const std::string_view word = candidate.substr(0, end);
      more = end != std::string_view::npos;
      candidate.remove_prefix(more ? end + 1 : 0);
      for (size_t i = 0; i < words && !word.empty(); ++i) {
        if ((used >> i & 1) != 0 || words_[i] != word) continue;
        used |= uint64_t{1} << i;
        ++count;
        break;
      }
    }
    return count;
  }

  std::string_view name_;
  std::vector<std::string_view> words_;
  size_t limit_;
  uint64_t letters_ = letters(name_);
};

}  // namespace

std::vector<std::string> nearest_names(std::string_view name, const std::vector<std::string>& candidates,
                                       size_t count) {
  struct Scored {
    size_t distance;
    const std::string* name;
  };
  const NearTo near(name);
  std::vector<Scored> scored;
  for (const std::string& candidate : candidates)
    if (const auto distance = near.score(candidate); distance && candidate != name)
      scored.push_back({*distance, &candidate});
  std::sort(scored.begin(), scored.end(), [](const Scored& a, const Scored& b) {
    return std::pair(a.distance, *a.name) < std::pair(b.distance, *b.name);
  });
  std::vector<std::string> names;
  for (const Scored& entry : scored) {
    if (names.size() == count) break;
    if (names.empty() || names.back() != *entry.name) names.push_back(*entry.name);
  }
  return names;
}

std::string counted(size_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace rtrace
