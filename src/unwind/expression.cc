#include "expression.h"

#include <algorithm>
#include <array>

#include "rtrace/elf/encoded_reader.h"

namespace rtrace::unwind {
namespace {

using elf::EncodedReader;

// DWARF 5, 7.7.1. Those that stand alone; the ranges of lit and breg follow.
enum Operation : uint8_t {
  kAddr = 0x03,
  kDeref = 0x06,
  kConst1u = 0x08,
  kConst1s,
  kConst2u,
  kConst2s,
  kConst4u,
  kConst4s,
  kConst8u,
  kConst8s,
  kConstu,
  kConsts,
  kDup,
  kDrop,
  kOver,
  kPick,
  kSwap,
  kRot,
  kAbs = 0x19,
  kAnd,
  kDiv,
  kMinus,
  kMod,
  kMul,
  kNeg,
  kNot,
  kOr,
  kPlus,
  kPlusUconst,
  kShl,
  kShr,
  kShra,
  kXor,
  kBra,
  kEq,
  kGe,
  kGt,
  kLe,
  kLt,
  kNe,
  kSkip,
  kLit0,
  kLit31 = 0x4f,
  kBreg0 = 0x70,
  kBreg31 = 0x8f,
  kBregx = 0x92,
  kDerefSize = 0x94,
  kNop = 0x96,
};

class Machine {
 public:
  Machine(std::span<const std::byte> expression, const Registers& registers, const Memory& memory)
      : code_(expression), registers_(registers), memory_(memory) {}

  std::optional<uint64_t> run(std::optional<uint64_t> first) {
    if (first) push(*first);
    constexpr int kMostSteps = 1000;
    for (int steps = 0; !failed_ && next_ < code_.size(); ++steps) {
      if (steps == kMostSteps) return std::nullopt;
      EncodedReader reader(code_.subspan(next_), {});
      const auto operation = static_cast<uint8_t>(reader.take<uint8_t>());
      jump_ = 0;
      step(operation, reader);
      if (reader.failed()) return std::nullopt;
      go(reader.offset());
    }
    if (failed_ || depth_ == 0) return std::nullopt;
    return stack_[depth_ - 1];
  }

 private:
  // Branches are relative to the end of their instruction, and end at the expression's end at the furthest.
  void go(size_t length) {
    const int64_t target = static_cast<int64_t>(next_ + length) + jump_;
    failed_ |= target < 0 || target > static_cast<int64_t>(code_.size());
    next_ = static_cast<size_t>(target);
  }

  void push(std::optional<uint64_t> value) {
    if (!value || depth_ == stack_.size()) {
      failed_ = true;
      return;
    }
    stack_[depth_++] = *value;
  }

  uint64_t pop() {
    if (depth_ == 0) {
      failed_ = true;
      return 0;
    }
    return stack_[--depth_];
  }

  // The entry `index` below the top.
  std::optional<uint64_t> peek(uint64_t index) const {
    if (index >= depth_) return std::nullopt;
    return stack_[depth_ - 1 - index];
  }

  void load(uint64_t size) {
    const VirtAddr address{pop()};
    uint64_t value = 0;
    if (size == 0 || size > sizeof value) {
      failed_ = true;
      return;
    }
    auto out = std::as_writable_bytes(std::span(&value, 1)).first(size);
    push(memory_.read(address, out) == size ? std::optional(value) : std::nullopt);
  }

  void step(uint8_t operation, EncodedReader& reader) {
    if (operation >= kLit0 && operation <= kLit31) return push(operation - kLit0);
    if (operation >= kBreg0 && operation <= kBreg31) return based(operation - kBreg0, reader);
    if (operation == kBregx) return based(reader.take_leb128(), reader);
    if (operation >= kAddr && operation <= kConsts && operation != kDeref) return constant(operation, reader);
    switch (operation) {
      case kDeref:
        return load(sizeof(uint64_t));
      case kDerefSize:
        return load(reader.take<uint8_t>());
      case kDup:
        return push(peek(0));
      case kDrop:
        pop();
        return;
      case kOver:
        return push(peek(1));
      case kPick:
        return push(peek(reader.take<uint8_t>()));
      case kSwap:
        return rotate(2);
      case kRot:
        return rotate(3);
      case kBra:
        jump_ = static_cast<int64_t>(reader.take<int16_t>());
        if (pop() == 0) jump_ = 0;
        return;
      case kSkip:
        jump_ = static_cast<int64_t>(reader.take<int16_t>());
        return;
      case kNop:
        return;
      default:
        return arithmetic(operation, reader);
    }
  }

