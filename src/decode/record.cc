#include "rtrace/decode/record.h"

namespace rtrace::decode {

std::string ProbeLabel::text() const {
  std::string text;
  if (!caller.empty()) text = caller + "->";
  text += name;
  if (!call_site && !object.empty()) text += "@" + object;
  if (clone) text += '~';
  return text;
}

}  // namespace rtrace::decode
