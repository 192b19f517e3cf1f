#include "leaf_names.h"

#include <algorithm>

namespace rtrace::session {
namespace {

// Of the C library's functions, those that call no function of the program's, that are no cancellation points
// (POSIX, 2.9.5.2, and what pthreads(7) says may be one), and that return once. What may be missing here is
// only declined.
// clang-format off
constexpr std::string_view kLeafNames[] = {
    "__ctype_b_loc", "__ctype_get_mb_cur_max", "__ctype_tolower_loc", "__ctype_toupper_loc",
    "__errno_location", "__strtol_internal", "a64l", "abs", "access", "acos", "acosf", "acosh", "acoshf",
    "alarm", "aligned_alloc", "asctime_r", "asin", "asinf", "asinh", "asinhf", "atan", "atan2", "atan2f",
    "atanf", "atanh", "atanhf", "atof", "atoi", "atol", "atoll", "basename", "bcmp", "bcopy", "bind", "brk",
    "btowc", "bzero", "c16rtomb", "c32rtomb", "calloc", "cbrt", "cbrtf", "ceil", "ceilf", "cfree", "chdir",
    "chmod", "chown", "clearenv", "clock", "clock_getres", "clock_gettime", "copysign", "copysignf", "cos",
    "cosf", "cosh", "coshf", "difftime", "dirname", "div", "drand48", "drem", "dremf", "dup", "dup2", "dup3",
    "epoll_create", "epoll_create1", "epoll_ctl", "erand48", "erf", "erfc", "erfcf", "erff", "euidaccess",
    "eventfd", "exp", "exp10", "exp10f", "exp2", "exp2f", "expf", "explicit_bzero", "expm1", "expm1f", "fabs",
    "fabsf", "faccessat", "fchdir", "fchmod", "fchmodat", "fchown", "fchownat", "fdim", "fdimf", "ffs",
    "ffsl", "ffsll", "finite", "finitef", "floor", "floorf", "fma", "fmaf", "fmax", "fmaxf", "fmin", "fminf",
    "fmod", "fmodf", "free", "frexp", "frexpf", "fstat", "fstat64", "fstatat", "fstatat64", "fstatfs",
    "fstatvfs", "ftruncate", "ftruncate64", "gamma", "gammaf", "getauxval", "getcpu", "getcwd",
    "getdtablesize", "getegid", "getenv", "geteuid", "getgid", "getgroups", "gethostname",
    "getitimer", "getpagesize", "getpeername", "getpgid", "getpgrp", "getpid", "getppid", "getpriority",
    "getresgid", "getresuid", "getrlimit", "getrlimit64", "getrusage", "getsid", "getsockname", "getsockopt",
    "gettid", "gettimeofday", "getuid", "gmtime_r", "htonl", "htons", "hypot", "hypotf", "ilogb", "ilogbf",
    "imaxabs", "imaxdiv", "index", "inet_addr", "inet_aton", "inet_network", "inet_ntoa", "inet_ntop",
    "inet_pton", "initstate", "inotify_add_watch", "inotify_init", "inotify_init1", "inotify_rm_watch",
    "ioperm", "iopl", "isalnum", "isalpha", "isascii", "isatty", "isblank", "iscntrl", "isdigit", "isgraph",
    "isinf", "isinff", "islower", "isnan", "isnanf", "isprint", "ispunct", "isspace", "isupper", "iswalnum",
    "iswalpha", "iswblank", "iswcntrl", "iswdigit", "iswgraph", "iswlower", "iswprint", "iswpunct",
    "iswspace", "iswupper", "iswxdigit", "isxdigit", "j0", "j0f", "j1", "j1f", "jn", "jnf", "jrand48", "l64a",
    "labs", "lchown", "lcong48", "ldexp", "ldexpf", "ldiv", "lgamma", "lgamma_r", "lgamma_rf", "lgammaf",
    "link", "linkat", "listen", "llabs", "lldiv", "llrint", "llrintf", "llround", "llroundf", "localeconv",
    "log", "log10", "log10f", "log1p", "log1pf", "log2", "log2f", "logb", "logbf", "logf", "lrand48", "lrint",
    "lrintf", "lround", "lroundf", "lseek", "lseek64", "lstat", "lstat64", "madvise", "mallinfo", "mallinfo2",
    "malloc", "malloc_trim", "malloc_usable_size", "mallopt", "mblen", "mbrlen", "mbrtoc16", "mbrtoc32",
    "mbrtowc", "mbsinit", "mbsnrtowcs", "mbsrtowcs", "mbstowcs", "mbtowc", "memalign", "memccpy", "memchr",
    "memcmp", "memcpy", "memfd_create", "memfrob", "memmem", "memmove", "mempcpy", "memrchr", "memset",
    "mincore", "mkdir", "mkdirat", "mlock", "mlockall", "mmap", "mmap64", "modf", "modff", "mprotect",
    "mrand48", "mremap", "munlock", "munlockall", "munmap", "nan", "nanf", "nearbyint", "nearbyintf",
    "nextafter", "nextafterf", "nexttoward", "nexttowardf", "nice", "nl_langinfo", "nl_langinfo_l", "nrand48",
    "ntohl", "ntohs", "pipe", "pipe2", "posix_madvise", "posix_memalign", "pow", "powf", "prlimit",
    "pthread_attr_destroy", "pthread_attr_getstack", "pthread_attr_getstacksize", "pthread_attr_init",
    "pthread_attr_setdetachstate", "pthread_attr_setstacksize", "pthread_cond_broadcast",
    "pthread_cond_destroy", "pthread_cond_init", "pthread_cond_signal", "pthread_condattr_destroy",
    "pthread_condattr_init", "pthread_condattr_setclock", "pthread_equal", "pthread_getattr_np",
    "pthread_getspecific", "pthread_key_create", "pthread_mutex_destroy", "pthread_mutex_init",
    "pthread_mutex_lock", "pthread_mutex_trylock", "pthread_mutex_unlock", "pthread_mutexattr_destroy",
    "pthread_mutexattr_init", "pthread_mutexattr_settype", "pthread_rwlock_destroy", "pthread_rwlock_init",
    "pthread_rwlock_rdlock", "pthread_rwlock_tryrdlock", "pthread_rwlock_trywrlock", "pthread_rwlock_unlock",
    "pthread_rwlock_wrlock", "pthread_self", "pthread_setspecific", "pthread_spin_destroy",
    "pthread_spin_init", "pthread_spin_lock", "pthread_spin_trylock", "pthread_spin_unlock", "putenv",
    "pvalloc", "rand", "rand_r", "random", "random_r", "rawmemchr", "readlink", "readlinkat", "realloc",
    "reallocarray", "remainder", "remainderf", "remquo", "remquof", "rename", "renameat", "rindex", "rint",
    "rintf", "rmdir", "round", "roundf", "sbrk", "scalb", "scalbf", "scalbln", "scalblnf", "scalbn",
    "scalbnf", "sched_getaffinity", "sched_getcpu", "sched_getparam", "sched_getscheduler",
    "sched_setaffinity", "sched_yield", "secure_getenv", "seed48", "sem_destroy", "sem_getvalue", "sem_init",
    "sem_post", "sem_trywait", "setenv", "setitimer", "setpriority", "setrlimit", "setrlimit64", "setsockopt",
    "setstate", "shmat", "shmctl", "shmdt", "shmget", "shutdown", "sigaddset", "sigdelset", "sigemptyset",
    "sigfillset", "sigismember", "signalfd", "significand", "significandf", "sigpending", "sin", "sincos",
    "sincosf", "sinf", "sinh", "sinhf", "socket", "socketpair", "sqrt", "sqrtf", "srand", "srand48",
    "srandom", "srandom_r", "stat", "stat64", "statfs", "statvfs", "stpcpy", "stpncpy", "strcasecmp",
    "strcasecmp_l", "strcasestr", "strcat", "strchr", "strchrnul", "strcmp", "strcoll", "strcoll_l", "strcpy",
    "strcspn", "strdup", "strerror_l", "strfry", "strlcat", "strlcpy", "strlen", "strncasecmp",
    "strncasecmp_l", "strncat", "strncmp", "strncpy", "strndup", "strnlen", "strpbrk", "strrchr", "strsep",
    "strspn", "strstr", "strtod", "strtof", "strtoimax", "strtok", "strtok_r", "strtol", "strtold", "strtoll",
    "strtoq", "strtoul", "strtoull", "strtoumax", "strtouq", "strverscmp", "strxfrm", "strxfrm_l", "swab",
    "symlink", "symlinkat", "sysconf", "tan", "tanf", "tanh", "tanhf", "tgamma", "tgammaf", "time", "timegm",
    "timerfd_create", "timerfd_gettime", "timerfd_settime", "times", "toascii", "tolower", "toupper",
    "towlower", "towupper", "trunc", "truncate", "truncate64", "truncf", "ttyname_r", "umask", "uname",
    "unlink", "unlinkat", "unsetenv", "valloc", "wcpcpy", "wcpncpy", "wcrtomb", "wcscasecmp", "wcscat",
    "wcschr", "wcschrnul", "wcscmp", "wcscoll", "wcscpy", "wcscspn", "wcsdup", "wcslen", "wcsncasecmp",
    "wcsncat", "wcsncmp", "wcsncpy", "wcsnlen", "wcsnrtombs", "wcspbrk", "wcsrchr", "wcsrtombs", "wcsspn",
    "wcsstr", "wcstod", "wcstof", "wcstok", "wcstol", "wcstold", "wcstoll", "wcstombs", "wcstoul", "wcstoull",
    "wcswidth", "wcsxfrm", "wctob", "wctomb", "wcwidth", "wmemchr", "wmemcmp", "wmemcpy", "wmemmove",
    "wmempcpy", "wmemset", "y0", "y0f", "y1", "y1f", "yn", "ynf",
};
// clang-format on
static_assert(std::is_sorted(std::begin(kLeafNames), std::end(kLeafNames)));

}  // namespace

bool is_leaf_name(std::string_view name) {
  return std::binary_search(std::begin(kLeafNames), std::end(kLeafNames), name);
}

}  // namespace rtrace::session
