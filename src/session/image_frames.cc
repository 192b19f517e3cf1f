// Borrowed frames: who needs one, and who lends it.
#include <memory>
#include <unordered_map>

#include "image.h"
#include "rtrace/session/borrowed_frames.h"
#include "rtrace/unwind/frame_table.h"

namespace rtrace::session {

// What the code of those says that have not been asked yet.
void Image::examine_borrowers() {
  std::unordered_map<const elf::ElfFile*, std::unique_ptr<unwind::FrameTable>> tables;
  std::erase_if(wrapping_.waiting, [&](const Waiting& function) {
    const elf::LoadedObject* in = object_at(function.point.address);
    if (!function.borrows || function.entry || in == nullptr) return false;
    auto& table = tables[in->file.get()];
    if (table == nullptr) table = std::make_unique<unwind::FrameTable>(in->file);
    const std::string why = why_looks_up(*table, in->in_file(function.point.address));
    if (!why.empty()) stays_breakpoint(function.point, services_.registry.at(function.probe), why);
    return !why.empty();
  });
}

std::optional<mech::BorrowedFrame> Image::lend_frame(const agent::FunctionPlan& plan) {
  if (!wrapping_.lent || !mech::fits_borrowed(wrapping_.lent->adds, plan))
    wrapping_.lent = find_lender(objects_, plan);
  return wrapping_.lent;
}

}  // namespace rtrace::session
