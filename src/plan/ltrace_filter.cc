#include "filter_reader.h"

namespace rtrace::plan {
namespace {

class LtraceReader {
 public:
  explicit LtraceReader(std::string_view text) : text_(text) {}

  std::vector<Filter::Rule> read() {
    std::vector<Filter::Rule> rules;
    bool add = true;
    size_t at = 0;
    if (text_.starts_with('!')) {
      rules.emplace_back();
      add = false;
      at = 1;
    }
    while (at < text_.size()) {
      size_t end = std::min(text_.find_first_of("+-", at), text_.size());
      rules.push_back(rule(at, end, add));
      if (end < text_.size()) add = text_[end] == '+';
      at = end + 1;
    }
    return rules;
  }

 private:
  Filter::Rule rule(size_t begin, size_t end, bool add) const {
    Filter::Rule rule;
    rule.add = add;
    size_t at_sign = std::min(text_.substr(0, end).find('@', begin), end);
    size_t library = std::min(at_sign + 1, end);
    // /symbols@libraries/ is short for /symbols/@/libraries/.
    bool both = at_sign > begin && library < end && text_[begin] == '/' && text_[at_sign - 1] != '/' &&
                text_[end - 1] == '/' && text_[library] != '/';
    if (both) {
      rule.symbol = regex(begin + 1, at_sign);
      rule.library = regex(library, end - 1);
      return rule;
    }
    rule.symbol = part(begin, at_sign);
    rule.library = part(library, end);
    std::string_view name = text_.substr(library, end - library);
    rule.library_is_main = name == "MAIN";
    rule.library_is_path = name.starts_with('/') && !name.ends_with('/');
    return rule;
  }

  Pattern part(size_t begin, size_t end) const {
    if (begin == end) return Pattern::any();
    if (end - begin > 1 && text_[begin] == '/' && text_[end - 1] == '/') return regex(begin + 1, end - 1);
    std::string_view glob = text_.substr(begin, end - begin);
    for (size_t i = 0; i < glob.size(); ++i) {
      if (glob[i] == '\\') {
        ++i;
      } else if (glob[i] == '[') {
        i = checked_bracket_end(text_, glob, i) - 1;
      }
    }
    return glob_pattern(std::string(glob));
  }

  Pattern regex(size_t begin, size_t end) const {
    try {
      return Pattern::basic_regex(std::string(text_.substr(begin, end - begin)));
    } catch (const PatternError& error) {
      throw FilterError(text_, begin + error.position(), error.what());
    }
  }

  std::string_view text_;
};

}  // namespace

std::vector<Filter::Rule> read_ltrace_filter(std::string_view text) {
  return LtraceReader(text).read();
}

}  // namespace rtrace::plan
