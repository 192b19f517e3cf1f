// Breadth: the C library that this test runs with, as it is mapped. Capstone with details on serves as the
// second opinion.
#include <capstone/capstone.h>
#include <elf.h>
#include <gtest/gtest.h>
#include <link.h>

#include <bit>
#include <cstring>
#include <set>

#include "arch/code_text.h"
#include "arch/prologue_check.h"
#include "rtrace/arch/relocate.h"

namespace rtrace::arch::libc_test {
namespace {

struct Libc {
  std::vector<std::span<const std::byte>> text;  // executable segments
  std::set<uint64_t> functions;                  // addresses of the exported ones
};

// The hash table's last chain ends with the last symbol: the low bit of its hash is set (the format of
// DT_GNU_HASH).
uint32_t symbol_count(const uint32_t* hash) {
  uint32_t buckets = hash[0], first = hash[1], bloom_words = hash[2];
  const uint32_t* bucket = hash + 4 + 2 * size_t{bloom_words};
  const uint32_t* chain = bucket + buckets;
  uint32_t last = 0;
  for (uint32_t i = 0; i < buckets; ++i) last = std::max(last, bucket[i]);
  if (last < first) return first;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

void add_functions(Libc& libc, uint64_t bias, const ElfW(Dyn) * dynamic) {
  const ElfW(Sym)* symbols = nullptr;
  const uint32_t* hash = nullptr;
  for (; dynamic->d_tag != DT_NULL; ++dynamic) {  // ld.so has added the bias to these
    if (dynamic->d_tag == DT_SYMTAB) symbols = std::bit_cast<const ElfW(Sym)*>(dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_GNU_HASH) hash = std::bit_cast<const uint32_t*>(dynamic->d_un.d_ptr);
  }
  if (symbols == nullptr || hash == nullptr) return;
  for (uint32_t i = 0, count = symbol_count(hash); i < count; ++i) {
    bool function = ELF64_ST_TYPE(symbols[i].st_info) == STT_FUNC && symbols[i].st_shndx != SHN_UNDEF;
    if (function) libc.functions.insert(bias + symbols[i].st_value);
  }
}

int visit(dl_phdr_info* info, size_t, void* result) {
  if (std::strstr(info->dlpi_name, "libc.so") == nullptr) return 0;
  auto& libc = *static_cast<Libc*>(result);
  for (const ElfW(Phdr) & header : std::span(info->dlpi_phdr, info->dlpi_phnum)) {
    uint64_t address = info->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && (header.p_flags & PF_X) != 0)
      libc.text.emplace_back(std::bit_cast<const std::byte*>(address), header.p_memsz);
    if (header.p_type == PT_DYNAMIC)
      add_functions(libc, info->dlpi_addr, std::bit_cast<const ElfW(Dyn)*>(address));
  }
  return 1;
}

class LibcCode : public testing::Test {
 protected:
  void SetUp() override {
    dl_iterate_phdr(visit, &libc_);
    ASSERT_FALSE(libc_.text.empty()) << "not run with a shared C library";
  }

  std::span<const std::byte> code_at(uint64_t address) const {
    for (auto segment : libc_.text) {
      uint64_t begin = std::bit_cast<uint64_t>(segment.data());
      if (address >= begin && address < begin + segment.size()) return segment.subspan(address - begin);
    }
    return {};
  }

