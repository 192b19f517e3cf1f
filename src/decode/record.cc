#include "rtrace/decode/record.h"

namespace rtrace::decode {

std::string ProbeLabel::text() const {
  std::string text;
  if (!caller.empty()) text = caller + "->";
  if (kind == Kind::sdt) text += "sdt:";
  text += name;
  if (kind == Kind::syscall) text += "@SYS";
  if (kind == Kind::entry && !object.empty()) text += "@" + object;
  if (clone) text += '~';
  return text;
}

}  // namespace rtrace::decode
