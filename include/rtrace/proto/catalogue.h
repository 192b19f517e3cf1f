// All prototypes that are known, ranked by where they come from.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/proto/parser.h"

namespace rtrace::proto {

// The names that files which speak for an object may have, the most specific first: "libruby-3.1.so.3.1"
// itself, "libruby-3.1.so.3", "libruby-3.1.so", "libruby-3.so", "libruby.so".
std::vector<std::string> names_of_object(std::string_view object);

class Catalogue {
 public:
  Catalogue();
  ~Catalogue();

  // A file given with -F, or every file of a folder: these apply to every object, the first that knows a
  // function wins. Throws Error where the path cannot be read. They are read now, and may import from the
  // folders that have been added before.
  void add(const std::string& path, Diagnostics& diagnostics);
  // A folder with one file for each library (`libfoo.so.3.conf`, `libfoo.so.conf`, `.toml`) or main program
  // (`python3.conf`), read when that object is first asked for; or a single file that serves every object
  // (~/.ltrace.conf). What was added earlier wins. A path that does not exist is no error.
  void add_folder(const std::string& path);
  // The same, for a folder whose files have no mistakes: only what is asked for is parsed.
  void add_shipped(const std::string& path);
  // As add_folder(), ranked last (/etc/ltrace.conf, /usr/share/ltrace), parsed once it may be of use.
  void add_fallback(const std::string& path);

  // The prototype of a function, by the precedence of spec 3.1; `object` is the callee's SONAME or basename,
  // empty where it is not known. nullptr where nothing is known. Diagnostics of library files that this call
  // has read first are appended.
  std::shared_ptr<const Prototype> find(std::string_view function, std::string_view object,
                                        Diagnostics& diagnostics);
  // The same in two steps, for what debug information says ranks between them: without the fallbacks, and of
  // them alone.
  std::shared_ptr<const Prototype> find_specific(std::string_view function, std::string_view object,
                                                 Diagnostics& diagnostics);
  std::shared_ptr<const Prototype> find_fallback(std::string_view function, std::string_view object,
                                                 Diagnostics& diagnostics);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrace::proto
