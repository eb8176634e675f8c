/* SPDX-License-Identifier: BSD-3-Clause */
/* shim.h: what the files of libnccl share: the handle, its users, groups, errors.
 *
 * The library sees tutti.h and nothing else of Tutti, so that any program could do the same. A handle
 * is NCCL's ncclComm_t: a small block that is never given back to the system, and used again as late as
 * may be, so that a stale one is recognised. Whoever is inside a call counts in `users`; ncclCommAbort,
 * which both aborts and frees, waits until they have left. */
#ifndef TT_NCCL_SHIM_H
#define TT_NCCL_SHIM_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TUTTI_NCCL_WITHOUT_CUDA 1
#include "nccl/nccl.h"
#include "tutti.h"

/* Defines pncclNAME and makes ncclNAME its weak alias, as NCCL does for tools that come in between.
 * nccl.h has declared both. docs/nccl.md is made of the lines of PUBLIC and ABSENT (absent.c), with what a
 * comment before them says after "Partly". */
#define PUBLIC(type, name, arguments)                                                                        \
    __attribute__((weak, alias("pnccl" #name))) type nccl##name arguments;                                   \
    type pnccl##name arguments

enum { TT_NCCL_LIVE = 0x7c011ec7, TT_NCCL_DEAD = 0x0dead0 };
/* In `users`: no more may enter, for it ends, or as long as a child is made of it; or, since it was revoked,
 * only who makes a child of it. */
enum { TT_NCCL_ENDING = 1 << 30, TT_NCCL_BUSY = 1 << 29, TT_NCCL_REVOKED = 1 << 28 };
/* Of a child that is made by a thread: who comes first settles what becomes of it. */
enum tt_nccl_making { TT_NCCL_MADE, TT_NCCL_IS_MADE, TT_NCCL_NOT_MADE, TT_NCCL_NOT_WANTED };
enum { TT_NCCL_DEVICE_UNKNOWN = -2, TT_NCCL_NAME = 64, TT_NCCL_TEXT = 640 };
enum { TT_NCCL_NARROW_TYPES = 3 }; /* whose sums leave the range that their average has */

struct ncclComm {
    _Atomic uint32_t magic;
    _Atomic uint32_t users; /* calls under way, and calls of groups that are open; and the above */
    tutti_comm *tutti; /* NULL: the group in which it is made has not ended, or a thread makes it */
    _Atomic int making; /* enum tt_nccl_making */
    ncclResult_t failure; /* why it was not made */
    int n, rank;
    int device; /* UNKNOWN until the first call */
    bool blocking, suspended;
    _Atomic bool finalized; /* ncclCommFinalize was called */
    uint64_t family; /* communicators of one id */
    _Atomic uint64_t splits; /* so far */
    tutti_op average[TT_NCCL_NARROW_TYPES]; /* 0: not made yet */
    char name[TT_NCCL_NAME];
    tutti_config config; /* read until the group ends */
    ncclComm_t next; /* in the list of live, or of dead ones */
};

/* What ncclConfig_t says, whatever its version. */
struct tt_nccl_setting {
    bool blocking;
    char name[TT_NCCL_NAME]; /* "": none */
};

/* --- words.c. Every failure is noted here: as the last error, in the log, and in the open group. */
enum tt_nccl_level { TT_NCCL_NOTHING, TT_NCCL_VERSION, TT_NCCL_WARN, TT_NCCL_INFO, TT_NCCL_TRACE };
bool tt_nccl_tells(enum tt_nccl_level level);
void tt_nccl_tell(enum tt_nccl_level level, const char *form, ...) __attribute__((format(printf, 2, 3)));
ncclResult_t tt_nccl_fail(ncclResult_t result, const char *form, ...) __attribute__((format(printf, 2, 3)));
ncclResult_t tt_nccl_result(tutti_status status);
/* The result of a call of Tutti's, with its words. */
ncclResult_t tt_nccl_answer(tutti_status status);

/* --- variables.c. NULL: not set. The first call reads NCCL's files and tells Tutti what concerns it. */
const char *tt_nccl_variable(const char *name);
void tt_nccl_start(void);
void tt_nccl_tell_variables(void);

/* --- handles.c */
ncclComm_t tt_nccl_new(int n, int rank, const struct tt_nccl_setting *setting, uint64_t family);
void tt_nccl_list(ncclComm_t comm); /* it is live */
bool tt_nccl_retire(ncclComm_t comm); /* it is dead; false: it was, another thread is ending it */
int tt_nccl_siblings(uint64_t family); /* live communicators of this process that are of one id */
ncclComm_t tt_nccl_sibling(uint64_t family, int rank); /* NULL: that rank is not in this process */
uint64_t tt_nccl_hash(uint64_t before, const void *bytes, size_t count);
/* Why a call may not have comm. */
ncclResult_t tt_nccl_refuse(const char *call, ncclComm_t comm);
/* No more may enter; returns false if somebody has not left after ten seconds. */
bool tt_nccl_close(ncclComm_t comm);
void tt_nccl_last_left(void);

static inline bool tt_nccl_is_revoked(ncclComm_t comm)
{
    return (comm->users & TT_NCCL_REVOKED) != 0;
}

static inline void tt_nccl_give_back(ncclComm_t comm)
{
    if ((atomic_fetch_sub(&comm->users, 1) & ~(uint32_t)TT_NCCL_REVOKED) == TT_NCCL_ENDING + 1)
        tt_nccl_last_left();
}

/* It is a communicator, and ready for questions. */
static inline ncclResult_t tt_nccl_check(const char *call, ncclComm_t comm)
{
    return comm != NULL && comm->magic == TT_NCCL_LIVE && comm->tutti != NULL ? ncclSuccess
                                                                              : tt_nccl_refuse(call, comm);
}

static inline ncclResult_t tt_nccl_enter_unless(const char *call, ncclComm_t comm, uint32_t barred)
{
    if (comm == NULL || comm->magic != TT_NCCL_LIVE || comm->tutti == NULL)
        return tt_nccl_refuse(call, comm);
    if ((atomic_fetch_add(&comm->users, 1) & barred) == 0)
        return ncclSuccess;
    tt_nccl_give_back(comm);
    return tt_nccl_refuse(call, comm);
}

/* Between enter and leave nobody frees comm. In a group it is left when the group is over. */
static inline ncclResult_t tt_nccl_enter(const char *call, ncclComm_t comm)
{
    return tt_nccl_enter_unless(call, comm, TT_NCCL_ENDING | TT_NCCL_BUSY | TT_NCCL_REVOKED);
}
/* To make a child of it. */
static inline ncclResult_t tt_nccl_enter_parent(const char *call, ncclComm_t comm)
{
    return tt_nccl_enter_unless(call, comm, TT_NCCL_ENDING | TT_NCCL_BUSY);
}

/* --- group.c */
/* A child is made at the end of a group, or from then on, by a thread. */
enum tt_nccl_kind { TT_NCCL_INIT, TT_NCCL_CHILD, TT_NCCL_CHILD_BEHIND, TT_NCCL_FINALIZE, TT_NCCL_DESTROY };
struct tt_nccl_later { /* what waits for the end of a group */
    enum tt_nccl_kind kind;
    ncclComm_t comm, *out;
    ncclResult_t result;
    /* Of a child: a call of Tutti's, which in a group puts it off as well, and what it needs until then. */
    const char *call;
    tutti_status (*start)(struct tt_nccl_later *later);
    struct tt_nccl_setting setting;
    tutti_config config;
    tutti_comm *child;
    uint64_t family;
    int color, key; /* of split */
    bool of_revoked; /* split: */
    tutti_comm *whole; /* all ranks, anew */
    int *excluded; /* ranks, of shrink: freed when it has started */
    int excluded_count, flags;
    int n; /* of grow */
    bool has_id;
    tutti_id id;
    bool wanted; /* this rank gets a child */
    ncclComm_t made; /* by a thread: the handle */
    struct tt_nccl_later *next; /* that the thread makes, of the same communicator */
};
struct tt_nccl_group; /* of a thread */
extern _Thread_local struct tt_nccl_group *tt_nccl_group
    __attribute__((tls_model("initial-exec"), visibility("hidden")));
void tt_nccl_group_note(ncclResult_t failure);
void tt_nccl_group_hold(ncclComm_t comm);
/* A copy that stays until the group has ended; NULL: there is no memory. */
struct tt_nccl_later *tt_nccl_group_add(const struct tt_nccl_later *later);

static inline void tt_nccl_leave(ncclComm_t comm)
{
    if (tt_nccl_group != NULL)
        tt_nccl_group_hold(comm);
    else
        tt_nccl_give_back(comm);
}

/* --- comm.c */
ncclResult_t tt_nccl_read_config(const char *call, const ncclConfig_t *config,
    const struct tt_nccl_setting *fallback, struct tt_nccl_setting *to);
/* A rank that is new: of ncclCommInitRank and its like, or of a communicator that grows. */
ncclResult_t tt_nccl_init(const char *call, ncclComm_t *out, int n, const ncclUniqueId *id, int rank,
    const ncclConfig_t *config, bool grows);
void tt_nccl_hello(ncclComm_t comm); /* it is ready: said where somebody wants to know */

/* --- calls.c. `of_torch`: PyTorch has called it. */
ncclResult_t tt_nccl_create_factor(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
    ncclScalarResidence_t residence, ncclComm_t comm, bool of_torch);

/* --- children.c. Tutti has made what the call wanted, if anything: its handle. */
ncclResult_t tt_nccl_take_child(struct tt_nccl_later *later);
/* A thread makes these children, one after the other, and frees them: ncclInProgress, or why it does not. And
 * what is not made after all. */
ncclResult_t tt_nccl_begin_to_make(struct tt_nccl_later *first);
void tt_nccl_drop_children(struct tt_nccl_later *first);
/* Those of `all` that are children of a communicator that was revoked. */
tutti_status tt_nccl_split_revoked(struct tt_nccl_later *const *all, int count);

/* --- ends.c. What a group has put off. */
/* So long an end stays for peers that are not through: more than a stopped process is likely to be away. */
enum { TT_NCCL_LINGER_MS = 10000 };
ncclResult_t tt_nccl_finalize_now(ncclComm_t comm);
ncclResult_t tt_nccl_destroy_now(ncclComm_t comm);

#endif
