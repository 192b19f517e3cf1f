// Decoded values as JSON.
#pragma once

#include <string_view>

#include "json_writer.h"
#include "rtrace/decode/value.h"

namespace rtrace::sink {

// An argument or a result: {name?, type, raw, text, value, hex?, cut?, before?}.
void append_argument(JsonWriter& json, std::string_view name, std::string_view type,
                     const decode::Value& value, const decode::RenderOptions& render);

}  // namespace rtrace::sink
