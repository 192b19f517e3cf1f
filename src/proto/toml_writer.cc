#include "rtrace/proto/toml_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "rtrace/base/error.h"
#include "rtrace/proto/parser.h"

namespace rtrace::proto {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_word(std::string_view text) {
  return !text.empty() && (text[0] < '0' || text[0] > '9') &&
         std::all_of(text.begin(), text.end(), is_word_character);
}

std::string as_word(std::string_view text) {
  std::string word(text);
  std::replace_if(
      word.begin(), word.end(), [](char c) { return !is_word_character(c); }, '_');
  if (word.empty() || (word[0] >= '0' && word[0] <= '9')) word.insert(0, "_");
  return word;
}

// What means something else in the language, so that no type may be called that.
bool is_reserved(const std::string& name) {
  static const std::set<std::string_view> kWords = {
      "array", "bitvec",     "bool",    "buffer", "complex", "enum",     "flags", "format",
      "guess", "hex",        "hide",    "in",     "inout",   "noreturn", "oct",   "octal",
      "out",   "string",     "struct",  "union",  "vector",  "void",     "class", "retval",
      "zero",  "std_vector", "typedef", "import", "function"};
  if (kWords.contains(name)) return true;
  try {
    parse_type(name, {});
    return true;
  } catch (const Error&) {
    return false;
  }
}

// TOML 1.0, "basic strings" and "keys". Names are printable ASCII.
std::string in_quotes(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

std::string key(std::string_view name) {
  bool bare = !name.empty() && std::all_of(name.begin(), name.end(), is_word_character);
  return bare ? std::string(name) : in_quotes(name);
}

// Names of members and keys that the language cannot say.
Type with_words(const Type& type) {
  Type clean = type;
  for (Member& member : clean.members)
    if (!is_word(member.name)) member.name.clear();
  for (Enumerator& entry : clean.enumerators) entry.name = as_word(entry.name);
  return clean;
}

}  // namespace

// The name for what `key` describes; a new one where that name stands for something else already.
std::string TomlWriter::name_for(const std::string& wanted, const std::string& key) {
  auto [known, fresh] = names_.try_emplace(key);
  if (!fresh) return known->second;
  const std::string stem = as_word(wanted);
  std::string name = stem;
  for (unsigned i = 2; is_reserved(name) || types_.contains(name); ++i) name = fmt::format("{}_{}", stem, i);
  types_[name];  // taken, its definition follows
  return known->second = name;
}

std::string TomlWriter::definition(const Type& type) {
  return spell_definition(with_words(type), [this](const Type& inner) { return word(inner); });
}

// Known by its name and what its members are called: those may lead back to it.
std::string TomlWriter::structure(const Type& type) {
  const std::string shape = spell_definition(type, [](const Type& inner) { return spell(inner); });
  const std::string name =
      name_for(type.name.empty() ? "anonymous" : type.name, "struct " + type.name + shape);
  if (std::string& made = types_[name]; made.empty()) {
    made = "...";  // being made
    const std::string text = definition(type);
    types_[name] = text;
  }
  return name;
}

std::string TomlWriter::word(const Type& type) {
  switch (type.kind) {
    case Type::Kind::nothing:
      return "void";
    case Type::Kind::named: {
      // Whoever points to what was never defined has an address.
      const TypeRef target = type.target.lock();
      return target == nullptr ? "void" : word(*target);
    }
    case Type::Kind::pointer: {
      const TypeRef target = resolve(type.inner);
      if (target != nullptr && target->kind != Type::Kind::nothing) break;
      return definition(*with_lens(make_address(), type.lens));
    }
    case Type::Kind::container:
      // Of what was never defined: libstdc++'s begin, end, and end of the storage.
      if (type.container == Container::vector && resolve(type.inner) == nullptr)
        return "struct(addr, addr, addr)";
      break;
    case Type::Kind::structure:
      if (!type.is_complex && !type.name.empty()) return structure(type);
      break;
    default:
      break;
  }
  const std::string text = definition(type);
  if (!is_word(type.name) || is_reserved(type.name)) {
    if (type.kind != Type::Kind::enumeration) return text;
  }
  if (text == type.name) return text;
  const std::string name = name_for(type.name, "other " + type.name + "=" + text);
  types_[name] = text;
  return name;
}

void TomlWriter::add(const std::string& function, const Prototype& prototype) {
  const std::string result = prototype.no_return ? "noreturn" : word(*prototype.returns);
  // In the short form the parameters would be taken for the characters' type, or for what a lens shows.
  static constexpr std::string_view kTakers[] = {"string", "bool", "std_string", "std_string_view"};
  const bool ambiguous = std::find(std::begin(kTakers), std::end(kTakers), result) != std::end(kTakers);
  std::string all;
  for (const Param& param : prototype.params) {
    std::string type = param.direction == Direction::out     ? "out "
                       : param.direction == Direction::inout ? "inout "
                                                             : "";
    type += word(*param.type);
    const std::string name = is_word(param.name) ? param.name : "";
    if (!all.empty()) all += ", ";
    if (!ambiguous)
      all += name.empty() ? type : name + "=" + type;
    else if (name.empty())
      all += fmt::format("{{ type = {} }}", in_quotes(type));
    else
      all += fmt::format("{{ name = {}, type = {} }}", in_quotes(name), in_quotes(type));
  }
  functions_[function] = ambiguous ? fmt::format("{{ returns = {}, args = [{}] }}", in_quotes(result), all)
                                   : in_quotes(result + "(" + all + ")");
}

std::string TomlWriter::text() const {
  std::string out;
  if (!types_.empty()) out += "[types]\n";
  for (const auto& [name, text] : types_) out += fmt::format("{} = {}\n", key(name), in_quotes(text));
  if (!types_.empty()) out += "\n";
  out += "[functions]\n";
  for (const auto& [name, text] : functions_) out += fmt::format("{} = {}\n", key(name), text);
  return out;
}

}  // namespace rtrace::proto
