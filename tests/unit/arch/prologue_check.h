// A relocated prologue read back: does each instruction of the copy mean what its original means? From the
// disassembly alone, with nothing of what made it.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "arch/code_text.h"
#include "rtrace/arch/prologue.h"

namespace rtrace::arch {

class PrologueCheck {
 public:
  PrologueCheck(const EntryCode& entry, const Prologue& prologue, VirtAddr to)
      : entry_(entry), prologue_(prologue), to_(to) {}

  // What differs first; empty where nothing does. A first walk finds where each instruction's copy stands,
  // for the targets of the second.
  std::string run() {
    if (std::string differs = walk(); !differs.empty()) return differs;
    starts_known_ = true;
    offset_ = 0;
    return walk();
  }

 private:
  std::string walk() {
    bool reached = true;
    for (VirtAddr at = prologue_.at; at < end();) {
      auto original = decode(original_at(at), at);
      if (!original) return said("undecodable", at);
      if (!starts_known_ && original->target && original->kind != Insn::Kind::call)
        targets_.insert(*original->target);
      reached = reached || targets_.contains(at);
      std::string differs = reached ? visit(*original, at) : unreached(*original, at);
      if (!differs.empty()) return differs;
      reached = reached && falls_through(*original);
      at = at + original->length;
    }
    return offset_ == prologue_.copy.code.size() ? "" : said("ends the copy too early", prologue_.at);
  }

  std::string visit(const Insn& original, VirtAddr at) {
    starts_[at] = offset_;
    ResumePoint wanted{static_cast<uint8_t>(offset_), at, 0};
    const auto& points = prologue_.copy.points;
    if (std::find(points.begin(), points.end(), wanted) == points.end())
      return said("has no resume point", at);
    return compare(original, at);
  }

  static bool falls_through(const Insn& insn) {
    return insn.kind != Insn::Kind::jump && insn.kind != Insn::Kind::jump_indirect &&
           insn.kind != Insn::Kind::ret && insn.kind != Insn::Kind::undefined;
  }

  VirtAddr end() const { return prologue_.at + prologue_.covered; }
  std::span<const std::byte> original_at(VirtAddr at) const { return entry_.bytes.subspan(at - entry_.from); }
  std::span<const std::byte> copied() const { return std::span(prologue_.copy.code).subspan(offset_); }
  VirtAddr here() const { return to_ + offset_; }

  std::string compare(const Insn& original, VirtAddr at) {
    switch (original.kind) {
      case Insn::Kind::jump:
        return expect_jump(*original.target, at);
      case Insn::Kind::branch:
        return compare_branch(original, at);
      case Insn::Kind::loop:
        return compare_loop(original, at);
      case Insn::Kind::call:
      case Insn::Kind::call_indirect:
        return compare_call(original, at);
      default:
        return compare_plain(original, at);
    }
  }

  static std::string unreached(const Insn& insn, VirtAddr at) {
    bool padding = insn.kind == Insn::Kind::nop || insn.kind == Insn::Kind::int3;
    return padding ? "" : fmt::format("{} is code, and not in the copy", at);
  }

  // What a jump in the program to `target` is in the copy.
  VirtAddr in_copy(VirtAddr target) const {
    if (target < entry_.from || target >= end()) return target;
    auto start = starts_.find(std::max(target, prologue_.at));
    return start != starts_.end() ? to_ + start->second : VirtAddr{};
  }
  bool leads_to(std::optional<VirtAddr> found, VirtAddr wanted) const {
    return !starts_known_ || found == wanted;
  }

  // The text without the bytes; what is relative to rip as an address.
  static std::string text(std::span<const std::byte> bytes, VirtAddr at, const Insn& insn) {
    std::string line = disassemble(bytes, at);
    line.erase(0, line.find("  ") + 2);
    size_t operand = line.find("[rip");
    if (!insn.rip_reference || operand == std::string::npos) return line;
    return line.replace(operand, line.find(']', operand) - operand, fmt::format("[{}", *insn.rip_reference));
  }

  std::string compare_plain(const Insn& original, VirtAddr at) {
    auto insn = decode(copied(), here());
    if (!insn || text(copied(), here(), *insn) != text(original_at(at), at, original))
      return said("is another instruction", at);
    if (insn->rip_reference != original.rip_reference) return said("refers to another address", at);
    offset_ += insn->length;
    return falls_through(original) ? expect_continuation(at + original.length, at) : "";
  }

