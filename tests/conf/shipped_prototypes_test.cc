// Each file of conf/ against the object it is for: every function it describes is exported there under that
// name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "rtrace/base/error.h"
#include "rtrace/elf/elf_file.h"
#include "rtrace/proto/catalogue.h"
#include "rtrace/proto/parser.h"

namespace rtrace::proto {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

const fs::path kConf = RTRACE_CONF;

std::string text_of(const fs::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

std::shared_ptr<const ParsedFile> parse(const fs::path& path, Diagnostics& diagnostics) {
  Importer import = [&](std::string_view name) -> std::shared_ptr<const ParsedFile> {
    for (const fs::path& folder : {path.parent_path(), kConf})
      for (const char* suffix : {".toml", ".conf", ""})
        if (fs::path other = folder / (std::string(name) + suffix); fs::is_regular_file(other))
          return parse(other, diagnostics);
    return nullptr;
  };
  auto reader = path.extension() == ".toml" ? parse_toml : parse_conf;
  return std::make_shared<const ParsedFile>(reader(text_of(path), path, import, diagnostics));
}

// exceptions.txt, whose head says what its rows mean.
struct Exceptions {
  std::map<std::string, std::set<std::string>> names;
  std::map<std::string, std::string> other, path;
  std::set<std::string> absent;

  Exceptions() {
    std::istringstream rows(text_of(RTRACE_EXCEPTIONS));
    for (std::string row; std::getline(rows, row);) {
      std::istringstream words(row.substr(0, row.find('#')));
      std::string file;
      std::string word;
      if (!(words >> file)) continue;
      if (file.ends_with(':')) {
        file.pop_back();
        while (words >> word) names[file].insert(word);
      } else if (words >> word && word == "absent") {
        absent.insert(file);
      } else if (std::string rest; words >> rest) {
        (word == "in" ? other : path)[file] = rest;
      }
    }
  }
};

const Exceptions& exceptions() {
  static const Exceptions kExceptions;
  return kExceptions;
}

std::multimap<std::string, std::string> known_to_the_linker() {
  std::multimap<std::string, std::string> libraries;
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen("/sbin/ldconfig -p", "r"), ::pclose);
  std::string text;
  char chunk[4096];
  while (pipe && ::fgets(chunk, sizeof chunk, pipe.get()) != nullptr) {
    std::istringstream line(chunk);
    std::string soname;
    line >> soname;
    const std::string rest(std::istreambuf_iterator<char>(line), {});
    const size_t arrow = rest.find("=> ");
    if (rest.find("x86-64") == std::string::npos || arrow == std::string::npos) continue;
    libraries.emplace(soname, rest.substr(arrow + 3, rest.find('\n') - arrow - 3));
  }
  return libraries;
}

// What the dynamic linker knows (ldconfig(8)) and the programs of the system, by the rule that finds the file
// for an object.
std::multimap<std::string, std::string> objects_by_file() {
  std::multimap<std::string, std::string> objects;
  auto add = [&](const std::string& name, const std::string& path) {
    for (const std::string& file : names_of_object(name)) objects.emplace(file, path);
  };
  for (const auto& [soname, path] : known_to_the_linker()) add(soname, path);
  for (const char* folder : {"/usr/bin", "/usr/sbin"})
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.is_regular_file()) add(entry.path().filename(), entry.path());
  return objects;
}

std::vector<std::string> objects_of(const std::string& file) {
  static const auto kObjects = objects_by_file();
  const Exceptions& given = exceptions();
  if (auto at = given.path.find(file); at != given.path.end()) return {at->second};
  auto other = given.other.find(file);
  auto [from, to] = kObjects.equal_range(other == given.other.end() ? file : other->second);
  std::vector<std::string> paths;
  std::transform(from, to, std::back_inserter(paths), [](const auto& entry) { return entry.second; });
  return paths;
}

