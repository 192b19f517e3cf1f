// Values to text. Whatever the bytes are, the terminal gets printable characters only.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cfloat>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "rtrace/base/text.h"
#include "rtrace/decode/value.h"
#include "utf8.h"

namespace rtrace::decode {
namespace {

bool is_octal_digit(char c) {
  return c >= '0' && c <= '7';
}

// C's escapes. `next` is what follows: `\0` before a digit would be another character.
void append_escaped(std::string& out, char c, char next) {
  static constexpr std::string_view kLetters = "abtnvfr";  // from 7 to 13, in ASCII's order
  auto byte = static_cast<unsigned char>(c);
  if (byte == 0 && !is_octal_digit(next))
    out += "\\0";
  else if (byte >= 7 && byte <= 13)
    (out += '\\') += kLetters[byte - 7U];
  else if (byte >= ' ' && byte < 0x7f)
    out += c;
  else
    fmt::format_to(std::back_inserter(out), "\\{:03o}", byte);
}

class Renderer {
 public:
  Renderer(std::string& out, const RenderOptions& options)
      : out_(out), options_(options), start_(out.size()), limit_(out.size() + options.max_line) {}

  void value(const Value& value) {
    if (is_full()) return;
    switch (value.kind) {
      case Value::Kind::hidden:
        return;
      case Value::Kind::unreadable:
        if (value.raw == 0)
          out_ += '?';
        else
          hex(value.raw);
        return;
      case Value::Kind::nothing:
        out_ += "<void>";
        return;
      case Value::Kind::nil:
        out_ += "nil";
        return;
      case Value::Kind::integer:
        return integer(value);
      case Value::Kind::character:
        return character(value);
      case Value::Kind::floating:
        return floating(value);
      case Value::Kind::boolean:
        out_ += value.raw != 0 ? "true" : "false";
        return;
      case Value::Kind::address:
        return hex(value.raw);
      case Value::Kind::string:
        return string(value);
      case Value::Kind::structure:
        return sequence(value, "{ ", " }");
      case Value::Kind::array:
        return sequence(value, "[ ", " ]");
      case Value::Kind::enumeration:
        if (value.text.empty())
          number(value);
        else
          out_ += value.text;
        return;
      case Value::Kind::flags:
      case Value::Kind::bit_vector:
        out_ += value.text;
        return;
      case Value::Kind::recursion:
        out_ += "recurse";
        out_.append(std::min<uint64_t>(value.raw, options_.max_line), '^');
        return;
      case Value::Kind::changed:
        return joined(value, " -> ");
      case Value::Kind::error_result:
        joined(value, " ");
        (out_ += ' ') += value.text;
        return;
    }
  }

  void finish() {
    if (out_.size() > limit_) cut_text(out_, start_, limit_);
  }

 private:
  bool is_full() const { return out_.size() > limit_; }

  void hex(uint64_t number) { fmt::format_to(std::back_inserter(out_), "{:#x}", number); }

  // __int128, where its upper half counts. fmt spells it in every radix.
  void wide_number(const Value& value) {
    __extension__ using Wide = unsigned __int128;
    Wide bits = static_cast<Wide>(value.high) << 64 | value.raw;
    const bool negative = value.is_signed && value.high >> 63 != 0;
    auto out = std::back_inserter(out_);
    if (value.radix == Value::Radix::hex) {
      fmt::format_to(out, "{:#x}", bits);
    } else if (value.radix == Value::Radix::octal) {
      fmt::format_to(out, "0{:o}", bits);
    } else {
      if (negative) out_ += '-';
      fmt::format_to(out, "{}", negative ? -bits : bits);
    }
  }

  void number(const Value& value) {
    if (value.size == 16 && (value.high != 0 || (value.is_signed && static_cast<int64_t>(value.raw) < 0)))
      return wide_number(value);
    uint64_t mask = value.size >= 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * value.size)) - 1;
    uint64_t bits = value.raw & mask;
    auto out = std::back_inserter(out_);
    if (value.radix != Value::Radix::decimal && bits == 0)
      out_ += '0';
    else if (value.radix == Value::Radix::hex)
      fmt::format_to(out, "{:#x}", bits);
    else if (value.radix == Value::Radix::octal)
      fmt::format_to(out, "0{:o}", bits);
    else if (value.is_signed)
      fmt::format_to(out, "{}", static_cast<int64_t>(value.raw));
    else
      fmt::format_to(out, "{}", bits);
  }

