// What the blob's SIGTRAP handler decides, apart from how it is entered.
#pragma once

#include <cstdint>

#include "rtrace/agent/abi.h"

namespace rtrace::agent {

// The int3 at `site` that has an out-of-line copy; nullptr where none of ours is known there.
const SiteEntry* find_site(const SiteTable* table, uint64_t site);
// Whether one of them begins at `address`. Looks at the whole table.
bool is_copy(const SiteTable* table, uint64_t address);

}  // namespace rtrace::agent
