// What a value is and how it is shown: the one type model behind ltrace's language, TOML and DWARF.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rtrace::proto {

struct Type;
using TypeRef = std::shared_ptr<const Type>;

// How integers are shown. Holds for a type and all inside it until a nearer lens.
enum class Lens : uint8_t { none, hex, octal, boolean, bit_vector, hide, guess };

// How many elements an array, a string or a buffer has.
struct Length {
  enum class Kind : uint8_t {
    unbounded,  // nothing but `zero` ends it
    fixed,      // `value` elements
    argument,   // argument `value`, counted from 1
    member,     // member `value` of the enclosing struct, counted from 1
    result,     // the return value
  };
  Kind kind = Kind::unbounded;
  bool zero = false;  // ends before the first all-zero element; strings always do
  uint64_t value = 0;
  uint64_t factor =
      0;  // argument, counted from 1, whose value multiplies it: fread(3) counts in items; 0: none
  // No more than is left of the return value, which such lengths share in their order: of readv(2)'s buffers
  // only the first are filled.
  bool filled = false;
  bool operator==(const Length&) const = default;
};

struct Member {
  std::string name;  // empty where the source has none
  TypeRef type;
  uint64_t offset = 0;
  // A bit-field: `bit_size` bits (0: none), `bit_offset` behind the least significant one at `offset`.
  uint8_t bit_offset = 0, bit_size = 0;
};

struct Enumerator {
  std::string name;
  int64_t value = 0;
  uint64_t mask = 0;  // of flags and choices: the bits that are compared; 0: those of `value`, and all
};

// A class of the C++ library whose value is what it holds, in libstdc++'s layout.
enum class Container : uint8_t { string, string_view, vector };

struct Type {
  enum class Kind : uint8_t {
    nothing,      // void
    integer,      // `size`, `is_signed`; 16 bytes too
    character,    // `size` bytes, shown as 'x'
    floating,     // 4, 8, or 16 for long double
    pointer,      // to `inner`; `addr`, `file` and function pointers point to nothing
    array,        // of `inner`, `length`; as a parameter it decays to a pointer
    structure,    // `members`
    string,       // of `inner` characters (size 1, 2 or 4), `length`, ended by NUL; behind a pointer unless
                  // `in_place`
    format,       // a string whose conversions type the arguments after it
    buffer,       // `length` bytes behind a pointer, zeros included
    enumeration,  // `inner` is the integer, `enumerators`
    flags,        // the same, or-ed
    error,        // errno(inner): the result of a function that sets errno
    descriptor,   // a file descriptor
    named,        // a struct that was declared before it was defined: `target`
    container,    // `container` of `inner`
    wait_status,  // what wait(2) stores of a child's end
    socket_address,  // `length` bytes behind a pointer, as the family in them says
    choice,          // the `members`' type that stands at the place of `length`'s value among `enumerators`,
                     // else `inner`
  };

  Kind kind = Kind::nothing;
  Lens lens = Lens::none;
  bool is_signed = false;
  bool in_place = false;
  bool is_vector = false;   // an array that travels in a vector register
  bool is_complex = false;  // a structure of two: C's complex numbers
  bool scans = false;       // a format of scanf(3): its conversions say what is stored
  Container container = Container::string;
  uint64_t size =
      0;  // of a value of this type as a struct's member or by-value argument; 0 where it is not known ahead
  uint64_t align = 1;
  // With all types inside it, each as often as it stands there, and how deep they go. Readers refuse what is
  // more than kMaxParts and kMaxDepth, so that nobody who walks a type need be afraid of it.
  uint32_t parts = 1;
  uint32_t depth = 1;
  TypeRef inner;
  Length length;
  std::vector<Member> members;
  std::vector<Enumerator> enumerators;
  std::string name;                  // typedef or C name; spell() prefers it
  std::weak_ptr<const Type> target;  // weak, for these may form a circle; the TypeScope owns it
};

inline constexpr uint32_t kMaxParts = 65536;
inline constexpr uint32_t kMaxDepth = 64;

// A name table of types. Prototypes share ownership of the scope their types come from.
struct TypeScope {
  std::map<std::string, TypeRef, std::less<>> types;
};

TypeRef make_void();
TypeRef make_integer(unsigned size, bool is_signed);
TypeRef make_character();
TypeRef make_float(unsigned size);
TypeRef make_pointer(TypeRef pointee);
TypeRef make_address();  // void*
TypeRef make_array(TypeRef element, Length length);
// Offsets by natural alignment (psABI 3.1.2).
TypeRef make_structure(std::vector<Member> members);
// As a compiler laid it out: the members' offsets are kept.
TypeRef make_structure(std::vector<Member> members, uint64_t size, uint64_t align);
// All members at offset 0.
TypeRef make_union(std::vector<Member> members);
// Of GCC's vector extension: __m128, __m256.
TypeRef make_vector(TypeRef element, uint64_t count);
TypeRef make_complex(TypeRef part);
TypeRef make_container(Container container, TypeRef element);
TypeRef make_character(unsigned size);
TypeRef make_string(TypeRef character, Length length = {});
// The characters themselves as a member of a struct (`char name[16]`).
TypeRef make_string_in_place(TypeRef character, Length length);
TypeRef make_format(TypeRef character, Length length = {});
TypeRef make_scan_format(TypeRef character, Length length = {});
TypeRef make_buffer(Length length);
TypeRef make_enumeration(TypeRef integer, std::vector<Enumerator> enumerators);
TypeRef make_flags(TypeRef integer, std::vector<Enumerator> enumerators);
TypeRef make_error(TypeRef result);
TypeRef make_descriptor();
TypeRef make_wait_status();
TypeRef make_socket_address(Length length);
struct Alternative {
  int64_t value = 0;
  uint64_t mask = 0;
  TypeRef type;
};
TypeRef make_choice(Length by, const std::vector<Alternative>& alternatives, TypeRef otherwise);
// A reference to a struct that is not complete yet; `target` may be set once it is.
std::shared_ptr<Type> make_named(std::string name);

// The type with that lens on it, unless it has a nearer one.
TypeRef with_lens(const TypeRef& type, Lens lens);
TypeRef with_name(const TypeRef& type, std::string name);

// The struct behind a `named` type, else the type itself; nullptr where it was never defined.
TypeRef resolve(const TypeRef& type);

// The canonical spelling in ltrace's language; names of typedefs are kept as they are.
std::string spell(const Type& type);
// What the type is made of, whatever it is called; `inner` spells the types in it.
using Speller = std::function<std::string(const Type& type)>;
std::string spell_definition(const Type& type, const Speller& inner);
std::string spell(const Length& length);

}  // namespace rtrace::proto
