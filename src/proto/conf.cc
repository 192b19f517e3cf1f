// ltrace's language, line by line.
#include <algorithm>
#include <utility>

#include "grammar.h"
#include "rtrace/base/error.h"
#include "rtrace/base/text.h"
#include "rtrace/proto/parser.h"

namespace rtrace::proto {
namespace {

class ConfReader {
 public:
  ConfReader(const std::string& file, const Importer& import, Diagnostics& diagnostics)
      : file_(file), import_(import), diagnostics_(diagnostics) {}

  ParsedFile read(std::string_view text) {
    unsigned number = 0;
    for (std::string_view line : split(text, '\n')) {
      origin_ = file_ + ':' + std::to_string(++number);
      try {
        read_line(line);
      } catch (const Error& error) {
        diagnostics_.push_back(fmt::format("{}: {}", origin_, error.what()));
      }
    }
    // What the file says itself counts before what it imports, wherever the import stands.
    parsed_.functions.merge(imported_);
    return std::move(parsed_);
  }

 private:
  void read_line(std::string_view line) {
    size_t start = line.find_first_not_of(" \t\r\f\v");
    if (start == std::string_view::npos || line[start] == '#' || line[start] == ';') return;
    Lookup lookup = [this](std::string_view name) { return find(name); };
    Grammar grammar(line, lookup);
    if (grammar.peek().is("typedef")) {
      grammar.take();
      read_typedef(grammar);
      return expect_end(grammar);
    }
    if (grammar.peek().is("import") && grammar.peek_second().kind != Token::Kind::word) {
      grammar.take();
      read_import(grammar);
      return expect_end(grammar);
    }
    if (grammar.peek().is("function")) grammar.take();
    auto prototype = std::make_shared<Prototype>(grammar.prototype());
    prototype->origin = origin_;
    prototype->scope = parsed_.scope;
    parsed_.functions.emplace(prototype->name, prototype);
  }

  // What stands behind the item, which counts, would be lost; a comment may.
  static void expect_end(const Grammar& grammar) {
    const Token& next = grammar.peek();
    if (next.kind != Token::Kind::end && !next.is('#') && !next.is(';'))
      grammar.unexpected("the end of the line: each item stands on a line of its own");
  }

  TypeRef find(std::string_view name) const {
    auto found = parsed_.scope->types.find(name);
    return found == parsed_.scope->types.end() ? nullptr : found->second;
  }

  void read_typedef(Grammar& grammar) {
    std::string name(grammar.expect_word("a name"));
    grammar.expect('=');
    if (grammar.at_forward_struct()) {
      grammar.take();
      grammar.expect(';');
      if (find(name) != nullptr) return;
      parsed_.scope->types[name] = forwards_[name] = make_named(name);
      return;
    }
    TypeRef type = grammar.lens();
    grammar.expect(';');
    if (type->kind == Type::Kind::named)
      throw Error::make("struct '{}' is not defined yet, expected a complete type", type->name);
    type = with_name(type, name);
    if (auto forward = forwards_.find(name); forward != forwards_.end()) {
      if (type->kind != Type::Kind::structure)
        throw Error::make("'{}' was declared as a struct, expected its members", name);
      forward->second->target = type;
      forwards_.erase(forward);
    }
    parsed_.scope->types[name] = type;
  }

  void read_import(Grammar& grammar) {
    if (grammar.peek().kind != Token::Kind::text) grammar.unexpected("a name in double quotes");
    std::string name(grammar.take().spelling);
    grammar.expect(';');
    auto other = import_ ? import_(name) : nullptr;
    if (other == nullptr)
      throw Error::make("cannot import \"{}\", expected a prototype file of that name", name);
    parsed_.scope->types.insert(other->scope->types.begin(), other->scope->types.end());
    imported_.insert(other->functions.begin(), other->functions.end());
  }

  const std::string& file_;
  const Importer& import_;
  Diagnostics& diagnostics_;
  std::string origin_;
  ParsedFile parsed_;
  decltype(ParsedFile::functions) imported_;
  std::map<std::string, std::shared_ptr<Type>, std::less<>> forwards_;  // declared, not yet defined
};

}  // namespace

ParsedFile parse_conf(std::string_view text, const std::string& file, const Importer& import,
                      Diagnostics& diagnostics) {
  return ConfReader(file, import, diagnostics).read(text);
}

}  // namespace rtrace::proto
