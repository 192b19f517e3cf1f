/* tiny: a static program without a C library, for 32 and for 64 bits, that ends with status 7. Without a word
   it does so at once; with one it first waits for a line on standard input. */
static long call(long number, long a, long b, long c) {
  long result;
#ifdef __i386__
  __asm__ volatile("int $0x80" : "=a"(result) : "0"(number), "b"(a), "c"(b), "d"(c) : "memory");
#else
  __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
#endif
  return result;
}

#ifdef __i386__
enum { kRead = 3, kWrite = 4, kExit = 1 };
#else
enum { kRead = 0, kWrite = 1, kExit = 60 };
#endif

__attribute__((noinline, used)) long tiny_work(long value) {
  __asm__ volatile("" : "+r"(value));
  return value + 2;
}

__attribute__((used)) void begin(long* stack) {
  char byte = 0;
  if (stack[0] > 1) {
    call(kWrite, 1, (long)"pid\n", 4);
    call(kRead, 0, (long)&byte, 1);
  }
  call(kExit, tiny_work(5), 0, 0);
}

#ifdef __i386__
__asm__(
    ".globl _start\n_start: mov %esp, %eax\n and $-16, %esp\n sub $12, %esp\n push %eax\n call begin\n "
    "hlt\n");
#else
__asm__(".globl _start\n_start: mov %rsp, %rdi\n and $-16, %rsp\n call begin\n hlt\n");
#endif
