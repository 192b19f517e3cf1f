// Breadth: the entries of all functions that this machine's libraries export. How many can hold the jump, and
// that what would run instead of the overwritten bytes means the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "arch/prologue_check.h"
#include "rtrace/plan/entry_patch.h"

namespace rtrace::plan::patchable_test {
namespace {

constexpr const char* kObjects[] = {
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libm.so.6",
    "/lib/x86_64-linux-gnu/libstdc++.so.6",
    "/lib/x86_64-linux-gnu/libruby-3.1.so.3.1",
    "/lib/x86_64-linux-gnu/libssl.so.3",
    "/lib/x86_64-linux-gnu/libcrypto.so.3",
    "/usr/bin/python3.11",
};

// The exported functions, one for each address. What an IFUNC's resolver chooses has no name here.
std::vector<elf::Symbol> exported_functions(const elf::ElfFile& file) {
  std::vector<elf::Symbol> functions;
  for (const elf::Symbol& symbol : file.functions()) {
    if (symbol.table != elf::Symbol::Table::dynsym || symbol.ifunc) continue;
    if (!functions.empty() && functions.back().address == symbol.address) {
      functions.back().size = std::max(functions.back().size, symbol.size);
      continue;
    }
    functions.push_back(symbol);
  }
  return functions;
}

// Whether what would run instead of the covered bytes says the same; else what differs.
std::string difference(const elf::ElfFile& file, const EntryPatch& patch, VirtAddr to) {
  arch::EntryCode entry{file.bytes_at(patch.function, patch.room),
                        {patch.function.value},
                        patch.size,
                        patch.hop ? arch::kShortJump : arch::kNearJump};
  auto answer = arch::relocate_prologue(entry, to);
  if (auto* refused = std::get_if<arch::Refused>(&answer)) return refused->reason;
  const auto& prologue = std::get<arch::Prologue>(answer);
  if (patch.hop && file.bytes_at(*patch.hop, arch::kNearJump).size() != arch::kNearJump)
    return "no padding there";
  if (prologue.at.value != patch.at.value || prologue.covered != patch.covered) return "covers other bytes";
  return arch::check_prologue(entry, prologue, to);
}

std::string reason_without_code(const std::string& reason) {
  return reason.substr(0, reason.find(": "));
}

class Patchable : public testing::TestWithParam<const char*> {};

TEST_P(Patchable, AtLeast985FunctionsOf1000CanBePatchedAndTheirCopiesMeanTheSame) {
  if (!std::filesystem::exists(GetParam())) GTEST_SKIP() << GetParam() << " is not here";
  auto file = elf::ElfFile::open(GetParam());
  auto functions = exported_functions(*file);
  auto answers = examine_entries(*file, functions);
  std::map<std::string, std::vector<std::string>> refused;
  size_t patchable = 0, through_padding = 0;
  // Further away than anything of the object is from anything else of it, and within a rel32 of all of it.
  VirtAddr to{uint64_t{1} << 28};
  for (size_t i = 0; i < functions.size(); ++i) {
    const auto* patch = std::get_if<EntryPatch>(&answers[i]);
    if (patch == nullptr) {
      const std::string& reason = std::get<arch::Refused>(answers[i]).reason;
      refused[reason_without_code(reason)].push_back(fmt::format("{}: {}", functions[i].name, reason));
      continue;
    }
    ++patchable;
    through_padding += patch->hop.has_value();
    std::string differs = difference(*file, *patch, to);
    ASSERT_EQ(differs, "") << functions[i].name;
  }
  double share = 100.0 * static_cast<double>(patchable) / static_cast<double>(functions.size());
  fmt::print("{}: {} of {} functions, {:.2f}%, {} of them through padding\n", GetParam(), patchable,
             functions.size(), share, through_padding);
  for (const auto& [reason, names] : refused) {
    fmt::print("  {:5} {}\n", names.size(), reason);
    for (size_t i = 0; i < std::min<size_t>(names.size(), 3); ++i) fmt::print("          {}\n", names[i]);
  }
  EXPECT_GE(share, 98.5);
}

INSTANTIATE_TEST_SUITE_P(Exported, Patchable, testing::ValuesIn(kObjects), [](const auto& object) {
  std::string name = std::filesystem::path(object.param).filename();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace rtrace::plan::patchable_test
