/* What libspot.so offers. */
struct spot {
  int row, column;
};
int spot_find(const char* name, struct spot* where);
