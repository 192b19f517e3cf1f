#include "rtrace/mech/repair.h"

#include <sys/syscall.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "announced.h"
#include "borrowed_gadget.h"
#include "halted.h"
#include "left_wrappers.h"
#include "repair_once.h"
#include "rtrace/arch/insn.h"
#include "rtrace/arch/placement.h"
#include "rtrace/base/error.h"
#include "rtrace/base/moment.h"
#include "rtrace/mech/bridge.h"
#include "rtrace/mech/handler_masks.h"
#include "rtrace/mech/semaphores.h"
#include "rtrace/mech/trampolines.h"
#include "rtrace/tracee/interrupted_syscall.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::mech {
namespace {

constexpr int kMostSteps = 4096;

// What one more step would do.
enum class Step : uint8_t { ordinary, sigreturn, never };

class Repair {
 public:
  Repair(pid_t pid, const std::vector<ForeignBytes>& known, bool files, Visit visit)
      : pid_(pid),
        visit_(visit),
        memory_(pid),
        maps_(tracee::read_maps(pid)),
        remains_(find_remains(memory_, maps_)) {
    add_known(known);
    drop_int3s_of_files(pid, memory_, maps_, remains_);
    if (files) add_outside_jumps(remains_.bytes, compare_with_files(pid, memory_, maps_), memory_);
    add_announced(memory_, maps_, remains_);
    order_jumps(remains_.bytes);
    for (const auto& bytes : remains_.bytes)
      if (is_int3(bytes)) sites_.insert(bytes.address);
  }
  Repaired run();
  // All that was found to be foreign, put back or not.
  const std::vector<ForeignBytes>& bytes() const { return remains_.bytes; }
  // Children with memory of their own that were made while it stood: our tracees, at their first stop.
  const std::vector<pid_t>& children() const { return children_; }

 private:
  void add_known(const std::vector<ForeignBytes>& known);
  void run_threads();
  size_t standing() const {
    return static_cast<size_t>(
        std::ranges::count_if(remains_.bytes, [this](const ForeignBytes& bytes) { return stands(bytes); }));
  }
  bool in_borrowed(VirtAddr pc) const;
  bool in_blob(VirtAddr pc) const;
  bool has_own_handler() const;
  bool foreign(VirtAddr pc) const;
  bool walk_out(HaltedProcess& halted, pid_t tid);
  bool walk_all_out(HaltedProcess& halted);
  void note_waiter(pid_t tid, bool in_copy);
  Step next_step(const arch::Regs& regs) const;
  void give_masks_back() const;
  void note_masks_found() const;
  static void note_mask(const tracee::ProcessMemory& memory, VirtAddr blob, pid_t own_tid, uint64_t own_mask);
  enum class Stand : uint8_t { running, stopped, outside, for_good };
  size_t put_back(Stand threads);
  Stand needed_for(const ForeignBytes& bytes) const;
  bool is_come_to(const ForeignBytes& bytes) const;
  Stand stand_of(const HaltedProcess& halted, bool out) const;
  bool stands(const ForeignBytes& bytes) const;
  void lower_semaphores();
  void take_out(HaltedProcess& halted);
  bool lower_bridges(pid_t fit, uint64_t closable);
  bool stack_leads_to_us(pid_t tid) const;
  void unmap(pid_t fit);

