// Filter x objects -> probe points, each with its reasons. Pure: reads ElfFiles and, for GOT slots, a Memory.
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "rtrace/base/memory.h"
#include "rtrace/elf/loaded_object.h"
#include "rtrace/plan/filter.h"
#include "rtrace/plan/probe_point.h"
#include "rtrace/plan/sdt_filter.h"

namespace rtrace::plan {

// One -e, -l or -x of the command line, or the default -e @MAIN.
struct Request {
  enum class Kind : uint8_t { call, library, entry, sdt };
  Kind kind = Kind::call;
  Filter filter;             // of sdt: empty
  SdtFilter sdt;             // of sdt only
  bool hide_caller = false;  // the default rule
  std::string text;          // as typed: "-x mysql_real_query"
};

struct Requests {
  std::vector<Request> all;
};

// The objects of one process in link-map order.
using Objects = std::vector<elf::LoadedObject>;

enum class Relocated : bool {
  no,
  yes
};  // whether the dynamic linker has filled the GOT slots of `added` already

// What IFUNCs' resolvers have answered, by the resolver's address.
using Implementations = std::unordered_map<VirtAddr, VirtAddr>;

// The object in which code lies that is in none of the link map's: the kernel's own (vdso). nullptr: none.
// Good until the plan is made.
using Elsewhere = std::function<const elf::LoadedObject*(VirtAddr)>;

// The probe points that the requests ask for in `added`, a part of `objects` (all of it at start-up and
// attach). Call sites in `added` are matched against what all objects define; -l also finds call sites in
// older objects whose symbol `added` implements. `memory` serves GOT slots: their values are used only where
// they lie in an executable segment of an object, or in one that `elsewhere` knows.
Plan make_plan(const Requests& requests, const Objects& objects, const Objects& added, const Memory& memory,
               Relocated relocated, const Implementations& known = {}, const Elsewhere& elsewhere = nullptr);

// The definition that a call from `caller` to `name` reaches by the dynamic linker's rule: first in link-map
// order within the caller's namespace, the version respected. nullopt where no object defines it.
struct Definition {
  const elf::LoadedObject* object = nullptr;
  elf::Symbol symbol;
};
std::optional<Definition> resolve(const Objects& objects, const elf::LoadedObject& caller,
                                  std::string_view name, std::string_view version);

// For a request that matched nothing: the reason in words and the nearest names ("no mapped object defines
// `mysql_real_query`; the nearest names are ..."). Complete sentences, no newline.
std::string explain_no_match(const Request& request, const Objects& objects);
// The same of one of its filter's rules that matches nothing where others do; of several their patterns.
// Empty where each matches something.
std::string explain_part_without_match(const Request& request, const Objects& objects);

// For a probe that was armed but never hit: what the mapped objects import from that library instead
// ("mysql2.so imports mysql_send_query, mysql_read_query_result"), empty where there is nothing to say.
std::string explain_never_hit(const ProbePoint& point, const Objects& objects);

}  // namespace rtrace::plan
