/* Calls one function several times, the last time as the last thing it does: compilers without a PLT keep its
   address in a register, and jump there. */
int add(int left, int right);

int thrice(int value) {
  if (add(value, 1) < 0) return 1;
  add(value, 2);
  return add(value, 3);
}
