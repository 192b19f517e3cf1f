// The bytes of one call's arguments and result, on one side of it.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "layout.h"
#include "value_decoder.h"

namespace rtrace::decode {

class CallState : public LengthSource {
 public:
  CallState(const Layout& layout, const Memory& memory, const arch::Regs& entry,
            const arch::VectorRegs* vectors)
      : layout_(layout), memory_(memory), entry_(entry), entry_vectors_(vectors) {}

  // At the return: what came from the stack at entry is not read again.
  void at_return(const arch::Regs& exit, const arch::VectorRegs* vectors,
                 std::span<const std::byte> entry_stack) {
    exit_ = &exit;
    exit_vectors_ = vectors;
    after_entry(entry_stack);
  }
  // The same where there is no return.
  void after_entry(std::span<const std::byte> entry_stack) { entry_stack_ = entry_stack; }
  // The types of arguments behind the named ones, which lengths may refer to.
  void set_further(std::span<const Location> locations) { further_ = locations; }

  using Storage = std::array<std::byte, kWidestRegister>;
  Place argument_place(const Location& location, Storage& storage) const;
  Place result_place(Storage& storage) const;

  std::optional<int64_t> argument(uint64_t number) const override;
  std::optional<int64_t> result() const override;

 private:
  std::span<const std::byte> from_registers(const Location& location, Storage& storage) const;
  std::optional<int64_t> integer_at(const proto::Type& type, Place place) const;

  const Layout& layout_;
  const Memory& memory_;
  const arch::Regs& entry_;
  const arch::VectorRegs* entry_vectors_;
  const arch::Regs* exit_ = nullptr;
  const arch::VectorRegs* exit_vectors_ = nullptr;
  std::optional<std::span<const std::byte>> entry_stack_;
  std::span<const Location> further_;
};

}  // namespace rtrace::decode
