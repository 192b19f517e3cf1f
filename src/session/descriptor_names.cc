#include "descriptor_names.h"

#include "rtrace/tracee/descriptors.h"

namespace rtrace::session {

void name_descriptors(event::TraceeId who, decode::Value& value) {
  if (value.is_descriptor && value.text.empty())
    value.text = tracee::descriptor_name(who.pid, who.tid, static_cast<int>(value.raw));
  for (decode::Value& member : value.members) name_descriptors(who, member);
}

void name_descriptors(event::TraceeId who, std::vector<decode::Argument>& arguments) {
  for (decode::Argument& argument : arguments) name_descriptors(who, argument.value);
}

}  // namespace rtrace::session
