// TOML: the types inside it are strings in the other language, so that the two can never drift apart.
#define TOML_EXCEPTIONS 0
// Its assertions doubt the input ("[." fails one), and behind each stands the code that reports the error.
// Without NDEBUG they are no promises to the optimiser either.
#define TOML_ASSERT(expr) static_assert(true)
#undef NDEBUG
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "grammar.h"
#include "rtrace/base/error.h"
#include "rtrace/proto/parser.h"

namespace rtrace::proto {
namespace {

// Behind the string that begins at `at`, or where its line ends; multi-line strings end by three quotes.
size_t end_of_string(std::string_view text, size_t at) {
  const std::string_view quote = text.substr(at, 1);
  const std::string three(3, quote[0]);
  const bool multi_line = text.substr(at, 3) == three;
  const std::string_view closing = multi_line ? std::string_view(three) : quote;
  for (at += closing.size(); at < text.size(); ++at) {
    if (text.substr(at, closing.size()) == closing) return at + closing.size();
    if (text[at] == '\n' && !multi_line) return at;
    if (text[at] == '\\' && quote == "\"") ++at;
  }
  return at;
}

// The first byte that is not ASCII outside strings and comments, where TOML allows none. toml++ 3.3 runs into
// undefined behaviour there: is_non_ascii_horizontal_whitespace() takes U+00A1 for impossible.
std::optional<size_t> foreign_byte(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    if ((static_cast<unsigned char>(text[at]) & 0x80) != 0) return at;
    if (text[at] == '#')
      at = std::min(text.find('\n', at), text.size());
    else if (text[at] == '"' || text[at] == '\'')
      at = end_of_string(text, at);
    else
      ++at;
  }
  return std::nullopt;
}

struct ErrorAt : Error {
  ErrorAt(const Error& error, unsigned where) : Error(error), line(where) {}
  unsigned line;
};

class TomlReader {
 public:
  TomlReader(const std::string& file, const Importer& import, Diagnostics& diagnostics)
      : file_(file), import_(import), diagnostics_(diagnostics) {}

  ParsedFile read(std::string_view text) {
    if (auto foreign = foreign_byte(text)) {
      auto line = static_cast<unsigned>(
          std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(*foreign), '\n') + 1);
      report(
          line,
          "a character that is not ASCII outside of strings, expected TOML; the rest of the file is skipped");
      text = text.substr(0, start_of_line(text, line));
    }
    toml::parse_result result = toml::parse(text, file_);
    if (!result) {
      // toml++ gives no table for a broken file. What stands before the line of the error is whole, and still
      // counts.
      auto line = result.error().source().begin.line;
      report(line,
             std::string(result.error().description()) + ", expected TOML; the rest of the file is skipped");
      result = toml::parse(text.substr(0, start_of_line(text, line)), file_);
      if (!result) return std::move(parsed_);
    }
    read_root(result.table());
    return std::move(parsed_);
  }

 private:
  static size_t start_of_line(std::string_view text, unsigned line) {
    size_t start = 0;
    for (; line > 1; --line) {
      size_t end = text.find('\n', start);
      if (end == std::string_view::npos) break;
      start = end + 1;
    }
    return start;
  }

  std::string place(unsigned line) const { return fmt::format("{}:{}", file_, line); }
  void report(unsigned line, const std::string& what) { diagnostics_.push_back(place(line) + ": " + what); }
  static unsigned line_of(const toml::node& node) { return node.source().begin.line; }

  // Runs what reads one key; what it throws is said, and the next key is read.
  template <typename Action>
  void guarded(const toml::node& node, Action action) {
    try {
      action();
    } catch (const ErrorAt& error) {
      report(error.line, error.what());
    } catch (const Error& error) {
      report(line_of(node), error.what());
    }
  }

  // Reads a part of a key's value, which may stand on a line of its own.
  template <typename Action>
  static void placed(const toml::node& part, Action action) {
    try {
      action();
    } catch (const ErrorAt&) {
      throw;
    } catch (const Error& error) {
      throw ErrorAt(error, line_of(part));
    }
  }

  static std::string string_of(const toml::node& node, std::string_view what) {
    const auto* value = node.as_string();
    if (value == nullptr) throw Error::make("{} is no string, expected one", what);
    return value->get();
  }

  static const toml::table& table_of(const toml::node& node, std::string_view what) {
    const auto* value = node.as_table();
    if (value == nullptr) throw Error::make("{} is no table, expected one", what);
    return *value;
  }

