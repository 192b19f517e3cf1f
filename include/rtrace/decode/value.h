// A decoded value: a tree, not a string, so that text and JSON are two views of the same thing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrace::proto {
struct Type;
}

namespace rtrace::decode {

struct Value {
  enum class Kind : uint8_t {
    hidden,      // prints nothing, its comma included
    unreadable,  // `?`, or the hex address in `raw` where the pointer is known (raw != 0)
    nothing,     // <void>
    nil,
    integer,    // `raw`, rendered by `radix`, `is_signed`; `<text>` follows where there is one
    character,  // low byte of `raw`; `is_eof` for -1 of an int-sized one
    floating,   // `number`; radix hex prints %a
    boolean,
    address,       // hex
    string,        // `bytes`, `cut` when there was more
    structure,     // `members`
    array,         // `members` without names, `cut` when there were more
    enumeration,   // `text` = the key, empty where no key matches
    flags,         // `text` = "A|B|0x40"
    bit_vector,    // `text` = "<0-1,5,8>"
    recursion,     // `raw` = levels up; 0 the struct itself
    changed,       // inout: members[0] -> members[1]
    error_result,  // errno lens: members[0] is the result, `text` = "ENOENT (No such file or directory)", raw
                   // = errno
  };
  enum class Radix : uint8_t { decimal, hex, octal };

  Kind kind = Kind::unreadable;
  Radix radix = Radix::decimal;
  bool is_signed = false;
  bool is_eof = false;
  bool cut = false;
  bool is_descriptor =
      false;          // an integer that is a file descriptor; `text` is what is behind it, where known
  uint8_t size = 8;   // bytes, of integers; of a wide string's characters
  uint64_t raw = 0;   // integers sign-extended to 64 bits where signed
  uint64_t high = 0;  // the upper half of an integer of 16 bytes
  long double number = 0;
  std::string bytes;  // strings: UTF-8 for wide ones
  std::string text;
  std::string name;  // of a struct's member, where known
  // Of enumerations and flags: whose keys they have. It lives as long as the probe's prototype.
  const proto::Type* keyed_by = nullptr;
  std::vector<Value> members;

  bool operator==(const Value&) const = default;
};

struct Argument {
  std::string name;  // of the parameter, where the prototype has one
  std::string type;  // as the prototype spells it
  Value value;
};

struct RenderOptions {
  bool struct_names = false;
  bool utf8 = false;
  size_t max_line = 4096;
};

// Appends the value as the man page's table says; control characters never come out raw.
void append_text(std::string& out, const Value& value, const RenderOptions& options);
std::string to_text(const Value& value, const RenderOptions& options = {});
// What stands in `text` from `start` on, rendered values, ends at `end` or before it, and `...` behind it. No
// character and no escape is halved, and a string that is cut is closed: `"abc"...`.
void cut_text(std::string& text, size_t start, size_t end);

// Cuts the strings in it that are longer than `most` bytes, wide ones at `most` characters, as if no more of
// them had been read (Limits::string).
void shorten(Value& value, size_t most);

// What a key stands for where the value stands: as wide as it, and signed as it is. nullopt where the value
// has no such key.
std::optional<uint64_t> key_bits(const Value& value, std::string_view key);

// "ENOENT (No such file or directory)"; "errno 4711" for an unknown one.
std::string error_text(int number);

}  // namespace rtrace::decode
