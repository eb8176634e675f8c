/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_rig.h: ranks that call NCCL's interface, on host memory and on the stub's device, as processes and as
 * threads. A test's function is the same for all of these. */
#ifndef TT_TESTS_NCCL_RIG_H
#define TT_TESTS_NCCL_RIG_H
#include "tests/rig/plugin.h"
#include "tests/rig/ranks.h"

#define TUTTI_NCCL_WITHOUT_CUDA 1
#include "nccl/nccl.h"

struct nccl_desk { /* of a rank */
    struct ranks_me *me;
    const struct tt_dev *dev; /* NULL: host memory, and the default stream */
    cudaStream_t stream;
    ncclComm_t comm;
    void *kept; /* of nccl_memory */
};
typedef void (*nccl_fn)(struct nccl_desk *d);

enum { NCCL_ON_HOST = 1, NCCL_ON_STUB = 2, NCCL_EVERYWHERE = 3 };
struct nccl_plan {
    const char *name;
    int where; /* of the above */
    int n; /* 0: with 1, 2 and 4 */
    nccl_fn run;
    uint32_t may_die;
    bool processes_only;
};
/* Each rank has a communicator of all before `run`, and destroys it afterwards, unless run has taken it
 * away. */
void nccl_run(const struct nccl_plan *plan);

/* The call must have succeeded; or failed so, with words that name all of `names` (separated by |). */
bool nccl_ok(struct nccl_desk *d, ncclResult_t result, const char *call);
bool nccl_refused(
    struct nccl_desk *d, ncclResult_t result, ncclResult_t expected, const char *call, const char *names);
#define OK(call) nccl_ok(d, call, #call)
#define REFUSED(call, expected, names) nccl_refused(d, call, expected, #call, names)
#define EXPECT(truth) ranks_expect(d->me, truth, "line %d: %s", __LINE__, #truth)

/* An id that rank 0 makes for all; a communicator of all ranks. */
ncclUniqueId nccl_id(struct nccl_desk *d);
ncclComm_t nccl_join(struct nccl_desk *d, ncclConfig_t *config);
/* Zeroed memory that both sides see, until the rank ends. */
void *nccl_memory(struct nccl_desk *d, size_t bytes);
/* What was called is over. */
void nccl_settle(struct nccl_desk *d);
/* The state of comm becomes something else than ncclInProgress; what? */
ncclResult_t nccl_await(struct nccl_desk *d, ncclComm_t comm);
/* comm works: all its n ranks add ones. */
void nccl_works(struct nccl_desk *d, ncclComm_t comm, int n);

#endif
