// Where an image watches what the program does with SIGTRAP.
#include "image.h"
#include "sigtrap.h"

namespace rtrace::session {

// Where the program asks for signal state, or changes it, in an object that lies there.
struct Image::SignalWatch {
  VirtAddr address;
  Range object;
  SignalCall::Kind kind;
};

void Image::watch(std::vector<SignalWatch> watches, const NeedStopped& need_stopped) {
  std::erase_if(watches, [&](const SignalWatch& one) {
    return !why_not_writable(one.address).empty() ||
           !provide_room(one.object, watches.size(), need_stopped).empty();
  });
  // Some may have been unloaded while a thread was stopped for that.
  std::erase_if(watches, [&](const SignalWatch& one) { return object_at(one.address) == nullptr; });
  std::vector<mech::AddressSpace::Wanted> wanted;
  for (const SignalWatch& one : watches) wanted.push_back({one.address, file_bytes(one.address), one.kind});
  (void)space_->install_together(wanted);
}

// The only object that exports these, if with versions: callers that need others mean something else.
static const elf::ElfFile* definer_by_version(const plan::Objects& objects,
                                              const std::vector<std::string_view>& names) {
  const elf::ElfFile* found = nullptr;
  for (const auto& object : objects) {
    for (std::string_view name : names) {
      const auto symbol = object.file->find_exported(name);
      if (!symbol) continue;
      if (symbol->version.empty() || (found != nullptr && found != object.file.get())) return nullptr;
      found = object.file.get();
    }
  }
  return found;
}

// Only the C library changes signal state for others. It also blocks all signals for a moment for its own
// ends (posix_spawn): masks are watched where others call, and at the function itself only for callers that
// have no stub.
void Image::watch_signal_calls(const elf::LoadedObject& object, const NeedStopped& need_stopped) {
  const bool c_library =
      object.file->find_exported("sigaction") && object.file->find_exported("pthread_sigmask");
  constexpr auto kMask = SignalCall::Kind::mask;
  std::vector<std::string_view> of_masks;
  std::vector<SignalWatch> watches;
  for (const SignalCall& call : signal_calls()) {
    if (call.kind == kMask) {
      of_masks.push_back(call.name);
      continue;
    }
    const auto symbol = c_library ? object.file->find_exported(call.name) : std::nullopt;
    if (symbol && !symbol->ifunc) watches.push_back({object.at(symbol->address), object.range(), call.kind});
  }
  const elf::ElfFile* by = definer_by_version(objects_, of_masks);
  for (const elf::CallSlot& slot : object.file->find_call_slots(of_masks, by)) {
    if (slot.stub) watches.push_back({object.at(*slot.stub), object.range(), kMask});
    if (slot.stub && !slot.called_directly) continue;
    for (const auto& definer : objects_)
      if (const auto defined = definer.file->find_exported(slot.name); defined && !defined->ifunc)
        watches.push_back({definer.at(defined->address), definer.range(), kMask});
  }
  watch(std::move(watches), need_stopped);
}

}  // namespace rtrace::session
