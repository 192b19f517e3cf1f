#include "image.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>

#include "rtrace/base/log.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/mech/remains.h"
#include "rtrace/tracee/thread.h"

namespace rtrace::session {
namespace {

uint32_t next_object_id = 1;  // 0: none

elf::ObjectId new_object_id() {
  return static_cast<elf::ObjectId>(next_object_id++);
}

bool is_32_bit(pid_t pid) {
  unsigned char ident[EI_NIDENT] = {};
  UniqueFd file(open(fmt::format("/proc/{}/exe", pid).c_str(), O_RDONLY | O_CLOEXEC));
  return file && pread(file.get(), ident, sizeof ident, 0) == sizeof ident && ident[EI_CLASS] == ELFCLASS32;
}

std::string key_of(const loader::LinkMapEntry& entry) {
  return fmt::format("{}/{}/{:x}/{}", entry.address, entry.dynamic, entry.bias.value, entry.name);
}

bool is_same_file(const tracee::MapsEntry& one, const tracee::MapsEntry& other) {
  return one.range.begin == other.range.begin && one.inode == other.inode && one.path == other.path &&
         one.offset == other.offset && one.deleted == other.deleted;
}

// The mapping of a file's begin: the link map and auxv name addresses in the middle of it.
const tracee::MapsEntry* first_mapping_of(const std::vector<tracee::MapsEntry>& maps, VirtAddr inside) {
  const tracee::MapsEntry* found = tracee::find_mapping(maps, inside);
  if (found == nullptr || !found->file_backed()) return nullptr;
  while (found != maps.data() && found->offset.value != 0 && (found - 1)->inode == found->inode) --found;
  return found;
}

}  // namespace

Image::Image(pid_t pid, Services& services, State state)
    : pid_(pid), services_(services), space_(std::make_unique<mech::AddressSpace>(pid, services.ledger)) {
  find_main_program();
  maps_are_current_ = state == State::stands;
}

// The probes stay the parent's: their ids, labels and hits are the same calls in another process.
Image::Image(Tag, const Image& parent, pid_t child)
    : pid_(child),
      services_(parent.services_),
      space_(parent.space_->clone_for(child)),
      survival_(parent.survival_),
      maps_(parent.maps_),
      objects_(parent.objects_),
      interpreter_(parent.interpreter_),
      interpreter_begin_(parent.interpreter_begin_),
      restored_(parent.restored_),
      link_map_(parent.link_map_),
      rendezvous_(parent.rendezvous_),
      relocated_once_(parent.relocated_once_),
      no_wrapping_(parent.no_wrapping_),
      no_injection_(parent.no_injection_),
      loaded_(parent.loaded_),
      armed_(parent.armed_),
      unseen_returns_(parent.unseen_returns_),
      implementations_(parent.implementations_) {}

std::shared_ptr<Image> Image::clone_for(pid_t child) const {
  return std::make_shared<Image>(Tag{}, *this, child);
}

Image::~Image() = default;

void Image::find_main_program() {
  maps_ = tracee::read_maps(pid_);
  const auto auxv = tracee::read_auxv(pid_);
  auto headers = auxv.find(AT_PHDR);
  const auto* mapping = headers == auxv.end() ? nullptr : first_mapping_of(maps_, VirtAddr{headers->second});
  if (mapping == nullptr) {
    // Its auxiliary vector has words of another size, and could not be read.
    if (is_32_bit(pid_)) throw Error::make("it is a 32-bit program; rtrace traces 64-bit programs only");
    throw Error::make("process {} has no main program that could be found", pid_);
  }
  elf::LoadedObject main;
  main.id = new_object_id();
  main.path = mapping->path;
  main.main_program = true;
  take_object(main, {*mapping, std::nullopt, VirtAddr{headers->second}});
  objects_ = {main};
  if (tracee::forbids_calls(pid_))
    no_injection_ = "a seccomp filter is in force, so no memory is mapped into the process";

  auto base = auxv.find(AT_BASE);
  if (base == auxv.end() || base->second == 0) return;
  if (const auto* entry = tracee::find_mapping(maps_, VirtAddr{base->second});
      entry != nullptr && entry->file_backed()) {
    interpreter_.id = new_object_id();
    interpreter_.path = entry->path;
    interpreter_begin_ = *entry;
    take_object(interpreter_, {*entry, LoadBias{base->second}, std::nullopt});
  }
}

void Image::take_object(elf::LoadedObject& object, const ObjectCache::Place& place) {
  // What was read from memory before a site stood in it stays good, and what was opened of the file that
  // still is mapped there.
  if (interpreter_.file != nullptr && place.bias == interpreter_.bias &&
      (interpreter_.file->is_from_memory() || is_same_file(place.begin, interpreter_begin_))) {
    object.file = interpreter_.file;
    object.bias = interpreter_.bias;
    return;
  }
  auto opened = services_.objects.open(pid_, place, space_->memory());
  object.file = std::move(opened.file);
  object.bias = opened.bias;
  if (!opened.no_file.empty())
    explain(
        fmt::format("{}: {}; its image in memory serves: only exported functions have names, and there is "
                    "no file to compare its code with",
                    object.path, opened.no_file));
}

bool Image::stands_at_syscall(pid_t tid) const {
  const auto regs = tracee::registers(tid);
  std::byte code[arch::kMaxInsn];
  const size_t got = regs ? space_->memory().read(regs->pc(), code) : 0;
  const auto insn = arch::decode({code, got}, regs ? regs->pc() : VirtAddr{});
  return !insn || insn->kind == arch::Insn::Kind::syscall;
}

bool Image::is_of(pid_t pid) const {
  const auto maps = tracee::read_maps(pid);
  const auto* mapping = first_mapping_of(maps, objects_[0].range().begin);
  return mapping != nullptr && mapping->path == objects_[0].path &&
         mapping->range.begin == objects_[0].range().begin;
}

const elf::LoadedObject* Image::object_at(VirtAddr address) const {
  for (const auto& object : objects_)
    if (object.maps(address)) return &object;
  if (interpreter_.file != nullptr && interpreter_.maps(address)) return &interpreter_;
  return nullptr;
}

const elf::LoadedObject* Image::object(elf::ObjectId id) const {
  for (const auto& object : objects_)
    if (object.id == id) return &object;
  return nullptr;
}

// At attach DT_DEBUG leads to r_debug; at exec the dynamic linker has not run yet, but its hook has a name.
void Image::read_ahead() {
  find_rendezvous();
  if (!rendezvous_) return;
  auto map = rendezvous_->read(space_->memory());
  if (!map) return;
  maps_ = tracee::read_maps(pid_);
  for (const auto& entry : map->entries) load(entry);
  adopt(*map);
  // Fills the caches of the files; the plan is made again when the process is held.
  const auto plan =
      plan::make_plan(services_.options.requests, objects_, objects_, space_->memory(), plan::Relocated::yes);
  for (const auto& point : plan.points) services_.registry.read_ahead(point, objects_, services_.objects);
}

// /proc/PID/mem leads to the memory that there was when it was opened, for as long as anybody uses that.
bool Image::is_current() const {
  std::byte first[1];
  return !space_->abandoned() &&
         space_->memory().read_forced(objects_[0].range().begin, first) == sizeof first;
}

void Image::say_unless_gone(const std::string& line) const {
  if (is_current()) services_.reporter.say(line);
}

// DT_DEBUG, else the name that glibc and musl give it.
void Image::find_rendezvous() {
  if (auto dynamic = objects_[0].file->dynamic())
    rendezvous_ = loader::Rendezvous::find(space_->memory(), objects_[0].at(*dynamic));
  if (rendezvous_ || interpreter_.file == nullptr) return;
  if (auto symbol = interpreter_.file->find_symbol("_r_debug"))
    rendezvous_ = loader::Rendezvous(interpreter_.at(*symbol));
}

bool Image::watch_hook(VirtAddr hook, const NeedStopped& need_stopped) {
  const auto* at = object_at(hook);
  provide_room(at != nullptr ? at->range() : Range{hook, hook + 1}, 1, need_stopped);
  auto answer = space_->install(hook, file_bytes(hook));
  if (auto* installed = std::get_if<mech::Installed>(&answer)) {
    installed->site->rendezvous = true;
    return true;
  }
  const auto* declined = std::get_if<mech::Declined>(&answer);
  say_unless_gone(fmt::format(
      "the dynamic linker's hook of process {} cannot be watched ({}): libraries loaded later will be missed",
      pid_, declined != nullptr ? declined->reason : "no room near it"));
  return false;
}

void Image::begin(event::TraceeId who, const NeedStopped& need_stopped) {
  place_first_sites(who, need_stopped);
  maps_are_current_ = false;
}

void Image::place_first_sites(event::TraceeId who, const NeedStopped& need_stopped) {
  if (interpreter_.file == nullptr) {
    relocated_once_ = true;
    // Nothing else asks for room there, and with it for the handler, which a system-call stop may need.
    if (services_.options.syscalls) provide_room(objects_[0].range(), 1, need_stopped);
    wrapping_.lacks_thread_pointer = true;
    arm({objects_[0]}, plan::Relocated::no, need_stopped);
    report_loaded({objects_[0]}, who);
    return;
  }
  if (auto hook = interpreter_.file->find_symbol("_dl_debug_state")) {
    watch_hook(interpreter_.at(*hook), need_stopped);
    return;
  }
  services_.reporter.say(
      fmt::format("{} has no _dl_debug_state: only the main program is traced", interpreter_.path));
  sync(Moment::attach, who, need_stopped);
}

std::optional<elf::LoadedObject> Image::load(const loader::LinkMapEntry& entry) {
  const std::string key = key_of(entry);
  if (auto known = loaded_.find(key); known != loaded_.end()) return known->second;
  const auto main_dynamic = objects_[0].file->dynamic();
  if (main_dynamic && entry.dynamic == objects_[0].at(*main_dynamic)) {
    objects_[0].link_namespace = entry.link_namespace;
    return loaded_[key] = objects_[0];
  }
  const auto* mapping = first_mapping_of(maps_, entry.dynamic);
  // The vdso, an entry that somebody made up, or an object that was found wanting before.
  if (mapping == nullptr || left_out_.contains(key)) return std::nullopt;
  elf::LoadedObject object;
  object.id = new_object_id();
  object.path = mapping->path;
  object.link_namespace = entry.link_namespace;
  try {
    take_object(object, {*mapping, entry.bias, std::nullopt});
  } catch (const Error& error) {
    left_out_.insert(key);
    say_unless_gone(fmt::format("{} is left out: {}", object.path, error.what()));
    return std::nullopt;
  }
  return loaded_[key] = object;
}

void Image::unload(const loader::LinkMapEntry& entry, event::TraceeId who) {
  auto known = loaded_.find(key_of(entry));
  if (known == loaded_.end()) return;
  const elf::LoadedObject object = known->second;
  loaded_.erase(known);
  RTRACE_LOG(session, 1, "unloaded {} at {}", object.path, object.bias.value);
  space_->forget(object.range());
  space_->remove_probes_of(object.id);
  if (wrapping_.trampolines != nullptr) wrapping_.trampolines->forget(object.range());
  std::erase_if(wrapping_.waiting, [&](const auto& function) {
    return function.point.object == object.id ||
           (function.point.slot && function.point.caller_object == object.id);
  });
  std::erase_if(objects_, [&](const auto& candidate) { return candidate.id == object.id; });
  std::erase_if(implementations_, [&](const auto& answer) { return object.maps(answer.first); });
  std::erase_if(armed_, [&](const auto& point) {
    return point.second.object == object.id || point.second.caller == object.id;
  });
  services_.reporter.take(who, timestamp(), decode::Unloaded{object.path});
  for (VirtAddr stray : space_->strays())
    if (object.range().contains(stray)) check_stray(stray, object);
}

// Its int3 serves as well in the same code, which may be on its way into the link map. In any other it must
// not be met.
void Image::check_stray(VirtAddr stray, const elf::LoadedObject& before) {
  if (space_->is_code(stray, before.file->bytes_at(before.in_file(stray), arch::kMaxInsn))) return;
  const auto own = mech::bytes_of_file(pid_, tracee::read_maps(pid_), stray, 1);
  RTRACE_LOG(session, 1, "a stray int3 at {}", stray);
  if (!own.empty() && own[0] != std::byte{arch::kInt3}) space_->take_out(stray, own[0]);
}

// Objects were replaced at their places while we armed them: the new ones' own bytes are in their files. What
// is in no object yet may be one's soon.
void Image::take_out_strays() {
  space_->drop_gone_strays();
  for (VirtAddr stray : space_->strays()) {
    const auto own = file_bytes(stray);
    if (!own.empty() && own[0] != std::byte{arch::kInt3}) space_->take_out(stray, own[0]);
  }
}

std::optional<loader::LinkMap> Image::read_link_map(WhileChanging changing) {
  if (!rendezvous_) find_rendezvous();
  return rendezvous_ ? rendezvous_->read(space_->memory(), changing) : std::nullopt;
}

bool Image::has_dynamic_linker_begun() {
  if (!rendezvous_) find_rendezvous();
  return !rendezvous_ || rendezvous_->begun(space_->memory());
}

void Image::sync_behind_hook(event::TraceeId who, const NeedStopped& need_stopped) {
  constexpr int kMostLooks = 16;  // at one that opens and closes all the time
  for (int look = 0; look < kMostLooks; ++look) {
    const auto map = read_link_map(WhileChanging::entries_too);
    if (!map || loader::diff(link_map_, *map).empty()) return;
    sync(Moment::attach, who, need_stopped);
  }
}

void Image::sync(Moment moment, event::TraceeId who, const NeedStopped& need_stopped) {
  const Arming arming(arming_);
  // First: its program may run, and begin meanwhile.
  const bool begun = moment != Moment::attach || has_dynamic_linker_begun();
  // It is changing at every other call of the hook.
  auto map = read_link_map(moment == Moment::hook ? WhileChanging::state_only : WhileChanging::entries_too);
  if (!map) return without_link_map(moment, begun, who, need_stopped);
  if (map->state != loader::LinkState::consistent && moment == Moment::hook) return;
  if (map->truncated)
    say_unless_gone(
        fmt::format("the link map of process {} is broken; what follows the break is left out", pid_));
  const auto changes = loader::diff(link_map_, *map);
  for (const auto& entry : changes.removed) unload(entry, who);
  maps_ = tracee::read_maps(pid_);
  unseen_returns_.clear();
  branches_to_entry_.clear();
  errno_offsets_.clear();
  plan::Objects added;
  for (const auto& entry : changes.added)
    if (auto object = load(entry)) added.push_back(*object);
  adopt(*map);
  take_out_strays();
  link_map_ = std::move(*map);
  const auto relocated = std::exchange(relocated_once_, true) ? plan::Relocated::no : plan::Relocated::yes;
  // The plan first: the hook may be what a thread is stopped for.
  const auto plan = added.empty() ? std::nullopt : std::optional(plan_for(added, relocated));
  if (auto hook = this->hook(); hook && space_->find(*hook) == nullptr) watch_hook(*hook, need_stopped);
  if (plan) arm(*plan, added, relocated, need_stopped);
  report_loaded(added, who);
  report_lost_probes();
}

// What the program has made of r_brk is no matter where the dynamic linker itself names the function; an int3
// in the middle of an instruction would be harm.
std::optional<VirtAddr> Image::hook() const {
  if (interpreter_.file != nullptr)
    if (auto symbol = interpreter_.file->find_symbol("_dl_debug_state")) return interpreter_.at(*symbol);
  return rendezvous_ ? rendezvous_->breakpoint(space_->memory()) : std::nullopt;
}

// A static program; one whose dynamic linker has not begun; or one that has overwritten r_debug.
void Image::without_link_map(Moment moment, bool begun, event::TraceeId who,
                             const NeedStopped& need_stopped) {
  if (interpreter_.file == nullptr) {
    if (!relocated_once_) begin(who, need_stopped);
    return;
  }
  if (moment != Moment::attach) return;
  // Before that no library has run.
  if (begun)
    say_unless_gone(fmt::format(
        "the link map of process {} cannot be read: for now only the main program is traced", pid_));
  if (auto hook = this->hook(); hook && space_->find(*hook) == nullptr) watch_hook(*hook, need_stopped);
  arm({objects_[0]}, plan::Relocated::yes, need_stopped);
  report_loaded({objects_[0]}, who);
}

// The objects in the link map's order, for that is the order in which names are bound.
void Image::adopt(const loader::LinkMap& map) {
  const elf::LoadedObject main = objects_[0];
  plan::Objects ordered;
  for (const auto& entry : map.entries)
    if (auto known = loaded_.find(key_of(entry)); known != loaded_.end()) ordered.push_back(known->second);
  if (ordered.empty() || !ordered[0].main_program) ordered.insert(ordered.begin(), main);
  objects_ = std::move(ordered);
}

}  // namespace rtrace::session
