// JSON (RFC 8259) into a line that is built in place. Nothing comes out that a terminal would obey.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>

namespace rtrace::sink {

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(out) {}

  void begin_object() { separate() += '{'; }
  void end_object() { out_ += '}'; }
  void begin_array() { separate() += '['; }
  void end_array() { out_ += ']'; }
  void key(std::string_view name);

  // Bytes that are no UTF-8 become U+FFFD each; false where there were any.
  bool string(std::string_view bytes);
  void hex(std::string_view bytes);  // a string of two digits for each
  void address(uint64_t value) { fmt::format_to(std::back_inserter(separate()), "\"{:#x}\"", value); }
  void number(uint64_t value) { fmt::format_to(std::back_inserter(separate()), "{}", value); }
  void number(int64_t value) { fmt::format_to(std::back_inserter(separate()), "{}", value); }
  void number(int value) { number(int64_t{value}); }
  void real(long double value);  // null where it is no number
  void boolean(bool value) { separate() += value ? "true" : "false"; }
  void null() { separate() += "null"; }
  // A key and its value, written by another writer.
  void raw(std::string_view members) { separate() += members; }

  template <typename T>
  void member(std::string_view name, T value) {
    key(name);
    number(value);
  }
  void member(std::string_view name, std::string_view value) {
    key(name);
    string(value);
  }
  void member(std::string_view name, const std::string& value) { member(name, std::string_view(value)); }
  void member(std::string_view name, const char* value) { member(name, std::string_view(value)); }

 private:
  // A comma, unless this is the first thing after a bracket or a key: those are the only signs that a line
  // can end in and that are no end of a value, for strings end in their quote.
  std::string& separate();

  std::string& out_;
};

}  // namespace rtrace::sink
