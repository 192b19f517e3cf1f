#include "rtrace/dwarf/debug_info.h"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "functions.h"
#include "prototypes.h"
#include "rtrace/base/log.h"
#include "rtrace/base/text.h"
#include "types.h"
#include "units.h"

namespace rtrace::dwarf {
namespace {

// Of compile units that are walked in search of a declaration: a few tenths of a second.
constexpr uint64_t kMaxSearched = uint64_t{32} << 20;

}  // namespace

struct DebugInfo::Impl {
  struct End {
    void operator()(Dwarf* opened) const { dwarf_end(opened); }
  };

  Impl(UniqueFd file, std::unique_ptr<Dwarf, End> handle, std::string file_path)
      : fd(std::move(file)), dwarf(std::move(handle)), path(std::move(file_path)), units(dwarf.get()) {}

  UniqueFd fd;  // libdw may read through it until the end
  std::unique_ptr<Dwarf, End> dwarf;
  std::string path;
  Units units;
  std::unordered_map<const void*, Functions> functions;  // of the units that were needed, by their place
  std::unordered_map<const void*, Answer> answers;       // by the function's place
  std::shared_ptr<proto::TypeScope> scope = std::make_shared<proto::TypeScope>();
  TypeReader types{scope};

  Functions& functions_of(const Die& unit) {
    auto known = functions.find(unit.addr);
    if (known != functions.end()) return known->second;
    RTRACE_LOG(proto, 1, "{}: reads the unit {}", path, name_of(unit));
    return functions.emplace(unit.addr, Functions(unit)).first->second;
  }

  // With the source file that the compile unit is named after.
  std::string origin(const Die& unit, std::string_view what) const {
    std::string text = fmt::format("{} {}", what, printable(path));
    const std::string_view source = raw_text(unit, DW_AT_name);
    if (!source.empty()) text += fmt::format(" ({})", printable(basename_of(source)));
    return text;
  }

  Answer answer(const Die& function, const Die& unit, std::string_view what) {
    auto [known, fresh] = answers.try_emplace(function.addr);
    if (fresh) known->second = prototype_of(function, unit, origin(unit, what), types, scope);
    return known->second;
  }
};

DebugInfo::DebugInfo(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DebugInfo::~DebugInfo() = default;

std::unique_ptr<DebugInfo> DebugInfo::open(UniqueFd fd, std::string path) {
  std::unique_ptr<Dwarf, Impl::End> dwarf(dwarf_begin(fd.get(), DWARF_C_READ));
  if (dwarf == nullptr) {
    RTRACE_LOG(proto, 1, "{}: {}", path, dwarf_errmsg(-1));
    return nullptr;
  }
  return std::unique_ptr<DebugInfo>(
      new DebugInfo(std::make_unique<Impl>(std::move(fd), std::move(dwarf), std::move(path))));
}

std::unique_ptr<DebugInfo> DebugInfo::of(const elf::ElfFile& file, UniqueFd own) {
  if (file.has_debug_info()) return own ? open(std::move(own), file.path()) : nullptr;
  auto separate = file.open_debug_file();
  return separate ? open(std::move(separate->fd), std::move(separate->path)) : nullptr;
}

const std::string& DebugInfo::path() const {
  return impl_->path;
}

Answer DebugInfo::function_at(ElfAddr address) {
  auto unit = impl_->units.holding(address);
  if (!unit) return {nullptr, fmt::format("{} does not describe it", printable(impl_->path))};
  if (std::string reason = why_unreadable(*unit); !reason.empty()) return {nullptr, reason};
  auto function = impl_->functions_of(*unit).at(address);
  if (!function) return {nullptr, fmt::format("{} does not describe it", printable(impl_->path))};
  return impl_->answer(*function, *unit, "debug info of");
}

std::string DebugInfo::line_at(ElfAddr address) {
  auto unit = impl_->units.holding(address);
  if (!unit) return {};
  Dwarf_Line* line = dwarf_getsrc_die(&*unit, address.value);
  const char* file = line == nullptr ? nullptr : dwarf_linesrc(line, nullptr, nullptr);
  int number = 0;
  // Line 0: the compiler's own code (DWARF 5, 6.2.2).
  if (file == nullptr || dwarf_lineno(line, &number) != 0 || number <= 0) return {};
  return fmt::format("{}:{}", printable(file), number);
}

Answer DebugInfo::declaration_of(std::string_view symbol) {
  const std::vector<Die>& units = impl_->units.all();
  uint64_t searched = 0;
  for (const Die& unit : units) {
    Die self = unit;
    const uint64_t begin = dwarf_dieoffset(&self);
    const size_t next = static_cast<size_t>(&unit - units.data()) + 1;
    if (searched > kMaxSearched)
      return {nullptr,
              fmt::format("{} is too large to be searched for declarations", printable(impl_->path))};
    if (next < units.size()) {
      Die after = units[next];
      searched += dwarf_dieoffset(&after) - begin;
    }
    if (!why_unreadable(unit).empty()) continue;
    auto function = impl_->functions_of(unit).declared(symbol);
    if (!function) continue;
    Answer found = impl_->answer(*function, unit, "declared in the debug info of");
    if (found.prototype) return found;
  }
  return {nullptr, fmt::format("{} does not declare it", printable(impl_->path))};
}

}  // namespace rtrace::dwarf
