// The grammar of types and prototypes, over one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "lexer.h"
#include "rtrace/base/error.h"
#include "rtrace/proto/prototype.h"

namespace rtrace::proto {

// The type behind a typedef's name; nullptr where there is none.
using Lookup = std::function<TypeRef(std::string_view name)>;

// What a type is made of is not known yet; it may be later.
class Incomplete : public Error {
 public:
  using Error::Error;
};

// A recursive-descent parser. All members throw Error that says what was found and what was expected.
class Grammar {
 public:
  Grammar(std::string_view line, const Lookup& lookup) : lexer_(line), lookup_(lookup) {}

  TypeRef lens();
  Prototype prototype();
  // "int(string, ulong)", for a function whose name stands elsewhere.
  Prototype nameless_prototype(std::string name);
  // One parameter and nothing else.
  Param whole_param();

  const Token& peek() const { return lexer_.peek(); }
  const Token& peek_second() const { return lexer_.peek_second(); }
  // At the `struct` of a forward declaration, which has neither layout nor members.
  bool at_forward_struct() const {
    return peek().is("struct") && !peek_second().is('(') && !peek_second().is('[');
  }
  Token take() { return lexer_.take(); }
  void expect(char mark);
  std::string_view expect_word(std::string_view what);
  [[noreturn]] void unexpected(std::string_view expected) const;

 private:
  struct ParsedParam {
    Param param;
    bool plus = false;
    bool has_direction = false;
  };

  TypeRef type();
  TypeRef pointers_to(TypeRef type);
  TypeRef shortened(const TypeRef& type) const;
  void deepen();
  TypeRef base();
  TypeRef complete_lens(std::string_view what);
  TypeRef builtin(std::string_view word);
  TypeRef array();
  TypeRef structure();
  TypeRef union_of();
  std::vector<Member> members();
  void place(Member& member);
  static TypeRef laid_out(std::vector<Member> members, uint64_t size, uint64_t align);
  TypeRef complex();
  TypeRef vector();
  TypeRef container(Container container);
  uint64_t count(std::string_view what);
  TypeRef string(std::string_view word);
  TypeRef string_of_type(std::string_view stem);
  TypeRef choice();
  TypeRef enumerators(Type::Kind kind);
  TypeRef error();
  Length length();
  Length simple_length();
  Length bracketed_length();
  int64_t enumerator_value();
  uint64_t mask_of(int64_t value);
  ParsedParam param();
  void returns(Prototype& prototype);
  void params(Prototype& prototype);

  Lexer lexer_;
  const Lookup& lookup_;
  unsigned depth_ = 0;            // of nested types: hostile input must not exhaust our stack
  unsigned structs_ = 0;          // that enclose the current place
  uint64_t highest_element_ = 0;  // eltN used within the innermost struct
};

}  // namespace rtrace::proto
