/* SPDX-License-Identifier: BSD-3-Clause */
/* fail_alloc.h: what the files of fail_alloc share. */
#ifndef TT_TESTS_FAIL_ALLOC_H
#define TT_TESTS_FAIL_ALLOC_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "tutti.h"

enum { TRIES_AGAIN = 3 };

extern _Atomic long countdown; /* 0: nothing is refused; 1: the next request is */
extern _Atomic long requests; /* so far */
/* Prints, and this process has failed; returns false. */
bool fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A thread that is not refused. */
void start_thread(pthread_t *thread, void *(*run)(void *), void *argument);

/* fail_alloc_calls.c */
tutti_status try_calls(long refusal);
tutti_status try_rules(long refusal);

/* fail_alloc_device.c */
tutti_status try_device(long refusal);
tutti_status try_device_alone(long refusal);

/* fail_alloc_streams.c */
tutti_status try_streams(long refusal);
tutti_status try_program(long refusal);
bool is_frugal(void);

#endif