  Libc libc_;
};

std::string mnemonic(std::span<const std::byte> bytes, VirtAddr address) {
  std::string text = disassemble(bytes, address);
  text.erase(0, text.find("  ") + 2);
  return text.substr(0, text.find(' '));
}

// The first instruction of the copy against the original.
void expect_same_meaning(std::span<const std::byte> bytes, VirtAddr from, const OutOfLine& copy,
                         VirtAddr to) {
  auto original = decode(bytes, from);
  auto moved = decode(copy.code, to);
  ASSERT_TRUE(original && moved);
  if (original->kind == Insn::Kind::call || original->kind == Insn::Kind::call_indirect) {
    EXPECT_EQ(mnemonic(copy.code, to), "push");
    return;
  }
  if (original->kind == Insn::Kind::loop) return;
  EXPECT_EQ(mnemonic(bytes, from), mnemonic(copy.code, to));
  EXPECT_EQ(original->rip_reference, moved->rip_reference);
  EXPECT_EQ(original->target, moved->target);
}

TEST_F(LibcCode, FirstInstructionOfEveryExportedFunctionCanBeMoved) {
  EXPECT_GT(libc_.functions.size(), 1000u);
  VirtAddr to{std::bit_cast<uint64_t>(libc_.text.front().data()) - 0x4000000};
  for (uint64_t address : libc_.functions) {
    auto bytes = code_at(address);
    ASSERT_FALSE(bytes.empty()) << std::hex << address;
    auto result = relocate(bytes, {address}, to);
    ASSERT_TRUE(std::holds_alternative<OutOfLine>(result)) << std::get<Refused>(result).reason;
    expect_same_meaning(bytes, {address}, std::get<OutOfLine>(result), to);
    if (HasFailure()) FAIL() << disassemble(bytes, {address});
  }
}

class SecondOpinion {
 public:
  SecondOpinion() {
    cs_open(CS_ARCH_X86, CS_MODE_64, &handle_);
    cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
    insn_ = cs_malloc(handle_);
  }
  ~SecondOpinion() {
    cs_free(insn_, 1);
    cs_close(&handle_);
  }
  SecondOpinion(const SecondOpinion&) = delete;
  SecondOpinion& operator=(const SecondOpinion&) = delete;

  const cs_insn* first(std::span<const std::byte> bytes, uint64_t address) {
    const auto* code = reinterpret_cast<const uint8_t*>(bytes.data());
    size_t size = bytes.size();
    return cs_disasm_iter(handle_, &code, &size, &address, insn_) ? insn_ : nullptr;
  }

