// The command line's options, one row each: their letters, names, help, and what they set.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rtrace/session/options.h"
#include "terminal.h"

namespace rtrace::session {

// What the words say before they are put together: filters can only be parsed when all of them are known.
struct Draft {
  Options options;
  std::vector<std::pair<plan::Request::Kind, std::string>> filters;
  unsigned clock = 0;  // how many -t
  std::string time_name;
  ColorChoice color = ColorChoice::automatic;
  bool utf8 = false;
};

using Apply = void (*)(Draft&, std::string_view option, const std::string& value);

struct Row {
  OptionInfo info;
  Apply apply = nullptr;
};

// In the order of --help.
const std::vector<Row>& option_rows();

}  // namespace rtrace::session
