/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_rig.h: for tests of the stub: a runtime that is configured, and words that show how far streams came.
 *
 * What hangs is shown by a stream that is not ready after LONG_MS, and is once somebody helps it; that the
 * same program ends elsewhere shows that it was not merely slow. */
#ifndef TT_TESTS_STUB_RIG_H
#define TT_TESTS_STUB_RIG_H
#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "tests/stub/stub.h"

enum { LONG_MS = 100, ENOUGH_MS = 20000 };

extern const struct tt_dev *dev;
extern const struct tt_stub *stub;
extern uint32_t *rig_words; /* pinned, all 0 */

/* Before each test: it ends within a minute. */
void rig_limit_time(void);
/* A child, for another process on the device: it ends with its parent, and within a minute. */
pid_t rig_fork(void);
void rig_open(void); /* the tables, and nothing else */
void rig_start(const char *configuration); /* and the words */
void *rig_stream(void);
void rig_hangs(void *stream);
void rig_ends(void *stream);
void rig_sleep(void); /* LONG_MS */
/* A call by a thread of its own, which may hang. */
struct rig_call {
    pthread_t thread;
    void (*call)(void *stream);
    void *stream;
    atomic_bool done;
};
void rig_call(struct rig_call *call, void (*function)(void *stream), void *stream);
void rig_call_hangs(struct rig_call *call);
void rig_call_ends(struct rig_call *call);
/* By a CPU. */
void rig_open_word(uint32_t *word, uint32_t value);

#endif
