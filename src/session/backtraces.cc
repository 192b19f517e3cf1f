#include "backtraces.h"

namespace rtrace::session {

unwind::Backtrace Backtraces::take(Image& image, const arch::Regs& regs, At at, size_t most) {
  auto find = [&](VirtAddr address) -> unwind::Place {
    const elf::LoadedObject* object = image.code_at(address);
    if (object == nullptr) return {};
    auto& table = tables_[object->file];
    if (table == nullptr) table = std::make_unique<unwind::FrameTable>(object->file);
    return {table.get(), object->bias};
  };
  const unwind::Registers here(regs.raw);
  const Memory& memory = image.space().memory();
  if (at == At::entry) return unwind::callers_of_entry(here, memory, find, most);
  if (at == At::instant) return unwind::frames_from(here, memory, find, most);
  auto trace = unwind::frames_from(here, memory, find, most + 1);
  trace.frames.erase(trace.frames.begin());
  return trace;
}

std::vector<decode::StackFrame> Backtraces::describe(Image& image, const unwind::Backtrace& trace) {
  std::vector<decode::StackFrame> described;
  for (const unwind::Frame& frame : trace.frames) {
    const elf::LoadedObject* object = image.code_at(frame.inside());
    described.push_back(object != nullptr ? describe(*object, frame)
                                          : decode::StackFrame{frame.address, {}, {}, 0, {}});
  }
  if (trace.end == unwind::End::no_entry || trace.end == unwind::End::bad_stack) described.emplace_back();
  return described;
}

decode::StackFrame Backtraces::describe(const elf::LoadedObject& object, const unwind::Frame& frame) {
  decode::StackFrame described;
  described.address = frame.address;
  described.object = object.name();
  described.offset = object.in_file(frame.address).value;
  const ElfAddr inside = object.in_file(frame.inside());
  if (const auto symbol = object.file->function_at(inside)) {
    described.symbol = symbol->name;
    described.offset -= symbol->address.value;
  }
  if (dwarf::DebugInfo* debug = files_.debug_info(object.file)) described.source = debug->line_at(inside);
  return described;
}

}  // namespace rtrace::session
