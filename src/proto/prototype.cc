#include <algorithm>
#include <utility>

#include "grammar.h"
#include "rtrace/base/error.h"
#include "rtrace/proto/parser.h"

namespace rtrace::proto {
namespace {

// What the lengths inside a type need to be known.
struct Needs {
  uint64_t highest_argument = 0;
  bool result = false;
};

void collect(const Type& type, Needs& needs) {
  if (type.length.kind == Length::Kind::argument)
    needs.highest_argument = std::max(needs.highest_argument, type.length.value);
  needs.highest_argument = std::max(needs.highest_argument, type.length.factor);
  if (type.length.kind == Length::Kind::result || type.length.filled) needs.result = true;
  if (type.inner) collect(*type.inner, needs);
  for (const Member& member : type.members) collect(*member.type, needs);
}

void check_arguments(const Needs& needs, const Prototype& prototype) {
  if (needs.highest_argument > prototype.params.size()) {
    throw Error::make("'arg{}' in a function of {} parameters, expected one of them", needs.highest_argument,
                      prototype.params.size());
  }
}

bool is_direction(const Token& token) {
  return token.is("in") || token.is("out") || token.is("inout");
}

}  // namespace

Grammar::ParsedParam Grammar::param() {
  ParsedParam result;
  auto plus = [&] {
    if (!peek().is('+')) return;
    take();
    result.plus = true;
  };
  plus();
  if (peek().kind == Token::Kind::word && peek_second().is('=')) {
    result.param.name = take().spelling;
    take();
    plus();
  }
  if (is_direction(peek()) && peek_second().kind == Token::Kind::word) {
    Token direction = take();
    result.has_direction = true;
    if (direction.is("out")) result.param.direction = Direction::out;
    if (direction.is("inout")) result.param.direction = Direction::inout;
  }
  result.param.type = complete_lens("a parameter");
  return result;
}

void Grammar::params(Prototype& prototype) {
  if (peek().is("void") && peek_second().is(')')) take();
  bool at_return = false;
  while (!peek().is(')')) {
    if (!prototype.params.empty()) expect(',');
    ParsedParam parsed = param();
    at_return |= parsed.plus;
    // ltrace's `+`: from here on memory is read at return.
    if (at_return && !parsed.has_direction) parsed.param.direction = Direction::out;
    prototype.params.push_back(std::move(parsed.param));
    if (!peek().is(')') && !peek().is(',')) unexpected("',' or ')'");
  }
  take();
}

void Grammar::returns(Prototype& prototype) {
  if (peek().is("noreturn")) {
    take();
    prototype.no_return = true;
    prototype.returns = make_void();
    return;
  }
  prototype.returns = lens();
  if (prototype.returns->kind == Type::Kind::named)
    throw Error::make("struct '{}' is not defined yet, expected a complete type", prototype.returns->name);
}

Prototype Grammar::prototype() {
  Prototype result;
  returns(result);
  result.name = expect_word("a function name");
  expect('(');
  params(result);
  complete(result);
  return result;
}

Prototype Grammar::nameless_prototype(std::string name) {
  Prototype result;
  result.name = std::move(name);
  returns(result);
  expect('(');
  params(result);
  complete(result);
  return result;
}

Param Grammar::whole_param() {
  ParsedParam parsed = param();
  if (peek().kind != Token::Kind::end) unexpected("the end of the type");
  if (parsed.plus && !parsed.has_direction) parsed.param.direction = Direction::out;
  return std::move(parsed.param);
}

void complete(Prototype& prototype) {
  Needs of_result;
  collect(*prototype.returns, of_result);
  check_arguments(of_result, prototype);
  for (Param& param : prototype.params) {
    Needs needs;
    collect(*param.type, needs);
    check_arguments(needs, prototype);
    if (needs.result && param.direction == Direction::in) param.direction = Direction::out;
    if (param.type->kind == Type::Kind::format && &param != &prototype.params.back())
      throw Error("a parameter behind a format, expected none: the format types all further arguments");
  }
  auto first = std::find_if(prototype.params.begin(), prototype.params.end(),
                            [](const Param& param) { return param.direction != Direction::in; });
  prototype.first_at_return = static_cast<size_t>(first - prototype.params.begin());
}

TypeRef parse_type(std::string_view text, const TypeScope& scope) {
  Lookup lookup = [&](std::string_view name) -> TypeRef {
    auto found = scope.types.find(name);
    return found == scope.types.end() ? nullptr : found->second;
  };
  Grammar grammar(text, lookup);
  TypeRef type = grammar.lens();
  if (grammar.peek().kind != Token::Kind::end) grammar.unexpected("the end of the type");
  return type;
}

Prototype parse_prototype(std::string_view text, std::shared_ptr<const TypeScope> scope) {
  Lookup lookup = [&](std::string_view name) -> TypeRef {
    auto found = scope->types.find(name);
    return found == scope->types.end() ? nullptr : found->second;
  };
  Grammar grammar(text, lookup);
  Prototype prototype = grammar.prototype();
  prototype.scope = std::move(scope);
  return prototype;
}

}  // namespace rtrace::proto
