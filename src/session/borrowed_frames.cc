#include "rtrace/session/borrowed_frames.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "rtrace/arch/insn.h"
#include "rtrace/arch/stack_operand.h"
#include "rtrace/plan/clone_name.h"
#include "rtrace/unwind/frame_table.h"
#include "rtrace/unwind/return_frame.h"
#include "variant_name.h"

namespace rtrace::session {
namespace {

constexpr size_t kMostPieces = 64;  // of a function's code

constexpr const char* kReturnsTwice = "it returns more than once";
constexpr const char* kFork = "it returns in two processes";
constexpr const char* kCaller = "it goes by who calls it";
constexpr const char* kOwnAbi = "it has rules of its own for registers or the stack";
constexpr const char* kUnwinds = "it takes part in unwinding";
constexpr const char* kOutermost = "nothing is to be found above it";

// By name, without underscores in front and glibc's `libc_`; a `*` ends a prefix. With an underscore: as it
// is.
struct ByName {
  const char* name;
  const char* reason;
};
constexpr ByName kExcluded[] = {
    {"setjmp", kReturnsTwice},
    {"sigsetjmp", kReturnsTwice},
    {"getcontext", kReturnsTwice},
    {"swapcontext", kReturnsTwice},
    {"makecontext", kOwnAbi},
    {"savectx", kReturnsTwice},
    {"vfork", kReturnsTwice},
    {"syscall", kReturnsTwice},
    {"fork", kFork},
    {"Fork", kFork},
    {"forkpty", kFork},
    {"daemon", kFork},
    {"clone", kReturnsTwice},
    {"clone3", kReturnsTwice},
    {"clone_internal", kReturnsTwice},
    {"dlopen*", kCaller},
    {"dlmopen*", kCaller},
    {"dlsym*", kCaller},
    {"dlvsym*", kCaller},
    {"dlclose*", kCaller},
    {"dlinfo*", kCaller},
    {"dladdr*", kCaller},
    {"dl_*", kCaller},
    {"Unwind_*", kUnwinds},
    {"gcc_personality*", kUnwinds},
    {"gxx_personality*", kUnwinds},
    {"gnu_objc_personality*", kUnwinds},
    {"rust_eh_personality", kUnwinds},
    {"register_frame*", kUnwinds},
    {"deregister_frame*", kUnwinds},
    {"frame_state_for", kUnwinds},
    {"unw_*", kUnwinds},
    {"backtrace*", kUnwinds},
    {"tls_get_addr*", kOwnAbi},
    {"stack_chk_fail*", kOwnAbi},
    {"x86_*", kOwnAbi},
    {"x86.*", kOwnAbi},
    {"llvm_retpoline*", kOwnAbi},
    {"morestack*", kOwnAbi},
    {"splitstack_*", kOwnAbi},
    {"rust_probestack", kOwnAbi},
    {"probestack", kOwnAbi},
    {"chkstk*", kOwnAbi},
    {"objc_msgSend*", kOwnAbi},
    {"objc_msg_lookup*", kOwnAbi},
    {"restore_rt", kOwnAbi},
    {"mcount*", kCaller},
    {"fentry*", kCaller},
    {"cyg_profile_func_*", kCaller},
    {"asan_*", kCaller},
    {"hwasan_*", kCaller},
    {"lsan_*", kCaller},
    {"msan_*", kCaller},
    {"tsan_*", kCaller},
    {"ubsan_*", kCaller},
    {"sanitizer_*", kCaller},
    {"interceptor_*", kCaller},
    {"_start", kOutermost},
    {"__libc_start_main", kOutermost},
    {"__libc_start_call_main", kOutermost},
    {"start_thread", kOutermost},
};

std::string_view plain_name(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('_'), name.size()));
  if (name.starts_with("libc_")) name.remove_prefix(std::string_view("libc_").size());
  return name;
}

bool is_named(std::string_view pattern, std::string_view name) {
  if (!pattern.starts_with('_')) name = plain_name(name);
  if (!pattern.ends_with('*')) return name == pattern;
  pattern.remove_suffix(1);
  return name.starts_with(pattern);
}

// Where the caller's part of the stack begins, less the return address; counted from what the operand counts
// from. nullopt where nothing is known of that.
std::optional<int64_t> end_of_frame(const unwind::Row& row, const arch::StackOperand& operand) {
  using unwind::Registers;
  const size_t base = operand.base == arch::StackOperand::Base::rsp ? Registers::kSp : Registers::kBp;
  if (row.cfa.kind != unwind::Rule::Kind::in_register || row.cfa.reg != base) return std::nullopt;
  return row.cfa.offset - static_cast<int64_t>(sizeof(uint64_t));
}

