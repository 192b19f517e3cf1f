#include "rtrace/base/error.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace rtrace {

std::string Error::errno_text(int error_number) {
  char buffer[128];
  return strerror_r(error_number, buffer, sizeof buffer);
}

void check_failed(const char* file, int line, const char* expression, const std::string& detail) {
  std::string text = fmt::format("rtrace: internal error at {}:{}: CHECK({}) failed{}{}\n", file, line,
                                 expression, detail.empty() ? "" : ": ", detail);
  (void)!::write(STDERR_FILENO, text.data(), text.size());
  std::abort();
}

}  // namespace rtrace
