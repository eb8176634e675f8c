/* SPDX-License-Identifier: BSD-3-Clause */
/* process.h: whether another process of this host is wholly gone: its memory, its descriptors, and with them
 * what its devices did.
 *
 * That its memory is gone is told by others (transports/life.h), and comes first: by some milliseconds, or
 * by more where there is much of it. The end of all is told by a descriptor of the process, a pidfd; but a
 * number names a process in its own namespace only, and only as long as it lives; and a process that
 * executes another program loses its memory and its devices, and lives on. */
#ifndef TT_PROCESS_H
#define TT_PROCESS_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tt_process { /* what a process tells others of itself: plain bytes */
    int64_t number;
    uint64_t space; /* its namespace of numbers, and when it began; 0: not known */
    uint64_t start;
};
struct tt_process tt_process_self(void);

/* Zeros: nobody is watched, and tt_process_is_gone is true a second after its memory is gone. */
struct tt_process_watch {
    int fd; /* 1 more than the descriptor; 0: there is none */
    int64_t number;
    _Atomic int64_t until_ns; /* then it is taken to be gone; 0: its memory is there, as far as is known */
};
void tt_process_watch(struct tt_process_watch *watch, const struct tt_process *process);
void tt_process_unwatch(struct tt_process_watch *watch);
/* Asked again and again, by any threads, with whether the memory that it shared is gone. */
bool tt_process_is_gone(struct tt_process_watch *watch, bool memory_is_gone);

#endif
