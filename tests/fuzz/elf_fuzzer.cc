// A whole ELF file, asked everything that rtrace ever asks of one.
#include <fcntl.h>

#include "fuzzing.h"
#include "rtrace/base/error.h"
#include "rtrace/elf/elf_file.h"
#include "rtrace/elf/loaded_object.h"

namespace rtrace::elf {
namespace {

// A .gnu_debuglink that names this leads to the input itself, which has the build-id that is asked for.
constexpr int kDebugFile = 900;

size_t ask_for_names(const ElfFile& file) {
  size_t answers = 0;
  for (std::string_view name : {"main", "work", "plain", "_r_debug", "puts"}) {
    answers += file.find_function(name).size() + file.find_clones(name).size();
    answers += file.find_call_slots(name).size() + file.find_symbol(name).has_value();
    answers += file.find_exported(name).has_value() + file.find_exported(name, "V_1").has_value();
  }
  return answers;
}

size_t ask_for_tables(const ElfFile& file) {
  size_t answers = 0;
  for (const Symbol& symbol : file.functions()) {
    answers += symbol.name.size() + symbol.version.size();
    if (answers % 16 == 0) answers += file.function_at(symbol.address).has_value();
  }
  for (const CallSlot& slot : file.call_slots())
    answers += slot.name.size() + slot.version.size() + slot.tail_jumps.size();
  for (const ElfFile::Import& import : file.imports()) answers += import.name.size() + import.from.size();
  for (const ElfRange& range : file.frame_ranges()) {
    fuzz::must_hold(range.begin <= range.end, "a frame's range {} - {}", range.begin, range.end);
    answers += file.bytes_at(range.begin, 16).size();
  }
  return answers + file.irelative_slots().size();
}

size_t ask_for_facts(const ElfFile& file) {
  size_t answers = file.needed().size() + file.soname().size() + file.interpreter().size();
  answers += file.build_id().size() + file.build_id_note().has_value() + file.stripped();
  answers += file.program_headers().value % 2 + file.entry().value % 2 + file.dynamic().has_value();
  answers += file.first_initializer().has_value() + file.function_at(file.entry()).has_value();
  for (const Segment& segment : file.segments())
    answers += file.bytes_at(segment.memory.begin, segment.memory.size()).size();
  return answers;
}

}  // namespace
}  // namespace rtrace::elf

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtrace;
  using namespace rtrace::elf;
  UniqueFd fd = fuzz::file_of({reinterpret_cast<const char*>(data), size});
  UniqueFd debug_file(dup3(fd.get(), kDebugFile, O_CLOEXEC));
  try {
    elf::LoadedObject object;
    object.path = "/proc/self/fd/object";
    object.bias = LoadBias{0x7f0000000000};
    object.file = elf::ElfFile::open(std::move(fd), object.path);
    size_t answers = ask_for_facts(*object.file) + ask_for_tables(*object.file);
    answers = answers + ask_for_names(*object.file) + object.name().size() + object.range().size() % 2;
    answers = answers + object.maps_executable(object.at(object.file->entry()));
    fuzz::must_hold(answers < size_t{1} << 40, "{} answers", answers);
    fuzz::must_hold(object.file->warnings().size() < 100, "{} warnings", object.file->warnings().size());
  } catch (const Error&) {
  }
  return 0;
}
