#include "rtrace/plan/filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rtrace::plan::filter_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ObjectNames main_program() {
  return {.path = "/usr/bin/ruby", .soname = "", .main_program = true};
}

ObjectNames library(const std::string& path, const std::string& soname) {
  return {.path = path, .soname = soname, .main_program = false};
}

// The objects of the tables below, by the short name that the rows use.
ObjectNames object(const std::string& name) {
  if (name == "main") return main_program();
  if (name == "libc") return library("/usr/lib/x86_64-linux-gnu/libc.so.6", "libc.so.6");
  if (name == "libruby")
    return library("/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2", "libruby-3.1.so.3.1");
  if (name == "libstdc++") return library("/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30", "libstdc++.so.6");
  if (name == "libfoo-1") return library("/opt/x+y/libfoo-1.so", "");
  if (name == "libz") return library("/usr/lib/x86_64-linux-gnu/libz.so.1.2.13", "libz.so.1");
  ADD_FAILURE() << "no such object: " << name;
  return {};
}

std::vector<ObjectNames> everything() {
  std::vector<ObjectNames> objects;
  for (const char* name : {"main", "libc", "libruby", "libstdc++", "libfoo-1", "libz"})
    objects.push_back(object(name));
  return objects;
}

struct Row {
  const char* filter;
  const char* symbol;
  const char* object;
  bool traced;
};

void PrintTo(const Row& row, std::ostream* out) {
  *out << row.filter << "  on  " << row.symbol << "@" << row.object << "  is  "
       << (row.traced ? "traced" : "not traced");
}

class FilterRow : public testing::TestWithParam<Row> {};

TEST_P(FilterRow, MarksWhatItSaysWhenAllObjectsAreMapped) {
  Filter filter = Filter::parse(GetParam().filter).resolved_for(everything());
  EXPECT_EQ(filter.matches(GetParam().symbol, object(GetParam().object)), GetParam().traced);
}

INSTANTIATE_TEST_SUITE_P(
    Basics, FilterRow,
    testing::Values(Row{"malloc", "malloc", "libc", true}, Row{"malloc", "malloc", "main", true},
                    Row{"malloc", "mallocx", "libc", false}, Row{"malloc", "xmalloc", "libc", false},
                    Row{"*", "malloc", "libc", true}, Row{"@libc", "malloc", "libc", true},
                    Row{"malloc@", "malloc", "libz", true}, Row{"@", "malloc", "libz", true},
                    Row{"malloc@libc.so.6", "malloc", "libc", true},
                    Row{"malloc@libc.so.6", "malloc", "libz", false},
                    Row{"malloc@libz.so.1.2.13", "malloc", "libz", true},
                    Row{"malloc@libz", "malloc", "libz", true}, Row{"@MAIN", "f", "main", true},
                    Row{"@MAIN", "f", "libc", false}, Row{"@ruby", "f", "main", true},
                    Row{"@\"MAIN\"", "f", "main", false}, Row{"m?ll*@lib[cz]*", "malloc", "libc", true},
                    Row{"m?ll*@lib[!c]*", "malloc", "libc", false},
                    Row{"m?ll*@lib[^c]*", "malloc", "libz", true}, Row{"[[:alpha:]]_*", "a_b", "libc", true},
                    Row{"[[:alpha:]]_*", "1_b", "libc", false}, Row{"[]x]y", "]y", "libc", true}));

INSTANTIATE_TEST_SUITE_P(
    Operators, FilterRow,
    testing::Values(Row{"malloc+free", "free", "libc", true}, Row{"malloc+free", "calloc", "libc", false},
                    Row{"*-free", "malloc", "libc", true}, Row{"*-free", "free", "libc", false},
                    Row{"*-f*+free", "free", "libc", true}, Row{"*-f*+free", "fopen", "libc", false},
                    Row{"-free", "malloc", "libz", true}, Row{"-free", "free", "libz", false},
                    Row{"!free", "free", "libz", false}, Row{"!free", "malloc", "libz", true},
                    Row{"-@libc", "f", "libc", false}, Row{"-@libc", "f", "libz", true},
                    Row{"+free", "free", "libc", true}, Row{"+free", "malloc", "libc", false},
                    Row{"@MAIN+malloc@libc.so.6", "f", "main", true},
                    Row{"@MAIN+malloc@libc.so.6", "malloc", "libc", true},
                    Row{"@MAIN+malloc@libc.so.6", "free", "libc", false},
                    Row{"@libc-malloc-free", "calloc", "libc", true},
                    Row{"@libc-malloc-free", "free", "libc", false}, Row{"[a-c]x", "bx", "libc", true},
                    Row{"[a-c]x", "dx", "libc", false}, Row{"[+-]x", "-x", "libc", true},
                    Row{"a\\-b", "a-b", "libc", true}, Row{"a\\-b", "a", "libc", false},
                    Row{"'a-b'", "a-b", "libc", true}, Row{"\"a*\"", "ab", "libc", false},
                    Row{"\"a*\"+b", "b", "libc", true}, Row{"/m.*/", "malloc", "libz", true},
                    Row{"/m.*@libc.*/", "malloc", "libc", true}, Row{"/m.*@libc.*/", "malloc", "libz", false},
                    Row{"/m.*@/", "malloc", "libz", true}, Row{"/m.*@/", "free", "libz", false},
                    Row{"/@libc.*/", "free", "libc", true}, Row{"/@libc.*/", "free", "libz", false},
                    Row{"/m[^@]l.*@libc.*/", "malloc", "libc", true},
                    Row{"/m[^@]l.*@libc.*/", "malloc", "libz", false}));