  void based(uint64_t number, EncodedReader& reader) {
    const auto offset = static_cast<uint64_t>(reader.take_signed_leb128());
    const auto base = registers_.get(number);
    push(base ? std::optional(*base + offset) : std::nullopt);
  }

  void constant(uint8_t operation, EncodedReader& reader) {
    switch (operation) {
      case kConst1u:
        return push(reader.take<uint8_t>());
      case kConst1s:
        return push(reader.take<int8_t>());
      case kConst2u:
        return push(reader.take<uint16_t>());
      case kConst2s:
        return push(reader.take<int16_t>());
      case kConst4u:
        return push(reader.take<uint32_t>());
      case kConst4s:
        return push(reader.take<int32_t>());
      case kConst8u:
      case kConst8s:
        return push(reader.take<uint64_t>());
      case kConstu:
        return push(reader.take_leb128());
      case kConsts:
        return push(static_cast<uint64_t>(reader.take_signed_leb128()));
      default:  // an absolute address knows no load bias
        failed_ = true;
    }
  }

  // The top goes below the `count` - 1 entries under it.
  void rotate(size_t count) {
    if (depth_ < count) {
      failed_ = true;
      return;
    }
    auto end = stack_.begin() + static_cast<std::ptrdiff_t>(depth_);
    std::rotate(end - static_cast<std::ptrdiff_t>(count), end - 1, end);
  }

  void arithmetic(uint8_t operation, EncodedReader& reader) {
    const uint64_t top = pop();
    switch (operation) {
      case kAbs:
        return push(static_cast<int64_t>(top) < 0 ? -top : top);
      case kNeg:
        return push(-top);
      case kNot:
        return push(~top);
      case kPlusUconst:
        return push(top + reader.take_leb128());
      default:
        return push(combine(operation, pop(), top));
    }
  }

  static std::optional<uint64_t> combine(uint8_t operation, uint64_t second, uint64_t top) {
    constexpr uint64_t kBits = 64;
    const auto left = static_cast<int64_t>(second), right = static_cast<int64_t>(top);
    switch (operation) {
      case kAnd:
        return second & top;
      case kOr:
        return second | top;
      case kXor:
        return second ^ top;
      case kPlus:
        return second + top;
      case kMinus:
        return second - top;
      case kMul:
        return second * top;
      case kDiv:
        // The one quotient that does not fit is its own negative.
        if (right == -1) return -second;
        return right == 0 ? std::nullopt : std::optional(static_cast<uint64_t>(left / right));
      case kMod:
        return top == 0 ? std::nullopt : std::optional(second % top);
      case kShl:
        return top < kBits ? second << top : 0;
      case kShr:
        return top < kBits ? second >> top : 0;
      case kShra:
        return static_cast<uint64_t>(left >> std::min(top, kBits - 1));
      case kEq:
        return left == right;
      case kNe:
        return left != right;
      case kGe:
        return left >= right;
      case kGt:
        return left > right;
      case kLe:
        return left <= right;
      case kLt:
        return left < right;
      default:
        return std::nullopt;
    }
  }

  std::span<const std::byte> code_;
  const Registers& registers_;
  const Memory& memory_;
  std::array<uint64_t, 64> stack_{};
  size_t depth_ = 0;
  size_t next_ = 0;
  int64_t jump_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<uint64_t> evaluate(std::span<const std::byte> expression, const Registers& registers,
                                 const Memory& memory, std::optional<uint64_t> first) {
  return Machine(expression, registers, memory).run(first);
}

}  // namespace rtrace::unwind