  void read_root(const toml::table& root) {
    // Types before functions, imports before both, whatever their order in the file.
    static constexpr std::string_view kOrder[] = {"import", "library", "types", "functions"};
    for (auto&& [key, node] : root) {
      if (std::find(std::begin(kOrder), std::end(kOrder), key.str()) == std::end(kOrder))
        report(line_of(node),
               fmt::format("unknown key '{}', expected import, library, types or functions", key.str()));
    }
    if (const auto* node = root.get("types")) types_ = node->as_table();
    if (const auto* node = root.get("import")) guarded(*node, [&] { read_imports(*node); });
    if (const auto* node = root.get("library"))
      guarded(*node, [&] { read_library(table_of(*node, "library")); });
    if (const auto* node = root.get("types")) guarded(*node, [&] { read_types(table_of(*node, "types")); });
    if (const auto* node = root.get("functions"))
      guarded(*node, [&] { read_functions(table_of(*node, "functions")); });
  }

  void read_imports(const toml::node& node) {
    const auto* names = node.as_array();
    if (names == nullptr) throw Error("import is no array, expected one of names");
    for (const toml::node& entry : *names) {
      guarded(entry, [&] {
        std::string name = string_of(entry, "import");
        auto other = import_ ? import_(name) : nullptr;
        if (other == nullptr)
          throw Error::make("cannot import \"{}\", expected a prototype file of that name", name);
        for (const auto& [type_name, type] : other->scope->types)
          if (types_ == nullptr || !types_->contains(type_name))
            parsed_.scope->types.emplace(type_name, type);
        parsed_.functions.insert(other->functions.begin(), other->functions.end());
      });
    }
  }

  void read_library(const toml::table& library) {
    for (auto&& [key, node] : library) {
      guarded(node, [&, &key_ref = key, &node_ref = node] {
        if (key_ref.str() != "soname") throw Error::make("unknown key '{}', expected soname", key_ref.str());
        parsed_.soname = string_of(node_ref, "soname");
      });
    }
  }

  void read_types(const toml::table& types) {
    types_ = &types;
    // What had to wait for another is read once that is; what waits for itself is an error.
    while (read_waiting(types)) continue;
    waiting_is_failing_ = true;
    read_waiting(types);
  }

  // Whether one more is known now.
  bool read_waiting(const toml::table& types) {
    const size_t before = parsed_.scope->types.size();
    for (auto&& [key, node] : types) {
      if (parsed_.scope->types.contains(key.str())) continue;
      guarded(node, [&, &key_ref = key] { find(key_ref.str()); });
    }
    return parsed_.scope->types.size() > before;
  }

  // Entries may refer to each other in any order: a name is read when it is first asked for. One that is
  // asked for while it is being read becomes a reference, which only a pointer may hold.
  TypeRef find(std::string_view name) {
    auto known = parsed_.scope->types.find(name);
    if (known != parsed_.scope->types.end()) return known->second;
    const toml::node* node = types_ == nullptr ? nullptr : types_->get(name);
    if (node == nullptr || failed_.contains(name)) return nullptr;
    std::string key(name);
    const bool waits = depth_ > 0 && waits_[key] >= kMaxWaits;
    if (waits || (depth_ >= kDeferAt && is_structure(*node)))
      return deferred_.try_emplace(key, make_named(key)).first->second;
    const Nested nested(depth_);
    auto deferred = deferred_.find(key);
    auto forward = deferred != deferred_.end() ? deferred->second : make_named(key);
    parsed_.scope->types.emplace(key, forward);
    try {
      TypeRef type = with_name(read_lens(string_of(*node, key)), key);
      if (type->kind == Type::Kind::named)
        throw Incomplete(
            fmt::format("type '{}' is made of itself, expected a struct or a pointer between", key));
      forward->target = type;
      return parsed_.scope->types[key] = type;
    } catch (const Incomplete& error) {
      parsed_.scope->types.erase(key);
      if (waiting_is_failing_) return fail(*node, key, error);
      // It holds what is being read; whoever holds a pointer to it can do so before it is read.
      ++waits_[key];
      return deferred_[key] = forward;
    } catch (const Error& error) {
      parsed_.scope->types.erase(key);
      return fail(*node, key, error);
    }
  }

  TypeRef fail(const toml::node& node, const std::string& key, const Error& error) {
    failed_.insert(key);
    report(line_of(node), error.what());
    return nullptr;
  }