// Scripts have the names of programs too.
std::vector<std::shared_ptr<const elf::ElfFile>> opened(const std::vector<std::string>& paths) {
  std::vector<std::shared_ptr<const elf::ElfFile>> objects;
  for (const std::string& path : paths) {
    try {
      objects.push_back(elf::ElfFile::open(path));
    } catch (const Error&) {
      continue;
    }
  }
  return objects;
}

std::vector<std::string> shipped_files() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kConf))
    if (entry.path().extension() == ".conf" || entry.path().extension() == ".toml")
      names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

class ShippedFile : public testing::TestWithParam<std::string> {
 protected:
  const fs::path path_ = kConf / GetParam();
  const std::string stem_ = path_.stem();
};

TEST_P(ShippedFile, HasNoMistakes) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse(path_, diagnostics)->functions.empty());
  EXPECT_THAT(diagnostics, IsEmpty());
}

// Of several versions that are installed side by side, one suffices.
TEST_P(ShippedFile, NamesOnlyWhatTheInstalledObjectExports) {
  if (exceptions().absent.contains(stem_)) return;
  Diagnostics ignored;
  const auto parsed = parse(path_, ignored);
  const auto objects = opened(objects_of(parsed->soname.empty() ? stem_ : parsed->soname));
  ASSERT_THAT(objects, testing::Not(IsEmpty())) << "no object for " << path_ << "; see exceptions.txt";
  std::set<std::string> missing;
  for (const auto& function : parsed->functions)
    if (std::none_of(objects.begin(), objects.end(),
                     [&](const auto& object) { return object->find_exported(function.first).has_value(); }))
      missing.insert(function.first);
  auto excepted = exceptions().names.find(stem_);
  EXPECT_THAT(missing, testing::ContainerEq(excepted == exceptions().names.end() ? std::set<std::string>()
                                                                                 : excepted->second));
}

INSTANTIATE_TEST_SUITE_P(Conf, ShippedFile, testing::ValuesIn(shipped_files()), [](const auto& file) {
  std::string name = file.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

TEST(ShippedPrototypes, ExceptionsAreForFilesThatAreShipped) {
  std::set<std::string> stems;
  for (const std::string& file : shipped_files()) stems.insert(fs::path(file).stem());
  const Exceptions& given = exceptions();
  for (const auto& [file, names] : given.names) EXPECT_TRUE(stems.contains(file)) << file;
  for (const auto& [file, other] : given.other) EXPECT_TRUE(stems.contains(file)) << file;
  for (const auto& [file, path] : given.path) EXPECT_TRUE(stems.contains(file)) << file;
  for (const std::string& file : given.absent) EXPECT_TRUE(stems.contains(file)) << file;
}

TEST(ShippedPrototypes, TheCLibraryIsDescribed) {
  Diagnostics diagnostics;
  EXPECT_GE(parse(kConf / "libc.so.conf", diagnostics)->functions.size(), 1700U);
  EXPECT_GE(parse(kConf / "libm.so.conf", diagnostics)->functions.size(), 700U);
}

// One name serves --where and readers of JSON for both. These take other arguments than the library's
// functions.
TEST(ShippedPrototypes, SystemCallsNameTheirParametersAsTheLibraryDoes) {
  const std::set<std::string> others = {"clone", "preadv2", "pwritev2", "signalfd"};
  Diagnostics diagnostics;
  const auto library = parse(kConf / "libc.so.conf", diagnostics);
  const auto calls = parse(kConf / "SYS.conf", diagnostics);
  size_t compared = 0;
  for (const auto& [name, call] : calls->functions) {
    const auto function = library->functions.find(name);
    if (function == library->functions.end() || others.contains(name)) continue;
    const auto& named = function->second->params;
    for (size_t i = 0; i < std::min(call->params.size(), named.size()); ++i, ++compared)
      EXPECT_EQ(call->params[i].name, named[i].name) << name << ", parameter " << i + 1;
  }
  EXPECT_GE(compared, 400U);
}

}  // namespace
}  // namespace rtrace::proto
