// The code that a traced function's entry jumps to: bytes made of a plan and addresses. Pure.
//
// A wrapper makes a normal frame, records, calls the function (its displaced first instructions, then the
// rest of it), records again and returns. All its state lies on the stack of whoever calls. Every register
// that can carry an argument reaches the function as it was, al included; vector registers are not touched,
// for the recorder has no instruction that would. Stack pointer and alignment differ by a multiple of 16;
// what a function might read above its return address is copied where its plan says so.
//
// **A borrowed frame.** Nothing in the process describes a wrapper's own frame to an unwinder: an exception,
// a cancelled thread or a backtrace ends there. Where that matters the wrapper jumps to the function, which
// then returns to a piece of code of the program's own, `add $n, %rsp; ret`, as if that had called it:
//
//   R        the caller's return address
//            n - 8 bytes: what the wrapper keeps
//   S + 8    where the wrapper goes on: what the `ret` takes
//   S        the address of the `ret`: the function's return address. S = R - n - 8
//
// Unwinders look up a frame by the instruction before its return address, the `add`. What describes the
// code there says: n + 8 bytes from here lies the caller's frame, and all registers are the caller's. So they
// are, rbp included. The `add` never runs. No shadow stack would let the function return there.
//
// **A return that is foretold.** The processor takes a `ret` to lead behind the call that was made last, and
// loses time where it does not. No call lies in front of that `ret`; but there are some behind padding that
// nothing runs, which unwinders find described like the code before it. There a call of ours comes to stand,
// `call *-8(%rsp)`, through which the wrapper goes on to the function. Such frames are small, so that a
// second one is borrowed behind it, of which no code runs:
//
//   R        the caller's return address
//            m bytes: what the wrapper keeps
//   S + 8 + n  the address of an `add $m, %rsp`'s `ret`: where the frame at S seems to have been called from
//            n - 8 bytes: nothing
//   S + 8    where the wrapper goes on: what the `ret` takes
//   S        the address of the `ret` behind our call: the function's return address. S = R - n - m - 16
//
// A function with arguments in memory looks for them at S + 8. It returns to a `call *%rbx`, or through r12
// to r15, of a function whose frame rbp leads to, and which has pushed the other five behind it. Where that
// call goes is what the wrapper has in the register then:
//
//   R        the caller's return address
//   R - 8    its rbp, to which rbp points; below it r15 r14 r13 r12 rbx, as it has them
//            what the wrapper keeps
//   S + 8    the arguments
//   S        the address of the `call`: the function's return address
//
// Unwinders look at the instruction in front of it. There the caller's frame is found by rbp, however far it
// lies, and all registers in it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "rtrace/agent/recorder.h"
#include "rtrace/base/address.h"

namespace rtrace::mech {

// Where the frame is to be found while a thread stands at an offset or behind it, up to the next: for
// unwinding. CFA: the stack pointer before the call was made, as in DWARF.
struct StubFrame {
  enum class Base : uint8_t { rsp, rbp };
  uint16_t offset = 0;
  Base base = Base::rsp;
  // To add to it. The return address lies at CFA - 8; with base rbp, or where this is 16, rbp at CFA - 16.
  uint16_t cfa = 8;
  bool operator==(const StubFrame&) const = default;
};

struct WrapperStub {
  std::vector<std::byte> code;
  std::vector<StubFrame> frames;
  // Offset behind the call of the function: the return address that it finds, or, with a borrowed frame, the
  // word above that or what a register leads to. 0: the wrapper is not returned to.
  uint16_t returns_to = 0;
  bool operator==(const WrapperStub&) const = default;
};

// No stub is longer; positions in a chunk are multiples of CodeArena::kAlignment.
inline constexpr size_t kMaxWrapperStub = 480;
inline constexpr size_t kMaxCalledStub = 576;  // of one that is called by the code that it has borrowed

// call *-8(%rsp)
inline constexpr std::array kForetellingCall = {std::byte{0xff}, std::byte{0x54}, std::byte{0x24},
                                                std::byte{0xf8}};

struct BorrowedFrame {
  VirtAddr ret;       // what follows on an `add $adds, %rsp`, or a call
  uint32_t adds = 0;  // fits_borrowed()
  uint8_t calls = 0;  // the number of the register that is called through, as in instructions. 0: it returns
  // Not 0: `ret` follows on padding, with the call of ours, and a frame of `first` + 8 bytes. `second` is
  // what follows on an `add` of the rest: `adds` is what lies between S + 8 and R, all in all.
  uint32_t first = 0;
  VirtAddr second = {};
  std::array<std::byte, kForetellingCall.size()> padding = {};  // what the file has at call()
  VirtAddr call() const { return ret - kForetellingCall.size(); }
  bool operator==(const BorrowedFrame&) const = default;
};
// Whether such a frame has the right alignment, and room for what such a wrapper keeps.
bool fits_borrowed(uint64_t adds, const agent::FunctionPlan& plan);
// The same where the return is foretold: of the two frames.
bool fits_foretold(uint64_t first, uint64_t second_adds, const agent::FunctionPlan& plan);

struct WrapperAddresses {
  VirtAddr stub;          // where it will run
  VirtAddr original;      // what it calls: the displaced instructions, within rel32's reach of the stub
  VirtAddr enter, leave;  // of the blob, anywhere
  VirtAddr quick_enter, quick_leave;
  VirtAddr plan;  // in the tracee
  // One that calls for a function with arguments in memory, and for no other.
  std::optional<BorrowedFrame> borrowed = std::nullopt;
};

// nullopt where `original` is out of reach.
std::optional<WrapperStub> wrapper_stub(const agent::FunctionPlan& plan, uint32_t function,
                                        const WrapperAddresses& at);

}  // namespace rtrace::mech