  std::string compare_branch(const Insn& original, VirtAddr at) {
    auto insn = decode(copied(), here());
    if (!insn || insn->kind != Insn::Kind::branch || condition(copied()) != condition(original_at(at)))
      return said("is another branch", at);
    bool stays = entry_.from <= *original.target && *original.target < end();
    if (!stays && !rel32(*original.target, here() + 6)) return compare_loop(original, at);
    if (!leads_to(insn->target, in_copy(*original.target))) return said("leads elsewhere", at);
    offset_ += insn->length;
    return expect_continuation(at + original.length, at);
  }

  std::string compare_loop(const Insn& original, VirtAddr at) {
    auto insn = decode(copied(), here());
    if (!insn || !insn->target || condition(copied()) != condition(original_at(at)))
      return said("is another loop", at);
    offset_ += insn->length;
    if (std::string differs = expect_jump(at + original.length, at); !differs.empty()) return differs;
    if (*insn->target != here()) return said("does not lead to its second jump", at);
    return expect_jump(*original.target, at);
  }

  std::string compare_call(const Insn& original, VirtAddr at) {
    int32_t low;
    if (copied().front() != std::byte{0x68}) return said("pushes nothing", at);
    std::memcpy(&low, &copied()[1], sizeof low);
    auto pushed = static_cast<uint64_t>(int64_t{low});
    offset_ += 5;
    if (listing(copied().first(std::min<size_t>(8, copied().size())), here())
            .find("mov dword ptr [rsp + 4]") != std::string::npos) {
      uint32_t high;
      std::memcpy(&high, &copied()[4], sizeof high);
      pushed = (pushed & 0xffff'ffff) | uint64_t{high} << 32;
      offset_ += 8;
    }
    if (pushed != (at + original.length).value) return said("pushes another return address", at);
    if (original.target) return expect_jump_to(*original.target, at);
    auto insn = decode(copied(), here());
    std::string wanted = text(original_at(at), at, original), got = text(copied(), here(), *insn);
    wanted.replace(wanted.find("call"), 4, "jmp");
    bool on_rsp = wanted.find("[rsp") != std::string::npos;
    if (insn->kind != Insn::Kind::jump_indirect || (!on_rsp && wanted != got))
      return said("calls something else", at);
    offset_ += insn->length;
    return "";
  }

  // The next instruction's copy follows, or a jump to it.
  std::string expect_continuation(VirtAddr next, VirtAddr at) {
    return next < end() ? "" : expect_jump(next, at);
  }

  std::string expect_jump(VirtAddr target, VirtAddr at) { return expect_jump_to(in_copy(target), at); }

  std::string expect_jump_to(VirtAddr target, VirtAddr at) {
    auto insn = decode(copied(), here());
    if (!insn) return said("is cut short", at);
    offset_ += insn->length;
    if (insn->kind == Insn::Kind::jump)
      return leads_to(insn->target, target) ? "" : said("jumps elsewhere", at);
    uint64_t literal = 0;
    if (insn->kind != Insn::Kind::jump_indirect || insn->rip_reference != here())
      return said("does not jump", at);
    std::memcpy(&literal, copied().data(), sizeof literal);
    offset_ += sizeof literal;
    return literal == target.value ? "" : said("jumps elsewhere", at);
  }

  // What tells one conditional branch from another, rel8 or rel32, without prefixes.
  static std::string condition(std::span<const std::byte> bytes) {
    std::string line = disassemble(bytes, {});
    line.erase(line.rfind(' '));
    return line.substr(line.rfind(' ') + 1);
  }

  std::string said(const char* what, VirtAddr at) const {
    return fmt::format(
        "{} {}\noriginal:\n{}copy:\n{}", at, what,
        listing(original_at(prologue_.at)
                    .first(std::min<size_t>(prologue_.covered, original_at(prologue_.at).size())),
                prologue_.at),
        listing(prologue_.copy.code, to_));
  }

  const EntryCode& entry_;
  const Prologue& prologue_;
  VirtAddr to_;
  size_t offset_ = 0;  // in the copy
  std::map<VirtAddr, size_t> starts_;
  std::set<VirtAddr> targets_;
  bool starts_known_ = false;
};

inline std::string check_prologue(const EntryCode& entry, const Prologue& prologue, VirtAddr to) {
  return PrologueCheck(entry, prologue, to).run();
}

}  // namespace rtrace::arch
