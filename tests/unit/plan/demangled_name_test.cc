#include "rtrace/plan/demangled_name.h"

#include <gmock/gmock.h>

namespace rtrace::plan::demangled_name_test {
namespace {

struct Row {
  std::string_view name, bare;
};
void PrintTo(const Row& row, std::ostream* out) {
  *out << row.name;
}
class WithoutResult : public testing::TestWithParam<Row> {};
TEST_P(WithoutResult, LeavesTheNameAndItsParameters) {
  EXPECT_EQ(without_result(GetParam().name), GetParam().bare);
}
INSTANTIATE_TEST_SUITE_P(
    Demangled, WithoutResult,
    testing::Values(Row{"lib::f(int)", "lib::f(int)"},
                    Row{"lib::Tree::size() const", "lib::Tree::size() const"},
                    Row{"int lib::f<int>(int)", "lib::f<int>(int)"},
                    Row{"lib::Tree* std::copy<lib::Tree const*, lib::Tree*>(lib::Tree const*, lib::Tree*)",
                        "std::copy<lib::Tree const*, lib::Tree*>(lib::Tree const*, lib::Tree*)"},
                    Row{"std::map<int, std::pair<long, char> > const& lib::f<int>()", "lib::f<int>()"},
                    Row{"(anonymous namespace)::f(int)", "(anonymous namespace)::f(int)"},
                    Row{"void (anonymous namespace)::f<int>(int)", "(anonymous namespace)::f<int>(int)"},
                    Row{"lib::(anonymous namespace)::f(int)", "lib::(anonymous namespace)::f(int)"},
                    Row{"lib::S::operator()(int) const", "lib::S::operator()(int) const"},
                    Row{"void lib::S::operator()<int>(int) const", "lib::S::operator()<int>(int) const"},
                    Row{"std::ostream& std::operator<< <char>(std::ostream&, char)",
                        "std::operator<< <char>(std::ostream&, char)"},
                    Row{"lib::S::operator unsigned long() const", "lib::S::operator unsigned long() const"},
                    Row{"operator new(unsigned long)", "operator new(unsigned long)"},
                    Row{"decltype ((a)->b()) lib::f<S>(S)", "lib::f<S>(S)"},
                    Row{"decltype(a < b) lib::f<S>(S)", "lib::f<S>(S)"},
                    Row{"unsigned long lib::f<unsigned long, (lib::E)2>(unsigned long)",
                        "lib::f<unsigned long, (lib::E)2>(unsigned long)"},
                    Row{"void (*lib::f<int>(int))(char)", "void (*lib::f<int>(int))(char)"},
                    Row{"co_operator::f(int)", "co_operator::f(int)"},
                    Row{"vtable for lib::S", "vtable for lib::S"}, Row{"", ""}, Row{"<<<((", "<<<(("},
                    Row{"decltype", "decltype"}));

TEST(WithoutAbiTags, LeavesWhatTheSourceSays) {
  EXPECT_EQ(without_abi_tags("lib::title[abi:cxx11](int)"), "lib::title(int)");
  EXPECT_EQ(without_abi_tags("lib::S[abi:a][abi:b]::f[abi:cxx11]()"), "lib::S::f()");
  EXPECT_EQ(without_abi_tags("lib::S::operator[](int)"), "lib::S::operator[](int)");
  EXPECT_EQ(without_abi_tags("odd[abi:"), "odd");
  EXPECT_EQ(without_abi_tags(""), "");
}

}  // namespace
}  // namespace rtrace::plan::demangled_name_test
