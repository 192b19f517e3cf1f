// A shipped file, of which only what is asked for is parsed, says what it would say if it were read as a
// whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "rtrace/proto/catalogue.h"

namespace rtrace::proto::deferred_conf_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

// What a type is made of, as far down as it is of use to compare.
std::string definition(const Type& type, int depth) {
  return spell_definition(type, [depth](const Type& inner) {
    const auto resolved = inner.kind == Type::Kind::named ? inner.target.lock() : nullptr;
    if (inner.kind == Type::Kind::named && resolved == nullptr) return "undefined " + inner.name;
    return depth == 0 ? spell(inner) : definition(resolved ? *resolved : inner, depth - 1);
  });
}

std::string described(const std::shared_ptr<const Prototype>& prototype) {
  if (prototype == nullptr) return "none";
  std::string text = prototype->origin + ": " + definition(*prototype->returns, 4);
  for (const Param& param : prototype->params)
    text += " | " + param.name + "=" + std::to_string(static_cast<int>(param.direction)) +
            definition(*param.type, 4);
  return text;
}

class DeferredConfTest : public testing::Test {
 protected:
  DeferredConfTest() {
    std::string pattern = fs::temp_directory_path() / "rtrace-deferred-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~DeferredConfTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }

  // Of f in libx.so, from its files read as a whole and on demand; both are made anew.
  std::pair<std::string, std::string> both(const std::string& function = "f") {
    Catalogue whole;
    whole.add_folder(folder_);
    Catalogue deferred;
    deferred.add_shipped(folder_);
    said_.clear();
    Diagnostics all;
    return {described(whole.find(function, "libx.so.1", all)),
            described(deferred.find(function, "libx.so.1", said_))};
  }

  void expect_same(const std::string& function = "f") {
    const auto [whole, deferred] = both(function);
    EXPECT_EQ(whole, deferred) << function;
  }

  fs::path folder_;
  Diagnostics said_;
};

TEST_F(DeferredConfTest, TypeIsTheLastOneDefinedBeforeTheFunction) {
  write("libx.so.conf",
        "typedef t = int;\nint f(t);\ntypedef t = long;\nint g(t*);\ntypedef u = t;\ntypedef t = char;\n"
        "u h(array(u, 3)*)");
  for (const char* function : {"f", "g", "h", "absent"}) expect_same(function);
  EXPECT_NE(both("f").second, both("g").second);
}

TEST_F(DeferredConfTest, NameIsBehindWhateverTheResultIs) {
  write("libx.so.conf",
        "function hex(int) a(int)\nerrno(long) b (int)\nenum[uint](A=1,B) c(int);\nstruct(int, "
        "array(char, 4))* d(int)\nnoreturn e(void)\nstring[arg1] f(int) trailing( words\nerrno g()\n"
        "flags[long](X=1)**h(int)\n# int i(int)\n;int j(int)\n\tint k(int)\r\nint l(long)");
  for (const char* function : {"a", "b", "c", "d", "e", "f", "g", "h", "k", "l"}) {
    expect_same(function);
    EXPECT_NE(both(function).second, "none") << function;
  }
  EXPECT_EQ(both("i").second, "none");
  EXPECT_EQ(both("j").second, "none");
}

TEST_F(DeferredConfTest, NamesInsideOtherWordsInCommentsAndAmongArgumentsAreNoFunctions) {
  write("libx.so.conf",
        "# int f(int);\nint ff(f);\nint f_(string);\nint g(f*, f);\n  int f ( long );\nint f(char);\nint "
        "f2();\nimport f;");
  for (const char* function : {"f", "ff", "g", "f_", "f2", "int", "import", ""}) expect_same(function);
  EXPECT_THAT(both("f").second, testing::HasSubstr(":5: "));
}

// The first are searched for; then there is an index.
TEST_F(DeferredConfTest, AnyNumberOfQuestionsHasTheSameAnswers) {
  std::string text = "typedef t = int;\nimport \"liby.so\";\n";
  for (int i = 0; i < 40; ++i) text += "t f" + std::to_string(i) + "(y*, t);\n";
  write("libx.so.conf", text);
  write("liby.so.conf", "typedef y = long;\nint only_in_y(y);");
  Catalogue whole, deferred;
  whole.add_folder(folder_);
  deferred.add_shipped(folder_);
  Diagnostics said;
  for (int i = 39; i >= 0; --i) {
    const std::string name = i % 9 == 0 ? "only_in_y" : "f" + std::to_string(i);
    const std::string expected = described(whole.find(name, "libx.so.1", said));
    EXPECT_NE(expected, "none");
    EXPECT_EQ(described(deferred.find(name, "libx.so.1", said)), expected);
  }
  EXPECT_THAT(said, IsEmpty());
}

TEST_F(DeferredConfTest, DeclaredStructsPointToEachOther) {
  write("libx.so.conf",
        "typedef a = struct;\ntypedef b = struct(int, a*);\ntypedef a = struct(b*, a*, long);\n"
        "int f(a*);\nint g(b);\nint h(struct(b, b)*);");
  for (const char* function : {"f", "g", "h"}) {
    expect_same(function);
    EXPECT_EQ(both(function).second.find("undefined"), std::string::npos);
  }
}

TEST_F(DeferredConfTest, StructThatIsDefinedBehindTheFunctionIsKnownToIt) {
  write("libx.so.conf", "typedef a = struct;\nint f(a*);\ntypedef b = int;\ntypedef a = struct(b, a*);");
  expect_same();
  EXPECT_EQ(both().second.find("undefined"), std::string::npos);
}

TEST_F(DeferredConfTest, OwnFunctionsCountBeforeImportsAndTheFirstImportBeforeTheNext) {
  write("libx.so.conf", "import \"one\";\nimport \"two\";\nint f(int);\nint f(long);");
  write("one.conf", "int f(char);\nint g(char);");
  write("two.toml", "[functions]\ng = \"int(short)\"\nh = \"int(short)\"");
  for (const char* function : {"f", "g", "h"}) expect_same(function);
}

TEST_F(DeferredConfTest, ImportedTypesGiveWayToOwnOnesAndStandBehindEarlierImports) {
  write("libx.so.conf",
        "import \"one\";\nimport \"two\";\nint f(t);\ntypedef t = char;\nint g(t, u*, v*);\nint h(w*);");
  write("one.conf", "typedef t = int;\ntypedef v = struct;\ntypedef u = struct(v*, t);");
  write("two.conf", "typedef t = long;\nimport \"three\";\ntypedef v = struct(int, w*);");
  write("three.toml", "[types]\nw = \"struct(long, long)\"");
  for (const char* function : {"f", "g", "h"}) expect_same(function);
}

TEST_F(DeferredConfTest, ImportStandsBeforeWhatNeedsIt) {
  write("libx.so.conf", "int f(t);\nimport \"one\";\nint g(t);");
  write("one.conf", "typedef t = int;");
  EXPECT_EQ(both("f").second, "none");
  expect_same("f");
  expect_same("g");
}

TEST_F(DeferredConfTest, CirclesOfImportsEnd) {
  write("libx.so.conf", "import \"one\";\nt f(t);\nv g(u);");
  write("one.conf", "import \"libx.so\";\ntypedef t = hex(int);");
  expect_same("f");
  expect_same("g");
  expect_same("absent");
}

TEST_F(DeferredConfTest, MistakesAreSaidOfWhatIsAskedForAndTheNextOfThatNameCounts) {
  const std::string file = folder_ / "libx.so.conf";
  write("libx.so.conf", "int f(what);\nint f(long);\nint g(what);\ntypedef t = what;\nint h(t);");
  EXPECT_EQ(both("f").first, both("f").second);
  EXPECT_THAT(said_, ElementsAre(file + ":1: unknown type 'what', expected a type or the name of a typedef"));
  EXPECT_EQ(both("absent").second, "none");
  EXPECT_THAT(said_, IsEmpty());
  EXPECT_EQ(both("h").second, "none");
  EXPECT_THAT(said_, ElementsAre(file + ":4: unknown type 'what', expected a type or the name of a typedef",
                                 file + ":5: unknown type 't', expected a type or the name of a typedef"));
}

TEST_F(DeferredConfTest, ImportThatIsMissingIsSaidOnce) {
  write("libx.so.conf", "import \"absent\";\nint f(int);");
  Catalogue deferred;
  deferred.add_shipped(folder_);
  Diagnostics said;
  EXPECT_NE(deferred.find("f", "libx.so", said), nullptr);
  EXPECT_EQ(deferred.find("g", "libx.so", said), nullptr);
  EXPECT_EQ(deferred.find("h", "libx.so", said), nullptr);
  EXPECT_EQ(said.size(), 1U);
}

// Each function of each shipped file.
TEST(ShippedFolder, SaysWhatItWouldSayIfItWereReadAsAWhole) {
  const fs::path conf = fs::path(__FILE__).parent_path() / "../../../conf";
  size_t compared = 0;
  Catalogue whole;
  whole.add_folder(conf);
  Catalogue deferred;
  deferred.add_shipped(conf);
  Diagnostics said;
  for (const auto& entry : fs::directory_iterator(conf)) {
    if (entry.path().extension() != ".conf") continue;
    const std::string object = entry.path().stem();
    std::ifstream stream(entry.path());
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    Importer import = [&](std::string_view name) -> std::shared_ptr<const ParsedFile> {
      std::ifstream other(conf / (std::string(name) + ".conf"));
      const std::string its{std::istreambuf_iterator<char>(other), {}};
      Diagnostics ignored;
      return std::make_shared<const ParsedFile>(parse_conf(its, "", {}, ignored));
    };
    Diagnostics ignored;
    for (const auto& [function, prototype] : parse_conf(text, "", import, ignored).functions) {
      const std::string expected = described(whole.find(function, object, said));
      EXPECT_NE(expected, "none");
      EXPECT_EQ(described(deferred.find(function, object, said)), expected);
      ++compared;
    }
  }
  EXPECT_GE(compared, 5000U);
  EXPECT_THAT(said, IsEmpty());
}

}  // namespace
}  // namespace rtrace::proto::deferred_conf_test
