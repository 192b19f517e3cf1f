// rtrace.conf(5) says what the readers understand: its examples, and the words it lists.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "rtrace/base/text.h"
#include "rtrace/proto/parser.h"

namespace rtrace::proto::manual_test {
namespace {

std::string manual() {
  const std::ifstream file(std::filesystem::path(__FILE__).parent_path() / "../../../man/rtrace.conf.5");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

struct Examples {
  std::map<std::string, std::string> by_name;
  size_t displays = 0;  // in the page, examples or not
};

Examples examples() {
  constexpr std::string_view kMark = ".\\\" example: ";
  Examples found;
  std::string name;
  std::string* open = nullptr;
  const std::string text = manual();
  for (std::string_view line : split(text, '\n')) {
    if (line.starts_with(kMark)) name = line.substr(kMark.size());
    if (line == ".Ed") open = nullptr;
    if (open != nullptr) (*open += line) += '\n';
    if (line.starts_with(".Bd -literal")) {
      ++found.displays;
      open = &found.by_name[name];
    }
  }
  return found;
}

// Lines that hold a prototype.
size_t prototypes_in(const std::string& text) {
  size_t count = 0;
  for (std::string_view line : split(text, '\n'))
    if (!line.empty() && line[0] != '#' && !line.starts_with("typedef") && !line.starts_with("import"))
      ++count;
  return count;
}

TEST(Manual, ItsExamplesAreReadWithoutAMistake) {
  const Examples all = examples();
  EXPECT_GE(all.by_name.size(), 9U);
  EXPECT_EQ(all.displays, all.by_name.size());
  for (const auto& [name, text] : all.by_name) {
    SCOPED_TRACE(name);
    Diagnostics diagnostics;
    Importer import = [&, &self = name](std::string_view other) -> std::shared_ptr<const ParsedFile> {
      EXPECT_NE(other, self);
      auto found = all.by_name.find(std::string(other) + ".conf");
      if (found == all.by_name.end()) return nullptr;
      return std::make_shared<const ParsedFile>(parse_conf(found->second, found->first, {}, diagnostics));
    };
    const bool is_toml = name.ends_with(".toml");
    const ParsedFile file = (is_toml ? parse_toml : parse_conf)(text, name, import, diagnostics);
    EXPECT_THAT(diagnostics, testing::IsEmpty());
    EXPECT_FALSE(file.scope->types.empty() && file.functions.empty());
    EXPECT_EQ(file.functions.size(), is_toml ? 3 : prototypes_in(text));
  }
}

TEST(Manual, TheLongAndTheShortFormOfTomlAreTheSame) {
  Diagnostics diagnostics;
  const ParsedFile file = parse_toml(examples().by_name.at("library.toml"), "t", {}, diagnostics);
  EXPECT_EQ(file.soname, "libmariadb.so.3");
  EXPECT_EQ(spell(*file.functions.at("mysql_real_query")),
            "int mysql_real_query(mysql=mysql, query=string[arg3], ulong)");
  EXPECT_EQ(spell(*file.functions.at("mysql_ping")), "int mysql_ping(mysql)");
  EXPECT_TRUE(file.functions.at("_ZN4shop4openEPKc")->no_return);
}

// ".It Cm short , ushort , int": each is a type by itself.
TEST(Manual, TheTypesThatItListsAreTypes) {
  const std::string text = manual();
  const size_t begin = text.find(".Ss Types"), end = text.find(".Ss Lenses");
  ASSERT_LT(begin, end);
  size_t words = 0;
  for (std::string_view line : split(std::string_view(text).substr(begin, end - begin), '\n')) {
    if (!line.starts_with(".It Cm ")) continue;
    for (std::string_view word : split(line.substr(7), ' ')) {
      if (word == ",") continue;
      if (word.ends_with('(')) break;  // errno( type )
      if (word == "noreturn" || word == "void*") continue;
      SCOPED_TRACE(word);
      EXPECT_NO_THROW(parse_type(word, TypeScope()));
      ++words;
    }
  }
  EXPECT_GE(words, 30U);
}

}  // namespace
}  // namespace rtrace::proto::manual_test
