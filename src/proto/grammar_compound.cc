// Types that are made of others: structs, unions, complex numbers, vectors, containers.
#include <algorithm>
#include <utility>

#include "grammar.h"
#include "rtrace/base/error.h"
#include "rtrace/base/text.h"

namespace rtrace::proto {
namespace {

constexpr uint64_t kMaxOffset = uint64_t{1} << 40;
constexpr uint64_t kMaxAlign = 4096;

bool is_integral(const Type& type) {
  return type.kind == Type::Kind::integer || type.kind == Type::Kind::character ||
         type.kind == Type::Kind::enumeration || type.kind == Type::Kind::flags;
}

uint64_t end_of(const Member& member) {
  if (member.bit_size == 0) return member.offset + member.type->size;
  return member.offset + (member.bit_offset + member.bit_size + 7U) / 8;
}

constexpr uint64_t kNotPlaced = UINT64_MAX;

}  // namespace

uint64_t Grammar::count(std::string_view what) {
  if (peek().kind != Token::Kind::number) unexpected(what);
  return take().number;
}

// `@OFFSET`, or `@OFFSET:BIT:BITS` for a bit-field: what compilers do that natural alignment does not say.
void Grammar::place(Member& member) {
  member.offset = kNotPlaced;
  if (!peek().is('@')) return;
  take();
  member.offset = count("an offset");
  if (member.offset > kMaxOffset)
    throw Error::make("an offset of {}, expected one below {}", member.offset, kMaxOffset);
  if (!peek().is(':')) return;
  take();
  const uint64_t bit = count("the number of a bit");
  expect(':');
  const uint64_t bits = count("a number of bits");
  // A packed one may begin within a byte and end within the ninth behind it.
  if (bits == 0 || bit > 128 || bit + bits > 128)
    throw Error::make("bits {} to {}, expected up to 128 of them", bit, bit + bits);
  member.bit_offset = static_cast<uint8_t>(bit);
  member.bit_size = static_cast<uint8_t>(bits);
}

std::vector<Member> Grammar::members() {
  expect('(');
  uint64_t outer_highest = std::exchange(highest_element_, 0);
  ++structs_;
  std::vector<Member> members;
  while (!peek().is(')')) {
    if (!members.empty()) expect(',');
    Member member;
    if (peek().kind == Token::Kind::word && peek_second().is('=')) {
      member.name = take().spelling;
      take();
    }
    place(member);
    member.type = complete_lens("a member");
    if (member.bit_size != 0 && !is_integral(*member.type))
      throw Error::make("'{}' as a bit-field, expected an integer type", spell(*member.type));
    members.push_back(std::move(member));
  }
  take();
  --structs_;
  if (highest_element_ > members.size())
    throw Error::make("'elt{}' in a struct of {} members, expected one of them", highest_element_,
                      members.size());
  highest_element_ = outer_highest;
  return members;
}

// What has no place of its own follows the member before it.
TypeRef Grammar::laid_out(std::vector<Member> members, uint64_t size, uint64_t align) {
  uint64_t last = 0, end = 0, natural = 1;
  for (Member& member : members) {
    if (member.offset == kNotPlaced) member.offset = align_up(last, member.type->align);
    last = end_of(member);
    end = std::max(end, last);
    natural = std::max(natural, member.type->align);
  }
  if (end > kMaxOffset) throw Error::make("a struct of {} bytes, expected fewer than {}", end, kMaxOffset);
  if (align == 0) align = natural;
  if (size == kNotPlaced) size = align_up(end, align);
  if (size < end) throw Error::make("a struct of {} bytes whose members end at {}, expected more", size, end);
  return make_structure(std::move(members), size, align);
}

// struct(...), or struct[SIZE, ALIGN](...) where a compiler says more than natural alignment does.
TypeRef Grammar::structure() {
  take();
  uint64_t size = kNotPlaced, align = 0;
  const bool sized = peek().is('[');
  if (sized) {
    take();
    size = count("a size in bytes");
    if (peek().is(',')) {
      take();
      align = count("an alignment");
    }
    if (size > kMaxOffset || align > kMaxAlign)
      throw Error::make("a struct of {} bytes aligned to {}, expected less", size, align);
    expect(']');
  }
  auto all = members();
  const bool natural =
      std::all_of(all.begin(), all.end(), [](const Member& m) { return m.offset == kNotPlaced; });
  return sized || !natural ? laid_out(std::move(all), size, align) : make_structure(std::move(all));
}

TypeRef Grammar::union_of() {
  take();
  auto all = members();
  if (std::any_of(all.begin(), all.end(), [](const Member& m) { return m.offset != kNotPlaced; }))
    throw Error("an offset in a union, expected none: all its members begin where it does");
  return make_union(std::move(all));
}

// case[LENGTH](VALUE=TYPE, VALUE/MASK=TYPE, ..., TYPE): what it is shows in another argument or member; the
// last is for all other values.
TypeRef Grammar::choice() {
  take();
  const Length by = bracketed_length();
  if (by.zero || by.filled || by.factor != 0 || by.kind == Length::Kind::fixed)
    throw Error("a 'case' without a value to go by, expected argN, eltN or retval");
  expect('(');
  std::vector<Alternative> alternatives;
  while (peek().kind == Token::Kind::number || peek().is('-')) {
    Alternative one;
    one.value = enumerator_value();
    one.mask = mask_of(one.value);
    expect('=');
    one.type = complete_lens("a type");
    expect(',');
    alternatives.push_back(std::move(one));
  }
  TypeRef otherwise = complete_lens("the type for all other values");
  expect(')');
  return make_choice(by, alternatives, otherwise);
}

TypeRef Grammar::complex() {
  take();
  expect('(');
  TypeRef part = complete_lens("a floating-point type");
  expect(')');
  if (part->kind != Type::Kind::floating)
    throw Error::make("'{}' as a part of a complex number, expected a floating-point type", spell(*part));
  return make_complex(part);
}

TypeRef Grammar::vector() {
  take();
  expect('(');
  TypeRef element = complete_lens("an element type");
  expect(',');
  const uint64_t elements = count("a number of elements");
  expect(')');
  uint64_t size = 0;
  bool scalar = element->kind == Type::Kind::integer || element->kind == Type::Kind::floating;
  if (!scalar || __builtin_mul_overflow(element->size, elements, &size) ||
      (size != 8 && size != 16 && size != 32))
    throw Error::make("a vector of {} '{}', expected 8, 16 or 32 bytes of numbers", elements,
                      spell(*element));
  return make_vector(element, elements);
}

TypeRef Grammar::container(Container container) {
  take();
  const bool is_text = container != Container::vector;
  if (is_text && !peek().is('(')) return make_container(container, make_character());
  expect('(');
  // A vector may hold what is being defined: its elements lie elsewhere.
  TypeRef element = is_text ? complete_lens("a character type") : lens();
  if (element->kind == Type::Kind::nothing) throw Error("unexpected 'void', expected an element type");
  expect(')');
  const bool narrow = element->kind == Type::Kind::character || element->kind == Type::Kind::integer;
  if (is_text && !(narrow && element->size <= 4))
    throw Error::make("'{}' as characters, expected an integer type of 1, 2 or 4 bytes", spell(*element));
  return make_container(container, element);
}

}  // namespace rtrace::proto
