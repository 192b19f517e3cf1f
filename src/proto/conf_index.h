// Where a file of ltrace's language says what, found in one pass that parses no item: most of what the large
// shipped files hold is never asked for.
#pragma once

#include <cstdint>
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

  // In the order of lines.
  const std::vector<ConfItem>& items() const { return items_; }
  const std::vector<const ConfItem*>& imports() const { return imports_; }
  std::vector<const ConfItem*> find(ConfItem::Kind kind, std::string_view name) const;

 private:
  std::vector<ConfItem> items_;
  std::vector<const ConfItem*> imports_;
  std::vector<std::pair<uint32_t, uint32_t>> by_hash_;  // of the name, and the item's number
};

}  // namespace rtrace::proto
