// What the names of a --where expression stand for in a call.
#pragma once

#include "rtrace/sink/where.h"
#include "where_tree.h"

namespace rtrace::sink {

bool names_a_value(const WhereNode& node);

// What such a node names, its members included; nullptr where the call has nothing of that name, or has not
// yet, and for any other node.
const decode::Value* value_of(const WhereNode& node, const CallFacts& call);

}  // namespace rtrace::sink
