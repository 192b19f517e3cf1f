// Frames with names that C++ mangles; one of them is passed by an exception.
#define FRAME __attribute__((noinline, noclone))
#define AFTER_THE_CALL() __asm__ volatile("" ::: "memory")

FRAME int leaf(int value) {
  AFTER_THE_CALL();
  if (value < 0) throw value;
  return 2 * value;
}

namespace shop {
class Till {
 public:
  FRAME int add(int value) {
    int result = leaf(value);
    AFTER_THE_CALL();
    return result + base_;
  }

 private:
  int base_ = 1;
};

template <typename T>
class Cart {
 public:
  FRAME int fill(T value, int count) {
    int result = till_.add(value);
    AFTER_THE_CALL();
    return result + count;
  }

 private:
  Till till_;
};
}  // namespace shop

int main() {
  shop::Cart<int> cart;
  int good = cart.fill(20, 1) == 42;
  try {
    cart.fill(-1, 1);
    good = 0;
  } catch (int value) {
    good &= value == -1 && cart.fill(0, 3) == 4;
  }
  return good ? 0 : 1;
}
