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

bool is_32_bit(pid_t pid) {
  unsigned char ident[EI_NIDENT] = {};
  UniqueFd file(open(fmt::format("/proc/{}/exe", pid).c_str(), O_RDONLY | O_CLOEXEC));
  return file && pread(file.get(), ident, sizeof ident, 0) == sizeof ident && ident[EI_CLASS] == ELFCLASS32;
}

bool is_same_file(const tracee::MapsEntry& one, const tracee::MapsEntry& other) {
  return one.range.begin == other.range.begin && one.inode == other.inode && one.path == other.path &&
         one.offset == other.offset && one.deleted == other.deleted;
}

}  // namespace

Image::Image(pid_t pid, Services& services)
    : pid_(pid), services_(services), space_(std::make_unique<mech::AddressSpace>(pid, services.ledger)) {
  find_main_program();
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
      reported_as_{child, child, 0},
      vdso_(parent.vdso_),
      unseen_returns_(parent.unseen_returns_),
      implementations_(parent.implementations_) {
  armed_at_ = parent.armed_at_;
  unfinished_ = parent.unfinished_;
  mask_functions_ = parent.mask_functions_;
}

std::shared_ptr<Image> Image::clone_for(pid_t child) const {
  return std::make_shared<Image>(Tag{}, *this, child);
}

Image::~Image() = default;

void Image::find_main_program() {
  read_maps_again();
  const auto auxv = tracee::read_auxv(pid_);
  auto headers = auxv.find(AT_PHDR);
  const auto* mapping =
      headers == auxv.end() ? nullptr : tracee::first_mapping_of(maps_, VirtAddr{headers->second});
  if (mapping == nullptr) {
    // Its auxiliary vector has words of another size, and could not be read.
    if (is_32_bit(pid_)) throw Error::make("it is a 32-bit program; rtrace traces 64-bit programs only");
    throw Error::make("process {} has no main program that could be found", pid_);
  }
  elf::LoadedObject main;
  main.id = services_.objects.new_id();
  main.path = mapping->path;
  main.main_program = true;
  take_object(main, {*mapping, std::nullopt, VirtAddr{headers->second}});
  objects_ = {main};
  if (tracee::forbids_calls(pid_))
    no_injection_ = "a seccomp filter is in force, so no memory is mapped into the process";

  auto base = auxv.find(AT_BASE);
  if (base == auxv.end() || base->second == 0) return find_linker_alone(*mapping);
  if (const auto* entry = tracee::find_mapping(maps_, VirtAddr{base->second});
      entry != nullptr && entry->file_backed()) {
    interpreter_.id = services_.objects.new_id();
    interpreter_.path = entry->path;
    interpreter_begin_ = *entry;
    take_object(interpreter_, {*entry, LoadBias{base->second}, std::nullopt});
  }
}

// A dynamic linker that was started itself, with a program as its argument, is the main program only until
// its map names that.
void Image::find_linker_alone(const tracee::MapsEntry& begin) {
  if (!objects_[0].file->find_exported("_dl_debug_state")) return;
  interpreter_ = objects_[0];
  interpreter_.main_program = false;
  interpreter_begin_ = begin;
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
  const auto* mapping = tracee::first_mapping_of(maps, objects_[0].range().begin);
  return mapping != nullptr && mapping->path == objects_[0].path &&
         mapping->range.begin == objects_[0].range().begin;
}

const elf::LoadedObject* Image::object_at(VirtAddr address) const {
  for (const auto& object : objects_)
    if (object.maps(address)) return &object;
  if (interpreter_.file != nullptr && interpreter_.maps(address)) return &interpreter_;
  return vdso_ && vdso_->file != nullptr && vdso_->maps(address) ? &*vdso_ : nullptr;
}

const elf::LoadedObject* Image::object(elf::ObjectId id) const {
  for (const auto& object : objects_)
    if (object.id == id) return &object;
  return vdso_ && vdso_->file != nullptr && vdso_->id == id ? &*vdso_ : nullptr;
}

// At attach DT_DEBUG leads to r_debug; at exec the dynamic linker has not run yet, but its hook has a name.
void Image::read_ahead() {
  find_rendezvous();
  if (!rendezvous_) return;
  auto map = rendezvous_->read(space_->memory());
  if (!map) return;
  read_maps_again();
  adopt_program(*map);
  for (const auto& entry : map->entries) load(entry);
  adopt(*map);
  // Fills the caches of the files; the plan is made again when the process is held.
  const auto plan = plan::make_plan(services_.options.requests, objects_, objects_, space_->memory(),
                                    plan::Relocated::yes, {}, elsewhere());
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
bool Image::watch_hook(VirtAddr hook, const NeedStopped& need_stopped) {
  const auto* at = object_at(hook);
  const Range near = at != nullptr ? at->range() : Range{hook, hook + 1};
  // One without room is unknown to the handler: its turn comes.
  if (!provide_room(near, 1, need_stopped).empty() && unfinished_) return false;
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

void Image::begin(event::TraceeId who, const NeedStopped& need_stopped, Room room) {
  if (interpreter_.file == nullptr) {
    relocated_once_ = true;
    const Arming arming(*this);
    // Nothing else asks for room there, and with it for the handler, which a system-call stop may need.
    if (services_.options.syscalls || room == Room::always)
      provide_room(objects_[0].range(), 1, need_stopped);
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

}  // namespace rtrace::session
