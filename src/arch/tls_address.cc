#include "rtrace/arch/tls_address.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>

namespace rtrace::arch {
namespace {

// rax as a sum: so many times the thread pointer, and a constant.
struct Sum {
  unsigned thread_pointers = 0;
  uint64_t constant = 0;
  bool known = false;  // rax has been written
};

struct Reader {
  std::span<const std::byte> code;
  VirtAddr address;
  const Memory& memory;
  Sum rax{};

  // Takes the opcode bytes if they come next.
  bool take(std::initializer_list<uint8_t> opcode) {
    if (code.size() < opcode.size() ||
        !std::equal(opcode.begin(), opcode.end(), code.begin(),
                    [](uint8_t wanted, std::byte found) { return std::byte{wanted} == found; }))
      return false;
    skip(opcode.size());
    return true;
  }

  void skip(size_t count) {
    code = code.subspan(count);
    address = address + count;
  }

  // A sign-extended operand; nullopt where the bytes end.
  template <typename T>
  std::optional<uint64_t> operand() {
    T value{};
    if (code.size() < sizeof value) return std::nullopt;
    std::memcpy(&value, code.data(), sizeof value);
    skip(sizeof value);
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  }

  // The word behind `disp32(%rip)`. A slot that the dynamic linker has not filled holds 0, which is no
  // variable's offset: the thread control block lies there.
  std::optional<uint64_t> slot() {
    auto distance = operand<int32_t>();
    if (!distance) return std::nullopt;
    auto word = memory.read_value<uint64_t>(address + *distance);
    return word && *word != 0 ? word : std::nullopt;
  }

  bool set(unsigned thread_pointers, std::optional<uint64_t> constant) {
    if (!constant) return false;
    rax = {thread_pointers, *constant, true};
    return true;
  }

  bool add(unsigned thread_pointers, std::optional<uint64_t> constant) {
    if (!constant || !rax.known) return false;
    rax.thread_pointers += thread_pointers;
    rax.constant += *constant;
    return true;
  }

  // One instruction; false for any other. The forms are those of the access models Initial Exec and Local
  // Exec, and what the linker makes of the first (Drepper, "ELF Handling For Thread-Local Storage", 4.1.6,
  // 5.5; psABI B.3).
  bool step() {
    if (take({0xf3, 0x0f, 0x1e, 0xfa})) return true;                         // endbr64
    if (take({0x64, 0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0})) return set(1, 0);  // mov %fs:0,%rax
    if (take({0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0})) return add(1, 0);  // add %fs:0,%rax
    if (take({0x48, 0x8b, 0x05})) return set(0, slot());                     // mov slot(%rip),%rax
    if (take({0x48, 0x03, 0x05})) return add(0, slot());                     // add slot(%rip),%rax
    if (take({0x48, 0xc7, 0xc0})) return set(0, operand<int32_t>());         // mov $imm32,%rax
    if (take({0x48, 0x05}) || take({0x48, 0x81, 0xc0})) return add(0, operand<int32_t>());  // add $imm32,%rax
    if (take({0x48, 0x83, 0xc0})) return add(0, operand<int8_t>());                         // add $imm8,%rax
    if (take({0x48, 0x8d, 0x80})) return add(0, operand<int32_t>());   // lea disp32(%rax),%rax
    if (take({0x48, 0x8d, 0x40})) return add(0, operand<int8_t>());    // lea disp8(%rax),%rax
    if (take({0x48, 0x2d})) return subtract(operand<int32_t>());       // sub $imm32,%rax
    if (take({0x48, 0x83, 0xe8})) return subtract(operand<int8_t>());  // sub $imm8,%rax
    return false;
  }

  bool subtract(std::optional<uint64_t> constant) { return constant && add(0, -*constant); }
};

}  // namespace

std::optional<int64_t> tls_offset_returned(std::span<const std::byte> code, VirtAddr address,
                                           const Memory& memory) {
  constexpr int kMostInstructions = 8;
  Reader reader{code, address, memory};
  for (int i = 0; i < kMostInstructions; ++i) {
    if (reader.take({0xc3})) {  // ret
      if (reader.rax.thread_pointers != 1) return std::nullopt;
      return static_cast<int64_t>(reader.rax.constant);
    }
    if (!reader.step()) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace rtrace::arch
