// Room that several share.
#pragma once

#include <cstddef>
#include <vector>

namespace rtrace::sink {

// To what length those of `lengths` that are longer must be cut for all together to take no more than `room`:
// the short ones stay whole, the others get as much each. Pure.
size_t fair_share(std::vector<size_t> lengths, size_t room);

}  // namespace rtrace::sink
