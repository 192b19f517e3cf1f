#include "where_values.h"

#include <algorithm>

#include "settled.h"

namespace rtrace::sink {
namespace {

using decode::Value;

const Value* argument(size_t index, const CallFacts& call) {
  if (index < call.at_entry.size()) return &call.at_entry[index].value;
  index -= call.at_entry.size();
  return index < call.at_return.size() ? &call.at_return[index].value : nullptr;
}

const Value* parameter(const std::string& name, const CallFacts& call) {
  for (const auto& arguments : {call.at_entry, call.at_return})
    for (const decode::Argument& argument : arguments)
      if (argument.name == name) return &argument.value;
  return nullptr;
}

// What it names but for its members.
const Value* whole_of(const WhereNode& node, const CallFacts& call) {
  switch (node.kind) {
    case WhereNode::Kind::argument:
      return argument(node.index, call);
    case WhereNode::Kind::parameter:
      return parameter(node.text, call);
    case WhereNode::Kind::result:
      return call.result;
    default:
      return nullptr;
  }
}

const Value* member_of(const Value& value, const std::string& name) {
  const auto found = std::ranges::find(value.members, name, &Value::name);
  return found != value.members.end() ? &*found : nullptr;
}

// What is not there in this call need not be so in the next.
bool is_absent(const Value& value) {
  switch (value.kind) {
    case Value::Kind::nil:
    case Value::Kind::unreadable:
    case Value::Kind::error_result:
    case Value::Kind::hidden:
    case Value::Kind::nothing:
    case Value::Kind::recursion:
      return true;
    default:
      return false;
  }
}

std::string first_name(const WhereNode& node) {
  if (node.kind == WhereNode::Kind::parameter) return node.text;
  return node.kind == WhereNode::Kind::result ? "ret" : "arg" + std::to_string(node.index + 1);
}

}  // namespace

bool names_a_value(const WhereNode& node) {
  return node.kind == WhereNode::Kind::argument || node.kind == WhereNode::Kind::parameter ||
         node.kind == WhereNode::Kind::result;
}

const Value* value_of(const WhereNode& node, const CallFacts& call) {
  const Value* value = whole_of(node, call);
  for (const std::string& name : node.members)
    if (value != nullptr) value = member_of(settled(*value), name);
  return value != nullptr ? &settled(*value) : nullptr;
}

std::vector<Where::Member> Where::members() const {
  std::vector<Member> found;
  for (size_t i = 0; i < tree_->nodes.size(); ++i) {
    const WhereNode& node = tree_->nodes[i];
    if (node.members.empty()) continue;
    Member member{first_name(node), i};
    for (const std::string& name : node.members) member.text += "." + name;
    if (std::ranges::find(found, member.text, &Member::text) == found.end())
      found.push_back(std::move(member));
  }
  return found;
}

Where::Has Where::has(const Member& member, const CallFacts& call) const {
  const WhereNode& node = tree_->nodes[member.node];
  const Value* value = whole_of(node, call);
  for (const std::string& name : node.members) {
    if (value == nullptr || is_absent(settled(*value))) return {};
    const Value& inside = settled(*value);
    value = member_of(inside, name);
    if (value == nullptr) return {Has::Which::no, &inside};
  }
  return {Has::Which::yes, nullptr};
}

}  // namespace rtrace::sink
