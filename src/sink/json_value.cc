#include "json_value.h"

#include <fmt/format.h>

#include <set>
#include <string>

#include "settled.h"

namespace rtrace::sink {
namespace {

using decode::Value;
using Kind = Value::Kind;

std::string integer_text(const Value& value) {
  Value plain = value;
  plain.radix = Value::Radix::decimal;
  return decode::to_text(plain);
}

void append_integer(JsonWriter& json, const Value& value) {
  if (value.size > sizeof value.raw) return json.raw(integer_text(value));
  if (value.is_signed)
    json.number(static_cast<int64_t>(value.raw));
  else
    json.number(value.raw);
}

// All 64 bits as text, for most readers of JSON hold numbers as doubles.
void append_raw(JsonWriter& json, const Value& value) {
  switch (value.kind) {
    case Kind::integer:
      if (value.size > sizeof value.raw) return void(json.string(integer_text(value)));
      [[fallthrough]];
    case Kind::character:
    case Kind::boolean:
    case Kind::enumeration:
    case Kind::flags:
    case Kind::bit_vector:
      json.string(value.is_signed ? fmt::format("{}", static_cast<int64_t>(value.raw))
                                  : fmt::format("{}", value.raw));
      return;
    case Kind::nil:
    case Kind::address:
      json.address(value.raw);
      return;
    case Kind::floating:
      if (value.size <= sizeof value.raw) return json.address(value.raw);
      break;
    case Kind::string:
    case Kind::unreadable:  // the pointer, where it is known
      if (value.raw != 0) return json.address(value.raw);
      break;
    default:
      break;
  }
  json.null();
}

void append_value(JsonWriter& json, const Value& value);

// A string inside another value has no place beside it for its exact bytes.
void append_inner(JsonWriter& json, const Value& value) {
  std::string attempt;
  JsonWriter writer(attempt);
  if (value.kind != Kind::string || writer.string(value.bytes)) return append_value(json, settled(value));
  json.begin_object();
  json.member("string", value.bytes);
  json.key("hex");
  json.hex(value.bytes);
  json.end_object();
}

// Members without a name, and those whose name another one has, go by their number.
void append_structure(JsonWriter& json, const Value& value) {
  if (value.cut && value.members.empty()) return json.null();
  std::set<std::string, std::less<>> names;
  json.begin_object();
  for (size_t i = 0; i < value.members.size(); ++i) {
    const Value& member = value.members[i];
    std::string name = member.name;
    while (name.empty() || !names.insert(name).second) name = fmt::format("{}{}", name, i);
    json.key(name);
    append_inner(json, member);
  }
  json.end_object();
}

void append_named(JsonWriter& json, const Value& value) {
  json.begin_object();
  json.key("name");
  if (value.text.empty())
    json.null();
  else
    json.string(value.text);
  json.key("bits");
  append_integer(json, value);
  json.end_object();
}

void append_value(JsonWriter& json, const Value& value) {
  switch (value.kind) {
    case Kind::integer:
    case Kind::boolean:
    case Kind::bit_vector:
      return append_integer(json, value);
    case Kind::address:
      return json.number(value.raw);
    case Kind::character: {
      if (value.is_eof) return json.number(-1);
      const auto c = static_cast<char>(value.raw);
      json.string({&c, 1});
      return;
    }
    case Kind::floating:
      return json.real(value.number);
    case Kind::string:
      json.string(value.bytes);
      return;
    case Kind::structure:
      return append_structure(json, value);
    case Kind::array:
      json.begin_array();
      for (const Value& member : value.members) append_inner(json, member);
      return json.end_array();
    case Kind::enumeration:
    case Kind::flags:
      return append_named(json, value);
    case Kind::changed:
    case Kind::error_result:
      return append_value(json, settled(value));
    case Kind::hidden:
    case Kind::unreadable:
    case Kind::nothing:
    case Kind::nil:
    case Kind::recursion:
      break;
  }
  json.null();
}

std::string_view bytes_of(const Value& value, char& storage) {
  if (value.kind == Kind::string) return value.bytes;
  if (value.kind != Kind::character || value.is_eof) return {};
  storage = static_cast<char>(value.raw);
  return {&storage, 1};
}

}  // namespace

void append_argument(JsonWriter& json, std::string_view name, std::string_view type, const Value& value,
                     const decode::RenderOptions& render) {
  const Value& now = settled(value);
  json.begin_object();
  if (!name.empty()) json.member("name", name);
  json.member("type", type);
  json.key("raw");
  append_raw(json, now);
  json.member("text", decode::to_text(value, render));
  json.key("value");
  append_value(json, now);
  char storage = 0;
  const std::string_view bytes = bytes_of(now, storage);
  std::string attempt;
  if (!JsonWriter(attempt).string(bytes)) {
    json.key("hex");
    json.hex(bytes);
  }
  if (now.cut) {
    json.key("cut");
    json.boolean(true);
  }
  if (value.kind == Kind::changed && !value.members.empty()) {
    json.key("before");
    append_inner(json, value.members[0]);
  }
  json.end_object();
}

}  // namespace rtrace::sink
