/* SPDX-License-Identifier: BSD-3-Clause */
/* local_rig.h: ranks on one device, each with a stream and buffers of its own: threads of one process, or of
 * several (led_rig.h). */
#ifndef TT_TESTS_LOCAL_RIG_H
#define TT_TESTS_LOCAL_RIG_H
#include "device/dev.h"
#include "tests/rig/plugin.h"
#include "tests/rig/ranks.h"

enum { AREA = 64 * 1024, AREAS = 4, RANKS = 3 };
enum { GIVEN, GOT };

struct local_desk { /* of a rank */
    struct ranks_me *me;
    const struct tt_dev *dev;
    const struct tt_stub *stub; /* NULL: it is a real device */
    tutti_comm *comm;
    void *stream;
    uint8_t *areas[AREAS]; /* of the device */
    uint8_t *host; /* pinned: one area */
};

/* The table's function did well; else the failure has its own words. */
bool local_fine(const struct local_desk *d, enum tt_dev_error error);
/* All but the communicator; and that, too. */
bool local_prepare(struct ranks_me *me, struct local_desk *d);
bool local_prepare_on(struct ranks_me *me, struct local_desk *d, int device);
bool local_sit_down(struct ranks_me *me, struct local_desk *d, int64_t timeout_ms);
/* One more communicator of all ranks, with these options, from a semicolon on. */
tutti_comm *local_join(struct ranks_me *me, const char *more, int64_t timeout_ms);
/* From now on its calls wait no longer than this: who connects it may take longer, on a busy machine. */
void local_hurry(const tutti_comm *comm, int64_t timeout_ms);
/* Captures this call, while all ranks do, or meet as often, and launches it once. Returns what was. */
void *local_capture(const struct local_desk *d, tutti_status (*call)(const struct local_desk *d));
/* The predicted microseconds of a call, as tutti_query tells them; 0, and a failure, if it does not. */
double local_price(struct ranks_me *me, const tutti_comm *comm, const char *question);
void local_run_threads(const char *stub, int n, ranks_fn run);

/* Put bytes into an area, and look at what is there. */
void local_give(const struct local_desk *d, int area, const void *bytes, size_t count);
const uint8_t *local_take(const struct local_desk *d, int area, size_t count);
tutti_stream local_on(const struct local_desk *d);
/* Fill the beginning of GOT, and see that nothing was stored there since. */
void local_poison(const struct local_desk *d);
bool local_is_poisoned(const struct local_desk *d);
/* The stream is through within a minute, whatever holds it now. */
void local_drains(const struct local_desk *d);
/* The stream is through, of all ranks. */
void local_settle(const struct local_desk *d);

#endif
