#include "rtrace/plan/name_rank.h"

#include <algorithm>

namespace rtrace::plan {

NameRank rank_of(std::string_view name, bool literal, bool clone, bool global) {
  return {.not_literal = !literal,
          .clone = clone,
          .not_global = !global,
          .underscores = std::min(name.find_first_not_of('_'), name.size()),
          .name = std::string(name)};
}

}  // namespace rtrace::plan
