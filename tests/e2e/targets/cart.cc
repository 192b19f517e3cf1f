// A function with a mangled name, in a library and called by a program.
namespace shop {
class Cart {
 public:
  explicit Cart(int base) : base_(base) {}
  int total(int items) const;

 private:
  int base_;
};

#ifdef CART_LIBRARY
int Cart::total(int items) const {
  return base_ + items;
}
#endif
}  // namespace shop

#ifndef CART_LIBRARY
int main() {
  return shop::Cart(40).total(2) == 42 ? 0 : 1;
}
#endif
