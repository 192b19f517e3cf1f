#include "variant_name.h"

#include <algorithm>

namespace rtrace::session {

std::vector<std::string> implemented_by(std::string_view variant) {
  constexpr std::string_view kOwn = "__";
  if (!variant.starts_with(kOwn)) return {};
  size_t end = std::string_view::npos;
  for (const char* feature : {"_sse2", "_sse4", "_ssse3", "_avx", "_evex", "_erms", "_fma"})
    end = std::min(end, variant.find(feature));
  if (end == std::string_view::npos || end <= kOwn.size()) return {};
  const std::string_view name = variant.substr(0, end);
  return {std::string(name.substr(kOwn.size())), std::string(name)};
}

bool is_c_library(std::string_view object) {
  for (const char* known :
       {"libc.so.", "libm.so.", "libmvec.so.", "librt.so.", "libpthread.so.", "libc.musl-"})
    if (object.starts_with(known)) return true;
  return object == "libc.so";
}

}  // namespace rtrace::session
