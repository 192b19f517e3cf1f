#include "json_writer.h"

#include <cmath>

#include "rtrace/base/text.h"

namespace rtrace::sink {
namespace {

void append_escape(std::string& out, unsigned code) {
  static constexpr std::string_view kLetters = "btn?fr";  // from 8 to 13, in ASCII's order
  if (code >= 8 && code <= 13 && code != 11)
    (out += '\\') += kLetters[code - 8];
  else
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
}

bool is_c1_control(std::string_view text) {
  return text.size() >= 2 && text[0] == '\xc2' && static_cast<unsigned char>(text[1]) >= 0x80 &&
         static_cast<unsigned char>(text[1]) < 0xa0;
}

}  // namespace

std::string& JsonWriter::separate() {
  if (!out_.empty() && std::string_view("{[:").find(out_.back()) == std::string_view::npos) out_ += ',';
  return out_;
}

void JsonWriter::key(std::string_view name) {
  string(name);
  out_ += ':';
}

bool JsonWriter::string(std::string_view bytes) {
  bool whole = true;
  separate() += '"';
  for (size_t i = 0; i < bytes.size();) {
    const auto c = static_cast<unsigned char>(bytes[i]);
    size_t length = 1;
    if (c == '"' || c == '\\') {
      (out_ += '\\') += bytes[i];
    } else if (c >= 0x20 && c < 0x7f) {
      out_ += bytes[i];
    } else if (c <= 0x7f) {
      append_escape(out_, c);
    } else if (is_c1_control(bytes.substr(i))) {
      append_escape(out_, static_cast<unsigned char>(bytes[i + 1]));
      length = 2;
    } else if (const size_t sequence = utf8_sequence(bytes.substr(i)); sequence > 0) {
      out_ += bytes.substr(i, sequence);
      length = sequence;
    } else {
      out_ += "\xef\xbf\xbd";  // U+FFFD
      whole = false;
    }
    i += length;
  }
  out_ += '"';
  return whole;
}

void JsonWriter::hex(std::string_view bytes) {
  separate() += '"';
  for (char byte : bytes)
    fmt::format_to(std::back_inserter(out_), "{:02x}", static_cast<unsigned char>(byte));
  out_ += '"';
}

void JsonWriter::real(long double value) {
  if (!std::isfinite(value)) return null();
  // JSON's readers hold doubles; what is beyond them would be read as infinite.
  const auto narrowed = static_cast<double>(value);
  if (!std::isfinite(narrowed)) return null();
  fmt::format_to(std::back_inserter(separate()), "{}", narrowed);
}

}  // namespace rtrace::sink
