#include "capstone_x86.h"

#include "rtrace/base/error.h"

// Capstone's cs.c has a table of all architectures, and with it comes every one of them into a static link:
// 5 MB, and 75000 relocations that the dynamic linker works through at each start (m: 1.6 ms). What is
// defined here is not taken from the archive. Names that another version of Capstone has not, or has besides,
// do no harm.
struct cs_struct;

#define RTRACE_LEAVE_OUT(architecture)                                       \
  extern "C" cs_err architecture##_global_init(cs_struct*) {                 \
    return CS_ERR_ARCH;                                                      \
  }                                                                          \
  extern "C" cs_err architecture##_option(cs_struct*, cs_opt_type, size_t) { \
    return CS_ERR_ARCH;                                                      \
  }

RTRACE_LEAVE_OUT(ARM)
RTRACE_LEAVE_OUT(AArch64)
RTRACE_LEAVE_OUT(EVM)
RTRACE_LEAVE_OUT(M680X)
RTRACE_LEAVE_OUT(M68K)
RTRACE_LEAVE_OUT(Mips)
RTRACE_LEAVE_OUT(PPC)
RTRACE_LEAVE_OUT(Sparc)
RTRACE_LEAVE_OUT(SystemZ)
RTRACE_LEAVE_OUT(TMS320C64x)
RTRACE_LEAVE_OUT(XCore)

namespace rtrace::arch {

csh open_capstone() {
  csh handle = 0;
  const cs_err status = cs_open(CS_ARCH_X86, CS_MODE_64, &handle);
  CHECK(status == CS_ERR_OK, "cs_open: {}", cs_strerror(status));
  return handle;
}

}  // namespace rtrace::arch
