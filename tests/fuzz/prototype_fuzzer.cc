// A file of prototypes, and calls of what it declares, in a process whose registers and memory are the rest
// of the input. The line "====" ends the file; what stands before it is TOML if its first character is '[',
// else ltrace's language.
#include "fuzzing.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/proto/parser.h"
#include "rtrace/sink/text_sink.h"

namespace rtrace::decode {
namespace {

constexpr std::string_view kEnd = "\n====\n";
constexpr VirtAddr kBase{0x10000};
constexpr size_t kMostCalls = 16;

// The input's bytes over and over: pointers lead to more of them, as far as 1 MiB goes.
class RepeatedMemory : public Memory {
 public:
  explicit RepeatedMemory(std::string_view bytes) : bytes_(bytes) {}
  size_t read(VirtAddr address, std::span<std::byte> out) const override {
    constexpr uint64_t kSize = 1 << 20;
    if (bytes_.empty() || address < kBase || address - kBase >= kSize) return 0;
    const size_t size = std::min<size_t>(out.size(), kSize - (address - kBase));
    for (size_t i = 0; i < size; ++i)
      out[i] = static_cast<std::byte>(bytes_[(address - kBase + i) % bytes_.size()]);
    asked_ += out.size();
    return size;
  }
  size_t asked() const { return asked_; }

 private:
  std::string_view bytes_;
  mutable size_t asked_ = 0;
};

// Everything a registers' dump holds may be a pointer, a number, or nonsense.
arch::Regs made_up_registers(fuzz::Input& input) {
  arch::Regs regs;
  regs.raw = input.take<user_regs_struct>();
  regs.raw.rsp = kBase.value + regs.raw.rsp % 4096;
  return regs;
}

void check_line(std::string_view line, std::string_view spelling) {
  fuzz::must_hold(line.size() <= 4096 + 512, "a line of {} bytes for {}", line.size(), spelling);
  fuzz::must_hold(fuzz::is_printable(line.substr(0, line.size() - 1)) && line.ends_with('\n'),
                  "what is no printable line for {}: {}", spelling, line);
}

void call(const std::shared_ptr<const proto::Prototype>& prototype, fuzz::Input input) {
  CallDecoder decoder(prototype, {size_t{input.take<uint8_t>()}, size_t{input.take<uint8_t>()}});
  const arch::Regs entry = made_up_registers(input), exit = made_up_registers(input);
  const auto vectors = input.take<arch::VectorRegs>();
  RepeatedMemory memory(input.rest());
  auto entered = decoder.enter(entry, memory, &vectors);
  const Carried carried{&vectors, &vectors, &entered.before, 2};
  std::byte stack[64];
  const size_t got = memory.read(entry.sp() + 8, stack);
  auto returned = decoder.leave(entry, exit, memory, std::span(stack).first(got), carried);
  sink::StringOutput lines;
  sink::TextSink sink(lines, {});
  const ProbeLabel label{.id = {}, .name = "f", .object = {}, .caller = {}};
  sink.take({{}, CallEntered{.label = &label, .arguments = entered.arguments, .unseen_return = {}}});
  sink.take({{}, CallReturned{.label = &label, .arguments = returned.arguments, .result = returned.result}});
  check_line(lines.text, proto::spell(*prototype));
  fuzz::must_hold(memory.asked() <= size_t{64} << 20, "{} bytes read for {}", memory.asked(),
                  proto::spell(*prototype));
}

}  // namespace
}  // namespace rtrace::decode

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace rtrace;
  std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t end = std::min(all.find(decode::kEnd), all.size());
  const std::string_view text = all.substr(0, end);
  const size_t behind = std::min(end + decode::kEnd.size(), size);
  const proto::Importer nothing;
  proto::Diagnostics diagnostics;
  const proto::ParsedFile file = text.starts_with('[')
                                     ? proto::parse_toml(text, "f.toml", nothing, diagnostics)
                                     : proto::parse_conf(text, "f.conf", nothing, diagnostics);
  size_t calls = 0;
  for (const auto& [name, prototype] : file.functions) {
    if (++calls > decode::kMostCalls) break;
    decode::call(prototype, fuzz::Input(data + behind, size - behind));
  }
  return 0;
}
