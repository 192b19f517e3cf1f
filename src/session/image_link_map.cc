// An image's objects, as the dynamic linker's map names them.
#include <algorithm>

#include "image.h"
#include "rtrace/base/log.h"
#include "rtrace/mech/remains.h"

namespace rtrace::session {
namespace {

std::string key_of(const loader::LinkMapEntry& entry) {
  return fmt::format("{}/{}/{:x}/{}", entry.address, entry.dynamic, entry.bias.value, entry.name);
}

}  // namespace

void Image::find_rendezvous() {
  if (auto dynamic = objects_[0].file->dynamic())
    rendezvous_ = loader::Rendezvous::find(space_->memory(), objects_[0].at(*dynamic));
  if (rendezvous_ || interpreter_.file == nullptr) return;
  if (auto symbol = interpreter_.file->find_symbol("_r_debug"))
    rendezvous_ = loader::Rendezvous(interpreter_.at(*symbol));
  else if (auto pointer = interpreter_.file->find_symbol("_dl_debug_addr"))  // musl
    if (auto at = space_->memory().read_value<uint64_t>(interpreter_.at(*pointer)); at && *at != 0)
      rendezvous_ = loader::Rendezvous(VirtAddr{*at});
}

// Of a dynamic linker that was started itself: the first of its map.
void Image::adopt_program(const loader::LinkMap& map) {
  if (interpreter_.file == nullptr || objects_[0].file != interpreter_.file || map.entries.empty()) return;
  const loader::LinkMapEntry& entry = map.entries[0];
  const auto* mapping = tracee::first_mapping_of(maps_, entry.dynamic);
  if (mapping == nullptr || objects_[0].maps(mapping->range.begin)) return;
  auto program = load(entry);
  if (!program) return;
  program->main_program = true;
  objects_ = {loaded_[key_of(entry)] = *program};
}

std::optional<elf::LoadedObject> Image::load(const loader::LinkMapEntry& entry) {
  const std::string key = key_of(entry);
  if (auto known = loaded_.find(key); known != loaded_.end()) return known->second;
  const auto main_dynamic = objects_[0].file->dynamic();
  if (main_dynamic && entry.dynamic == objects_[0].at(*main_dynamic)) {
    objects_[0].link_namespace = entry.link_namespace;
    return loaded_[key] = objects_[0];
  }
  if (maps_are_hidden_) return std::nullopt;
  const auto* mapping = tracee::first_mapping_of(maps_, entry.dynamic);
  // The vdso, an entry that somebody made up, or an object that was found wanting before.
  if (mapping == nullptr || left_out_.contains(key)) return std::nullopt;
  elf::LoadedObject object;
  object.id = services_.objects.new_id();
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
  for (auto* functions : {&wrapping_.queued, &wrapping_.waiting})
    services_.to_wrap -= std::erase_if(*functions, [&](const auto& function) {
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

// The dynamic linker unmaps an object, then takes it off its list, and stops at the hook when it has done
// all.
Image::Closing Image::objects_being_closed() {
  const auto now = read_link_map(WhileChanging::entries_too);
  if (!now) return {};
  Closing closing{.any = now->state == loader::LinkState::deleting};
  for (const auto& entry : loader::diff(link_map_, *now).removed)
    if (auto known = loaded_.find(key_of(entry)); known != loaded_.end())
      closing.unlisted.insert(known->second.id);
  return closing;
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
  const Arming arming(*this);
  hurry(moment);
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
  read_maps_again();
  adopt_program(*map);
  unseen_returns_.clear();
  branches_to_entry_.clear();
  calls_.clear();
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
    if (!relocated_once_) begin(who, need_stopped, Room::as_needed);
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
