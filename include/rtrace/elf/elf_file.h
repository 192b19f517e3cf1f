// One ELF file, parsed once; knows no process. The only module with libelf.
//
// A file mapped by a tracee may be anything: truncated, hostile, not ELF at all. Every offset and count read
// from it is checked; open() throws Error for what cannot be used at all, and later questions about broken
// parts answer as if the part were absent (and warnings() says so).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rtrace/base/address.h"
#include "rtrace/base/mapping.h"
#include "rtrace/base/memory.h"
#include "rtrace/base/unique_fd.h"
#include "rtrace/elf/sdt_note.h"
#include "rtrace/elf/symbol.h"

namespace rtrace::elf {

enum class FileType : uint8_t { executable, shared };  // ET_EXEC, ET_DYN (PIE too)

// A PT_LOAD segment.
struct Segment {
  ElfRange memory;    // p_vaddr, p_memsz
  FileOffset offset;  // p_offset
  uint64_t file_size = 0;
  bool readable = false, writable = false, executable = false;
};

// Call frame information: one of its sections, and where it lies in the object's own space.
struct FrameArea {
  ElfAddr address;
  std::span<const std::byte> bytes;
};

class ElfFile {
 public:
  // Reads an x86-64 ELF executable or shared object. `path` is for messages and for finding the separate
  // debug file. Throws Error: "not an ELF file", "a 32-bit object", "truncated: ...".
  static std::shared_ptr<const ElfFile> open(UniqueFd fd, std::string path);
  static std::shared_ptr<const ElfFile> open(const std::string& path);
  // Where no file fits: the object whose ELF header a process has mapped at `header`, from that memory. It
  // has what PT_DYNAMIC leads to (exported functions, relocations; PLT stubs are found in the code), no
  // .symtab, and bytes_at() gives what was in memory, data as it was at that moment. No int3 may stand in it
  // yet. Throws Error.
  struct Mapped {
    std::shared_ptr<const ElfFile> file;
    LoadBias bias;
  };
  static Mapped from_memory(const Memory& memory, VirtAddr header, std::string path);

  ~ElfFile();
  ElfFile(const ElfFile&) = delete;
  ElfFile& operator=(const ElfFile&) = delete;

  const std::string& path() const;
  FileType type() const;
  ElfAddr entry() const;                   // e_entry
  std::optional<ElfAddr> dynamic() const;  // p_vaddr of PT_DYNAMIC
  ElfAddr program_headers() const;         // address of the program headers in memory (AT_PHDR less the bias)
  std::string_view interpreter() const;    // PT_INTERP, empty in static programs and libraries
  std::string_view soname() const;         // DT_SONAME, empty if none
  std::span<const std::byte> build_id() const;  // NT_GNU_BUILD_ID, empty if none
  std::optional<ElfAddr> build_id_note()
      const;  // where the build-id's bytes lie in memory, if a PT_LOAD maps them
  const std::vector<Segment>& segments() const;
  const std::vector<std::string_view>& needed() const;  // DT_NEEDED
  const std::vector<std::string>& warnings() const;

  // True where .symtab is missing: only exported functions have names (unless a debug file or .gnu_debugdata
  // helps).
  bool stripped() const;
  // Whether its functions do as the psABI has it (3.2.1): not Go's, nor OCaml's.
  bool preserves_registers() const;
  // Made by from_memory().
  bool is_from_memory() const;

  // Whether the file itself holds DWARF.
  bool has_debug_info() const;
  // The file that distributions move it to: by build-id or debuglink, verified. nullopt where there is none.
  struct SeparateFile {
    UniqueFd fd;
    std::string path;
  };
  std::optional<SeparateFile> open_debug_file() const;

  // Bytes as the file has them at an address of its own space, without relocations; shorter where the file's
  // part of a segment ends.
  std::span<const std::byte> bytes_at(ElfAddr address, size_t size) const;

