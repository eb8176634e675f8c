/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan_emulated.h: emulated kernels under ThreadSanitizer. */
#ifndef TESTS_TSAN_EMULATED_H
#define TESTS_TSAN_EMULATED_H
#include <stdbool.h>

/* Hand-overs, barriers and copies that are right. */
bool tsan_emulated_kernels(void);
/* Kernels of several devices that do collectives together. */
bool tsan_direct_kernels(void);
/* Those that do several calls. */
bool tsan_lists(void);
/* A program that loses a release is told of its race: this one, called again with `word`. It is told of the
 * function that reads too early. */
bool tsan_lost_release_is_reported(const char *word, const char *reader);
/* What it does then: a block hands over to another one, a kernel tells that it is over, kernels meet, a list
 * is over, or goes on to its next call. */
int tsan_lose_release(void);
int tsan_lose_end(void);
int tsan_lose_meeting(void);
int tsan_lose_list_end(void);
int tsan_lose_barrier(void);

#endif
