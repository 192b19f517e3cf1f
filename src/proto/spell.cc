#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "rtrace/proto/prototype.h"

namespace rtrace::proto {
namespace {

std::string_view lens_name(Lens lens) {
  switch (lens) {
    case Lens::hex:
      return "hex";
    case Lens::octal:
      return "oct";
    case Lens::boolean:
      return "bool";
    case Lens::bit_vector:
      return "bitvec";
    case Lens::hide:
      return "hide";
    case Lens::guess:
      return "guess";
    case Lens::none:
      break;
  }
  return "";
}

std::string spell_integer(const Type& type) {
  switch (type.size) {
    case 1:
      return type.is_signed ? "schar" : "uint8";
    case 2:
      return type.is_signed ? "short" : "ushort";
    case 4:
      return type.is_signed ? "int" : "uint";
    default:
      return type.is_signed ? "long" : "ulong";
  }
}

std::string spell_enumerators(std::string_view word, const Type& type) {
  std::string text(word);
  if (type.inner->size != 4) text += fmt::format("[{}]", spell(*type.inner));
  const char* separator = "(";
  for (const Enumerator& entry : type.enumerators) {
    fmt::format_to(std::back_inserter(text), "{}{}={}", separator, entry.name, entry.value);
    separator = ", ";
  }
  return text + ")";
}

bool is_narrow(const Type& character) {
  return character.kind == Type::Kind::character || character.size == 1;
}

std::string spell_string(std::string_view word, const Type& type) {
  bool bounded = type.length.kind != Length::Kind::unbounded;
  if (type.in_place) return fmt::format("{}(array({}, {}))", word, spell(*type.inner), spell(type.length));
  if (is_narrow(*type.inner))
    return fmt::format("{}{}", word, bounded ? fmt::format("[{}]", spell(type.length)) : "");
  if (bounded) return fmt::format("{}(array({}, {})*)", word, spell(*type.inner), spell(type.length));
  return fmt::format("{}({})", word, spell(*type.inner));
}

std::string spell_structure(const Type& type) {
  std::string text = "struct(";
  for (const Member& member : type.members) {
    if (&member != &type.members.front()) text += ", ";
    if (!member.name.empty()) text += member.name + "=";
    text += spell(*member.type);
  }
  return text + ")";
}

std::string spell_bare(const Type& type) {
  switch (type.kind) {
    case Type::Kind::nothing:
      return "void";
    case Type::Kind::integer:
      return spell_integer(type);
    case Type::Kind::character:
      return "char";
    case Type::Kind::floating:
      return type.size == 4 ? "float" : type.size == 8 ? "double" : "longdouble";
    case Type::Kind::pointer:
      return type.inner->kind == Type::Kind::nothing ? "addr" : spell(*type.inner) + "*";
    case Type::Kind::array:
      return fmt::format("array({}, {})", spell(*type.inner), spell(type.length));
    case Type::Kind::structure:
      return spell_structure(type);
    case Type::Kind::string:
      return spell_string("string", type);
    case Type::Kind::format:
      return spell_string("format", type);
    case Type::Kind::buffer:
      return fmt::format("buffer[{}]", spell(type.length));
    case Type::Kind::enumeration:
      return spell_enumerators("enum", type);
    case Type::Kind::flags:
      return spell_enumerators("flags", type);
    case Type::Kind::error:
      return fmt::format("errno({})", spell(*type.inner));
    case Type::Kind::descriptor:
      return "fd";
    case Type::Kind::named:
      break;
  }
  return type.name;
}

// ltrace's `+`: the first parameter printed at return, where all behind it are too.
bool is_plus(const Prototype& prototype, size_t index) {
  auto begin = prototype.params.begin() + static_cast<std::ptrdiff_t>(prototype.first_at_return);
  return index == prototype.first_at_return && std::all_of(begin, prototype.params.end(), [](const Param& p) {
           return p.direction == Direction::out;
         });
}

std::string spell(const Param& param, bool after_plus) {
  std::string text = param.name.empty() ? "" : param.name + "=";
  if (param.direction == Direction::inout) text += "inout ";
  if (param.direction == Direction::out && !after_plus) text += "out ";
  return text + spell(*param.type);
}

}  // namespace

std::string spell(const Length& length) {
  std::string text;
  switch (length.kind) {
    case Length::Kind::unbounded:
      return "zero";
    case Length::Kind::fixed:
      text = fmt::format("{}", length.value);
      break;
    case Length::Kind::argument:
      text = fmt::format("arg{}", length.value);
      break;
    case Length::Kind::member:
      text = fmt::format("elt{}", length.value);
      break;
    case Length::Kind::result:
      text = "retval";
      break;
  }
  if (length.factor != 0) text += fmt::format("*arg{}", length.factor);
  return length.zero ? fmt::format("zero({})", text) : text;
}

std::string spell(const Type& type) {
  if (!type.name.empty()) return type.name;
  std::string bare = spell_bare(type);
  return type.lens == Lens::none ? bare : fmt::format("{}({})", lens_name(type.lens), bare);
}

std::string spell(const Prototype& prototype) {
  std::string text = prototype.no_return ? "noreturn" : spell(*prototype.returns);
  text += " " + prototype.name + "(";
  bool after_plus = false;
  for (size_t i = 0; i < prototype.params.size(); ++i) {
    if (i > 0) text += ", ";
    if (is_plus(prototype, i)) {
      after_plus = true;
      text += "+";
    }
    text += spell(prototype.params[i], after_plus);
  }
  return text + ")";
}

}  // namespace rtrace::proto
