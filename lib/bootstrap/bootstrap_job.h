/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_job.h: the ranks that meet at one id, as the helper thread sees them.
 *
 * Three files share it: bootstrap_root.c knows when (the poll loop, the listening socket, the time),
 * bootstrap_job.c who is let in and how the job fails, bootstrap_rounds.c what all get from all. */
#ifndef TT_BOOTSTRAP_JOB_H
#define TT_BOOTSTRAP_JOB_H
#include "bootstrap/bootstrap_wire.h"

enum {
    TT_JOB_STRANGERS = 64, /* connections at once that have not said hello, of each listener */
    TT_JOB_STRANGER_MS = 5000, /* the time each of them has for that */
    TT_JOB_HASTE_MS = 200, /* the same, while others wait for its place */
    TT_JOB_SPARE = 16, /* descriptors that strangers of the network leave to the program */
    TT_JOB_LINGER_MS = 5000, /* how long ranks that come after a failure are still told of it */
    TT_JOB_LATE_MS = 1000, /* and processes that come when all ranks have gone, that they are too many */
};

enum tt_stage {
    TT_STAGE_GREETING,
    TT_STAGE_PROOF,
    TT_STAGE_FRAME,
    TT_STAGE_HELLO, /* up to here a stranger */
    TT_STAGE_SEATED, /* waits for the others */
    TT_STAGE_MEMBERS, /* is being sent all blobs and descriptors */
    TT_STAGE_REPORT, /* is to say whether it took them */
    TT_STAGE_DONE, /* waits for the reports of the others */
    TT_STAGE_ANSWER, /* is being sent the result of an exchange */
    TT_STAGE_SESSION, /* may begin an exchange */
    TT_STAGE_PART, /* its part of an exchange is coming */
    TT_STAGE_WAITING, /* for the parts of the others */
};

struct tt_visitor {
    int socket; /* -1: gone */
    enum tt_stage stage;
    bool ours; /* a thread of this process */
    uint16_t version; /* the highest that it speaks */
    bool remote; /* came by the network, which passes no descriptors */
    bool congested; /* too many descriptors are under way; not before the next turn */
    size_t have; /* bytes in `in` */
    size_t sent; /* of job->result */
    int fds_passed; /* of job->fds */
    int nfds;
    int fds[TT_BLOB_FDS];
    int64_t since_ns; /* it is connected */
    struct tt_challenge challenge;
    uint8_t in[TT_HELLO_BYTES];
};

enum tt_phase {
    TT_JOB_GATHERING,
    TT_JOB_HANDING_OUT,
    TT_JOB_SESSION,
    TT_JOB_LATE, /* all ranks have what they came for, or know why not */
    TT_JOB_LINGERING, /* not all have come, and it has failed */
    TT_JOB_OVER
};

/* What is collected from all ranks: the frame in which all of them get it. */
struct tt_round {
    uint8_t *frame;
    uint32_t part; /* bytes of one rank */
    int parts; /* that have come */
};

struct tt_job {
    struct tt_id id;
    enum tt_phase phase;
    int64_t timeout_ms;
    int64_t deadline_ns, limit_ms; /* the earliest of all, and the timeout that it comes from */
    int64_t began_ns, notice_ns; /* of what is under way; and when all hear who is late */
    int maker; /* a rank of this process; -1: none has come */
    int n, n_from; /* 0 until the first rank came; and who that was */
    int hellos;
    struct tt_visitor **seats; /* n; who has a seat is among the visitors to the end */
    int *fds; /* n * TT_BLOB_FDS */
    struct tt_round round, result; /* being collected, being sent */
    struct tt_visitor **visitors;
    int count;
    struct tt_verdict verdict; /* the first cause of failure */
    bool warned;
};

/* For the poll loop. */
void tt_job_listen(struct tt_job *job, struct tt_visitor *v); /* hear what a connection has to say */
bool tt_job_may_send(const struct tt_job *job, const struct tt_visitor *v);
void tt_job_send(struct tt_job *job, struct tt_visitor *v); /* as much as its socket takes */
void tt_job_conclude(struct tt_job *job); /* after each turn: is a phase at its end? */
void tt_job_expire(struct tt_job *job); /* the job's deadline has passed */
/* If it is time to tell who is late, do; returns when the next time is. */
int64_t tt_job_notify(struct tt_job *job);
/* The job fails for want of what errno `number` says. */
void tt_job_fail(struct tt_job *job, const char *what, int number);
void tt_visitor_dismiss(struct tt_visitor *v);
/* Close the oldest connection, from the network or not, that has not proven the secret; false: there is none.
 * A rank that was meant well comes again. */
bool tt_job_drop_stranger(struct tt_job *job, bool remote);
void tt_job_close_fds(struct tt_job *job);

/* Between bootstrap_job.c and bootstrap_rounds.c. */
/* The first cause wins. */
void tt_job_decide(struct tt_job *job, tutti_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int tt_job_tell_all(struct tt_job *job); /* the verdict so far; returns how many were told */
/* A connection ended, or said what makes no sense. */
void tt_job_lose(struct tt_job *job, struct tt_visitor *v, int number);
void tt_visitor_enter(struct tt_visitor *v, enum tt_stage stage);
void tt_job_begin(struct tt_job *job); /* something that ranks may be late for */
tutti_status tt_round_begin(struct tt_round *round, int n, uint32_t part);
uint8_t *tt_round_part(const struct tt_round *round, int rank);
void tt_job_hand_out(struct tt_job *job); /* all have come */
void tt_job_hear_report(struct tt_job *job, struct tt_visitor *v);
void tt_job_hear_exchange(struct tt_job *job, struct tt_visitor *v);
void tt_job_hear_part(struct tt_job *job, struct tt_visitor *v);

#endif
