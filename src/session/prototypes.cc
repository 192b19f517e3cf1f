#include "prototypes.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "accounts.h"
#include "variant_name.h"

namespace rtrace::session {
namespace {

// Beside the program, so that it works wherever it was installed or unpacked, and in a build tree.
std::string shipped_configuration() {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = program.parent_path().parent_path() / "share/rtrace/conf";
  return std::filesystem::exists(installed, error) ? installed : program.parent_path() / "conf";
}

// Of who runs rtrace, whatever user the command is run as.
std::string home_of_user() {
  const char* home = getenv("HOME");
  if (home != nullptr && *home != 0) return home;
  try {
    const auto account = find_account(std::to_string(getuid()));
    return account ? account->home : "";
  } catch (const Error&) {
    return {};  // nobody who can tell is as good as nobody who knows
  }
}

const elf::LoadedObject* object_of(const plan::Objects& objects, elf::ObjectId id) {
  for (const auto& object : objects)
    if (object.id == id) return &object;
  return nullptr;
}

}  // namespace

Prototypes::Prototypes(const Options& options, Reporter& reporter) : options_(options), reporter_(reporter) {
  if (!options.config.empty()) (void)catalogue();
}

// Where to look is found out when something is looked for.
proto::Catalogue& Prototypes::catalogue() {
  if (catalogue_) return *catalogue_;
  catalogue_.emplace();
  const std::string home = home_of_user();
  const char* config_home = getenv("XDG_CONFIG_HOME");
  // "All paths set in these environment variables must be absolute" (XDG Base Directory Specification).
  if (config_home != nullptr && *config_home == '/')
    catalogue_->add_folder(std::string(config_home) + "/rtrace");
  else if (!home.empty())
    catalogue_->add_folder(home + "/.config/rtrace");
  if (!home.empty()) catalogue_->add_folder(home + "/.ltrace.conf");
  const std::string shipped = shipped_configuration();
  catalogue_->add_shipped(shipped);
  if (std::error_code error; !std::filesystem::exists(shipped, error))
    reporter_.notice(
        fmt::format("the prototypes that come with rtrace are not beside it (share/rtrace/conf in the folder "
                    "above its own, or {}): arguments are guessed where nothing else tells",
                    shipped));
  // ltrace's own: one file for everything until 0.7.3, one for each library since 0.7.91.
  catalogue_->add_fallback("/etc/ltrace.conf");
  catalogue_->add_fallback("/usr/share/ltrace");
  // Last, for they are read at once and may import from the folders.
  proto::Diagnostics diagnostics;
  for (const std::string& path : options_.config) catalogue_->add(path, diagnostics);
  report(diagnostics);
  return *catalogue_;
}

void Prototypes::report(const proto::Diagnostics& diagnostics) {
  constexpr size_t kMostSaid = 50;  // what is no prototype file at all has one a line
  for (size_t i = 0; i < std::min(diagnostics.size(), kMostSaid); ++i) reporter_.say(diagnostics[i]);
  if (diagnostics.size() > kMostSaid)
    reporter_.say(fmt::format("... and {} more of these", diagnostics.size() - kMostSaid));
}

Prototypes::Found Prototypes::in_files(const plan::ProbePoint& point) {
  proto::Diagnostics diagnostics;
  Found found = catalogue().find_specific(point.name, point.prototype_object, diagnostics);
  report(diagnostics);
  return found;
}

Prototypes::Found Prototypes::of_alias(const plan::ProbePoint& point) {
  proto::Diagnostics diagnostics;
  Found found;
  for (size_t i = 0; found == nullptr && i < point.aliases.size(); ++i)
    found = catalogue().find_specific(point.aliases[i], point.prototype_object, diagnostics);
  report(diagnostics);
  return found;
}

// Of the function that it implements for some processors.
Prototypes::Found Prototypes::of_implemented(const plan::ProbePoint& point) {
  if (!is_c_library(point.prototype_object)) return nullptr;
  proto::Diagnostics diagnostics;
  Found found;
  for (const std::string& name : implemented_by(point.name))
    if (found == nullptr) found = catalogue().find_specific(name, point.prototype_object, diagnostics);
  report(diagnostics);
  return found;
}

Prototypes::Found Prototypes::from_fallback(const plan::ProbePoint& point) {
  proto::Diagnostics diagnostics;
  Found found = catalogue().find_fallback(point.name, point.prototype_object, diagnostics);
  for (size_t i = 0; found == nullptr && i < point.aliases.size(); ++i)
    found = catalogue().find_fallback(point.aliases[i], point.prototype_object, diagnostics);
  report(diagnostics);
  return found;
}

// An entry is where the probe stands. A call site is in its caller: the definition goes by the name of the
// object that the plan found.
Prototypes::Callee Prototypes::callee_of(const plan::ProbePoint& point, const plan::Objects& objects) {
  if (point.kind == plan::ProbeKind::entry || point.only_from_caller) {
    const auto* object = object_of(objects, point.object);
    if (object == nullptr) return {};
    return {object->file, object->in_file(point.address)};
  }
  for (const auto& object : objects) {
    if (object.name() != point.prototype_object) continue;
    auto symbol = object.file->find_exported(point.name);
    // An IFUNC's address is its resolver's.
    return {object.file, symbol && !symbol->ifunc ? std::optional(symbol->address) : std::nullopt};
  }
  return {};
}

const Prototypes::Known& Prototypes::of_syscall(const std::string& name, const std::string& object) {
  auto [known, fresh] = known_.try_emplace(name + "@" + object);
  if (!fresh) return known->second;
  proto::Diagnostics diagnostics;
  Found found = catalogue().find_specific(name, object, diagnostics);
  report(diagnostics);
  known->second = {found, found != nullptr ? found->origin : "none"};
  return known->second;
}

Prototypes::Parties Prototypes::parties_of(const plan::ProbePoint& point, const plan::Objects& objects) {
  const auto* caller = point.kind == plan::ProbeKind::plt ? object_of(objects, point.caller_object) : nullptr;
  return {callee_of(point, objects), caller != nullptr ? caller->file : nullptr};
}

const Prototypes::Known& Prototypes::find(const plan::ProbePoint& point, const Parties& parties,
                                          ObjectCache& files, ObjectCache::Servers servers) {
  const Callee& callee = parties.callee;
  const std::string key =
      fmt::format("{}@{}~{}|{}:{}|{}", point.name, point.prototype_object, point.clone,
                  static_cast<const void*>(callee.file.get()), callee.address.value_or(ElfAddr{}),
                  static_cast<const void*>(parties.caller.get()));
  auto [known, fresh] = known_.try_emplace(key);
  if (!fresh) return known->second;
  known->second = look_up(point, parties, files, servers);
  asked_.insert({callee.file, parties.caller});
  return known->second;
}

Prototypes::Known Prototypes::look_up(const plan::ProbePoint& point, const Parties& parties,
                                      ObjectCache& files, ObjectCache::Servers servers) {
  const Callee& callee = parties.callee;
  const auto& caller = parties.caller;
  // What nobody is stopped for may take its time: a command that is launched waits anyway.
  if (options_.pids.empty()) servers = ObjectCache::Servers::may_be_asked;
  if (point.clone) return {nullptr, "none: a clone's arguments are not those of the source"};
  if (Found found = in_files(point)) return {found, found->origin};
  std::string why;
  auto ask = [&](const std::shared_ptr<const elf::ElfFile>& file, auto question) -> Found {
    if (file == nullptr) return nullptr;
    const auto& [debug, reason] = files.debug_info(file, servers);
    if (debug == nullptr) {
      why += "; " + reason;
      return nullptr;
    }
    dwarf::Answer answer = question(*debug);
    if (!answer.prototype) why += "; " + answer.reason;
    return answer.prototype;
  };
  const auto at_callee = [&](auto& debug) { return debug.function_at(*callee.address); };
  // A table of counts shows no arguments, but they may decide what is counted; and where they lie a wrapper
  // must know.
  const bool shown = options_.call_lines || !options_.where.empty();
  const bool placed = !shown && options_.mechanism == Options::Mechanism::trampoline;
  Found found;
  if (shown && callee.address) found = ask(callee.file, at_callee);
  if (!found) found = of_alias(point);
  if (!found) found = of_implemented(point);
  if (!found && shown) found = ask(caller, [&](auto& debug) { return debug.declaration_of(point.name); });
  if (!found) found = from_fallback(point);
  if (!found && placed && callee.address) found = ask(callee.file, at_callee);
  if (found) return {found, found->origin};
  return {nullptr, why.empty() ? "none" : "none (" + why.substr(2) + ")"};
}

}  // namespace rtrace::session
