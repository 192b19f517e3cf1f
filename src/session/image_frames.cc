// Borrowed frames: who needs one, and who lends it.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "image.h"
#include "rtrace/event/call_stack.h"
#include "rtrace/session/borrowed_frames.h"
#include "rtrace/unwind/frame_table.h"

namespace rtrace::session {

// The code of a function, or of what a stub leads to.
std::optional<Image::Code> Image::code_of(const plan::ProbePoint& point) const {
  if (point.kind == plan::ProbeKind::entry || point.only_from_caller) {
    const elf::LoadedObject* in = object_at(point.address);
    return in != nullptr ? std::optional(Code{in->file, in->in_file(point.address)}) : std::nullopt;
  }
  for (const elf::LoadedObject& definer : objects_) {
    if (definer.name() != point.prototype_object) continue;
    const auto symbol = definer.file->find_exported(point.name);
    if (symbol && !symbol->ifunc) return Code{definer.file, symbol->address};
  }
  return std::nullopt;
}

// What the code of those says that have not been asked yet.
void Image::examine_borrowers() {
  std::unordered_map<const elf::ElfFile*, std::unique_ptr<unwind::FrameTable>> tables;
  std::erase_if(wrapping_.waiting, [&](const Waiting& function) {
    if (!function.borrows || function.entry) return false;
    const auto code = code_of(function.point);
    std::string why = "the code that it calls cannot be found";
    if (code) {
      auto& table = tables[code->file.get()];
      if (table == nullptr) table = std::make_unique<unwind::FrameTable>(code->file);
      why = why_looks_up(*table, code->address);
    }
    if (!why.empty()) stays_breakpoint(function.point, services_.registry.at(function.probe), why);
    return !why.empty();
  });
}

void Image::borrow(mech::Trampolines::Function& function) {
  function.borrowed = lend_frame(function.plan);
}

std::optional<mech::BorrowedFrame> Image::lend_frame(const agent::FunctionPlan& plan) {
  if (!wrapping_.lent || !mech::fits_borrowed(wrapping_.lent->adds, plan))
    wrapping_.lent = find_lender(objects_, plan);
  return wrapping_.lent;
}

}  // namespace rtrace::session
