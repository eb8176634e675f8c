/* SPDX-License-Identifier: BSD-3-Clause */
/* fences.h: whether this thread has stored past the caches since its last fence for that.
 *
 * This CPU orders such stores soon enough that a missing fence never shows in a result. So the linker puts
 * functions of the tests between the library and its kernels (fences.c), and who plays a transport asks
 * whenever it is told that something is there. */
#ifndef TT_TESTS_FENCES_H
#define TT_TESTS_FENCES_H
#include <stdbool.h>

bool fences_is_owed(void);
/* A kernel of the test has stored so. */
void fences_owe(void);

#endif
