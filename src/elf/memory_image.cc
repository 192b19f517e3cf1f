#include "memory_image.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "rtrace/base/error.h"

namespace rtrace::elf {
namespace {

constexpr uint64_t kPage = 4096;
// Far more than any object takes (libLLVM: 120 MiB); what a hostile header asks for ends here.
constexpr uint64_t kMaxSpan = uint64_t{1} << 30;
constexpr size_t kMaxHeaders = 4096;

template <typename T>
std::span<std::byte> bytes_of(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

class MemoryReader {
 public:
  MemoryReader(const Memory& memory, VirtAddr header) : memory_(memory), at_(header) {}

  MemoryImage run() {
    read_headers();
    measure();
    file_ = Mapping::shared(span_);
    for (Elf64_Phdr& header : headers_) place(header);
    put_headers();
    restore_dynamic();
    return {std::move(file_), bias_};
  }

 private:
  void read_headers() {
    if (memory_.read(at_, bytes_of(file_header_)) != sizeof file_header_)
      throw Error::make("no ELF header can be read at {}", at_);
    if (std::memcmp(file_header_.e_ident, ELFMAG, SELFMAG) != 0)
      throw Error::make("there is no ELF header at {}", at_);
    if (file_header_.e_phentsize != sizeof(Elf64_Phdr) || file_header_.e_phnum == 0 ||
        file_header_.e_phnum > kMaxHeaders || file_header_.e_phoff > kMaxSpan)
      throw Error::make("the ELF header at {} has no usable program headers", at_);
    headers_.resize(file_header_.e_phnum);
    auto bytes = std::as_writable_bytes(std::span(headers_));
    if (memory_.read(at_ + file_header_.e_phoff, bytes) != bytes.size())
      throw Error::make("the program headers of the object at {} are not mapped", at_);
  }

  // The file's first byte is in the first segment; with it the header's own address, and so the bias.
  void measure() {
    uint64_t end = 0;
    first_ = UINT64_MAX;
    const Elf64_Phdr* holds_header = nullptr;
    for (const Elf64_Phdr& header : headers_) {
      if (header.p_type != PT_LOAD) continue;
      if (header.p_filesz > kMaxSpan || header.p_vaddr > UINT64_MAX - kMaxSpan)
        throw Error::make("a segment of the object at {} is {} bytes long", at_, header.p_filesz);
      if (header.p_offset < kPage && header.p_vaddr >= header.p_offset) holds_header = &header;
      first_ = std::min(first_, header.p_vaddr / kPage * kPage);
      end = std::max(end, header.p_vaddr + header.p_filesz);
    }
    if (holds_header == nullptr) throw Error::make("the object at {} does not map its own header", at_);
    bias_ = LoadBias{at_.value - (holds_header->p_vaddr - holds_header->p_offset)};
    // The header must come first in what is made here.
    if (ElfAddr{first_} + bias_ != at_ || end <= first_ || end - first_ > kMaxSpan)
      throw Error::make("the segments of the object at {} are in no usable order", at_);
    span_ = std::max(end - first_, file_header_.e_phoff + headers_.size() * sizeof(Elf64_Phdr));
    if (span_ > kMaxSpan) throw Error::make("the object at {} is {} bytes long", at_, span_);
  }

  bool inside(const Elf64_Phdr& header) const {
    return header.p_vaddr >= first_ && header.p_vaddr - first_ <= span_ &&
           header.p_filesz <= span_ - (header.p_vaddr - first_);
  }

  // What is not mapped (a page that the program has given back) is left out, and stays zero.
  void place(Elf64_Phdr& header) {
    if (!inside(header)) {
      header.p_type = PT_NULL;
      return;
    }
    header.p_offset = header.p_vaddr - first_;
    if (header.p_type != PT_LOAD) return;
    auto out = std::span(file_.data(), file_.size()).subspan(header.p_offset, header.p_filesz);
    VirtAddr from = ElfAddr{header.p_vaddr} + bias_;
    while (!out.empty()) {
      size_t got = memory_.read(from, out);
      if (got == 0) got = std::min<size_t>(out.size(), kPage - from.value % kPage);
      from = from + got;
      out = out.subspan(got);
    }
  }

  void put_headers() {
    file_header_.e_shoff = 0;
    file_header_.e_shnum = file_header_.e_shstrndx = 0;
    std::memcpy(file_.data(), &file_header_, sizeof file_header_);
    std::memcpy(file_.data() + file_header_.e_phoff, headers_.data(), headers_.size() * sizeof(Elf64_Phdr));
  }

  // The object's own address again where the word holds one in memory.
  uint64_t unbiased(uint64_t value) const {
    const uint64_t own = value - bias_.value;
    return bias_.value != 0 && own >= first_ && own - first_ < span_ ? own : value;
  }

  template <typename T>
  T* word_at(uint64_t address) {
    const uint64_t offset = address - first_;
    if (address < first_ || offset > file_.size() - sizeof(T)) return nullptr;
    return reinterpret_cast<T*>(file_.data() + offset);
  }

  // glibc adds l_addr to the d_ptr of these tags in place (elf/get-dynamic-info.h); musl leaves them.
  void restore_dynamic() {
    constexpr std::array<int64_t, 13> kAddresses = {
        DT_PLTGOT, DT_HASH, DT_STRTAB, DT_SYMTAB,   DT_RELA,   DT_JMPREL, DT_INIT_ARRAY,
        DT_INIT,   DT_RELR, DT_VERSYM, DT_GNU_HASH, DT_VERDEF, DT_VERNEED};
    auto dynamic = std::ranges::find(headers_, Elf64_Word{PT_DYNAMIC}, &Elf64_Phdr::p_type);
    if (dynamic == headers_.end() || dynamic->p_offset % alignof(Elf64_Dyn) != 0) return;
    uint64_t initializers = 0, initializers_size = 0;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_filesz; at += sizeof(Elf64_Dyn)) {
      auto* entry = word_at<Elf64_Dyn>(dynamic->p_vaddr + at);
      if (entry == nullptr || entry->d_tag == DT_NULL) break;
      if (std::ranges::find(kAddresses, entry->d_tag) != kAddresses.end())
        entry->d_un.d_ptr = unbiased(entry->d_un.d_ptr);
      if (entry->d_tag == DT_INIT_ARRAY) initializers = entry->d_un.d_ptr;
      if (entry->d_tag == DT_INIT_ARRAYSZ) initializers_size = entry->d_un.d_val;
    }
    // DT_RELR has no addends: the file's words are all there is to say what was there.
    if (initializers % sizeof(uint64_t) != 0) return;
    for (uint64_t at = 0; at + sizeof(uint64_t) <= std::min(initializers_size, span_); at += sizeof(uint64_t))
      if (auto* word = word_at<uint64_t>(initializers + at)) *word = unbiased(*word);
  }

  const Memory& memory_;
  VirtAddr at_;
  Elf64_Ehdr file_header_{};
  std::vector<Elf64_Phdr> headers_;
  uint64_t first_ = 0, span_ = 0;
  LoadBias bias_;
  Mapping file_;
};

}  // namespace

MemoryImage read_memory_image(const Memory& memory, VirtAddr header) {
  return MemoryReader(memory, header).run();
}

}  // namespace rtrace::elf