  pid_t pid_;
  Visit visit_;
  tracee::ProcessMemory memory_;
  std::vector<tracee::MapsEntry> maps_;
  Remains remains_;
  std::unordered_set<VirtAddr> sites_;
  bool call_is_retired_ = false;  // the one that foretells
  std::vector<pid_t> children_;
  Repaired repaired_;
};

// What its own memory tells goes first.
void Repair::add_known(const std::vector<ForeignBytes>& known) {
  std::unordered_set<VirtAddr> found;
  for (const auto& bytes : remains_.bytes) found.insert(bytes.address);
  for (const auto& bytes : known)
    if (!found.contains(bytes.address)) remains_.bytes.push_back(bytes);
}

// In a gadget on loan.
bool Repair::in_borrowed(VirtAddr pc) const {
  return std::any_of(remains_.bytes.begin(), remains_.bytes.end(), [&](const auto& bytes) {
    return bytes.written.size() > 1 && !is_jump(bytes) && !bytes.slot &&
           Range{bytes.address, bytes.address + bytes.written.size()}.contains(pc);
  });
}

// In the handler or in the gadget.
bool Repair::in_blob(VirtAddr pc) const {
  return std::any_of(remains_.blobs.begin(), remains_.blobs.end(), [&](const auto& blob) {
    return Range{blob.address, blob.address + agent::kBlobRoom}.contains(pc);
  });
}

bool Repair::has_own_handler() const {
  return std::ranges::any_of(remains_.blobs, &Remains::Blob::has_own_handler);
}

bool Repair::foreign(VirtAddr pc) const {
  return in_borrowed(pc) || std::any_of(remains_.pages.begin(), remains_.pages.end(),
                                        [&](const auto& page) { return page.range.contains(pc); });
}

// A system call that was displaced may take for ever, also one that our interrupt has ended and the kernel
// will begin anew; those of the blob do not.
Step Repair::next_step(const arch::Regs& regs) const {
  const bool ours = in_blob(regs.pc()) || in_borrowed(regs.pc());
  arch::Regs anew = regs;
  if (!ours && tracee::rewind_interrupted_syscall(anew, tracee::Restart::anew)) return Step::never;
  std::byte code[arch::kMaxInsn];
  const size_t got = memory_.read(regs.pc(), code);
  const auto insn = arch::decode({code, got}, regs.pc());
  if (!insn) return Step::never;
  if (insn->kind != arch::Insn::Kind::syscall) return Step::ordinary;
  if (regs.raw.rax == SYS_rt_sigreturn) return Step::sigreturn;
  return ours ? Step::ordinary : Step::never;
}

// Steps a thread that stands in a copy, in the handler or in a remote call until it is back in its own code.
// Its signals wait meanwhile, but for what rt_sigreturn lets through. False where it stays.
bool Repair::walk_out(HaltedProcess& halted, pid_t tid) {
  // A step's SIGTRAP would cost a program that ignores it its SIG_IGN (kernel/signal.c,
  // force_sig_info_to_task).
  const auto status = tracee::read_status(tid);
  const bool ignored = status && (status->ignored & tracee::signal_bit(SIGTRAP)) != 0;
  std::optional<uint64_t> own_mask;  // while it is not in force
  bool out = false, stepped = false;
  for (int steps = 0; steps < kMostSteps; ++steps) {
    const auto regs = tracee::registers(tid);
    const auto mask = tracee::signal_mask(tid);
    out = !regs || !mask || !foreign(regs->pc());
    const Step next = out || ignored ? Step::never : next_step(*regs);
    if (next == Step::never) break;
    if (next == Step::sigreturn) {
      own_mask.reset();
    } else if (!own_mask) {
      own_mask = *mask;
      // Handler and gadget, unlike the recorder, block SIGTRAP, but in front of the program's own handler,
      // and end in an rt_sigreturn, which brings the mask; and the handler may be about to read the note.
      if (!in_blob(regs->pc()) || (!has_own_handler() && (*mask & tracee::signal_bit(SIGTRAP)) == 0))
        for (const auto& blob : remains_.blobs) note_mask(memory_, blob.address, tracee::own_tid(tid), *mask);
      (void)tracee::set_signal_mask(tid, ~agent::kFaults);
    }
    const auto event = HaltedProcess::step(tid);
    if (event ? event->status.is_end() : tracee::read_tasks(pid_).empty()) return true;
    if (!event) break;
    const auto stop = tracee::classify(event->status);
    stepped = !std::holds_alternative<tracee::SignalDelivery>(stop);
    if (stepped && !std::holds_alternative<tracee::GroupStop>(stop)) continue;  // our interrupt, still due
    if (!stepped) halted.owe(tid, std::get<tracee::SignalDelivery>(stop).signal);
    const auto now = tracee::registers(tid);
    out = now && !foreign(now->pc());
    break;
  }
  if (stepped) (void)tracee::end_stepping(tid);  // while the handler still takes what it would raise
  if (own_mask) (void)tracee::set_signal_mask(tid, *own_mask);
  note_masks_found();
  return out;
}

// For the handler, and for whoever comes after us if we die too.
void Repair::note_mask(const tracee::ProcessMemory& memory, VirtAddr blob, pid_t own_tid, uint64_t own_mask) {
  const int64_t thread = own_tid;
  (void)memory.write(blob + offsetof(agent::Blob, own_mask), std::as_bytes(std::span(&own_mask, 1)));
  (void)memory.write(blob + offsetof(agent::Blob, masked_thread), std::as_bytes(std::span(&thread, 1)));
}

void Repair::note_masks_found() const {
  for (const auto& blob : remains_.blobs)
    note_mask(memory_, blob.address, static_cast<pid_t>(blob.head.masked_thread), blob.head.own_mask);
}

// A thread whose signals a tracer held back when it died. One that is still in the handler gets its mask from
// the note.
void Repair::give_masks_back() const {
  for (const auto& blob : remains_.blobs) {
    const pid_t tid = tracee::find_own_tid(pid_, static_cast<pid_t>(blob.head.masked_thread));
    const auto mask = tid != 0 ? tracee::signal_mask(tid) : std::nullopt;
    if (!mask) continue;
    if (agent::holds_back(*mask)) (void)tracee::set_signal_mask(tid, blob.head.own_mask);
    tracee::set_trap_flag(tid, false);
    const auto regs = tracee::registers(tid);
    if (regs && !foreign(regs->pc())) note_mask(memory_, blob.address, 0, 0);
  }
}

// An int3 goes at any time, but one where the handler stands in for a call: nobody may pass its place and
// then meet another int3. A jump is more than one byte, so its threads must stand; code on loan may be in use
// until they are out of it, a hop until no handler of the program's returns to it.
size_t Repair::put_back(Stand threads) {
  size_t places = 0;
  for (const auto& bytes : remains_.bytes) {
    if (threads < needed_for(bytes) || is_come_to(bytes)) continue;
    places += stands(bytes) && memory_.write(bytes.address, bytes.original) == 0;
  }
  return places;
}

Repair::Stand Repair::needed_for(const ForeignBytes& bytes) const {
  if (bytes.hop) return Stand::for_good;
  if (is_jump(bytes) || bytes.slot || bytes.foretells) return Stand::stopped;
  if (bytes.by_file || (bytes.stands_in && visit_ == Visit::ordinary))
    return is_int3(bytes) ? Stand::stopped : Stand::outside;
  return is_int3(bytes) ? Stand::running : Stand::outside;
}

bool Repair::is_come_to(const ForeignBytes& bytes) const {
  return (bytes.foretells && !call_is_retired_) || (bytes.hop && is_led_to(bytes.address, memory_, remains_));
}

bool Repair::stands(const ForeignBytes& bytes) const {
  return reads(memory_, bytes.address, bytes.written);
}

// Each once: the table forgets it first.
void Repair::lower_semaphores() {
  const uint64_t nothing = 0;
  for (const auto& raised : remains_.semaphores)
    if (memory_.write(raised.entry, std::as_bytes(std::span(&nothing, 1))) == 0)
      (void)lower_semaphore(memory_, raised.semaphore);
}

bool Repair::stack_leads_to_us(pid_t tid) const {
  const auto thread = look_at(tid, memory_, maps_, Below::red_zone);
  return thread && handler_returns_to(*thread, [this](VirtAddr pc) { return foreign(pc); });
}

void Repair::unmap(pid_t fit) {
  const BorrowedGadget borrowed(memory_, nullptr, find_slack(memory_, maps_));
  if (!borrowed.failure().empty()) {
    repaired_.left = borrowed.failure();
    return;
  }
  tracee::RemoteCall remote(fit, memory_, borrowed.address());
  // The blob last: what else is there is found by it.
  std::ranges::sort(remains_.pages, std::ranges::greater{}, &Remains::Page::kind);
  for (const auto& page : remains_.pages) {
    const bool gone = remote.call(SYS_munmap, {page.range.begin.value, page.range.size()}) == 0;
    repaired_.pages += gone;
    if (!gone) repaired_.left = "the thread could not make the system call";
  }
}

// In a system call, for as long as that takes: one of the program's, or from a copy of ours.
void Repair::note_waiter(pid_t tid, bool in_copy) {
  const auto regs = tracee::registers(tid);
  if (regs && static_cast<int64_t>(regs->raw.orig_rax) >= 0 && foreign(regs->pc()) == in_copy)
    repaired_.waiter = {tid, regs->sp()};
}

Repair::Stand Repair::stand_of(const HaltedProcess& halted, bool out) const {
  if (!out) return halted.all_stopped() ? Stand::stopped : Stand::running;
  const bool led_back = std::ranges::any_of(halted.stopped(), [&](pid_t tid) {
    const auto thread = look_at(tid, memory_, maps_, Below::nothing);
    return !thread || leads_to_hop(*thread, remains_);
  });
  return led_back ? Stand::outside : Stand::for_good;
}

bool Repair::lower_bridges(pid_t fit, uint64_t closable) {
  for (const auto& blob : remains_.blobs) {
    const BridgeSite site = bridge_site(fit, memory_, blob.address, blob.head);
    const Lowered lowered = lower_bridge(site);
    if (lowered == Lowered::failed) return false;
    repaired_.handler |= lowered == Lowered::yes;
    close_handler_masks(site, blob.head.open_handlers & closable);
    if ((blob.head.open_handlers & ~closable) != 0) return repaired_.left = kHandlersOpen, false;
  }
  return true;
}

// Handler and pages, once no thread can need them.
void Repair::take_out(HaltedProcess& halted) {
  if (remains_.pages.empty()) return;
  const auto fit = halted.fit();
  repaired_.left = "no thread of it can make system calls for us (seccomp, or all are at a signal)";
  if (!fit || !lower_bridges(*fit, halted.all_stopped() ? ~uint64_t{0} : agent::kTrapBit)) return;
  close_memory_files(memory_, maps_, *fit);
  if (std::ranges::none_of(remains_.bytes,
                           [&](const auto& bytes) { return is_int3(bytes) && stands(bytes); }))
    forget_sites(memory_, remains_);
  const auto stopped = halted.stopped();
  repaired_.left = "a thread is still inside them";
  if (std::any_of(stopped.begin(), stopped.end(), [&](pid_t tid) { return stack_leads_to_us(tid); })) return;
  repaired_.left = "its code leads to them";
  if (jumps_stand(memory_, remains_)) return;
  repaired_.inert = true;
  const bool open = has_open_calls(memory_, remains_);
  repaired_.left = "a thread is still inside a wrapped call";
  for (pid_t tid : stopped)
    if (const auto thread = look_at(tid, memory_, maps_, Below::nothing);
        thread && leads_to_wrapper(*thread, remains_)) {
      note_waiter(tid, false);
      repaired_.passing = !repaired_.waiter;
      return;
    }
  repaired_.left.clear();
  // A call that is not counted shows on its thread's stack.
  if (!open) return unmap(*fit);
  repaired_.kept = "a wrapped call has not returned";
  free_records(memory_, maps_, *fit, remains_);
  forget_pages(memory_, remains_);
}

// Whether all of its threads are outside what is ours, and nothing is to come that would lead them back.
bool Repair::walk_all_out(HaltedProcess& halted) {
  bool out = true;
  give_masks_back();
  for (pid_t tid : halted.stopped()) out &= walk_out(halted, tid);
  give_masks_back();
  out &= halted.all_stopped();
  // A SIGTRAP that is blocked now, in the handler, comes later: it must find the handler.
  for (pid_t tid : halted.stopped()) {
    const auto task = tracee::read_status(tid);
    out &= task && ((task->pending | task->shared_pending) & tracee::signal_bit(SIGTRAP)) == 0;
  }
  return out;
}

void Repair::run_threads() {
  HaltedProcess halted(memory_, sites_, remains_);
  const bool out = walk_all_out(halted);
  // One that was in the middle of it may have mapped what nobody lived to mark.
  maps_ = tracee::read_maps(pid_);
  add_announced(memory_, maps_, remains_);
  add_memory_files(maps_, remains_);
  drop_int3s_of_files(pid_, memory_, maps_, remains_);
  if (halted.all_stopped()) call_is_retired_ = retire_call(memory_, maps_, halted.stopped(), remains_);
  repaired_.places += put_back(stand_of(halted, out));
  if (out) {
    take_out(halted);
  } else {
    repaired_.left = "a thread is still inside them, or could not be stopped";
    for (pid_t tid : halted.stopped()) note_waiter(tid, true);
    repaired_.passing = halted.all_stopped() && !repaired_.waiter;
  }
  children_ = halted.children();
}

Repaired Repair::run() {
  if (remains_.empty()) return {};
  // A child that runs in its parent's memory is the parent's to put right: what would be unmapped is not its.
  const auto status = tracee::read_status(pid_);
  if (status && tracee::share_memory(pid_, status->parent)) return {};
  if (status && status->tracer != 0 && status->tracer != getpid())
    throw Error::make("process {}: process {} traces it", pid_, status->tracer);
  // Int3s at once: a thread that has met one finds its way by the handler, or is taken back by us.
  repaired_.places = put_back(Stand::running);
  lower_semaphores();
  if (lends_memory(pid_)) {
    repaired_.left = "a child of it runs in its memory";
    repaired_.passing = true;  // as a rule: until it has begun another program
  } else {
    run_threads();
  }
  if (!repaired_.left.empty()) repaired_.standing = standing();
  return repaired_;
}

}  // namespace

RepairOnce repair_once(pid_t pid, const std::vector<ForeignBytes>& known, bool files, Visit visit) {
  Repair repair(pid, known, files, visit);
  Repaired repaired = repair.run();
  return {std::move(repaired), repair.bytes(), repair.children()};
}

}  // namespace rtrace::mech
