// Where a program's errno lies: each C library keeps it in thread-local storage and has a function that says
// where, which is read, not run.
#include "image.h"
#include "rtrace/arch/tls_address.h"

namespace rtrace::session {
namespace {

constexpr const char* kFunction = "__errno_location";
constexpr size_t kCode = 64;  // far more than it takes

}  // namespace

std::optional<int64_t> Image::find_errno(int link_namespace) const {
  for (const auto& object : objects_) {
    if (object.link_namespace != link_namespace) continue;
    const auto function = object.file->find_exported(kFunction);
    if (!function) continue;
    return arch::tls_offset_returned(object.file->bytes_at(function->address, kCode),
                                     object.at(function->address), space_->memory());
  }
  // A static program, in which nothing is exported.
  const elf::LoadedObject& main = objects_[0];
  if (interpreter_.file != nullptr) return std::nullopt;
  for (const auto& function : main.file->find_function(kFunction))
    if (auto offset = arch::tls_offset_returned(main.file->bytes_at(function.address, kCode),
                                                main.at(function.address), space_->memory()))
      return offset;
  return main.file->thread_offset("errno");
}

std::optional<int64_t> Image::errno_offset(VirtAddr function) {
  const elf::LoadedObject* object = object_at(function);
  // glibc's dynamic linker sets an errno of its own (rtld_errno).
  if (object != nullptr && object->file == interpreter_.file && !object->file->find_exported(kFunction))
    return std::nullopt;
  const int link_namespace = object != nullptr ? object->link_namespace : 0;
  if (auto known = errno_offsets_.find(link_namespace); known != errno_offsets_.end()) return known->second;
  // A miss is no answer for ever: the C library may not be relocated yet.
  auto found = find_errno(link_namespace);
  if (found)
    errno_offsets_[link_namespace] = *found;
  else if (errno_missed_.insert(link_namespace).second)
    explain(fmt::format(
        "process {}: errno cannot be found, for no {} in it could be read: failures are shown without it",
        pid_, kFunction));
  return found;
}

}  // namespace rtrace::session
