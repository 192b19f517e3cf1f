/* What the C++ library's classes hold, and how C++ passes what C does not have. */
#include <string>
#include <string_view>
#include <vector>

#define KEPT __attribute__((noinline, noclone))

namespace lib {

volatile unsigned long sink;

struct Empty {};
struct Base {
  int base = 1;
  virtual ~Base() = default;
};
struct Derived : virtual Base {
  int own = 2;
};
struct Big {
  long a, b, c;
};
struct Tree {
  int value;
  std::vector<Tree> below;
};
class Shop {
 public:
  explicit Shop(int size) : size_(size) {}
  KEPT Big stock(int what) const;
  KEPT Shop& enlarge(int by);

 private:
  int size_;
};

Big Shop::stock(int what) const {
  return {size_, what, 3};
}
Shop& Shop::enlarge(int by) {
  size_ += by;
  return *this;
}
KEPT std::string text(const std::string& left, std::string right, std::string_view view, int after) {
  sink = left.size() + view.size() + static_cast<unsigned long>(after);
  return left + right;
}
KEPT unsigned long numbers(const std::vector<int>& few, std::vector<std::string>* names,
                           std::vector<double> copy) {
  sink = few.size() + names->size();
  return copy.size();
}
KEPT int nothing(int before, Empty empty, int after) {
  (void)empty;
  return before + after;
}
KEPT int tree(const Tree& top) {
  return top.value;
}
KEPT std::wstring wide(const std::wstring& text) {
  return text;
}

KEPT std::string title(int number) {
  return "no. " + std::to_string(number);
}

}  // namespace lib

int main() {
  std::vector<std::string> names = {"one", "two"};
  const std::string nul("a\0b", 3);
  lib::text(nul, "a string that is longer than the buffer in it", "view", 7);
  lib::numbers({1, 2, 3, 4, 5}, &names, {});
  lib::nothing(1, {}, 2);
  lib::tree({1, {{2, {}}, {3, {}}}});
  lib::wide(L"wide");
  lib::title(8);
  lib::Shop shop(4);
  shop.stock(5);
  shop.enlarge(6);
}