  void integer(const Value& value) {
    if (value.is_descriptor && static_cast<int>(value.raw) == AT_FDCWD)
      out_ += "AT_FDCWD";
    else
      number(value);
    if (value.text.empty()) return;
    // The file behind a descriptor: its name is the program's choice.
    // The arrow between a socket's ends is ours.
    const std::string_view text = value.text;
    const bool path = text.starts_with('/');
    out_ += '<';
    for (size_t i = 0; i < text.size() && !is_full();) {
      const bool arrow = !path && text.substr(i, 2) == "->";
      if (arrow) out_ += "->";
      i += arrow ? 2 : piece(text, i, "<>");
    }
    out_ += '>';
  }

  void character(const Value& value) {
    if (value.is_eof) {
      out_ += "EOF";
      return;
    }
    auto c = static_cast<char>(value.raw);
    out_ += '\'';
    if (c == '\'' || c == '\\') out_ += '\\';
    append_escaped(out_, c, '\'');
    out_ += '\'';
  }

  void floating(const Value& value) {
    if (value.radix != Value::Radix::hex && value.size != 16) {
      fmt::format_to(std::back_inserter(out_), "{:f}", static_cast<double>(value.number));
      return;
    }
    if (value.radix != Value::Radix::hex) {
      // fmt 9 prints small long doubles with as many places as they need.
      char places[LDBL_MAX_10_EXP + 16];
      std::snprintf(places, sizeof places, "%Lf", value.number);
      out_ += places;
      return;
    }
    char text[64];
    if (value.size == 16)
      std::snprintf(text, sizeof text, "%La", value.number);
    else
      std::snprintf(text, sizeof text, "%a", static_cast<double>(value.number));
    out_ += text;
  }

  // One character of text from `index`; says how many bytes it took.
  size_t piece(std::string_view text, size_t index, std::string_view also_escaped) {
    char c = text[index];
    if (options_.utf8) {
      if (size_t length = printable_sequence(text.substr(index)); length > 0) {
        out_ += text.substr(index, length);
        return length;
      }
    }
    if (c == '\\' || also_escaped.find(c) != std::string_view::npos) out_ += '\\';
    append_escaped(out_, c, index + 1 < text.size() ? text[index + 1] : '\0');
    return 1;
  }

  void string(const Value& value) {
    out_ += '"';
    size_t i = 0;
    while (i < value.bytes.size() && !is_full()) {
      // The limit counts bytes: what is left of the character that it fell into belongs to what is not shown.
      if (options_.utf8 && value.cut && is_cut_utf8(std::string_view(value.bytes).substr(i))) break;
      i += piece(value.bytes, i, "\"");
    }
    out_ += value.cut || i < value.bytes.size() ? "\"..." : "\"";
  }

  void sequence(const Value& value, std::string_view open, std::string_view close) {
    // A struct of which nothing is shown: the limit of nested expansions.
    if (value.kind == Value::Kind::structure && value.cut && value.members.empty()) {
      out_ += "...";
      return;
    }
    out_ += open;
    bool first = true;
    for (const Value& member : value.members) {
      if (member.kind == Value::Kind::hidden) continue;
      if (!first) out_ += ", ";
      first = false;
      if (options_.struct_names && !member.name.empty()) (out_ += member.name) += '=';
      this->value(member);
      if (is_full()) return;
    }
    if (value.cut) out_ += "...";
    out_ += first && !value.cut ? close.substr(1) : close;
  }

  void joined(const Value& value, std::string_view separator) {
    for (const Value& member : value.members) {
      if (&member != value.members.data()) out_ += separator;
      this->value(member);
    }
  }

  std::string& out_;
  const RenderOptions& options_;
  size_t start_;
  size_t limit_;
};

}  // namespace

void cut_text(std::string& text, size_t start, size_t end) {
  while (end > start && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  char quote = 0;  // within them
  for (size_t i = start; i < end; ++i) {
    if (quote == 0) {
      // A name behind a descriptor may have any in it.
      if (text[i] == '<') i = std::min(text.find('>', i), end);
      if (i < end && (text[i] == '"' || text[i] == '\'')) quote = text[i];
    } else if (text[i] == '\\') {
      size_t last = i + 1;
      while (last < i + 3 && is_octal_digit(text[last]) && is_octal_digit(text[last + 1])) ++last;
      if (last >= end) end = i;
      i = last;
    } else if (text[i] == quote) {
      quote = 0;
    }
  }
  text.resize(end);
  if (quote != 0) text += quote;
  text += "...";
}

void append_text(std::string& out, const Value& value, const RenderOptions& options) {
  Renderer renderer(out, options);
  renderer.value(value);
  renderer.finish();
}

std::string to_text(const Value& value, const RenderOptions& options) {
  std::string text;
  append_text(text, value, options);
  return text;
}

}  // namespace rtrace::decode
