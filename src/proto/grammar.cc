#include "grammar.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "rtrace/base/error.h"
#include "rtrace/base/text.h"

namespace rtrace::proto {
namespace {

std::optional<Lens> lens_of(std::string_view word) {
  static const std::map<std::string_view, Lens> kLenses = {
      {"hex", Lens::hex},           {"oct", Lens::octal}, {"octal", Lens::octal}, {"bool", Lens::boolean},
      {"bitvec", Lens::bit_vector}, {"hide", Lens::hide}, {"guess", Lens::guess},
  };
  auto found = kLenses.find(word);
  return found == kLenses.end() ? std::nullopt : std::optional(found->second);
}

// The types that are one word. Made once: most parameters of the large shipped files have one of these.
TypeRef word_type(std::string_view word) {
  static const std::map<std::string_view, TypeRef> kTypes = {
      {"short", make_integer(2, true)},
      {"ushort", make_integer(2, false)},
      {"int", make_integer(4, true)},
      {"uint", make_integer(4, false)},
      {"long", make_integer(8, true)},
      {"ulong", make_integer(8, false)},
      {"schar", make_integer(1, true)},
      {"uchar", make_integer(1, false)},
      {"int8", make_integer(1, true)},
      {"uint8", make_integer(1, false)},
      {"int16", make_integer(2, true)},
      {"uint16", make_integer(2, false)},
      {"int32", make_integer(4, true)},
      {"uint32", make_integer(4, false)},
      {"int64", make_integer(8, true)},
      {"uint64", make_integer(8, false)},
      {"longlong", make_integer(8, true)},
      {"ulonglong", make_integer(8, false)},
      {"size", make_integer(8, false)},
      {"void", make_void()},
      {"char", make_character()},
      {"float", make_float(4)},
      {"double", make_float(8)},
      {"longdouble", make_float(16)},
      {"addr", make_address()},
      {"file", make_address()},
      {"fd", make_descriptor()},
      {"wstatus", make_wait_status()},
      {"oct", with_lens(make_integer(4, false), Lens::octal)},
      {"octal", with_lens(make_integer(4, false), Lens::octal)},
      {"int128", make_integer(16, true)},
      {"uint128", make_integer(16, false)},
      {"char16", make_character(2)},
      {"char32", make_character(4)},
  };
  auto found = kTypes.find(word);
  return found == kTypes.end() ? nullptr : found->second;
}

TypeRef plain_string() {
  static const TypeRef kString = make_string(make_character(), {});
  return kString;
}

bool is_character_type(const Type& type) {
  return type.kind == Type::Kind::character ||
         (type.kind == Type::Kind::integer && (type.size == 1 || type.size == 2 || type.size == 4));
}

// "string3", "format0": the digits, where `word` is `stem` followed by nothing else.
std::optional<uint64_t> legacy_argument(std::string_view word, std::string_view stem) {
  if (!word.starts_with(stem) || word.size() == stem.size()) return std::nullopt;
  std::string_view digits = word.substr(stem.size());
  if (!std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return std::nullopt;
  return parse_number(digits);
}

TypeRef string_of(std::string_view stem, const TypeRef& character, Length length) {
  if (stem == "format") return make_format(character, length);
  if (stem == "scanf") return make_scan_format(character, length);
  return make_string(character, length);
}

Length argument_length(uint64_t number) {
  return number == 0 ? Length{Length::Kind::result, false, 0} : Length{Length::Kind::argument, false, number};
}

}  // namespace

void Grammar::unexpected(std::string_view expected) const {
  throw Error::make("unexpected {}, expected {}", peek().quoted(), expected);
}

void Grammar::expect(char mark) {
  if (!peek().is(mark)) unexpected(fmt::format("'{}'", mark));
  take();
}

std::string_view Grammar::expect_word(std::string_view what) {
  if (peek().kind != Token::Kind::word) unexpected(what);
  return take().spelling;
}

TypeRef Grammar::lens() {
  auto lens = peek().kind == Token::Kind::word ? lens_of(peek().spelling) : std::nullopt;
  if (!lens || (*lens == Lens::octal && !peek_second().is('('))) return type();
  take();
  expect('(');
  TypeRef inner = complete_lens("a type inside the lens");
  expect(')');
  return pointers_to(with_lens(inner, *lens));
}

// Structs that point to each other may form long chains; behind a pointer the name of one stands for it, as
// long as the scope keeps it.
TypeRef Grammar::shortened(const TypeRef& type) const {
  constexpr uint32_t kDeep = 16;
  if (type->kind != Type::Kind::structure || type->depth < kDeep || type->name.empty() ||
      lookup_(type->name) != type)
    return type;
  auto name = make_named(type->name);
  name->target = type;
  return name;
}

// ltrace has the stars inside the lens only; outside they can mean nothing else.
TypeRef Grammar::pointers_to(TypeRef type) {
  const unsigned outer_depth = depth_;
  while (peek().is('*')) {
    take();
    deepen();
    type = make_pointer(shortened(type));
  }
  depth_ = outer_depth;
  return type;
}

void Grammar::deepen() {
  if (++depth_ > kMaxDepth) throw Error::make("types nested deeper than {}, expected fewer", kMaxDepth);
}

TypeRef Grammar::complete_lens(std::string_view what) {
  TypeRef result = lens();
  if (result->kind == Type::Kind::named)
    throw Incomplete(fmt::format("struct '{}' is not defined yet, expected {} that is complete, or a pointer",
                                 result->name, what));
  if (result->kind == Type::Kind::nothing) throw Error::make("unexpected 'void', expected {}", what);
  return result;
}

TypeRef Grammar::type() {
  const unsigned outer_depth = depth_;
  deepen();
  TypeRef result = pointers_to(base());
  depth_ = outer_depth;
  // Typedefs of typedefs get there without one long line.
  if (result->depth > kMaxDepth) throw Error::make("types nested deeper than {}, expected fewer", kMaxDepth);
  if (result->parts > kMaxParts) throw Error::make("a type of more than {} parts, expected fewer", kMaxParts);
  return result;
}

TypeRef Grammar::base() {
  if (peek().kind != Token::Kind::word) unexpected("a type");
  std::string_view word = peek().spelling;
  if (TypeRef known = lookup_(word)) {
    take();
    return known;
  }
  TypeRef result = builtin(word);
  if (result == nullptr) {
    throw Error::make("unknown type {}, expected a type or the name of a typedef", peek().quoted());
  }
  return result;
}

TypeRef Grammar::builtin(std::string_view word) {
  if (TypeRef known = word_type(word)) {
    take();
    return known;
  }
  if (word == "errno") return error();
  if (word == "array") return array();
  if (word == "struct") return structure();
  if (word == "union") return union_of();
  if (word == "complex") return complex();
  if (word == "vector") return vector();
  if (word == "std_string") return container(Container::string);
  if (word == "std_string_view") return container(Container::string_view);
  if (word == "std_vector") return container(Container::vector);
  if (word == "enum") return enumerators(Type::Kind::enumeration);
  if (word == "flags") return enumerators(Type::Kind::flags);
  if (word == "buffer") {
    take();
    return make_buffer(bracketed_length());
  }
  if (word == "sockaddr" && peek_second().is('[')) {
    take();
    return make_socket_address(bracketed_length());
  }
  if (word == "case" && peek_second().is('[')) return choice();
  if (word.starts_with("string") || word.starts_with("format") || word.starts_with("scanf"))
    return string(word);
  return nullptr;
}

TypeRef Grammar::error() {
  take();
  if (!peek().is('(')) return make_error(make_integer(4, true));
  take();
  TypeRef inner = complete_lens("an integer or a pointer");
  expect(')');
  return make_error(inner);
}

TypeRef Grammar::array() {
  take();
  expect('(');
  TypeRef element = complete_lens("an element type");
  expect(',');
  Length count = length();
  expect(')');
  return make_array(element, count);
}

TypeRef Grammar::string(std::string_view word) {
  const std::string_view stem = word.starts_with("format")  ? "format"
                                : word.starts_with("scanf") ? "scanf"
                                                            : "string";
  if (auto number = legacy_argument(word, stem)) {
    take();
    return string_of(stem, make_character(), argument_length(*number));
  }
  if (word != stem) return nullptr;
  take();
  if (peek().is('[')) return string_of(stem, make_character(), bracketed_length());
  if (peek().is('(')) return string_of_type(stem);
  return stem == "string" ? plain_string() : string_of(stem, make_character(), {});
}

// string(char), string(char*), string(array(char, 8)) inside a struct, string(array(char, arg2)*): what is
// shown is the text; the inner type says where it is and how wide its characters are.
TypeRef Grammar::string_of_type(std::string_view stem) {
  expect('(');
  TypeRef inner = complete_lens("a character, array or pointer type");
  expect(')');
  bool in_place = inner->kind == Type::Kind::array && stem == "string";
  if (inner->kind == Type::Kind::pointer) inner = inner->inner;
  Length length;
  if (inner->kind == Type::Kind::array) {
    length = inner->length;
    inner = inner->inner;
  }
  if (!is_character_type(*inner))
    throw Error::make("'{}' as characters, expected an integer type of 1, 2 or 4 bytes", spell(*inner));
  length.zero = false;
  if (in_place) return make_string_in_place(inner, length);
  return string_of(stem, inner, length);
}

TypeRef Grammar::enumerators(Type::Kind kind) {
  take();
  TypeRef integer = make_integer(4, kind == Type::Kind::enumeration);
  if (peek().is('[')) {
    take();
    integer = type();
    if (integer->kind != Type::Kind::integer && integer->kind != Type::Kind::character)
      throw Error::make("'{}' for an enumeration, expected an integer type", spell(*integer));
    expect(']');
  }
  expect('(');
  std::vector<Enumerator> entries;
  int64_t next = 0;
  do {
    if (!entries.empty()) take();
    Enumerator entry{std::string(expect_word("a key")), next};
    if (peek().is('=')) {
      take();
      entry.value = enumerator_value();
      if (kind == Type::Kind::flags) entry.mask = mask_of(entry.value);
    } else if (kind == Type::Kind::flags) {
      unexpected("'='");
    }
    next = static_cast<int64_t>(static_cast<uint64_t>(entry.value) + 1);
    entries.push_back(std::move(entry));
  } while (peek().is(','));
  expect(')');
  return kind == Type::Kind::flags ? make_flags(integer, std::move(entries))
                                   : make_enumeration(integer, std::move(entries));
}

int64_t Grammar::enumerator_value() {
  bool negative = peek().is('-');
  if (negative || peek().is('+')) take();
  if (peek().kind != Token::Kind::number) unexpected("a number");
  uint64_t value = take().number;
  return static_cast<int64_t>(negative ? ~value + 1 : value);
}

// "/MASK" behind a value: the bits that are compared.
uint64_t Grammar::mask_of(int64_t value) {
  if (!peek().is('/')) return 0;
  take();
  if (peek().kind != Token::Kind::number) unexpected("a mask");
  const uint64_t mask = take().number;
  if (mask == 0 || (static_cast<uint64_t>(value) & ~mask) != 0)
    throw Error::make("a mask of {:#x} without bits of {:#x}", mask, value);
  return mask;
}

Length Grammar::bracketed_length() {
  expect('[');
  Length result = length();
  expect(']');
  return result;
}

// filled(E): of E, what the return value says was filled.
Length Grammar::length() {
  if (peek().is("filled") && peek_second().is('(')) {
    take();
    take();
    Length result = simple_length();
    if (result.filled || result.zero || result.kind == Length::Kind::unbounded)
      throw Error("a length without a number in 'filled', expected one with it");
    expect(')');
    result.filled = true;
    return result;
  }
  Length result = simple_length();
  const bool counts = result.kind == Length::Kind::argument || result.kind == Length::Kind::result;
  if (result.zero || !counts || !peek().is('*')) return result;
  take();
  auto number = peek().kind == Token::Kind::word ? legacy_argument(peek().spelling, "arg") : std::nullopt;
  if (!number || *number == 0) unexpected("argN, which multiplies the length");
  take();
  result.factor = *number;
  return result;
}

Length Grammar::simple_length() {
  constexpr std::string_view kExpected = "a length: a number, argN, eltN, retval or zero";
  if (peek().kind == Token::Kind::number) return {Length::Kind::fixed, false, take().number};
  if (peek().kind != Token::Kind::word) unexpected(kExpected);
  std::string_view word = peek().spelling;
  if (word == "retval") {
    take();
    return {Length::Kind::result, false, 0};
  }
  if (word == "zero") {
    take();
    Length bound;
    if (peek().is('(')) {
      deepen();
      take();
      bound = length();
      expect(')');
      --depth_;
    }
    bound.zero = true;
    return bound;
  }
  if (auto number = legacy_argument(word, "arg")) {
    take();
    return argument_length(*number);
  }
  auto element = legacy_argument(word, "elt");
  if (!element) unexpected(kExpected);
  // What debug information does not say: a flexible array's length.
  if (*element == 0) {
    take();
    return {Length::Kind::member, false, 0};
  }
  if (structs_ == 0) unexpected("a length that is no member's, for there is no enclosing struct");
  highest_element_ = std::max(highest_element_, *element);
  take();
  return {Length::Kind::member, false, *element};
}

}  // namespace rtrace::proto
