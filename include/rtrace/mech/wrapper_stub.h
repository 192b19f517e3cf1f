// The code that a traced function's entry jumps to: bytes made of a plan and addresses. Pure.
//
// A wrapper makes a normal frame, records, calls the function (its displaced first instructions, then the
// rest of it), records again and returns. All its state lies on the stack of whoever calls. Every register
// that can carry an argument reaches the function as it was, al included; vector registers are not touched,
// for the recorder has no instruction that would. Stack pointer and alignment differ by a multiple of 16;
// what a function might read above its return address is copied where its plan says so.
#pragma once

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
  uint8_t cfa = 8;  // to add to it. The return address lies at CFA - 8; with base rbp, or 16, rbp at CFA - 16
  bool operator==(const StubFrame&) const = default;
};

struct WrapperStub {
  std::vector<std::byte> code;
  std::vector<StubFrame> frames;
  // Offset behind the call of the function: the return address that the function finds. 0: it is jumped to.
  uint16_t returns_to = 0;
  bool operator==(const WrapperStub&) const = default;
};

// No stub is longer; positions in a chunk are multiples of CodeArena::kAlignment.
inline constexpr size_t kMaxWrapperStub = 384;

struct WrapperAddresses {
  VirtAddr stub;          // where it will run
  VirtAddr original;      // what it calls: the displaced instructions, within rel32's reach of the stub
  VirtAddr enter, leave;  // of the blob, anywhere
};

// nullopt where `original` is out of reach.
std::optional<WrapperStub> wrapper_stub(const agent::FunctionPlan& plan, uint32_t function,
                                        const WrapperAddresses& at);

// For functions that unmap or protect memory: counts `counter` (SharedHeader::mappings) up, then jumps on.
std::optional<WrapperStub> counting_stub(VirtAddr counter, VirtAddr stub, VirtAddr original);

}  // namespace rtrace::mech
