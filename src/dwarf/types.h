// Type entries to rtrace's types.
//
// Structs are read by value at once, but behind a pointer they become `named` types, which settle() completes
// breadth first: recursive types need nothing special, and a prototype does not bring in all the types of a
// program.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "die.h"
#include "rtrace/proto/type.h"

namespace rtrace::dwarf {

class TypeReader {
 public:
  explicit TypeReader(std::shared_ptr<proto::TypeScope> scope) : scope_(std::move(scope)) {}

  // void where the entry is absent.
  proto::TypeRef read(const std::optional<Die>& type);
  proto::TypeRef pointer_to(const std::optional<Die>& pointee);
  // Completes the structs behind pointers of what was read since the last time, those nearest first. Pointers
  // beyond its bounds stay addresses.
  void settle();

 private:
  struct Pending {
    Die die;
    unsigned depth;
  };

  proto::TypeRef read_kind(const Die& type);
  proto::TypeRef compound(const Die& type);
  proto::TypeRef structure(const Die& type);
  proto::TypeRef container(const Die& type);
  proto::TypeRef element_of(const Die& type);
  proto::TypeRef array(const Die& type);
  proto::TypeRef vector(const Die& type);
  proto::TypeRef enumeration(const Die& type);
  proto::TypeRef alias(const Die& type);
  proto::TypeRef member_pointer(const Die& type);
  void add_member(const Die& member, std::vector<proto::Member>& members);
  proto::TypeRef named(const Die& structure);
  uint64_t weight(const proto::Type& type) const;

  std::shared_ptr<proto::TypeScope> scope_;
  std::unordered_map<const void*, proto::TypeRef> compounds_;            // by the entry's place in the file
  std::unordered_map<const void*, std::shared_ptr<proto::Type>> named_;  // the same, behind pointers
  std::deque<Pending> pending_;
  unsigned depth_ = 0;    // of the struct whose members are being read, in pointers
  unsigned nesting_ = 0;  // of types in types
};

}  // namespace rtrace::dwarf
