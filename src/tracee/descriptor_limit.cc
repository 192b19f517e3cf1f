#include "rtrace/tracee/descriptor_limit.h"

#include <sys/resource.h>

namespace rtrace::tracee {

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}

bool leaves_descriptors(int newest) {
  constexpr rlim_t kLeft = 8;
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) != 0 || static_cast<rlim_t>(newest) + kLeft < limit.rlim_cur;
}

}  // namespace rtrace::tracee
