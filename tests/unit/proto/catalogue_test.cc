#include "rtrace/proto/catalogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "rtrace/base/error.h"

namespace rtrace::proto::catalogue_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

class CatalogueTest : public testing::Test {
 protected:
  CatalogueTest() {
    std::string pattern = fs::temp_directory_path() / "rtrace-catalogue-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~CatalogueTest() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }
  std::string path(const std::string& name) const { return folder_ / name; }

  // "int f(long)", or "none".
  std::string found(Catalogue& catalogue, const std::string& function, const std::string& object) {
    auto prototype = catalogue.find(function, object, diagnostics_);
    return prototype ? spell(*prototype) : "none";
  }

  fs::path folder_;
  Diagnostics diagnostics_;
};

TEST_F(CatalogueTest, ExplicitFileServesEveryObjectAndTheFirstWins) {
  Catalogue catalogue;
  catalogue.add(write("a.conf", "int f(int);"), diagnostics_);
  catalogue.add(write("b.conf", "int f(long);\nint g(long);"), diagnostics_);
  EXPECT_EQ(found(catalogue, "f", "libx.so.1"), "int f(int)");
  EXPECT_EQ(found(catalogue, "g", ""), "int g(long)");
  EXPECT_EQ(found(catalogue, "h", ""), "none");
}

TEST_F(CatalogueTest, FolderFilesAreFoundByNameWithVersionPartsDropped) {
  write("conf/libr-3.1.so.3.1.conf", "int f(int);");
  write("conf/libr-3.1.so.conf", "int f(long);\nint g(long);");
  write("conf/libr-3.1.so.3.toml", "[functions]\nh = \"int(short)\"");
  write("conf/libother.so.conf", "int other(int);");
  Catalogue catalogue;
  catalogue.add_folder(path("conf"));
  EXPECT_EQ(found(catalogue, "f", "libr-3.1.so.3.1"), "int f(int)");
  EXPECT_EQ(found(catalogue, "g", "/usr/lib/libr-3.1.so.3.1"), "int g(long)");
  EXPECT_EQ(found(catalogue, "h", "libr-3.1.so.3.1"), "int h(short)");
  EXPECT_EQ(found(catalogue, "f", "libr-3.1.so.4"), "int f(long)");
  EXPECT_EQ(found(catalogue, "other", "libr-3.1.so.3.1"), "none");
}

TEST_F(CatalogueTest, VersionsWithinAnObjectsNameAreDroppedToo) {
  write("conf/librr.so.conf", "int f(int);");
  write("conf/python3.conf", "int f(long);");
  write("conf/php.conf", "int f(short);");
  write("conf/libX.so.conf", "int f(char);");
  Catalogue catalogue;
  catalogue.add_folder(path("conf"));
  EXPECT_EQ(found(catalogue, "f", "librr-3.1.so.3.1"), "int f(int)");
  EXPECT_EQ(found(catalogue, "f", "librr4.1.so"), "none");
  EXPECT_EQ(found(catalogue, "f", "/usr/bin/python3.11"), "int f(long)");
  EXPECT_EQ(found(catalogue, "f", "/usr/bin/python2.7"), "none");
  EXPECT_EQ(found(catalogue, "f", "php8.2"), "int f(short)");
  EXPECT_EQ(found(catalogue, "f", "libX11.so.6"), "none");
  EXPECT_EQ(found(catalogue, "f", "12.5"), "none");
}

TEST_F(CatalogueTest, FolderAsFallbackHasAFileForEachLibraryAndTheirTypesApart) {
  write("ltrace/libc.so.conf", "import \"libc.so-types\";\nflag f(flag);");
  write("ltrace/libc.so-types.conf", "typedef flag = bool(int);");
  write("ltrace/libm.so.conf", "double g(double);");
  write("conf/libc.so.conf", "int h(int);");
  Catalogue catalogue;
  catalogue.add_fallback(path("ltrace"));
  catalogue.add_folder(path("conf"));
  EXPECT_EQ(found(catalogue, "f", "libc.so.6"), "flag f(flag)");
  EXPECT_EQ(found(catalogue, "g", "libc.so.6"), "none");
  EXPECT_EQ(found(catalogue, "g", "libm.so.6"), "double g(double)");
  EXPECT_EQ(catalogue.find_specific("f", "libc.so.6", diagnostics_), nullptr);
  EXPECT_NE(catalogue.find_fallback("f", "libc.so.6", diagnostics_), nullptr);
  EXPECT_THAT(diagnostics_, IsEmpty());
}

TEST_F(CatalogueTest, FileAmongTheFoldersServesEveryObjectInItsTurn) {
  write("mine/liba.so.conf", "int f(int);");
  std::string file = write("home/.ltrace.conf", "int f(long);\nint g(long);");
  write("shipped/liba.so.conf", "int f(char);\nint g(char);\nint h(char);");
  Catalogue catalogue;
  catalogue.add_folder(path("mine"));
  catalogue.add_folder(file);
  catalogue.add_folder(path("shipped"));
  EXPECT_EQ(found(catalogue, "f", "liba.so.1"), "int f(int)");
  EXPECT_EQ(found(catalogue, "g", "liba.so.1"), "int g(long)");
  EXPECT_EQ(found(catalogue, "g", "libb.so.1"), "int g(long)");
  EXPECT_EQ(found(catalogue, "h", "liba.so.1"), "int h(char)");
}

TEST_F(CatalogueTest, WhatAFileSaysItselfCountsBeforeWhatItImports) {
  write("conf/base.conf", "int f(int);\nint g(int);\nint h(int);");
  write("conf/liba.so.conf", "int f(long);\nimport \"base\";\nint g(long);");
  write("conf/libb.so.toml", "import = [\"base\"]\n[functions]\ng = \"int(long)\"");
  Catalogue catalogue;
  catalogue.add_folder(path("conf"));
  EXPECT_EQ(found(catalogue, "f", "liba.so"), "int f(long)");
  EXPECT_EQ(found(catalogue, "g", "liba.so"), "int g(long)");
  EXPECT_EQ(found(catalogue, "h", "liba.so"), "int h(int)");
  EXPECT_EQ(found(catalogue, "g", "libb.so"), "int g(long)");
  EXPECT_EQ(found(catalogue, "f", "libb.so"), "int f(int)");
}

TEST_F(CatalogueTest, UnknownObjectAsksEveryFile) {
  write("conf/liba.so.conf", "int f(int);");
  Catalogue catalogue;
  catalogue.add_folder(path("conf"));
  EXPECT_EQ(found(catalogue, "f", ""), "int f(int)");
}

TEST_F(CatalogueTest, PrecedenceIsExplicitThenFoldersThenFallback) {
  write("one/liba.so.conf", "int f(int);\nint g(int);\nint h(int);");
  write("two/liba.so.conf", "int f(long);\nint g(long);\nint h(long);\nint i(long);");
  std::string fallback = write("fallback.conf", "int h(char);\nint i(char);\nint j(char);");
  Catalogue catalogue;
  catalogue.add_fallback(fallback);
  catalogue.add_folder(path("one"));
  catalogue.add_folder(path("two"));
  catalogue.add(write("f.conf", "int f(short);"), diagnostics_);
  EXPECT_EQ(found(catalogue, "f", "liba.so.1"), "int f(short)");
  EXPECT_EQ(found(catalogue, "g", "liba.so.1"), "int g(int)");
  EXPECT_EQ(found(catalogue, "i", "liba.so.1"), "int i(long)");
  EXPECT_EQ(found(catalogue, "j", "liba.so.1"), "int j(char)");
}

TEST_F(CatalogueTest, ExplicitFolderServesEveryObjectButNamedFilesFirst) {
  write("mine/a.conf", "int f(int);\nint g(int);");
  write("mine/libz.so.conf", "int f(long);");
  Catalogue catalogue;
  catalogue.add(path("mine"), diagnostics_);
  EXPECT_EQ(found(catalogue, "f", "libz.so.1"), "int f(long)");
  EXPECT_EQ(found(catalogue, "f", "liby.so.1"), "int f(int)");
  EXPECT_EQ(found(catalogue, "g", "libz.so.1"), "int g(int)");
}

TEST_F(CatalogueTest, SonameInTomlRestrictsAnExplicitFile) {
  Catalogue catalogue;
  catalogue.add(write("a.toml", "[library]\nsoname = \"liba.so.1\"\n[functions]\nf = \"int(int)\""),
                diagnostics_);
  EXPECT_EQ(found(catalogue, "f", "liba.so.1"), "int f(int)");
  EXPECT_EQ(found(catalogue, "f", "libb.so.1"), "none");
}

TEST_F(CatalogueTest, DiagnosticsOfALibraryFileComeOnceWhenItIsFirstRead) {
  std::string file = write("conf/liba.so.conf", "int f(what);\nint g(int);");
  Catalogue catalogue;
  catalogue.add_folder(path("conf"));
  EXPECT_THAT(diagnostics_, IsEmpty());
  EXPECT_EQ(found(catalogue, "g", "liba.so"), "int g(int)");
  EXPECT_THAT(diagnostics_,
              ElementsAre(file + ":1: unknown type 'what', expected a type or the name of a typedef"));
  found(catalogue, "g", "liba.so");
  EXPECT_EQ(diagnostics_.size(), 1U);
}

TEST_F(CatalogueTest, ImportsAreFoundBesideTheFileAndCirclesEnd) {
  write("conf/liba.so.conf", "import \"types\";\nt f(t);");
  write("conf/types.conf", "typedef t = hex(int);\nimport \"liba.so\";");
  Catalogue catalogue;
  catalogue.add_folder(path("conf"));
  EXPECT_EQ(found(catalogue, "f", "liba.so.5"), "t f(t)");
  EXPECT_EQ(diagnostics_.size(), 1U);
}

TEST_F(CatalogueTest, PathThatCannotBeReadIsAnError) {
  Catalogue catalogue;
  EXPECT_THROW(catalogue.add(path("absent.conf"), diagnostics_), Error);
  catalogue.add_folder(path("absent"));
  catalogue.add_fallback(path("absent.conf"));
  EXPECT_EQ(found(catalogue, "f", "liba.so"), "none");
}

TEST(ShippedPrototypes, HaveNoMistakes) {
  fs::path conf = fs::path(__FILE__).parent_path() / "../../../conf";
  ASSERT_TRUE(fs::is_directory(conf));
  Catalogue catalogue;
  Diagnostics diagnostics;
  catalogue.add(conf, diagnostics);
  EXPECT_THAT(diagnostics, IsEmpty());
  EXPECT_NE(catalogue.find("open", "libc.so.6", diagnostics), nullptr);
  EXPECT_NE(catalogue.find("mysql_real_query", "libmariadb.so.3", diagnostics), nullptr);
}

// Debian's, of its package ltrace.
TEST(LtracesOwnFile, IsReadToItsLastLine) {
  const fs::path path = "/etc/ltrace.conf";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there: the package ltrace has it";
  Catalogue catalogue;
  Diagnostics diagnostics;
  catalogue.add(path, diagnostics);
  EXPECT_THAT(diagnostics, IsEmpty());
  std::ifstream file(path);
  size_t functions = 0;
  for (std::string line; std::getline(file, line);) {
    // "TYPE NAME(": neither a comment nor a typedef.
    size_t open = line.find('(');
    if (line.empty() || line[0] == ';' || line.starts_with("typedef") || open == std::string::npos) continue;
    // A lens around the result: hex(uint) inet_addr(string);
    if (line.find(' ') > open) open = line.find('(', line.find(' '));
    const size_t end = line.find_last_not_of(' ', open - 1) + 1;
    const size_t start = line.find_last_of(" \t*", end - 1) + 1;
    const std::string name = line.substr(start, end - start);
    EXPECT_NE(catalogue.find(name, "", diagnostics), nullptr) << line;
    ++functions;
  }
  EXPECT_GT(functions, 300U);
}

struct ShippedRow {
  const char* object;
  const char* function;
  const char* prototype;
};
void PrintTo(const ShippedRow& row, std::ostream* out) {
  *out << row.object;
}
class ShippedFor : public testing::TestWithParam<ShippedRow> {};
TEST_P(ShippedFor, TheObjectByItsNameHoweverVersioned) {
  Catalogue catalogue;
  Diagnostics diagnostics;
  catalogue.add_folder(fs::path(__FILE__).parent_path() / "../../../conf");
  auto prototype = catalogue.find(GetParam().function, GetParam().object, diagnostics);
  ASSERT_NE(prototype, nullptr);
  EXPECT_EQ(spell(*prototype), GetParam().prototype);
  EXPECT_THAT(diagnostics, IsEmpty());
}
// One interface under several names: of the library, of its other builds, of the program it is linked into.
INSTANTIATE_TEST_SUITE_P(
    Shipped, ShippedFor,
    testing::Values(
        ShippedRow{"libmysqlclient.so.21", "mysql_query", "int mysql_query(mysql=mysql, query=string)"},
        ShippedRow{"libcurl-gnutls.so.4", "curl_easy_perform", "CURLcode curl_easy_perform(curl=easy)"},
        ShippedRow{"libpython3.11.so.1.0", "PyUnicode_FromString", "obj PyUnicode_FromString(u=string)"},
        ShippedRow{"python3.12", "PyUnicode_FromString", "obj PyUnicode_FromString(u=string)"},
        ShippedRow{"perl", "Perl_croak_no_modify", "noreturn Perl_croak_no_modify()"},
        ShippedRow{"libperl.so.5.40", "Perl_croak_no_modify", "noreturn Perl_croak_no_modify()"},
        ShippedRow{"php8.2", "_emalloc", "addr _emalloc(size=ulong)"},
        ShippedRow{"libphp8.3.so", "_emalloc", "addr _emalloc(size=ulong)"},
        ShippedRow{"php-fpm8.2", "_emalloc", "addr _emalloc(size=ulong)"},
        ShippedRow{"ruby3.3", "rb_intern", "ID rb_intern(name=string)"},
        ShippedRow{"libruby-3.1.so.3.1", "rb_intern", "ID rb_intern(name=string)"},
        ShippedRow{"libruby.so.3.4", "rb_intern", "ID rb_intern(name=string)"}));

}  // namespace
}  // namespace rtrace::proto::catalogue_test