// A pop reads where rsp points.
std::optional<arch::StackOperand> stack_read(std::span<const std::byte> insn) {
  constexpr std::byte kExtended{0x41};
  const auto code = std::to_integer<uint8_t>(insn.back());
  const bool short_form = insn.size() == 1 || (insn.size() == 2 && insn[0] == kExtended);
  if (short_form && code >= 0x58 && code <= 0x5f) return arch::StackOperand{};
  return arch::stack_operand(insn);
}

bool may_be_unloaded(const elf::LoadedObject& object) {
  return object.link_namespace != 0 ||
         !(object.main_program || object.name().starts_with("libc.") || object.name().starts_with("ld-"));
}

const ElfRange* described_code(const elf::ElfFile& file, ElfAddr address) {
  const auto& functions = file.frame_ranges();
  const auto after = std::ranges::upper_bound(functions, address, {}, &ElfRange::begin);
  return after == functions.begin() || !std::prev(after)->contains(address) ? nullptr : &*std::prev(after);
}

// What fills the room up to the next function. Compilers let a branch lead there that is never gone on with,
// for the call before it does not return.
bool is_behind_the_end(const elf::ElfFile& file, ElfAddr address) {
  const ElfRange* before = described_code(file, ElfAddr{address.value - 1});
  if (before == nullptr || before->end != address || described_code(file, address) != nullptr) return false;
  const auto insn = arch::decode(file.bytes_at(address, arch::kMaxInsn), VirtAddr{address.value});
  return insn && insn->kind == arch::Insn::Kind::nop;
}

bool goes_elsewhere(arch::Insn::Kind kind) {
  using enum arch::Insn::Kind;
  return kind == call || kind == call_indirect || kind == jump_indirect || kind == syscall;
}

bool takes_address(std::span<const std::byte> insn) {
  constexpr std::byte kLea{0x8d}, kRex{0x40}, kRexMask{0xf0};
  return insn[(insn[0] & kRexMask) == kRex ? 1 : 0] == kLea;
}

// The return address, or what is not of the arguments in memory. `end` is where the former lies.
bool looks_up(std::span<const std::byte> insn, const arch::StackOperand& read, int64_t end,
              const ArgumentArea& arguments) {
  if (read.displacement < end) return false;
  const int64_t first = end + static_cast<int64_t>(sizeof(uint64_t));
  const bool inside = read.displacement >= first && read.displacement < first + arguments.bytes;
  return !inside || (!arguments.addressed && takes_address(insn));
}

// The function of another object that a jump goes on in, through its stub or by its slot itself.
const elf::CallSlot* jumps_through(const elf::ElfFile& file, const arch::Insn& insn) {
  const bool by_slot = insn.kind == arch::Insn::Kind::jump_indirect && insn.rip_reference;
  const bool to_stub = insn.kind == arch::Insn::Kind::jump || insn.kind == arch::Insn::Kind::branch;
  const auto is_it = [&](const elf::CallSlot& slot) {
    return (by_slot && slot.slot.value == insn.rip_reference->value) ||
           (to_stub && slot.stub && slot.stub->value == insn.target->value);
  };
  if (!by_slot && !to_stub) return nullptr;
  const auto& slots = file.call_slots();
  const auto found = std::ranges::find_if(slots, is_it);
  return found != slots.end() ? &*found : nullptr;
}

