// What decoding follows in memory, from pointer to pointer, as tables that a recorder inside the process can
// walk (agent/abi.h). They name all of what ValueDecoder reads, and more where only a value could tell.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "rtrace/agent/abi.h"
#include "rtrace/decode/call_decoder.h"
#include "rtrace/proto/type.h"

namespace rtrace::decode {

// True where decoding a value of that type may follow a pointer, or needs a length that lies in memory.
bool reaches_further(const proto::Type& type, unsigned depth = 16);

class Shapes {
 public:
  explicit Shapes(const Limits& limits) : limits_(limits) {}

  // The pointers in one value. `open`: it reaches where no shape can name it. Whose value chooses among a
  // choice's types must be known where the value is shown.
  struct Pointers {
    std::vector<agent::Pointer> list;
    bool open = false;
  };
  Pointers pointers_in(const proto::Type& type, proto::Lens outer = proto::Lens::none);

  // For Capture::shape: things of that type, one behind the other. It becomes the table's number in settle().
  uint16_t number_of(const proto::TypeRef& type, bool zero_ends, proto::Lens outer);

  // When all are known.
  void settle(agent::CapturePlan& plan);
  std::vector<agent::ShapeEntry> table() const;

 private:
  struct Draft {
    proto::TypeRef type;
    bool zero_ends = false;
    proto::Lens lens = proto::Lens::none;
    Pointers pointers;
    uint16_t place = 0;  // in the table; 0: it has none there
  };
  using Key = std::tuple<const proto::Type*, bool, proto::Lens>;
  using StructKey = std::tuple<uint64_t, size_t, std::string>;

  void collect(const proto::Type& type, uint64_t offset, proto::Lens outer, Pointers& found);
  void collect_pointer(const proto::Type& type, uint64_t offset, proto::Lens lens, Pointers& found);
  void collect_bytes(const proto::Type& type, uint64_t offset, const agent::Capture& bytes,
                     Pointers& found) const;
  void collect_choice(const proto::Type& type, uint64_t offset, proto::Lens lens, Pointers& found);
  void collect_array(const proto::Type& type, uint64_t offset, proto::Lens lens, Pointers& found);
  void collect_container(const proto::Type& type, uint64_t offset, proto::Lens lens, Pointers& found);
  void add(Pointers& found, uint64_t offset, const agent::Capture& capture) const;
  agent::Capture text(const proto::Type& type) const;
  agent::Capture pointee(const proto::TypeRef& type, proto::Lens lens);
  agent::Capture elements(const proto::TypeRef& type, uint64_t most, bool zero_ends, proto::Lens lens);
  agent::Shape shape_of(const Draft& draft) const;
  void complete();
  void settle(agent::Capture& capture) const;

  const Limits& limits_;
  std::vector<Draft> drafts_;
  size_t completed_ = 0;
  std::map<Key, uint16_t> numbers_;
  mutable std::map<StructKey, uint32_t> kinds_;
};

}  // namespace rtrace::decode
