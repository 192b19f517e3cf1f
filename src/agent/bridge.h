// What the blob's SIGTRAP handler decides, apart from how it is entered.
#pragma once

#include <cstdint>

#include "rtrace/agent/abi.h"

namespace rtrace::agent {

// The out-of-line copy of the int3 at `site`; 0 where none of ours is known there.
uint64_t find_copy(const SiteTable* table, uint64_t site);
// Whether one of them begins at `address`. Looks at the whole table.
bool is_copy(const SiteTable* table, uint64_t address);

}  // namespace rtrace::agent
