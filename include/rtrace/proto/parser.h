// Readers of both prototype languages. One grammar of types serves both.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/proto/prototype.h"

namespace rtrace::proto {

// Lines or keys that were skipped: "file:line: what, and what was expected".
using Diagnostics = std::vector<std::string>;

// What one file says.
struct ParsedFile {
  std::string soname;  // [library] of TOML: the one object it is for; empty where it serves any
  std::map<std::string, std::shared_ptr<const Prototype>, std::less<>> functions;
  std::shared_ptr<TypeScope> scope = std::make_shared<TypeScope>();
};

// Reads the file of `import "NAME"`; nullptr where there is none.
using Importer = std::function<std::shared_ptr<const ParsedFile>(std::string_view name)>;

// `file` is the name that diagnostics and origins carry. A bad line or key is reported and skipped, the rest
// counts.
ParsedFile parse_conf(std::string_view text, const std::string& file, const Importer& import,
                      Diagnostics& diagnostics);
ParsedFile parse_toml(std::string_view text, const std::string& file, const Importer& import,
                      Diagnostics& diagnostics);

// One lens, the whole of `text`. Throws Error that says what was wrong and what was expected.
TypeRef parse_type(std::string_view text, const TypeScope& scope);
// "int f(string, ulong)"; what follows the `)` is ignored.
Prototype parse_prototype(std::string_view text, std::shared_ptr<const TypeScope> scope);

// Settles what the parameters' directions and lengths say together: Prototype::first_at_return, and lengths
// that need the result. Throws Error for a length that names an argument that is not there, or a format that
// is not the last parameter.
void complete(Prototype& prototype);

}  // namespace rtrace::proto
