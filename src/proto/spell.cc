#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "rtrace/proto/prototype.h"

namespace rtrace::proto {
namespace {

std::string by_name(const Type& type) {
  return spell(type);
}

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
    case 16:
      return type.is_signed ? "int128" : "uint128";
    default:
      return type.is_signed ? "long" : "ulong";
  }
}

std::string spell_mask(uint64_t mask) {
  return mask == 0 ? "" : fmt::format("/{:#x}", mask);
}

std::string spell_enumerators(std::string_view word, const Type& type, const Speller& inner) {
  std::string text(word);
  const bool usually_signed = type.kind == Type::Kind::enumeration;
  if (type.inner->size != 4 || type.inner->is_signed != usually_signed)
    text += fmt::format("[{}]", inner(*type.inner));
  const char* separator = "(";
  for (const Enumerator& entry : type.enumerators) {
    fmt::format_to(std::back_inserter(text), "{}{}={}{}", separator, entry.name, entry.value,
                   spell_mask(entry.mask));
    separator = ", ";
  }
  return text + ")";
}

bool is_narrow(const Type& character) {
  return character.kind == Type::Kind::character || character.size == 1;
}

std::string spell_string(std::string_view word, const Type& type, const Speller& inner) {
  bool bounded = type.length.kind != Length::Kind::unbounded;
  if (type.in_place) return fmt::format("{}(array({}, {}))", word, inner(*type.inner), spell(type.length));
  if (is_narrow(*type.inner))
    return fmt::format("{}{}", word, bounded ? fmt::format("[{}]", spell(type.length)) : "");
  if (bounded) return fmt::format("{}(array({}, {})*)", word, inner(*type.inner), spell(type.length));
  return fmt::format("{}({})", word, inner(*type.inner));
}

std::string spell_place(const Member& member) {
  if (member.bit_size != 0)
    return fmt::format("@{}:{}:{} ", member.offset, member.bit_offset, member.bit_size);
  return fmt::format("@{} ", member.offset);
}

bool same_places(const Type& a, const Type& b) {
  return a.size == b.size && a.align == b.align &&
         std::equal(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
                    [](const Member& x, const Member& y) { return x.offset == y.offset && x.bit_size == 0; });
}

std::string spell_structure(const Type& type, const Speller& inner) {
  if (type.is_complex) return fmt::format("complex({})", inner(*type.members[0].type));
  const TypeRef natural = make_structure(type.members);
  std::string text = "struct";
  bool placed = !same_places(type, *natural);
  if (placed && type.members.size() > 1 && same_places(type, *make_union(type.members))) {
    text = "union";
    placed = false;
  }
  if (placed) text += fmt::format("[{}, {}]", type.size, type.align);
  text += "(";
  for (size_t i = 0; i < type.members.size(); ++i) {
    const Member& member = type.members[i];
    if (i > 0) text += ", ";
    if (!member.name.empty()) text += member.name + "=";
    // All of them, once one is: what a reader sees first should not depend on what stands before it.
    if (placed) text += spell_place(member);
    text += inner(*member.type);
  }
  return text + ")";
}

std::string spell_container(const Type& type, const Speller& inner) {
  if (type.container == Container::vector) return fmt::format("std_vector({})", inner(*type.inner));
  std::string text = type.container == Container::string ? "std_string" : "std_string_view";
  bool plain = type.inner->kind == Type::Kind::character && type.inner->size == 1;
  return plain ? text : fmt::format("{}({})", text, inner(*type.inner));
}

std::string spell_choice(const Type& type, const Speller& inner) {
  std::string text = fmt::format("case[{}](", spell(type.length));
  for (size_t i = 0; i < type.members.size(); ++i)
    fmt::format_to(std::back_inserter(text), "{}{}={}, ", type.enumerators[i].value,
                   spell_mask(type.enumerators[i].mask), inner(*type.members[i].type));
  return text + inner(*type.inner) + ")";
}

std::string spell_bare(const Type& type, const Speller& inner) {
  switch (type.kind) {
    case Type::Kind::nothing:
      return "void";
    case Type::Kind::integer:
      return spell_integer(type);
    case Type::Kind::character:
      return type.size == 1 ? "char" : fmt::format("char{}", 8 * type.size);
    case Type::Kind::floating:
      return type.size == 4 ? "float" : type.size == 8 ? "double" : "longdouble";
    case Type::Kind::pointer:
      return type.inner->kind == Type::Kind::nothing ? "addr" : inner(*type.inner) + "*";
    case Type::Kind::array:
      return fmt::format("{}({}, {})", type.is_vector ? "vector" : "array", inner(*type.inner),
                         spell(type.length));
    case Type::Kind::structure:
      return spell_structure(type, inner);
    case Type::Kind::string:
      return spell_string("string", type, inner);
    case Type::Kind::format:
      return spell_string(type.scans ? "scanf" : "format", type, inner);
    case Type::Kind::buffer:
      return fmt::format("buffer[{}]", spell(type.length));
    case Type::Kind::enumeration:
      return spell_enumerators("enum", type, inner);
    case Type::Kind::flags:
      return spell_enumerators("flags", type, inner);
    case Type::Kind::error:
      return fmt::format("errno({})", inner(*type.inner));
    case Type::Kind::descriptor:
      return "fd";
    case Type::Kind::container:
      return spell_container(type, inner);
    case Type::Kind::wait_status:
      return "wstatus";
    case Type::Kind::socket_address:
      return fmt::format("sockaddr[{}]", spell(type.length));
    case Type::Kind::choice:
      return spell_choice(type, inner);
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
  if (length.filled) text = fmt::format("filled({})", text);
  return length.zero ? fmt::format("zero({})", text) : text;
}

std::string spell(const Type& type) {
  if (!type.name.empty()) return type.name;
  return spell_definition(type, by_name);
}

std::string spell_definition(const Type& type, const Speller& inner) {
  std::string bare = spell_bare(type, inner);
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
