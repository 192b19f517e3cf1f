// The recorder's memory in one tracee (agent/recorder.h), and our view of what it writes there.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "rtrace/agent/recorder.h"
#include "rtrace/mech/foothold.h"
#include "rtrace/mech/owner_list.h"
#include "rtrace/mech/shared_records.h"
#include "rtrace/tracee/remote_call.h"

namespace rtrace::mech {

class AgentLink {
 public:
  struct Setting {
    agent::Mode mode = agent::Mode::off;
    agent::OnFull on_full = agent::OnFull::block;
    RecorderSize size;
    uint64_t nanoseconds_per_tick = 0;  // times 2^32
    uint32_t share_inside = 0, share_outside = 0;
  };
  // From one of our nodes to its futex word.
  static constexpr long kOwnerDistance = 64 + static_cast<long>(offsetof(agent::SharedHeader, owner));

  explicit AgentLink(OwnerList& owners) : owners_(owners) {}
  ~AgentLink();
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;

  // Maps the two mappings, with the foothold's blob there already. Every task of the process is stopped.
  // What went wrong, in words; then nothing may be patched.
  std::string begin(const Foothold::Means& means, Foothold& foothold, const Setting& setting);
  // In a fork child of the parent's process, which stands before its first instruction: the pages are there,
  // and record nothing. The shared mapping becomes its own, where its parent's was. What went wrong, in
  // words; then it stays so.
  std::string inherit(const Foothold::Means& means, const Foothold& foothold, const AgentLink& parent);

  const SharedRecords& records() const { return *records_; }
  // Where the tracee has them.
  VirtAddr shared() const { return shared_.begin; }
  uint32_t capacity() const { return setting_.size.functions; }
  agent::Mode mode() const { return setting_.mode; }

  // False where the tracee's memory cannot be written.
  bool set_plan(const tracee::ProcessMemory& memory, uint32_t function, agent::FunctionPlan plan) const;
  VirtAddr plan_at(uint32_t function) const;
  // So many entries of the table of shapes, from number `first` on.
  bool set_shapes(const tracee::ProcessMemory& memory, uint64_t first,
                  std::span<const agent::ShapeEntry> entries) const;
  bool note_entry(const tracee::ProcessMemory& memory, uint32_t function, const agent::EntryNote& note) const;
  // That the foretelling call (wrapper_stub.h) stands there, over that padding.
  bool note_foretelling(const tracee::ProcessMemory& memory, VirtAddr at, std::span<const std::byte> padding);
  bool set_mode(const tracee::ProcessMemory& memory, agent::Mode mode) const;
  // In the mode that was asked for: what inherit() leaves to its caller.
  bool record(const tracee::ProcessMemory& memory) const;

 private:
  bool write_head(const Foothold::Means& means) const;
  std::string map_control(tracee::RemoteCall& remote, const Foothold::Means& means, VirtAddr blob);
  std::string map_shared(tracee::RemoteCall& remote, const Foothold::Means& means, VirtAddr name);
  std::string view(int fd);
  std::string fill(const tracee::ProcessMemory& memory);

  OwnerList& owners_;
  Setting setting_;
  Range control_, shared_;  // in the tracee
  agent::ForetellingNote foretelling_{};
  std::byte* view_ = nullptr;  // a page of our own with the list's node at its end, then the shared mapping
  size_t view_size_ = 0;
  bool owned_ = false;
  std::optional<SharedRecords> records_;
};

}  // namespace rtrace::mech
