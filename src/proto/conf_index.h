// Where a file of ltrace's language says what, without parsing an item: most of what the large shipped files
// hold is never asked for. The first questions are answered by a search through the text; an index, which
// takes as long as many of them and as much memory as the text, is made for who asks more.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace rtrace::proto {

struct ConfItem {
  enum class Kind : uint8_t { prototype, type, import };
  Kind kind = Kind::prototype;
  std::string_view name;  // of the function, of the typedef, or what is imported
  std::string_view text;  // the line
  unsigned line = 0;      // from 1
  bool operator==(const ConfItem&) const = default;
};

// Items point into the text that they were made of. A line that is none is left out: it is an error, which is
// for parse_conf() to say.
class ConfIndex {
 public:
  explicit ConfIndex(std::string_view text);
  ConfIndex(const ConfIndex&) = delete;
  ConfIndex& operator=(const ConfIndex&) = delete;

  const std::vector<const ConfItem*>& imports() const { return imports_; }
  // In the order of lines. They stay where they are as long as this lives; of one line there may be several.
  std::vector<const ConfItem*> find(ConfItem::Kind kind, std::string_view name);

 private:
  std::vector<const ConfItem*> search(ConfItem::Kind kind, std::string_view name);
  void make_index();

  const std::string_view text_;
  unsigned searches_ = 0;
  std::deque<ConfItem> found_;
  std::vector<const ConfItem*> imports_;
  std::vector<ConfItem> items_;                         // once there is an index: all
  std::vector<std::pair<uint32_t, uint32_t>> by_hash_;  // of the name, and the item's number
};

}  // namespace rtrace::proto