INSTANTIATE_TEST_SUITE_P(
    PathsBeforeRegularExpressions, FilterRow,
    testing::Values(Row{"malloc@/usr/lib/x86_64-linux-gnu/libc.so.6-/_.*/", "malloc", "libc", true},
                    Row{"malloc@/usr/lib/x86_64-linux-gnu/libc.so.6-/m.*/", "malloc", "libc", false},
                    Row{"-@/usr/lib/x86_64-linux-gnu/libc.so.6-/f.*/", "free", "libz", false},
                    Row{"-@/usr/lib/x86_64-linux-gnu/libc.so.6-/f.*/", "malloc", "libc", false},
                    Row{"-@/usr/lib/x86_64-linux-gnu/libc.so.6-/f.*/", "malloc", "libz", true},
                    Row{"/f.*/@/opt/x+y/libfoo-1.so+/m.*/", "free", "libfoo-1", true},
                    Row{"/f.*/@/opt/x+y/libfoo-1.so+/m.*/", "malloc", "libz", true},
                    Row{"f@/.*z+/m.*/", "malloc", "libz", false}));

INSTANTIATE_TEST_SUITE_P(SignsInObjectNames, FilterRow,
                         testing::Values(Row{"@libruby-3.1.so.3.1", "rb_eval", "libruby", true},
                                         Row{"@libruby-3.1.so.3.1", "rb_eval", "libc", false},
                                         Row{"@libruby-3.1", "rb_eval", "libruby", true},
                                         Row{"@libruby", "rb_eval", "libruby", true},
                                         Row{"@libruby-2.7.so.2.7", "rb_eval", "libruby", false},
                                         Row{"@libruby-*", "rb_eval", "libruby", true},
                                         Row{"rb_*@libruby-3.1.so.3.1-rb_eval", "rb_eval", "libruby", false},
                                         Row{"rb_*@libruby-3.1.so.3.1-rb_eval", "rb_gc", "libruby", true},
                                         Row{"@libstdc++.so.6", "f", "libstdc++", true},
                                         Row{"@libstdc++.so.6", "f", "libc", false},
                                         Row{"@libstdc++", "f", "libstdc++", true},
                                         Row{"@libstdc++.so.6+malloc@libc", "malloc", "libc", true},
                                         Row{"@libstdc++.so.6+malloc@libc", "free", "libc", false},
                                         Row{"@libstdc++.so.6+malloc", "malloc", "main", true},
                                         Row{"@libstdc++.so.6+malloc", "f", "libstdc++", true},
                                         Row{"malloc@libfoo-1.so+free@libc.so.6", "malloc", "libfoo-1", true},
                                         Row{"malloc@libfoo-1.so+free@libc.so.6", "free", "libc", true},
                                         Row{"malloc@libfoo-1.so+free@libc.so.6", "malloc", "libc", false},
                                         Row{"malloc@libfoo-1.so+free@libc.so.6", "free", "libfoo-1", false},
                                         Row{"@lib*-free", "free", "libc", false},
                                         Row{"@lib*-free", "malloc", "libc", true},
                                         Row{"@'libruby-3.1.so.3.1'-rb_gc", "rb_gc", "libruby", false},
                                         Row{"@libruby\\-3.1", "rb_gc", "libruby", true}));

