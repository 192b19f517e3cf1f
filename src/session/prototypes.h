// Where a probe's prototype comes from, in the order of precedence that the manual states.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "object_cache.h"
#include "reporter.h"
#include "rtrace/plan/plan.h"
#include "rtrace/proto/catalogue.h"
#include "rtrace/session/options.h"

namespace rtrace::session {

class Prototypes {
 public:
  // Reads the -F files; throws Error where one cannot be read.
  Prototypes(const Options& options, Reporter& reporter);

  // Of the function of a probe point in a process with these objects; nullptr where the arguments are to be
  // guessed. `note` says for --explain where it comes from, or what was asked in vain.
  struct Known {
    std::shared_ptr<const proto::Prototype> prototype;
    std::string note;
  };
  // Of a system call: from files alone.
  const Known& of_syscall(const std::string& name, const std::string& object);
  const Known& find(const plan::ProbePoint& point, const plan::Objects& objects, ObjectCache& files,
                    ObjectCache::Servers servers) {
    return find(point, parties_of(point, objects), files, servers);
  }

  // The function where it is implemented, as far as that is known, and who calls it at a call site.
  struct Callee {
    std::shared_ptr<const elf::ElfFile> file;
    std::optional<ElfAddr> address;
  };
  struct Parties {
    Callee callee;
    std::shared_ptr<const elf::ElfFile> caller;
  };
  static Parties parties_of(const plan::ProbePoint& point, const plan::Objects& objects);
  const Known& find(const plan::ProbePoint& point, const Parties& parties, ObjectCache& files,
                    ObjectCache::Servers servers);

 private:
  using Found = std::shared_ptr<const proto::Prototype>;

  Known look_up(const plan::ProbePoint& point, const Parties& parties, ObjectCache& files,
                ObjectCache::Servers servers);
  Found in_files(const plan::ProbePoint& point);
  Found of_alias(const plan::ProbePoint& point);
  Found of_implemented(const plan::ProbePoint& point);
  Found from_fallback(const plan::ProbePoint& point);
  static Callee callee_of(const plan::ProbePoint& point, const plan::Objects& objects);
  void report(const proto::Diagnostics& diagnostics);
  proto::Catalogue& catalogue();

  const Options& options_;
  Reporter& reporter_;
  std::optional<proto::Catalogue> catalogue_;
  std::unordered_map<std::string, Known> known_;
  std::set<std::shared_ptr<const elf::ElfFile>> asked_;  // whose addresses are in known_'s keys
};

}  // namespace rtrace::session
