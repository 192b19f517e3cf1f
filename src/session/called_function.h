#pragma once

#include <optional>

#include "rtrace/arch/regs.h"
#include "rtrace/base/address.h"

namespace rtrace::session {

class Image;

// What the call in front of a return address has called. `regs`: at the entry of the function that is to
// return there, which may be another, that the first has jumped to: registers that functions leave alone
// (psABI, figure 3.4) still have what they had at the call. nullopt where the instruction is neither a direct
// call nor one by such a register, or leads to no known code.
std::optional<VirtAddr> called_function(const Image& image, VirtAddr return_address, const arch::Regs& regs);

// Whether code there does nothing but jump through a GOT slot.
bool is_stub(const Image& image, VirtAddr address);

}  // namespace rtrace::session