 private:
  csh handle_ = 0;
  cs_insn* insn_ = nullptr;
};

std::optional<VirtAddr> rip_reference(const cs_insn& insn) {
  const cs_x86& x86 = insn.detail->x86;
  for (const cs_x86_op& operand : std::span(x86.operands, x86.op_count))
    if (operand.type == X86_OP_MEM && operand.mem.base == X86_REG_RIP)
      return VirtAddr{insn.address + insn.size + static_cast<uint64_t>(operand.mem.disp)};
  return std::nullopt;
}

TEST_F(LibcCode, LengthsAndRipReferencesAgreeWithASecondOpinionOverTheWholeText) {
  SecondOpinion capstone;
  size_t compared = 0, references = 0, unknown = 0;
  for (auto text : libc_.text) {
    while (text.size() > kMaxInsn) {
      uint64_t address = std::bit_cast<uint64_t>(text.data());
      auto window = text.first(kMaxInsn);
      auto insn = decode(window, {address});
      const cs_insn* other = capstone.first(window, address);
      if (insn && other != nullptr) {
        ASSERT_EQ(insn->length, other->size) << disassemble(window, {address});
        ASSERT_EQ(insn->rip_reference, rip_reference(*other)) << disassemble(window, {address});
        ++compared;
        references += insn->rip_reference ? 1 : 0;
      } else {
        ++unknown;
      }
      text = text.subspan(insn ? insn->length : 1);
    }
  }
  EXPECT_GT(compared, 100'000u);
  EXPECT_GT(references, 5'000u);
  EXPECT_LT(unknown, compared / 100);
}

// Shapes that no compiler makes too: each opcode of the first two maps with each ModRM.
TEST(Lengths, AgreeWithASecondOpinionOverTheOpcodeMaps) {
  SecondOpinion capstone;
  size_t compared = 0;
  const auto compare = [&](std::vector<uint8_t> code) {
    code.resize(kMaxInsn, 0x11);
    const auto bytes = std::as_bytes(std::span(code));
    const auto insn = decode(bytes, {0x401000});
    const cs_insn* other = capstone.first(bytes, 0x401000);
    // What Capstone does not know is told by the maps alone: 0f 0d, 0f 18 to 1f, vector instructions.
    constexpr uint8_t kByMap[] = {0x0f, 0x62, 0x8f, 0xc4, 0xc5};
    const bool by_map = std::ranges::find_first_of(code, kByMap) != code.end();
    if (insn && (other != nullptr || !by_map)) {
      ASSERT_NE(other, nullptr) << disassemble(bytes, {0x401000});
      ASSERT_EQ(insn->length, other->size) << disassemble(bytes, {0x401000});
      ++compared;
    }
  };
  const std::vector<uint8_t> prefix_lists[] = {{},     {0x48}, {0x41}, {0x66}, {0x66, 0x48},
                                               {0xf3}, {0xf2}, {0x64}, {0x2e}};
  for (const auto& prefixes : prefix_lists) {
    for (int map = 0; map < 2; ++map) {
      for (unsigned opcode = 0; opcode < 256; ++opcode) {
        for (unsigned modrm = 0; modrm < 256; modrm += prefixes.empty() ? 1 : 5) {
          std::vector<uint8_t> code = prefixes;
          if (map == 1) code.push_back(0x0f);
          code.push_back(static_cast<uint8_t>(opcode));
          code.push_back(static_cast<uint8_t>(modrm));
          if (modrm < 0xc0 && (modrm & 7) == 4) code.push_back(modrm % 3 == 0 ? 0x25 : 0x18);  // base 5
          compare(std::move(code));
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(compared, 100'000u);
}

TEST_F(LibcCode, EveryInstructionOfTheTextCanBeMovedOrIsRefusedWithItsText) {
  size_t moved = 0, refused = 0;
  for (auto text : libc_.text) {
    while (text.size() > kMaxInsn) {
      VirtAddr from{std::bit_cast<uint64_t>(text.data())};
      auto window = text.first(kMaxInsn);
      auto insn = decode(window, from);
      auto result = relocate(window, from, from + 0x10000000);
      if (auto* copy = std::get_if<OutOfLine>(&result)) {
        ASSERT_LE(copy->code.size(), out_of_line_bound(window)) << disassemble(window, from);
        expect_same_meaning(window, from, *copy, from + 0x10000000);
        if (HasFailure()) FAIL() << disassemble(window, from);
        ++moved;
      } else {
        ASSERT_NE(std::get<Refused>(result).reason.find(disassemble(window, from)), std::string::npos);
        ++refused;
      }
      text = text.subspan(insn ? insn->length : 1);
    }
  }
  EXPECT_GT(moved, 100'000u);
  EXPECT_LT(refused, moved / 100);
}

// Not only where functions begin: a prime step meets every kind of instruction, and the middle of many.
TEST_F(LibcCode, PrologueFromAnywhereMeansTheSameOrIsRefused) {
  constexpr size_t kStep = 211;
  size_t moved = 0, refused = 0;
  for (auto text : libc_.text) {
    for (; text.size() > kEntryWindow + kStep; text = text.subspan(kStep)) {
      EntryCode entry{text.first(kEntryWindow), {std::bit_cast<uint64_t>(text.data())}, kEntryWindow};
      for (VirtAddr to : {entry.from + 0x10000000, VirtAddr{0x10000000}}) {
        auto result = relocate_prologue(entry, to);
        if (auto* prologue = std::get_if<Prologue>(&result)) {
          ASSERT_EQ(check_prologue(entry, *prologue, to), "");
          ++moved;
        } else {
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(moved, 5'000u);
  EXPECT_GT(refused, 300u);
}

}  // namespace
}  // namespace rtrace::arch::libc_test
