#ifndef IFUNC_H
#define IFUNC_H
int chosen(int value);
int plugin_work(int value);
#endif