  // All defined function symbols: .symtab if there, and .dynsym; the same (name, address) once. Parsed on
  // first use. Order: by address, then name.
  const std::vector<Symbol>& functions() const;
  // The function symbols of that name: by .gnu.hash (or DT_HASH) for exported ones, by an index of .symtab
  // for the others.
  std::vector<Symbol> find_function(std::string_view name) const;
  // What compilers made of a static function of that name: `name` plus one or more of .isra.N, .constprop.N,
  // .part.N, .lto_priv.N. Their arguments are not those of the source. Never `.cold`.
  std::vector<Symbol> find_clones(std::string_view name) const;
  // The exported definition that the dynamic linker would bind `name` to: global or weak, default visibility,
  // of the given version if not empty, else the default version. Through .gnu.hash only; never walks a table.
  std::optional<Symbol> find_exported(std::string_view name, std::string_view version = {}) const;
  // The function that contains the address (by size; where sizes are 0, the nearest before it in the same
  // section), for `symbol+0xoff` texts.
  std::optional<Symbol> function_at(ElfAddr address) const;
  // A defined symbol of any type (`_r_debug`, `_dl_debug_state`), by .dynsym then .symtab.
  std::optional<ElfAddr> find_symbol(std::string_view name) const;

  // Where a thread-local variable of a main program lies, from the thread pointer on.
  std::optional<int64_t> thread_offset(std::string_view name) const;

  // Parsed on first use.
  const std::vector<CallSlot>& call_slots() const;
  // Those of these names. Cheaper: where only stubs can call them the object's text is not searched for other
  // references (m: 20 ms in libLLVM).
  // `definer`: those of its functions that it exports, which spares a look at what only others can.
  std::vector<CallSlot> find_call_slots(std::span<const std::string_view> names,
                                        const ElfFile* definer = nullptr) const;
  std::vector<CallSlot> find_call_slots(std::string_view name) const {
    return find_call_slots(std::span(&name, 1));
  }
  // The wanted ones, in the order of call_slots(). It is asked before direct references are known.
  std::vector<CallSlot> find_call_slots(const WantedSlot& wanted) const;
  // Those of these GOT slots with which the object does more than `call *slot(%rip)` and `jmp *slot(%rip)`:
  // it loads, compares or addresses them, or has the function's address elsewhere too, so that calls of it
  // need not go through the slot, or what that holds is a pointer of the program's. Sorted. Reads all of the
  // object's bytes.
  std::vector<ElfAddr> slots_used_otherwise(std::vector<ElfAddr> slots) const;
  const std::vector<IrelativeSlot>& irelative_slots() const;
  // Undefined function names that the object imports (with their DT_VERNEED file where versioned, else
  // empty), for messages: "mysql2.so imports mysql_send_query".
  struct Import {
    std::string_view name;
    std::string_view from;  // "libmariadb.so.3", or empty if not known
  };
  const std::vector<Import>& imports() const;
  // Whether one of these names is among them. Where imports() has not been asked for, that takes no table of
  // all.
  bool imports_any(std::span<const std::string_view> names, const ElfFile* definer = nullptr) const;
  // Whether its own symbols have versions.
  bool defines_versions() const;

  // [begin, end) of each function that .eh_frame describes (via .eh_frame_hdr's table, else the section),
  // sorted. For instruction boundaries in stripped objects.
  const std::vector<ElfRange>& frame_ranges() const;
  // .eh_frame, .eh_frame_hdr and .debug_frame; empty where they are missing.
  FrameArea eh_frame() const;
  FrameArea eh_frame_index() const;
  FrameArea debug_frame() const;

  // The first function that the dynamic linker runs on load (DT_INIT, else the first of DT_INIT_ARRAY as the
  // file's relocations give it).
  std::optional<ElfAddr> first_initializer() const;

  // By address. Parsed on first use. None where the object is from memory: the notes are not loaded.
  const std::vector<SdtNote>& sdt_notes() const;

 private:
  struct Impl;
  explicit ElfFile(std::unique_ptr<Impl> impl);
  static std::unique_ptr<Impl> parse(Mapping mapping, const std::string& path);
  std::unique_ptr<Impl> impl_;
};

}  // namespace rtrace::elf
