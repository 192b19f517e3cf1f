/* The functions that the bench has called and traced. */
#pragma once

int work_two(int a, int b);
int work_text(int a, int b, const char* text);
int work_unused(int a);
