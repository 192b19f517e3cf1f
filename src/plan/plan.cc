#include "rtrace/plan/plan.h"

#include "planners.h"

namespace rtrace::plan {

Plan make_plan(const Requests& requests, const Objects& objects, const Objects& added, const Memory& memory,
               Relocated relocated, const Implementations& known, const Elsewhere& elsewhere) {
  ProcessView view(objects, added, memory, relocated, known, elsewhere);
  std::vector<ObjectNames> mapped = names_of(objects);
  Findings findings;
  for (RequestIndex index = 0; index < requests.all.size(); ++index) {
    const Request& request = requests.all[index];
    ActiveRequest active{request, index, request.filter.resolved_for(mapped)};
    if (request.kind == Request::Kind::sdt) {
      plan_sdt(view, active, findings);
      continue;
    }
    if (request.kind == Request::Kind::library) {
      plan_calls_into_libraries(view, active, findings);
      continue;
    }
    for (const elf::LoadedObject& object : added) {
      if (request.kind == Request::Kind::entry) plan_entries(view, active, object, findings);
      if (request.kind == Request::Kind::call) plan_calls_from(view, active, object, findings);
    }
  }
  return {findings.points.take(), std::move(findings.declined)};
}

}  // namespace rtrace::plan
