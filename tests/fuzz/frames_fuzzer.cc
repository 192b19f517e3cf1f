// The input as call frame information, and as the stack that is walked by it.
#include <elf.h>

#include "fuzzing.h"
#include "rtrace/base/error.h"
#include "rtrace/unwind/unwinder.h"

namespace {

using namespace rtrace;

// An object of one segment that holds everything; `index` bytes from the front are .eh_frame_hdr.
std::string object_of(std::string_view content, uint64_t index) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_version = EV_CURRENT;
  header.e_type = ET_DYN;
  header.e_machine = EM_X86_64;
  header.e_ehsize = header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  constexpr uint64_t kFront = sizeof header + 2 * sizeof(Elf64_Phdr);
  const Elf64_Phdr load{PT_LOAD, PF_R | PF_X, 0, 0, 0, kFront + content.size(), 0x10000, 0x1000};
  const Elf64_Phdr frames{PT_GNU_EH_FRAME, PF_R, kFront, kFront, kFront, index, index, 4};
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes.append(reinterpret_cast<const char*>(&load), sizeof load);
  bytes.append(reinterpret_cast<const char*>(&frames), sizeof frames);
  return bytes.append(content);
}

// The input's bytes over and over.
class Repeated : public Memory {
 public:
  explicit Repeated(std::string_view bytes) : bytes_(bytes) {}
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    if (bytes_.empty() || address.value >> 47 != 0) return 0;
    for (size_t i = 0; i < out.size(); ++i)
      out[i] = static_cast<std::byte>(bytes_[(address.value + i) % bytes_.size()]);
    return out.size();
  }

 private:
  std::string_view bytes_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::Input input(data, size);
  const auto index = input.take<uint8_t>();
  const auto pc = input.take<uint16_t>();
  auto file = elf::ElfFile::open(fuzz::file_of(object_of(input.rest(), index)), "frames");
  unwind::FrameTable table(file);
  const unwind::Row* row = table.find({pc});
  if (row != nullptr)
    fuzz::must_hold(row->cfa.reg < unwind::Registers::kCount, "a CFA of register {}", row->cfa.reg);
  unwind::Registers registers;
  for (size_t number = 0; number < unwind::Registers::kCount; ++number)
    registers.set(number, 0x1000 * (number + 1));
  constexpr size_t kMost = 64;
  const auto trace = unwind::callers_of_entry(
      registers, Repeated(input.rest()),
      [&](VirtAddr) -> unwind::Place {
        return {&table, {}};
      },
      kMost);
  fuzz::must_hold(trace.frames.size() <= kMost, "{} frames", trace.frames.size());
  return 0;
}
