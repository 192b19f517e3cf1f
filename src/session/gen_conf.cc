#include "gen_conf.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "front_end.h"
#include "rtrace/base/text.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/dwarf/debug_info.h"
#include "rtrace/elf/elf_file.h"
#include "rtrace/proto/toml_writer.h"

namespace rtrace::session {
namespace {

constexpr size_t kReasons = 20;

using Found = std::shared_ptr<const proto::Prototype>;

// What compilers make of a function is called `function.what.N`. g++ has types without a name in the names of
// C++ functions as `._anon_N`.
bool is_made_of_another(std::string_view name) {
  for (size_t at = name.find('.'); at != std::string_view::npos; at = name.find('.', at + 1))
    if (!name.substr(at).starts_with("._anon")) return true;
  return false;
}

// The prototypes of one object by their functions' names, and what has none.
class Collection {
 public:
  explicit Collection(dwarf::DebugInfo& debug) : debug_(debug) {}

  void take(const elf::Symbol& symbol) {
    const std::string name(symbol.name.substr(0, symbol.name.find('@')));
    if (is_made_of_another(name)) return leave_out(name, "a part or a clone that a compiler made");
    if (symbol.ifunc) return leave_out(name, "an IFUNC, whose implementations have names of their own");
    const dwarf::Answer answer = debug_.function_at(symbol.address);
    if (answer.prototype == nullptr) return leave_out(name, answer.reason);
    auto [known, fresh] = found_.try_emplace(name, answer.prototype);
    if (!fresh && proto::spell(*known->second) != proto::spell(*answer.prototype)) ambiguous_.insert(name);
  }

  // Names that stand for several functions say nothing about any of them.
  void settle() {
    for (const std::string& name : ambiguous_) {
      found_.erase(name);
      leave_out(name, "several functions of that name take different arguments");
    }
  }

  const std::map<std::string, Found>& found() const { return found_; }
  size_t left_out() const { return names_.size(); }
  // The most frequent first.
  std::vector<std::string> reasons() const {
    std::vector<std::pair<size_t, std::string>> order;
    for (const auto& [reason, count] : reasons_) order.emplace_back(count, reason);
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<std::string> lines;
    for (const auto& [count, reason] : order) lines.push_back(fmt::format("{:>6}  {}", count, reason));
    return lines;
  }

 private:
  void leave_out(const std::string& name, const std::string& reason) {
    if (names_.insert(name).second) ++reasons_[reason];
  }

  dwarf::DebugInfo& debug_;
  std::map<std::string, Found> found_;
  std::set<std::string> ambiguous_, names_;
  std::map<std::string, size_t> reasons_;
};

void write_or_throw(int fd, std::string_view text) {
  if (const int error = write_all(fd, text)) throw Error::from_errno(error, "cannot write the prototypes");
}

void say(const Collection& all) {
  std::string text = fmt::format("rtrace: {} written", counted(all.found().size(), "function"));
  if (all.left_out() > 0) text += fmt::format(", {} left out:", all.left_out());
  text += '\n';
  const auto reasons = all.reasons();
  for (size_t i = 0; i < std::min(reasons.size(), kReasons); ++i) text += reasons[i] + '\n';
  if (reasons.size() > kReasons)
    text += fmt::format("        and {} more reasons\n", reasons.size() - kReasons);
  write_or_throw(STDERR_FILENO, text);
}

// What it comes from; names with control characters stay out of the file.
std::string heading(const elf::ElfFile& file, const dwarf::DebugInfo& debug) {
  auto clean = [](std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c < ' ' || c == 0x7f; }, '?');
    return text;
  };
  std::string text = fmt::format("# Prototypes of {}, from the debug info of {}.\n\n",
                                 clean(std::string(basename_of(file.path()))), clean(debug.path()));
  const std::string soname = clean(std::string(file.soname()));
  if (!soname.empty() && soname.find_first_of("\"\\") == std::string::npos)
    text += fmt::format("[library]\nsoname = \"{}\"\n\n", soname);
  return text;
}

}  // namespace

int generate_configuration(const Options& options) {
  const std::string& path = options.gen_conf;
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw Error::from_errno(errno, "cannot open {}", path);
  const auto file = elf::ElfFile::open(path);
  const auto debug = dwarf::DebugInfo::of(*file, std::move(fd));
  if (debug == nullptr)
    throw Error::make(
        "{} has no debug information, and no separate debug file was found by its build-id or debuglink; "
        "compile it "
        "with -g, or install the package with its debug symbols",
        path);
  Collection all(*debug);
  for (const elf::Symbol& symbol : file->functions()) all.take(symbol);
  all.settle();
  say(all);
  if (all.found().empty()) throw Error::make("the debug information of {} describes no function of it", path);
  proto::TomlWriter writer;
  for (const auto& [name, prototype] : all.found()) writer.add(name, *prototype);
  write_or_throw(STDOUT_FILENO, heading(*file, *debug) + writer.text());
  return 0;
}

}  // namespace rtrace::session
