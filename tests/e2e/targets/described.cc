/* As described.c, for C++: methods, references, classes that are passed by reference. */
#include <memory>
#include <string>

#define KEPT __attribute__((noinline, noclone))

namespace shop {

enum class Size : unsigned char { small, large = 200 };
volatile int sink;

struct Item {
  int id = 7;
  Size size = Size::large;
  KEPT int cost(int pieces) const;
  KEPT static bool known(int id, bool strictly);
};

int Item::cost(int pieces) const {
  sink = id;
  return pieces * 2;
}
bool Item::known(int id, bool strictly) {
  sink = id + strictly;
  return strictly;
}
KEPT int look(const Item& item, int&& count) {
  sink = item.id + count;
  return 1;
}
KEPT std::unique_ptr<int> make(int value) {
  return std::make_unique<int>(value);
}
KEPT int take(std::unique_ptr<int> owned, Size size) {
  sink = static_cast<int>(size);
  return *owned;
}

}  // namespace shop

int main() {
  shop::Item item;
  item.cost(3);
  shop::Item::known(4, true);
  shop::look(item, 5);
  shop::take(shop::make(9), shop::Size::small);
}