INSTANTIATE_TEST_SUITE_P(
    Paths, FilterRow,
    testing::Values(Row{"@/usr/lib/x86_64-linux-gnu/libz.so.1.2.13", "inflate", "libz", true},
                    Row{"@/usr/lib/*/libz.so.1*", "inflate", "libz", true},
                    Row{"@/usr/lib/*/libz.so.1", "inflate", "libz", false},
                    Row{"@/usr/lib/x86_64-linux-gnu/libz.so.1.2.13", "inflate", "libc", false},
                    Row{"@/usr/lib/x86_64-linux-gnu/*-inflate", "inflate", "libz", false},
                    Row{"@/usr/lib/x86_64-linux-gnu/*-inflate", "deflate", "libz", true},
                    Row{"@/opt/x+y/libfoo-1.so", "f", "libfoo-1", true},
                    Row{"@/opt/x+y/libfoo-1.so+puts@libc", "puts", "libc", true},
                    Row{"@/libz.*/", "inflate", "libz", true}, Row{"@/libz/", "inflate", "libz", true},
                    Row{"@/lib/", "inflate", "libz", false}, Row{"/^in.*e$/", "inflate", "libz", true},
                    Row{"/in|de/", "de", "libz", true}, Row{"/(in|de)flate/", "deflate", "libz", true},
                    Row{"/in.*/@libz", "inflate", "libc", false},
                    Row{"/in.*@libz.*/", "inflate", "libz", true},
                    Row{"/in.*@libz.*/", "inflate", "libc", false},
                    Row{"/in.*@libz.*/", "deflate", "libz", false}, Row{"/a+b/", "aab", "libc", true},
                    Row{"/a+b/-aab", "aab", "libc", false}, Row{"/a\\/b/", "a/b", "libc", true},
                    Row{"*-/in.*/", "inflate", "libz", false}, Row{"@libz-/in.*/", "inflate", "libz", false},
                    Row{"@libz-/in.*/", "deflate", "libz", true}, Row{"/[/+]x/", "+x", "libc", true}));

// _ZN3Foo3barEi = Foo::bar(int); _ZplRK3FooS1_ = operator+(Foo const&, Foo const&); _ZN3FoomIERKS_ =
// Foo::operator-=(Foo const&); _ZN3FooptEv = Foo::operator->(); _ZN3FooixEi = Foo::operator[](int);
// _ZN3BoxILin1EE3getEv = Box<-1>::get().
INSTANTIATE_TEST_SUITE_P(
    Demangled, FilterRow,
    testing::Values(
        Row{"Foo::bar(int)", "_ZN3Foo3barEi", "libc", true}, Row{"Foo::bar", "_ZN3Foo3barEi", "libc", true},
        Row{"Foo::*", "_ZN3Foo3barEi", "libc", true}, Row{"Foo::bar(long)", "_ZN3Foo3barEi", "libc", false},
        Row{"Foo::ba", "_ZN3Foo3barEi", "libc", false}, Row{"_ZN3Foo3barEi", "_ZN3Foo3barEi", "libc", true},
        Row{"/Foo::b.*/", "_ZN3Foo3barEi", "libc", true}, Row{"operator+", "_ZplRK3FooS1_", "libc", true},
        Row{"operator+-malloc", "_ZplRK3FooS1_", "libc", true},
        Row{"operator-", "_ZplRK3FooS1_", "libc", false},
        Row{"operator+(Foo const&, Foo const&)", "_ZplRK3FooS1_", "libc", true},
        Row{"operator+@libstdc++.so.6", "_ZplRK3FooS1_", "libstdc++", true},
        Row{"Foo::operator-=", "_ZN3FoomIERKS_", "libc", true},
        Row{"Foo::operator->", "_ZN3FooptEv", "libc", true},
        Row{"Foo::operator->+malloc", "malloc", "libc", true},
        Row{"Foo::operator[]", "_ZN3FooixEi", "libc", true},
        Row{"Box<-1>::get", "_ZN3BoxILin1EE3getEv", "libc", true},
        Row{"Foo::*-Foo::bar", "_ZN3Foo3barEi", "libc", false},
        Row{"my_operator+malloc", "malloc", "libc", true}));

INSTANTIATE_TEST_SUITE_P(Clones, FilterRow,
                         testing::Values(Row{"gc_start", "gc_start.isra.0", "libruby", true},
                                         Row{"gc_start", "gc_start.part.12.constprop.0", "libruby", true},
                                         Row{"gc_start", "gc_start.lto_priv.0", "libruby", true},
                                         Row{"gc_start", "gc_start.localalias", "libruby", true},
                                         Row{"gc_start", "gc_start.localalias.3", "libruby", true},
                                         Row{"gc_s*t", "gc_start.isra.0", "libruby", true},
                                         Row{"gc_*-gc_start", "gc_start.isra.0", "libruby", false},
                                         Row{"gc_start.isra.0", "gc_start.isra.0", "libruby", true},
                                         Row{"gc_start", "gc_start.cold", "libruby", false},
                                         Row{"gc_*", "gc_start.cold", "libruby", false},
                                         Row{"*", "gc_start.isra.0.cold.3", "libruby", false},
                                         Row{"/gc.*/", "gc_start.cold", "libruby", false},
                                         Row{"gc_start.cold", "gc_start.cold", "libruby", true},
                                         Row{"gc_start", "gc_start.llvm.1", "libruby", false},
                                         Row{"*", "is.colder", "libruby", true}));

