#include "conf_index.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>

#include "lexer.h"

namespace rtrace::proto {
namespace {

using Kind = ConfItem::Kind;

constexpr unsigned kMostSearches = 8;

uint32_t hash_of(std::string_view name) {
  return static_cast<uint32_t>(std::hash<std::string_view>{}(name));
}

// What is left of a line.
class Rest {
 public:
  explicit Rest(std::string_view text) : text_(text) { skip_blanks(); }

  char front() const { return text_.empty() ? '\0' : text_.front(); }

  // Empty where no word stands there.
  std::string_view word() {
    if (!is_word_start(front())) return {};
    return cut(std::find_if_not(text_.begin(), text_.end(), is_word));
  }

  // `lens(...)`, `[length]` and stars: what may stand between a type's first word and the function's name.
  void skip_type() {
    unsigned depth = 0;
    const auto* end = std::find_if_not(text_.begin(), text_.end(), [&](char c) {
      if (c == '(' || c == '[') ++depth;
      const bool inside = depth > 0 || c == '*' || is_blank(c);
      if ((c == ')' || c == ']') && depth > 0) --depth;
      return inside;
    });
    cut(end);
  }

  std::string_view quoted() {
    const size_t end = front() == '"' ? text_.find('"', 1) : std::string_view::npos;
    return end == std::string_view::npos ? std::string_view{} : text_.substr(1, end - 1);
  }

 private:
  std::string_view cut(const char* end) {
    const auto length = static_cast<size_t>(end - text_.begin());
    const std::string_view taken = text_.substr(0, length);
    text_.remove_prefix(length);
    skip_blanks();
    return taken;
  }
  void skip_blanks() {
    while (!text_.empty() && is_blank(text_.front())) text_.remove_prefix(1);
  }

  std::string_view text_;
};

// A prototype is a type, which begins with a word, the function's name, and `(`.
std::optional<ConfItem> item_of(std::string_view line, unsigned number) {
  Rest rest(line);
  std::string_view first = rest.word();
  if (first.empty()) return std::nullopt;
  if (first == "typedef") {
    const std::string_view name = rest.word();
    return name.empty() ? std::nullopt : std::optional(ConfItem{Kind::type, name, line, number});
  }
  if (first == "import" && !is_word_start(rest.front())) {
    const std::string_view name = rest.quoted();
    return name.empty() ? std::nullopt : std::optional(ConfItem{Kind::import, name, line, number});
  }
  if (first == "function") rest.word();
  rest.skip_type();
  const std::string_view name = rest.word();
  if (name.empty() || rest.front() != '(') return std::nullopt;
  return ConfItem{Kind::prototype, name, line, number};
}

// The number, from 1, of the line that begins at `begin`. Few are asked for, in texts of thousands.
unsigned line_number(std::string_view text, size_t begin) {
  unsigned number = 1;
  text = text.substr(0, begin);
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) ++number;
  return number;
}

// The letter of the word that is rarest in prototypes: what a search stops at. std::string_view::find stops
// at the first one, which may be every tenth of all.
size_t rarest(std::string_view word) {
  static constexpr std::string_view kRarestFirst =
      "QZJXVWYUHKjqzBGMPNDROFLEAITSC0123456789vkwxybumgdhalcfopsnire_t";
  const auto rank = [](char c) { return std::min(kRarestFirst.find(c), kRarestFirst.size()); };
  const auto best = std::ranges::min_element(word, {}, rank);
  return static_cast<size_t>(best - word.begin());
}

// Where the word stands next, alone or in another.
class WordSearch {
 public:
  WordSearch(std::string_view text, std::string_view word) : text_(text), word_(word), pivot_(rarest(word)) {}

  size_t from(size_t at) const {
    for (at = text_.find(word_[pivot_], at + pivot_); at != std::string_view::npos;
         at = text_.find(word_[pivot_], at + 1))
      if (text_.substr(at - pivot_, word_.size()) == word_) return at - pivot_;
    return at;
  }

 private:
  std::string_view text_, word_;
  size_t pivot_;
};

size_t line_begin(std::string_view text, size_t at) {
  const void* before = memrchr(text.data(), '\n', at);
  return before == nullptr ? 0 : static_cast<size_t>(static_cast<const char*>(before) - text.data()) + 1;
}

// Each line in which the word stands, once, with where it begins.
template <typename Use>
void for_lines_with(std::string_view text, std::string_view word, Use use) {
  if (word.empty()) return;
  const WordSearch search(text, word);
  for (size_t at = search.from(0); at != std::string_view::npos;) {
    const size_t behind = at + word.size();
    const bool whole =
        (at == 0 || !is_word(text[at - 1])) && (behind == text.size() || !is_word(text[behind]));
    size_t next = behind;
    if (whole) {
      const size_t begin = line_begin(text, at);
      next = std::min(text.find('\n', at), text.size());
      use(text.substr(begin, next - begin), begin);
    }
    at = search.from(next);
  }
}

// Whether it is worth taking the line apart: most lines with a type's name only use it.
bool may_be(Kind kind, std::string_view line) {
  const auto* begin = std::find_if_not(line.begin(), line.end(), is_blank);
  return kind != Kind::type || std::string_view(begin, line.end()).starts_with("typedef");
}

}  // namespace

ConfIndex::ConfIndex(std::string_view text) : text_(text) {
  for_lines_with(text_, "import", [&](std::string_view line, size_t begin) {
    if (const auto item = item_of(line, 0); item && item->kind == Kind::import)
      imports_.push_back(&found_.emplace_back(*item_of(line, line_number(text_, begin))));
  });
}

std::vector<const ConfItem*> ConfIndex::search(Kind kind, std::string_view name) {
  std::vector<const ConfItem*> found;
  for_lines_with(text_, name, [&](std::string_view line, size_t begin) {
    if (!may_be(kind, line)) return;
    if (const auto item = item_of(line, 0); item && item->kind == kind && item->name == name)
      found.push_back(&found_.emplace_back(*item_of(line, line_number(text_, begin))));
  });
  return found;
}

void ConfIndex::make_index() {
  constexpr size_t kUsualLine = 40;
  items_.reserve(text_.size() / kUsualLine);
  std::string_view text = text_;
  unsigned number = 0;
  for (bool more = true; more;) {
    const size_t end = text.find('\n');
    if (auto item = item_of(text.substr(0, end), ++number)) items_.push_back(*item);
    more = end != std::string_view::npos;
    text.remove_prefix(more ? end + 1 : text.size());
  }
  by_hash_.reserve(items_.size());
  for (const ConfItem& item : items_)
    by_hash_.emplace_back(hash_of(item.name), static_cast<uint32_t>(&item - items_.data()));
  std::sort(by_hash_.begin(), by_hash_.end());
}

std::vector<const ConfItem*> ConfIndex::find(Kind kind, std::string_view name) {
  if (searches_ < kMostSearches) {
    ++searches_;
    return search(kind, name);
  }
  if (by_hash_.empty()) make_index();
  std::vector<const ConfItem*> found;
  const uint32_t hash = hash_of(name);
  for (auto at = std::lower_bound(by_hash_.begin(), by_hash_.end(), std::pair(hash, uint32_t{0}));
       at != by_hash_.end() && at->first == hash; ++at)
    if (const ConfItem& item = items_[at->second]; item.kind == kind && item.name == name)
      found.push_back(&item);
  return found;
}

}  // namespace rtrace::proto
