// Borrowed frames: who needs one, and who lends it.
#include <algorithm>
#include <memory>
#include <unordered_map>

#include "image.h"
#include "rtrace/event/call_stack.h"
#include "rtrace/session/borrowed_frames.h"
#include "rtrace/unwind/frame_table.h"
#include "wrapper_rules.h"

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

// What the code of those says that have not been asked yet; and where their returns may be foretold. Before
// any thread has to stand for it.
void Image::examine_borrowers() {
  find_foretelling_frame();
  std::unordered_map<const elf::ElfFile*, std::unique_ptr<unwind::FrameTable>> tables;
  std::vector<Waiting> rest;
  for (Waiting& function : wrapping_.waiting) {
    std::string why;
    if (function.borrows && !std::exchange(function.looked_at, true)) {
      const auto code = code_of(function.point);
      if (!code) {
        why = "the code that it calls cannot be found";
      } else {
        auto& table = tables[code->file.get()];
        if (table == nullptr) table = std::make_unique<unwind::FrameTable>(code->file);
        const FunctionCode said =
            look_at_code(*table, code->address,
                         arguments_in_memory(function.point, services_.registry.at(function.probe)));
        why = said.why_looks_up;
        function.goes_elsewhere = said.goes_elsewhere;
      }
    }
    if (why.empty())
      rest.push_back(std::move(function));
    else
      stays_breakpoint(function.point, services_.registry.at(function.probe), why);
  }
  wrapping_.waiting = std::move(rest);
}

// Again where objects have come since.
void Image::find_foretelling_frame() {
  const bool borrows =
      std::ranges::any_of(wrapping_.waiting, [](const auto& waits) { return waits.borrows; });
  if (!borrows || wrapping_.foretelling || wrapping_.sought_in == objects_.size()) return;
  wrapping_.sought_in = objects_.size();
  wrapping_.foretelling = find_foretelling(objects_);
}

void Image::borrow(mech::Trampolines::Function& function, const Waiting& for_whom) {
  if (services_.recording == agent::Mode::record && for_whom.goes_elsewhere) {
    function.plan.flags |= agent::FunctionPlan::kCallerWords;
    function.plan.entry_words = agent::kAllEntryWords;
  }
  function.borrowed = foretold_frame(function.plan);
  if (!function.borrowed) function.borrowed = lend_frame(function.plan);
}

std::optional<mech::BorrowedFrame> Image::foretold_frame(const agent::FunctionPlan& plan) {
  const auto& found = wrapping_.foretelling;
  if (!found || plan.passed.any() || !wrapping_.trampolines->foretell(*found)) return std::nullopt;
  std::optional<mech::BorrowedFrame>& frame = wrapping_.foretold;
  if (!frame || !mech::fits_foretold(frame->first, frame->adds - frame->first - sizeof(uint64_t), plan))
    frame = foretold(objects_, *found, plan);
  return frame;
}

std::optional<mech::BorrowedFrame> Image::lend_frame(const agent::FunctionPlan& plan) {
  const bool calls = plan.passed.any();
  std::optional<mech::BorrowedFrame>& lent = wrapping_.lent[calls ? 1 : 0];
  if (!lent || (!calls && !mech::fits_borrowed(lent->adds, plan))) lent = find_lender(objects_, plan);
  return lent;
}

}  // namespace rtrace::session
