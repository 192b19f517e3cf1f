/* Built twice, as libplugin_a.so and libplugin_b.so, which differ in what they add. */
int plugin_work(int value) {
  return value + PLUGIN_ADDS;
}
