// Included before everything else: a call whose result nobody uses is a call all the same.
#pragma once
#define _GNU_SOURCE
#include <features.h>
#undef __attribute_pure__
#define __attribute_pure__
#undef __attribute_const__
#define __attribute_const__