class LtraceFilterRow : public testing::TestWithParam<Row> {};

TEST_P(LtraceFilterRow, ReadsAsLtraceDoes) {
  Filter filter = Filter::parse(GetParam().filter, Syntax::ltrace).resolved_for(everything());
  EXPECT_EQ(filter.matches(GetParam().symbol, object(GetParam().object)), GetParam().traced);
}

INSTANTIATE_TEST_SUITE_P(
    Rows, LtraceFilterRow,
    testing::Values(
        Row{"malloc@libc.so.6", "malloc", "libc", true}, Row{"malloc+free", "free", "libc", true},
        Row{"+free", "malloc", "libc", true}, Row{"-free", "free", "libc", false},
        Row{"-free", "malloc", "libc", true}, Row{"!free", "free", "libc", false},
        Row{"@MAIN", "f", "main", true}, Row{"@MAIN", "f", "libc", false},
        Row{"@libruby-3.1.so.3.1", "rb_gc", "libruby", true},  // "@libruby" less the symbol "3.1.so.3.1"
        Row{"@libstdc++.so.6", "malloc", "libc", true}, Row{"/a+/", "aa", "libc", false},
        Row{"/a\\(b\\)*/", "abb", "libc", true}, Row{"/a(b)/", "a(b)", "libc", true},
        Row{"/in.*@libz.*/", "inflate", "libz", true}, Row{"/in.*/@/libz.*/", "inflate", "libz", true},
        Row{"@/usr/lib/*/libz.so.1.2.13", "inflate", "libz", true}, Row{"", "malloc", "libc", false}));

struct BadRow {
  const char* filter;
  size_t position;
  const char* message;
};

void PrintTo(const BadRow& row, std::ostream* out) {
  *out << row.filter;
}

class BadFilter : public testing::TestWithParam<BadRow> {};

