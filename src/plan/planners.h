// The parts of make_plan: function entries (-x), SDT probes (-x sdt:...) and call sites (-e, -l).
#pragma once

#include "point_set.h"
#include "process_view.h"
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

// Where the function that contains the address begins; nullopt where nothing tells.
std::optional<ElfAddr> function_start(const elf::ElfFile& file, ElfAddr address);

}  // namespace rtrace::plan
