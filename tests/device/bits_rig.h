/* SPDX-License-Identifier: BSD-3-Clause */
/* bits_rig.h: collectives that kernels do have the bits of the host's executor, whatever the call is, and
 * wherever each rank has its operands and wants its results.
 *
 * All ranks draw the same calls, and each its own kinds of memory. Three calls are enqueued back to back,
 * with what fills their buffers and what fetches the results; then the same on a communicator of the same
 * ranks whose calls the host runs. Operands are any bits; both ways must leave the same ones behind, also
 * where nothing should be stored. */
#ifndef TT_TESTS_BITS_RIG_H
#define TT_TESTS_BITS_RIG_H
#include "local_rig.h"
#include "tests/rig/matrix_case.h"

enum { BITS_LANES = 3, BITS_TYPES = 12 };
enum bits_kind { BITS_ORDINARY, BITS_PINNED, BITS_MANAGED, BITS_DEVICE, BITS_KINDS };
enum bits_way { BITS_KERNELS, BITS_HOST, BITS_WAYS };

struct bits_buffer { /* of one side of a call */
    uint8_t *areas[BITS_KINDS];
    uint8_t *bounce; /* pinned: on its way to and from other memory */
    uint8_t *given, *left; /* what it held, and what is there after the kernels */
    enum bits_kind kind;
};

struct bits_lane { /* a call under way */
    struct matrix_case call;
    struct bits_buffer buffers[SIDES];
    bool served; /* by kernels */
    bool scaled, on_device; /* by this rank's factor, which the host has, or the device */
    uint8_t factor[8];
};

struct bits_table { /* of a rank */
    struct local_desk desk;
    tutti_comm *comms[BITS_WAYS];
    void *streams[2];
    struct bits_lane lanes[BITS_LANES];
    uint8_t *factors; /* of the device: one each for the types, as bits */
};

struct bits_plan {
    const enum matrix_collective *collectives;
    int ncollectives;
    size_t room; /* bytes of a buffer */
    size_t piece; /* bytes of a collective's vector: some calls end in the middle of one, or need four */
    const int *calls; /* by the number of ranks */
    bool given; /* all buffers are memory of tutti_mem_alloc, which all ranks may reach */
    bool (*prepare)(struct ranks_me *me, struct local_desk *desk);
    bool (*join)(struct ranks_me *me, struct bits_table *t); /* sets the communicators */
    bool (*serves)(const struct matrix_case *c);
    bool (*launches)(const struct local_desk *desk); /* this process has a kernel for each call */
};
void bits_compare(struct ranks_me *me, const struct bits_plan *plan);

#endif
