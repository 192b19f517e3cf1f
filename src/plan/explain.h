// Parts of the sentences of explain_no_match() and explain_never_hit().
#pragma once

#include <string>
#include <vector>

#include "rtrace/plan/plan.h"

namespace rtrace::plan {

// "a, b and 3 more" for at most `limit` words.
std::string listed(const std::vector<std::string>& words, size_t limit);
// "; "-joined clauses, empty ones left out.
std::string joined(const std::vector<std::string>& clauses);

// explain_no_match() of -x sdt:...
std::string explain_no_sdt_match(const SdtFilter& filter, const Objects& objects);

// The names of functions that `object` imports and `from` may export: those that name no other by their
// version.
std::vector<std::string> imports_for(const elf::LoadedObject& object, const elf::LoadedObject& from);
bool imports(const elf::LoadedObject& object, std::string_view name);

}  // namespace rtrace::plan
