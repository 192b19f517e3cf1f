// A file of ltrace's language of which only what is asked for is parsed. Its answers are those of
// parse_conf(), errors included, but that those of items that nobody asks for are never said: so it is for
// files that are known to have none.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "conf_index.h"
#include "grammar.h"
#include "rtrace/proto/parser.h"

namespace rtrace::proto {

class DeferredConf {
 public:
  // An imported file, whichever way it is read; monostate where there is none.
  using Import = std::variant<std::monostate, std::shared_ptr<const ParsedFile>, DeferredConf*>;
  // Asked once for each import that an answer needs.
  using DeferredImporter = std::function<Import(std::string_view name, Diagnostics& diagnostics)>;

  // What keeps the types of prototypes alive. One for all files that may import each other, in circles too.
  struct Scope : TypeScope {
    std::vector<std::shared_ptr<const TypeScope>> imported;
  };

  // What `import` gives must live as long as this.
  DeferredConf(std::string text, std::string file, DeferredImporter import, std::shared_ptr<Scope> scope);

  // nullptr where the file and what it imports know no such function.
  std::shared_ptr<const Prototype> function(std::string_view name, Diagnostics& diagnostics);

 private:
  static constexpr unsigned kEnd = ~0u;  // behind the last line

  // As parse_conf() has it when it has read the lines before that one.
  TypeRef type_before(unsigned line, std::string_view name, Diagnostics& diagnostics);
  TypeRef declared_or_imported(unsigned line, std::string_view name, Diagnostics& diagnostics);
  TypeRef imported_type(const ConfItem& item, std::string_view name, Diagnostics& diagnostics);
  // nullptr where the line does not say what a struct or type is.
  TypeRef definition(const ConfItem& item, Diagnostics& diagnostics);
  TypeRef parse_definition(const ConfItem& item, Diagnostics& diagnostics);
  std::shared_ptr<const Prototype> parse_function(const ConfItem& item, Diagnostics& diagnostics);
  const Import& imported(const ConfItem& item, Diagnostics& diagnostics);
  void define_declared(Diagnostics& diagnostics);
  const ConfItem* declaration_of(std::string_view name);
  std::string origin(const ConfItem& item) const;

  const std::string text_, file_;
  const DeferredImporter import_;
  ConfIndex index_;
  const std::shared_ptr<Scope> scope_;
  // By line.
  std::map<unsigned, TypeRef> definitions_;
  std::map<unsigned, Import> imported_;
  std::set<unsigned> being_asked_;
  std::map<unsigned, std::shared_ptr<Type>> declared_;  // `typedef NAME = struct;`
  std::vector<const ConfItem*> to_define_;  // those of declared_ whose definition was not looked for
  std::map<std::string, std::shared_ptr<const Prototype>, std::less<>> functions_;
};

}  // namespace rtrace::proto
