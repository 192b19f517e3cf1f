#include "deferred_conf.h"

#include <algorithm>
#include <utility>

#include "rtrace/base/error.h"

namespace rtrace::proto {
namespace {

using Kind = ConfItem::Kind;

bool is_declaration(const ConfItem& item) {
  Grammar grammar(item.text, {});
  for (int words = 0; words < 2; ++words) grammar.take();
  if (!grammar.peek().is('=')) return false;
  grammar.take();
  return grammar.at_forward_struct();
}

}  // namespace

DeferredConf::DeferredConf(std::string text, std::string file, DeferredImporter import,
                           std::shared_ptr<Scope> scope)
    : text_(std::move(text)),
      file_(std::move(file)),
      import_(std::move(import)),
      index_(text_),
      scope_(std::move(scope)) {}

std::string DeferredConf::origin(const ConfItem& item) const {
  return file_ + ':' + std::to_string(item.line);
}

std::shared_ptr<const Prototype> DeferredConf::function(std::string_view name, Diagnostics& diagnostics) {
  if (auto known = functions_.find(name); known != functions_.end()) return known->second;
  auto& found = functions_[std::string(name)];
  for (const ConfItem* item : index_.find(Kind::prototype, name))
    if ((found = parse_function(*item, diagnostics))) return found;
  for (const ConfItem* item : index_.imports()) {
    const Import& import = imported(*item, diagnostics);
    if (const auto* whole = std::get_if<std::shared_ptr<const ParsedFile>>(&import)) {
      auto known = (*whole)->functions.find(name);
      if (known != (*whole)->functions.end()) return found = known->second;
    } else if (const auto* deferred = std::get_if<DeferredConf*>(&import)) {
      if ((found = (*deferred)->function(name, diagnostics))) return found;
    }
  }
  return found;
}

std::shared_ptr<const Prototype> DeferredConf::parse_function(const ConfItem& item,
                                                              Diagnostics& diagnostics) {
  const Lookup lookup = [&](std::string_view name) { return type_before(item.line, name, diagnostics); };
  std::shared_ptr<Prototype> prototype;
  try {
    Grammar grammar(item.text, lookup);
    if (grammar.peek().is("function")) grammar.take();
    prototype = std::make_shared<Prototype>(grammar.prototype());
    prototype->origin = origin(item);
    prototype->scope = scope_;
  } catch (const Error& error) {
    diagnostics.push_back(fmt::format("{}: {}", origin(item), error.what()));
  }
  define_declared(diagnostics);
  return prototype;
}

// The last definition of the file's own; else what was there first, a declaration or an import's.
TypeRef DeferredConf::type_before(unsigned line, std::string_view name, Diagnostics& diagnostics) {
  const auto items = index_.find(Kind::type, name);
  for (auto item = items.rbegin(); item != items.rend(); ++item)
    if ((*item)->line < line)
      if (TypeRef type = definition(**item, diagnostics)) return type;
  return declared_or_imported(line, name, diagnostics);
}

const ConfItem* DeferredConf::declaration_of(std::string_view name) {
  const auto items = index_.find(Kind::type, name);
  const auto first =
      std::find_if(items.begin(), items.end(), [](const ConfItem* item) { return is_declaration(*item); });
  return first == items.end() ? nullptr : *first;
}

TypeRef DeferredConf::declared_or_imported(unsigned line, std::string_view name, Diagnostics& diagnostics) {
  const ConfItem* declaration = declaration_of(name);
  const unsigned declared_at = declaration == nullptr ? kEnd : declaration->line;
  for (const ConfItem* item : index_.imports())
    if (item->line < std::min(line, declared_at))
      if (TypeRef type = imported_type(*item, name, diagnostics)) return type;
  if (declared_at >= line) return nullptr;
  auto& declared = declared_[declared_at];
  if (declared == nullptr) {
    declared = make_named(std::string(name));
    to_define_.push_back(declaration);
  }
  return declared;
}

TypeRef DeferredConf::imported_type(const ConfItem& item, std::string_view name, Diagnostics& diagnostics) {
  const Import& import = imported(item, diagnostics);
  if (const auto* whole = std::get_if<std::shared_ptr<const ParsedFile>>(&import)) {
    auto known = (*whole)->scope->types.find(name);
    return known == (*whole)->scope->types.end() ? nullptr : known->second;
  }
  const auto* deferred = std::get_if<DeferredConf*>(&import);
  // A file that imports itself, over however many corners, gets nothing the second time.
  if (deferred == nullptr || !being_asked_.insert(item.line).second) return nullptr;
  TypeRef type = (*deferred)->type_before(kEnd, name, diagnostics);
  (*deferred)->define_declared(diagnostics);
  being_asked_.erase(item.line);
  return type;
}

TypeRef DeferredConf::definition(const ConfItem& item, Diagnostics& diagnostics) {
  if (auto known = definitions_.find(item.line); known != definitions_.end()) return known->second;
  TypeRef type;
  try {
    if (!is_declaration(item)) type = parse_definition(item, diagnostics);
  } catch (const Error& error) {
    diagnostics.push_back(fmt::format("{}: {}", origin(item), error.what()));
  }
  definitions_[item.line] = type;
  if (type != nullptr) scope_->types.emplace(origin(item), type);
  return type;
}

TypeRef DeferredConf::parse_definition(const ConfItem& item, Diagnostics& diagnostics) {
  const Lookup lookup = [&](std::string_view name) { return type_before(item.line, name, diagnostics); };
  Grammar grammar(item.text, lookup);
  grammar.take();
  const std::string name(grammar.expect_word("a name"));
  grammar.expect('=');
  const TypeRef type = grammar.lens();
  grammar.expect(';');
  if (type->kind == Type::Kind::named)
    throw Error::make("struct '{}' is not defined yet, expected a complete type", type->name);
  const TypeRef named = with_name(type, name);
  if (declaration_of(name) == nullptr) return named;
  const TypeRef before = type_before(item.line, name, diagnostics);
  for (const auto& [line, declared] : declared_) {
    if (declared != before) continue;
    if (type->kind != Type::Kind::structure)
      throw Error::make("'{}' was declared as a struct, expected its members", name);
    declared->target = named;
  }
  return named;
}

// What a declaration stands for comes later in the file. It is looked for when nothing else is being parsed,
// for it may be what needed the declaration.
void DeferredConf::define_declared(Diagnostics& diagnostics) {
  while (!to_define_.empty()) {
    const ConfItem* declaration = to_define_.back();
    to_define_.pop_back();
    for (const ConfItem* item : index_.find(Kind::type, declaration->name))
      if (item->line > declaration->line && definition(*item, diagnostics)) break;
  }
}

const DeferredConf::Import& DeferredConf::imported(const ConfItem& item, Diagnostics& diagnostics) {
  auto [known, fresh] = imported_.try_emplace(item.line);
  if (!fresh) return known->second;
  known->second = import_ ? import_(item.name, diagnostics) : Import{};
  if (const auto* whole = std::get_if<std::shared_ptr<const ParsedFile>>(&known->second))
    scope_->imported.push_back((*whole)->scope);
  else if (std::holds_alternative<std::monostate>(known->second))
    diagnostics.push_back(fmt::format("{}: cannot import \"{}\", expected a prototype file of that name",
                                      origin(item), item.name));
  return known->second;
}

}  // namespace rtrace::proto