// Adds where the piece of code leads to besides itself.
std::string why_piece_looks_up(unwind::FrameTable& table, ElfAddr piece, const ArgumentArea& arguments,
                               std::vector<ElfAddr>& pieces, FunctionCode& found) {
  const ElfRange* range = described_code(table.file(), piece);
  if (range == nullptr) return "no call frame information tells what its code reads of the stack";
  // From its beginning, wherever it is entered: jumps may lead back.
  auto code = table.file().bytes_at(range->begin, range->end - range->begin);
  for (ElfAddr at = range->begin; at < range->end;) {
    const auto insn = arch::decode(code, VirtAddr{at.value});
    if (!insn) return "its code cannot be read";
    const auto read =
        insn->kind == arch::Insn::Kind::nop ? std::nullopt : stack_read(code.first(insn->length));
    const unwind::Row* row = read ? table.find(at) : nullptr;
    const auto end = row != nullptr ? end_of_frame(*row, *read) : std::nullopt;
    if (end && looks_up(code.first(insn->length), *read, *end, arguments))
      return "its code reads its caller's stack";
    found.goes_elsewhere |= goes_elsewhere(insn->kind);
    const bool goes_on = insn->target && insn->kind != arch::Insn::Kind::call;
    const ElfAddr target{goes_on ? insn->target->value : piece.value};
    const bool leaves = !range->contains(target) || insn->kind == arch::Insn::Kind::jump_indirect;
    const elf::CallSlot* other = leaves ? jumps_through(table.file(), *insn) : nullptr;
    if (std::string why = other != nullptr ? why_returns_itself(other->name) : std::string(); !why.empty())
      return fmt::format("it goes on in {}: {}", other->name, why);
    found.goes_elsewhere |= other != nullptr;
    if (other == nullptr && !range->contains(target) && std::ranges::find(pieces, target) == pieces.end() &&
        !is_behind_the_end(table.file(), target))
      pieces.push_back(target);
    at = at + insn->length;
    code = code.subspan(insn->length);
  }
  return {};
}

// Whether an instruction begins there that no call is in front of: a breakpoint may come to stand where one
// returns to.
bool is_no_return_site(const elf::ElfFile& file, ElfAddr address) {
  const ElfRange* range = described_code(file, address);
  if (range == nullptr) return false;
  auto code = file.bytes_at(range->begin, range->end - range->begin);
  auto before = arch::Insn::Kind::call;
  for (ElfAddr at = range->begin; at < address;) {
    const auto insn = arch::decode(code, VirtAddr{at.value});
    if (!insn) return false;
    before = insn->kind;
    at = at + insn->length;
    if (at == address) break;
    if (at > address) return false;
    code = code.subspan(insn->length);
  }
  return before != arch::Insn::Kind::call && before != arch::Insn::Kind::call_indirect;
}

// Where what follows on it may fill room; nullopt where nothing may. Behind a call that does not return, in
// front of code with another frame, its return address stays free: a breakpoint may come to stand there.
std::optional<ElfAddr> room_behind(const arch::Insn& insn, ElfAddr end) {
  using enum arch::Insn::Kind;
  switch (insn.kind) {
    case jump:
    case jump_indirect:
    case ret:
    case undefined:
      return end;
    case call:
    case call_indirect:
      return end + 1;
    default:
      return std::nullopt;
  }
}

// Whether nothing comes to the bytes in front of a `ret` of find_padded_returns(): they fill room, and no
// jump of the function's leads there.
bool is_dead_padding(const elf::ElfFile& file, ElfAddr ret, size_t room) {
  const ElfRange* range = described_code(file, ret);
  if (range == nullptr) return false;
  auto code = file.bytes_at(range->begin, range->end - range->begin);
  std::optional<ElfAddr> dead, padding;  // since where
  std::vector<ElfAddr> targets;
  for (ElfAddr at = range->begin; at < range->end;) {
    const auto insn = arch::decode(code, VirtAddr{at.value});
    if (!insn) return false;
    if (at == ret && insn->kind == arch::Insn::Kind::ret) padding = dead;
    if (insn->target) targets.push_back(ElfAddr{insn->target->value});
    if (insn->kind != arch::Insn::Kind::nop) dead = room_behind(*insn, at + insn->length);
    at = at + insn->length;
    code = code.subspan(insn->length);
  }
  return padding && ret - *padding >= room &&
         std::ranges::none_of(targets, [&](ElfAddr target) { return target >= *padding && target < ret; });
}

std::optional<mech::BorrowedFrame> lend_a_return(const elf::LoadedObject& object,
                                                 const std::function<bool(uint32_t)>& fits) {
  const auto found = unwind::find_return_frame(object.file, fits);
  if (!found) return std::nullopt;
  return mech::BorrowedFrame{object.at(found->ret), found->adds};
}

std::vector<const elf::LoadedObject*> lenders_of(const plan::Objects& objects) {
  std::vector<const elf::LoadedObject*> lenders;
  for (const elf::LoadedObject& object : objects)
    if (!may_be_unloaded(object)) lenders.push_back(&object);
  std::ranges::stable_sort(lenders, {},
                           [](const auto* object) { return !object->name().starts_with("libc."); });
  return lenders;
}

