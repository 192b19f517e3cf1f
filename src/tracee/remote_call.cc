#include "rtrace/tracee/remote_call.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include <csignal>
#include <cstring>

#include "rtrace/base/log.h"
#include "rtrace/base/moment.h"
#include "rtrace/tracee/interrupted_syscall.h"
#include "rtrace/tracee/proc_fs.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::tracee {
namespace {

// Kernel struct sigcontext (arch/x86/include/uapi/asm/sigcontext.h), 64-bit.
struct SigContext {
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip, flags;
  uint16_t cs, gs, fs, ss;
  uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
};
struct UContext {
  uint64_t flags, link;
  uint64_t stack_pointer;
  int32_t stack_flags, padding;
  uint64_t stack_size;
  SigContext context;
  uint64_t mask;
};
struct SignalFrame {
  uint64_t return_address;  // popped by the handler's `ret` before rt_sigreturn; here it only takes the place
  UContext ucontext;
};
static_assert(sizeof(SigContext) == 256);

constexpr uint64_t kXstate = 1, kSigContextSs = 2, kStrictRestoreSs = 4;  // uc_flags
constexpr uint32_t kMagic1 = 0x46505853, kMagic2 = 0x46505845;            // FP_XSTATE_MAGIC1, 2
constexpr size_t kSoftwareBytes = 464, kXsaveHeader = 512, kXsaveMinimum = 576;
constexpr uint64_t kTileConfig = 1 << 17, kTileData = 1 << 18;  // AMX: only of processes that asked for it
constexpr uint64_t kRemoteReturn = 2;                           // in the gadget: behind its first `syscall`
constexpr unsigned kLongestCall = 10'000;                       // ms
constexpr size_t kBelowStack = 512;                             // the red zone, and room
// ss_flags that no mode matches: restore_altstack() then leaves the alternate stack alone, and ptrace has no
// way to ask what it is.
constexpr int32_t kKeepAlternateStack = 3;

struct SoftwareBytes {
  uint32_t magic1, extended_size;
  uint64_t features;
  uint32_t state_size, padding[7];
};

template <typename T>
T load(std::span<const std::byte> bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

size_t ask_xsave_size(uint64_t features) {
  size_t size = kXsaveMinimum;
  for (unsigned bit = 2; bit < 63; ++bit) {
    if ((features >> bit & 1) == 0) continue;
    unsigned length = 0, offset = 0, ecx = 0, edx = 0;
    __cpuid_count(0xd, bit, length, offset, ecx, edx);
    size = std::max(size, size_t{offset} + length);
  }
  return size;
}

// The end of the standard-format area that holds these features (Intel SDM vol. 1, 13.4.3). It is the
// processor's and all but always the same question; on a virtual machine each cpuid leaves it.
size_t xsave_size(uint64_t features) {
  struct Asked {
    uint64_t features;
    size_t size;
  };
  static const Asked kFirst{features, ask_xsave_size(features)};
  return kFirst.features == features ? kFirst.size : ask_xsave_size(features);
}

SigContext context_of(const arch::Regs& regs) {
  const auto& r = regs.raw;
  SigContext c{};
  c.r8 = r.r8, c.r9 = r.r9, c.r10 = r.r10, c.r11 = r.r11, c.r12 = r.r12, c.r13 = r.r13, c.r14 = r.r14,
  c.r15 = r.r15;
  c.di = r.rdi, c.si = r.rsi, c.bp = r.rbp, c.bx = r.rbx, c.dx = r.rdx, c.ax = r.rax, c.cx = r.rcx;
  c.sp = r.rsp, c.ip = r.rip, c.flags = r.eflags;
  c.cs = static_cast<uint16_t>(r.cs), c.ss = static_cast<uint16_t>(r.ss);
  return c;
}

// Appends the state as the kernel's own signal delivery would have laid it down, with the software bytes that
// make it restore all of it.
void append_signal_xstate(std::span<const std::byte> xstate, std::vector<std::byte>& frame) {
  // In the regset the first software bytes hold XCR0 (kernel: arch/x86/kernel/fpu/regset.c).
  const auto all = load<uint64_t>(xstate, kSoftwareBytes);
  const uint64_t in_use = load<uint64_t>(xstate, kXsaveHeader);
  const uint64_t features = (in_use & kTileData) == 0 ? all & ~(kTileConfig | kTileData) : all;
  // The regset ends where the last of its features does.
  const size_t end = features == all ? xstate.size() : std::min(xsave_size(features), xstate.size());
  const size_t size = std::max(kXsaveMinimum, end);
  const size_t begin = frame.size();
  frame.resize(begin + size + sizeof kMagic2);
  const std::span area = std::span(frame).subspan(begin);
  std::memcpy(area.data(), xstate.data(), size);
  const SoftwareBytes software{
      kMagic1, static_cast<uint32_t>(size + sizeof kMagic2), features, static_cast<uint32_t>(size), {}};
  std::memcpy(area.data() + kSoftwareBytes, &software, sizeof software);
  std::memcpy(area.data() + size, &kMagic2, sizeof kMagic2);
}

// Signals during our calls. Not SIGSYS: blocked, it would be forced, and the program's action be lost with it
// (kernel/signal.c, force_sig_info_to_task).
constexpr uint64_t kHeldBack = ~(uint64_t{1} << (SIGSYS - 1));
constexpr size_t kStateOffset =
    (sizeof(SignalFrame) - 8 + 63) / 64 * 64 + 8;  // of the fpstate, a multiple of 64 from at = 64n - 8

}  // namespace

std::vector<std::byte> make_sigreturn_frame(VirtAddr at, const arch::Regs& regs, uint64_t signal_mask,
                                            std::span<const std::byte> xstate) {
  SignalFrame frame{};
  frame.ucontext.flags = kSigContextSs | kStrictRestoreSs;
  frame.ucontext.stack_flags = kKeepAlternateStack;
  frame.ucontext.context = context_of(regs);
  frame.ucontext.mask = signal_mask;
  std::vector<std::byte> bytes;
  bytes.reserve(kStateOffset + xstate.size() + sizeof kMagic2);
  bytes.resize(kStateOffset);
  if (xstate.size() >= kXsaveMinimum) {
    append_signal_xstate(xstate, bytes);
    frame.ucontext.flags |= kXstate;
    frame.ucontext.context.fpstate = at.value + kStateOffset;
  }
  std::memcpy(bytes.data(), &frame, sizeof frame);
  return bytes;
}

RemoteCall::RemoteCall(pid_t tid, const ProcessMemory& memory, VirtAddr gadget, Range frame_area)
    : tid_(tid), memory_(memory), gadget_(gadget), frame_area_(frame_area) {}

RemoteCall::~RemoteCall() {
  if (!prepared_ || gone_) return;
  // A task that died in the meantime needs nothing. The mask first: until the registers are its own again,
  // our death sends the thread through rt_sigreturn, which restores both.
  (void)set_signal_mask(tid_, saved_mask_);
  (void)set_registers(tid_, saved_);
  for (const auto& [address, bytes] : borrowed_) (void)memory_.write(address, bytes);
  if (suspended_) (void)suspend_seccomp(tid_, false);
  if (!failed_ && status_) remember_status(tid_, *std::move(status_));
  for (const int signal : came_) (void)syscall(SYS_tkill, tid_, signal);
}

// What lies below the stack pointer may be the program's all the same: a coroutine's stack can stand in the
// middle of its data.
bool RemoteCall::borrow(VirtAddr address, size_t size) {
  std::vector<std::byte> bytes(size);
  if (memory_.read(address, bytes) != size) return false;
  borrowed_.emplace_back(address, std::move(bytes));
  return true;
}

bool RemoteCall::prepare() {
  auto regs = registers(tid_);
  auto mask = signal_mask(tid_);
  auto state = extended_state(tid_);
  if (!regs || !mask || !state || regs->never_in_program()) return false;
  const Seccomp seccomp = seccomp_of_stopped(tid_);
  if (knows_status(tid_)) status_ = status_of_stopped(tid_);
  if (seccomp == Seccomp::forbids) return false;
  suspended_ = seccomp == Seccomp::suspended && suspend_seccomp(tid_, true);
  if (seccomp == Seccomp::suspended && !suspended_) return false;
  saved_ = *regs;
  saved_mask_ = *mask;
  const size_t size = kStateOffset + state->size() + sizeof kMagic2;
  stack_end_ = VirtAddr{regs->raw.rsp - kBelowStack};
  const bool own_area = frame_area_.size() >= size + 128;
  frame_ = VirtAddr{own_area ? (frame_area_.begin.value + 127) / 64 * 64 - 8
                             : ((stack_end_.value - size) & ~uint64_t{63}) - 8};
  // The kernel resolves no -ERESTART* on the way back from rt_sigreturn: there the call begins anew.
  arch::Regs resolved = saved_;
  (void)rewind_interrupted_syscall(resolved, restart_of(tid_, resolved));
  auto frame = make_sigreturn_frame(frame_, resolved, saved_mask_, *state);
  if (!own_area && !borrow(frame_, frame.size())) return false;
  if (!own_area) stack_end_ = frame_;
  if (memory_.write(frame_, frame) != 0) return false;
  prepared_ = true;
  awake_ = may_run_elsewhere();
  // First onto the way back: from then on our death, at whichever step, leads through rt_sigreturn. Then
  // nothing else may run on this thread: a handler would overwrite what lies below the frame.
  return set_registers(tid_, at_gadget(kRemoteReturn)) == Alive::yes &&
         set_signal_mask(tid_, kHeldBack) == Alive::yes;
}

// The saved registers, but about to run the gadget from that offset on.
arch::Regs RemoteCall::at_gadget(uint64_t offset) const {
  arch::Regs regs = saved_;
  regs.set_pc(gadget_ + offset);
  regs.set_sp(frame_ + 8);  // rt_sigreturn looks one word below rsp
  regs.raw.orig_rax = static_cast<uint64_t>(-1);
  return regs;
}

std::optional<WaitEvent> RemoteCall::next_stop() {
  if (awake_) {
    if (auto event = call_stop_awake(tid_)) return event;
    awake_ = false;
  }
  // The code there is ours, but its memory is the process's, which may have put a loop in its place.
  return call_stop_within(tid_, kLongestCall);
}

// Not sent by anybody: the call has been refused (a filter's SECCOMP_RET_TRAP, or one that is dispatched).
static bool is_of_our_call(pid_t tid) {
  const auto info = signal_info(tid);
  return !info || info->si_code > 0;
}

bool RemoteCall::run_to_syscall_stop() {
  // Stops for our own pending PTRACE_INTERRUPT, or for a SIGSTOP that cannot be blocked, may come first.
  for (int attempt = 0; attempt < 16; ++attempt) {
    if (resume_to_syscall(tid_) == Alive::gone) return false;
    const moment::Scope under_way(Moment::call_under_way);
    const auto event = next_stop();
    if (!event || event->status.is_end()) return false;
    const Stop stop = classify(event->status);
    // Another thread has begun another program under this tid: nothing of that may be touched.
    gone_ = std::holds_alternative<Exec>(stop);
    const auto* delivery = std::get_if<SignalDelivery>(&stop);
    const int signal = delivery != nullptr ? delivery->signal : 0;
    if (signal == SIGSYS && is_of_our_call(tid_)) return false;
    if (signal == SIGSTOP || signal == SIGSYS) came_.insert(signal);
    if (gone_ || std::holds_alternative<SyscallStop>(stop)) return !gone_;
  }
  return false;
}

std::optional<VirtAddr> RemoteCall::scratch(size_t size) {
  if (failed_ || (!prepared_ && !prepare())) return std::nullopt;
  const VirtAddr at{(stack_end_.value - size) & ~uint64_t{15}};
  if (!borrow(at, size)) return std::nullopt;
  stack_end_ = at;
  return at;
}

std::optional<int64_t> RemoteCall::call(long number, std::initializer_list<uint64_t> arguments) {
  const moment::Scope calling(Moment::remote_call);
  if (failed_ || (!prepared_ && !prepare())) return std::nullopt;
  arch::Regs regs = at_gadget(0);
  regs.raw.rax = static_cast<uint64_t>(number);
  unsigned long long* const slots[] = {&regs.raw.rdi, &regs.raw.rsi, &regs.raw.rdx,
                                       &regs.raw.r10, &regs.raw.r8,  &regs.raw.r9};
  size_t index = 0;
  for (uint64_t argument : arguments) *slots[index++] = argument;
  failed_ = set_registers(tid_, regs) == Alive::gone;
  const moment::Scope begun(Moment::call_begun);
  failed_ = failed_ || !run_to_syscall_stop() || !run_to_syscall_stop();
  if (failed_) return std::nullopt;
  auto after = registers(tid_);
  if (!after) return std::nullopt;
  RTRACE_LOG(tracee, 1, "remote call {} in {}: {:#x}", number, tid_, after->raw.rax);
  return static_cast<int64_t>(after->raw.rax);
}

}  // namespace rtrace::tracee