TEST_P(BadFilter, IsRefusedWithTheCaretUnderThePlace) {
  try {
    Filter::parse(GetParam().filter);
    FAIL() << "accepted";
  } catch (const FilterError& error) {
    EXPECT_EQ(error.position(), GetParam().position);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
    EXPECT_THAT(error.what(), testing::EndsWith("\n  " + std::string(GetParam().position, ' ') + "^"));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Rows, BadFilter,
    testing::Values(BadRow{"", 0, "it is empty"}, BadRow{"foo[a@libc", 3, "unbalanced '['"},
                    BadRow{"f@lib[c", 5, "unbalanced '['"}, BadRow{"foo+", 3, "nothing follows the '+'"},
                    BadRow{"foo@libc-", 8, "nothing follows the '-'"},
                    BadRow{"a+-b", 1, "nothing follows the '+'"}, BadRow{"-", 0, "nothing follows the '-'"},
                    BadRow{"!", 0, "nothing follows the '!'"}, BadRow{"a++b", 1, "nothing follows the '+'"},
                    BadRow{"a@b@c", 3, "a second '@'"}, BadRow{"/a@b/@c", 5, "a second '@'"},
                    BadRow{"/abc", 0, "no '/' ends"}, BadRow{"/a(/", 2, "Unmatched ("},
                    BadRow{"x+/a[/@b", 4, "/a[/"}, BadRow{"x+y[z-a]", 4, "goes down"},
                    BadRow{"m@lib[[:foo:]]", 6, "no class"}, BadRow{"'abc", 0, "not closed"},
                    BadRow{"'abc'd", 5, "closing quote"}, BadRow{"f@\"\"", 2, "between the quotes"},
                    BadRow{"foo\\", 3, "nothing follows the '\\'"},
                    BadRow{"sdt:ruby:gc__mark__begin", 0, "-x takes SDT probes"}));

TEST(Filter, ShowsTheFilterAndACaretInItsMessage) {
  try {
    Filter::parse("foo[a@libc");
    FAIL() << "accepted";
  } catch (const FilterError& error) {
    EXPECT_STREQ(error.what(), "bad filter: unbalanced '['\n  foo[a@libc\n     ^");
  }
}

TEST(Filter, ReadsASignAsAnOperatorOnlyUntilTheObjectWithThatNameIsMapped) {
  Filter filter = Filter::parse("f@libfoo-gtk");
  ObjectNames foo = library("/lib/libfoo.so.1", "libfoo.so.1");
  ObjectNames foo_gtk = library("/lib/libfoo-gtk.so.1", "libfoo-gtk.so.1");
  EXPECT_TRUE(filter.resolved_for({foo}).matches("f", foo));
  EXPECT_EQ(filter.resolved_for({foo}).rules().size(), 2U);
  EXPECT_TRUE(filter.resolved_for({foo, foo_gtk}).matches("f", foo_gtk));
  EXPECT_FALSE(filter.resolved_for({foo, foo_gtk}).matches("f", foo));
}

TEST(Filter, NeverTakesMoreThanItNamesWhileTheObjectIsNotMapped) {
  for (const char* text :
       {"@libstdc++.so.6", "@libruby-3.1.so.3.1", "@/usr/lib/x86_64-linux-gnu/libz.so.1.2.13"}) {
    Filter filter = Filter::parse(text).resolved_for({object("main"), object("libc")});
    EXPECT_EQ(filter.rules().size(), 1U) << text;
    EXPECT_FALSE(filter.may_match_in(object("libc"))) << text;
  }
}

TEST(Filter, LooksUpLiteralNamesAndSearchesForPatterns) {
  ObjectNames libc = object("libc");
  EXPECT_THAT(*Filter::parse("malloc+free@libz+calloc@libc").literal_names(libc),
              ElementsAre("malloc", "calloc"));
  EXPECT_THAT(*Filter::parse("m\\alloc").literal_names(libc), ElementsAre("malloc"));
  EXPECT_THAT(*Filter::parse("m*@libz+free").literal_names(libc), ElementsAre("free"));
  EXPECT_EQ(Filter::parse("m*").literal_names(libc), std::nullopt);
  EXPECT_EQ(Filter::parse("Foo::bar").literal_names(libc), std::nullopt);
}

TEST(Filter, KnowsTheObjectsInWhichNothingCanMatch) {
  EXPECT_TRUE(Filter::parse("malloc").may_match_in(object("libc")));
  EXPECT_FALSE(Filter::parse("malloc@libz").may_match_in(object("libc")));
  EXPECT_FALSE(Filter::parse("malloc-@libc").may_match_in(object("libc")));
  EXPECT_TRUE(Filter::parse("malloc-@libc+free").may_match_in(object("libc")));
}

TEST(Filter, OfALibraryHasNoOperators) {
  EXPECT_TRUE(Filter::of_library("libruby-3.1.so.3.1").matches("f", object("libruby")));
  EXPECT_TRUE(Filter::of_library("libfoo-*").matches("f", object("libfoo-1")));
  EXPECT_TRUE(Filter::of_library("MAIN").matches("f", object("main")));
  EXPECT_TRUE(Filter::of_library("/libz.*/").matches("f", object("libz")));
  EXPECT_TRUE(Filter::of_library("/usr/lib/*/libz.so.*").matches("f", object("libz")));
  EXPECT_FALSE(Filter::of_library("libz").matches("f", object("libc")));
  EXPECT_THROW(Filter::of_library(""), FilterError);
}

TEST(ObjectNames, AreSonameBasenameAndStems) {
  EXPECT_THAT(object("libruby").all(),
              ElementsAre("libruby-3.1.so.3.1", "libruby-3.1.so.3.1.2", "libruby-3.1", "libruby"));
  EXPECT_THAT(object("libstdc++").all(), ElementsAre("libstdc++.so.6", "libstdc++.so.6.0.30", "libstdc++"));
  EXPECT_THAT(library("/x/libf-3.1.so.3.1", "").all(), ElementsAre("libf-3.1.so.3.1", "libf-3.1", "libf"));
  EXPECT_THAT(object("main").all(), ElementsAre("ruby"));
  EXPECT_THAT(library("/x/libz.so.1 (deleted)", "").all(), ElementsAre("libz.so.1", "libz"));
}

TEST(Filter, AMessageAboutARegularExpressionHoldsNoControlCharacters) {
  try {
    Filter::of_library("/\033[2J[/");
    FAIL() << "accepted";
  } catch (const FilterError& error) {
    EXPECT_EQ(std::string(error.what()).find('\033'), std::string::npos);
  }
}

}  // namespace
}  // namespace rtrace::plan::filter_test