std::optional<mech::BorrowedFrame> lend_a_call(const elf::LoadedObject& object) {
  for (const unwind::CallingFrame& frame : unwind::find_calling_frames(object.file))
    if (is_no_return_site(*object.file, frame.ret))
      return mech::BorrowedFrame{object.at(frame.ret), 0, frame.reg};
  return std::nullopt;
}

}  // namespace

std::string why_returns_itself(std::string_view name) {
  if (const auto clone = plan::clone_of(name)) name = clone->plain;
  const auto* row =
      std::ranges::find_if(kExcluded, [&](const ByName& by) { return is_named(by.name, name); });
  if (row != std::end(kExcluded)) return row->reason;
  // Go, whose stacks move, knows every return address on them.
  const bool mangled = name.starts_with("_Z") || name.starts_with("_R");
  if (!mangled && name.find('.') != std::string_view::npos) return "its name is none of C or C++";
  return {};
}

bool is_variadic_by_form(std::string_view name, std::string_view object) {
  if (object.starts_with("libcurl")) return name.ends_with("_setopt") || name == "curl_easy_getinfo";
  // clang-format off
  constexpr std::string_view kNames[] = {
      "fcntl", "fcntl64", "fcntl64_nocancel", "ioctl", "mq_open", "mremap", "open", "open64", "open64_nocancel",
      "open_nocancel", "openat", "openat64", "openat64_nocancel", "openat_nocancel", "prctl", "ptrace", "sem_open",
      "semctl", "ulimit",
      // What goes on in one of those.
      "getpt", "mq_open_2", "open64_2", "open_2", "openat64_2", "openat_2", "posix_openpt", "tcflow", "tcflush",
      "tcsendbreak",
  };
  // clang-format on
  return is_c_library(object) && std::ranges::find(kNames, plain_name(name)) != std::end(kNames);
}

// A function's own code may go on elsewhere: in a part that is seldom run, or in a function that it jumps to,
// which finds the same return address. Of what is reached through a slot the name tells.
FunctionCode look_at_code(unwind::FrameTable& table, ElfAddr function, ArgumentArea arguments) {
  std::vector<ElfAddr> pieces = {function};
  FunctionCode found;
  found.goes_elsewhere = false;
  for (size_t next = 0; next < pieces.size() && found.why_looks_up.empty(); ++next)
    found.why_looks_up = next == kMostPieces
                             ? "its code goes on in too many places"
                             : why_piece_looks_up(table, pieces[next], arguments, pieces, found);
  found.goes_elsewhere |= !found.why_looks_up.empty();
  return found;
}

std::optional<mech::BorrowedFrame> find_lender(const plan::Objects& objects,
                                               const agent::FunctionPlan& plan) {
  const auto fits = [&](uint32_t adds) { return mech::fits_borrowed(adds, plan); };
  for (const elf::LoadedObject* lender : lenders_of(objects))
    if (const auto found = plan.passed.any() ? lend_a_call(*lender) : lend_a_return(*lender, fits))
      return found;
  return std::nullopt;
}

std::optional<mech::BorrowedFrame> foretold(const plan::Objects& objects, const mech::BorrowedFrame& first,
                                            const agent::FunctionPlan& plan) {
  const auto fits = [&](uint32_t adds) { return mech::fits_foretold(first.first, adds, plan); };
  for (const elf::LoadedObject* lender : lenders_of(objects)) {
    const auto second = lend_a_return(*lender, fits);
    if (!second) continue;
    mech::BorrowedFrame both = first;
    both.second = second->ret;
    both.adds = first.first + uint32_t{sizeof(uint64_t)} + second->adds;
    return both;
  }
  return std::nullopt;
}

std::optional<mech::BorrowedFrame> find_foretelling(const plan::Objects& objects) {
  constexpr size_t kRoom = mech::kForetellingCall.size();
  for (const elf::LoadedObject* lender : lenders_of(objects))
    for (const unwind::ReturnFrame& found : unwind::find_padded_returns(lender->file, kRoom)) {
      if (!is_dead_padding(*lender->file, found.ret, kRoom)) continue;
      mech::BorrowedFrame frame{lender->at(found.ret), 0, 0, found.adds};
      std::ranges::copy(lender->file->bytes_at(found.ret - kRoom, kRoom), frame.padding.begin());
      return frame;
    }
  return std::nullopt;
}

}  // namespace rtrace::session
