#pragma once

#include "rtrace/decode/value.h"

namespace rtrace::sink {

// The new value of what has changed, the result itself of a failure.
inline const decode::Value& settled(const decode::Value& value) {
  if (value.kind == decode::Value::Kind::changed && value.members.size() > 1) return value.members[1];
  if (value.kind == decode::Value::Kind::error_result && !value.members.empty()) return value.members[0];
  return value;
}

}  // namespace rtrace::sink
