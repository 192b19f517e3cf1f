// The parts of make_plan: function entries (-x), SDT probes (-x sdt:...) and call sites (-e, -l).
#pragma once

#include "point_set.h"
#include "process_view.h"
#include "rtrace/elf/frame_index.h"
#include "rtrace/plan/plan.h"

namespace rtrace::plan {

struct Findings {
  PointSet points;
  std::vector<Decline> declined;
};

// A request with its filter as it reads for the mapped objects.
struct ActiveRequest {
  const Request& request;
  RequestIndex index = 0;
  Filter filter;
};

void plan_entries(const ProcessView& view, const ActiveRequest& active, const elf::LoadedObject& object,
                  Findings& findings);
void plan_calls_from(const ProcessView& view, const ActiveRequest& active, const elf::LoadedObject& caller,
                     Findings& findings);
void plan_sdt(const ProcessView& view, const ActiveRequest& active, Findings& findings);
void plan_calls_into_libraries(const ProcessView& view, const ActiveRequest& active, Findings& findings);

// Whether `address` is the first byte of an instruction, found by decoding its function from the start. A
// byte pattern of `jmp *slot(%rip)` may as well be the inside of another instruction, and an int3 there would
// change that one.
bool is_instruction_start(const elf::ElfFile& file, ElfAddr address);

// Where the object may call the slot's function by a `jmp *%reg`: in functions that load it. By address.
std::vector<ElfAddr> register_jumps(const elf::ElfFile& file, const elf::CallSlot& slot);

// The same of what symbols name, which may be wrong: true, too, where nothing tells of the code there. Asked
// in the order of addresses, it decodes each function once.
class SymbolPlaces {
 public:
  explicit SymbolPlaces(const elf::ElfFile& file);
  bool may_begin_at(ElfAddr address);

 private:
  const elf::ElfFile& file_;
  elf::FrameArea index_area_;
  std::optional<elf::FrameIndex> index_;
  ElfAddr function_, asked_;        // the last that were looked at
  std::optional<ElfAddr> reached_;  // of that function, by whole instructions
};

// The function that contains the address; nullopt where nothing tells.
std::optional<ElfRange> function_around(const elf::ElfFile& file, ElfAddr address);

}  // namespace rtrace::plan