  // Structs that point to each other may form long chains: what one points at can wait for its turn.
  static constexpr unsigned kDeferAt = kMaxDepth / 2;
  static constexpr unsigned kMaxWaits = 3;  // attempts to read one while another is read
  static bool is_structure(const toml::node& node) {
    const auto* text = node.as_string();
    return text != nullptr && (text->get().starts_with("struct") || text->get().starts_with("union"));
  }

  // One entry asks for the next while it is read: a long chain must not exhaust our stack.
  class Nested {
   public:
    explicit Nested(unsigned& depth) : depth_(depth) {
      if (depth_ >= kMaxDepth) throw Error::make("types nested deeper than {}, expected fewer", kMaxDepth);
      ++depth_;
    }
    ~Nested() { --depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

   private:
    unsigned& depth_;
  };

  TypeRef read_lens(const std::string& text) {
    Lookup lookup = [this](std::string_view name) { return find(name); };
    Grammar grammar(text, lookup);
    TypeRef type = grammar.lens();
    if (grammar.peek().kind != Token::Kind::end) grammar.unexpected("the end of the type");
    return type;
  }

  void read_functions(const toml::table& functions) {
    for (auto&& [key, node] : functions) {
      guarded(node, [&, &key_ref = key, &node_ref = node] {
        std::string name(key_ref.str());
        if (!node_ref.is_table() && !node_ref.is_string())
          throw Error::make("{} is no prototype, expected a string or a table", name);
        auto prototype =
            std::make_shared<Prototype>(node_ref.is_table() ? long_form(name, *node_ref.as_table())
                                                            : short_form(name, string_of(node_ref, name)));
        prototype->origin = place(line_of(node_ref));
        prototype->scope = parsed_.scope;
        parsed_.functions.insert_or_assign(name, prototype);
      });
    }
  }

  // "int(MYSQL, string)": the other language's prototype without its name, which may be no identifier (C++
  // symbols, versions).
  Prototype short_form(const std::string& name, const std::string& text) {
    Lookup lookup = [this](std::string_view word) { return find(word); };
    Grammar grammar(text, lookup);
    return grammar.nameless_prototype(name);
  }

  Prototype long_form(const std::string& name, const toml::table& table) {
    Prototype prototype;
    prototype.name = name;
    prototype.returns = make_void();
    for (auto&& [key, node] : table)
      placed(node, [&, &key_ref = key, &node_ref = node] {
        if (key_ref.str() == "returns")
          read_returns(prototype, string_of(node_ref, "returns"));
        else if (key_ref.str() == "args")
          read_args(prototype, node_ref);
        else
          throw Error::make("unknown key '{}', expected returns or args", key_ref.str());
      });
    complete(prototype);
    return prototype;
  }

  void read_returns(Prototype& prototype, const std::string& text) {
    prototype.no_return = text == "noreturn";
    if (!prototype.no_return) prototype.returns = read_lens(text);
  }

  void read_args(Prototype& prototype, const toml::node& node) {
    const auto* entries = node.as_array();
    if (entries == nullptr) throw Error("args is no array, expected one of { name, type }");
    for (const toml::node& entry : *entries)
      placed(entry, [&] { prototype.params.push_back(read_arg(entry)); });
  }

  Param read_arg(const toml::node& node) {
    std::string name, type;
    if (node.is_string()) {
      type = node.as_string()->get();
    } else {
      for (auto&& [key, value] : table_of(node, "an argument")) {
        if (key.str() == "name")
          name = string_of(value, "name");
        else if (key.str() == "type")
          type = string_of(value, "type");
        else
          throw Error::make("unknown key '{}', expected name or type", key.str());
      }
    }
    Lookup lookup = [this](std::string_view word) { return find(word); };
    Grammar grammar(type, lookup);
    Param param = grammar.whole_param();
    if (!name.empty()) param.name = std::move(name);
    return param;
  }

  const std::string& file_;
  const Importer& import_;
  Diagnostics& diagnostics_;
  ParsedFile parsed_;
  const toml::table* types_ = nullptr;
  unsigned depth_ = 0;  // of entries that are being read
  bool waiting_is_failing_ = false;
  std::map<std::string, unsigned, std::less<>> waits_;
  std::set<std::string, std::less<>> failed_;
  std::map<std::string, std::shared_ptr<Type>, std::less<>> deferred_;  // referred to before they are read
};

}  // namespace

ParsedFile parse_toml(std::string_view text, const std::string& file, const Importer& import,
                      Diagnostics& diagnostics) {
  return TomlReader(file, import, diagnostics).read(text);
}

}  // namespace rtrace::proto
