// Prototypes as a file of them.
#pragma once

#include <map>
#include <string>

#include "rtrace/proto/prototype.h"

namespace rtrace::proto {

// Writes what parse_toml() reads: types by their names, each once, then functions; all sorted. Two types of
// one name get two, and what the language has no name for gets one.
class TomlWriter {
 public:
  void add(const std::string& function, const Prototype& prototype);
  bool empty() const { return functions_.empty(); }
  // The sections of types and functions.
  std::string text() const;

 private:
  std::string word(const Type& type);
  std::string definition(const Type& type);
  std::string name_for(const std::string& wanted, const std::string& key);
  std::string structure(const Type& type);

  std::map<std::string, std::string> types_;      // definitions by name
  std::map<std::string, std::string> names_;      // by what tells a type from all others
  std::map<std::string, std::string> functions_;  // prototypes by name, as TOML
};

}  // namespace rtrace::proto
