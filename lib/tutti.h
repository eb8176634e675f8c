/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti.h: the public header of Tutti, a collective communication library. C99, C++, no other header needed.
 *
 * Ranks. A communicator joins n ranks, numbered 0 to n - 1. A rank is a process or a thread; each holds
 * its own end, a tutti_comm. A collective is called by every rank of the communicator, with the same
 * count, type, op and root, in the same order. Ranks that call different things get TUTTI_MISMATCH, all of
 * them. A rank that by its own arguments has nothing to wait for (it takes itself for the root, it has no
 * elements) may get TUTTI_OK first; then the next call that exchanges anything tells, or tutti_comm_finalize.
 *
 * Counts are elements, bytes are bytes. Sums are formed in an order that depends only on n, the count and
 * the algorithm: the same call gives the same bits run to run, whatever the memory and the slicing. With
 * TUTTI_COMM_EXACT it depends on n only, and is called the canonical tree: ranks 0 and 1, 2 and 3, ... are
 * combined first, then the results of neighbouring pairs, and so on; what has no partner goes up as it is.
 *
 * Buffers. Where a function says "in place", send and recv may be the same memory in the stated way; else
 * they must not overlap. Any host memory is legal. Memory of tutti_mem_alloc can be read and written by the
 * peers without a copy; messages of less than 4 KiB are copied all the same, which is faster. A send buffer
 * is never written, unless in place.
 *
 * Waiting. Without a stream, outside a group, a collective returns when its result is there and nobody
 * reads this rank's buffers any more. Every wait ends: with the result, or with an error when a peer dies,
 * calls something else, or nothing moves for the communicator's timeout. After an error, too, no peer uses
 * this rank's buffers any more when the call returns; but a peer process that was stopped in the middle of a
 * call is waited for a second at most, and when it goes on it may still write the rest of one message to a
 * receive buffer that tutti_mem_alloc gave.
 *
 * Streams. A call with a stream returns at once and runs later, on the stream's own thread, after what was
 * given to that stream before; its buffers belong to the library until it is over. Calls on one communicator
 * run in the order in which they were made, whatever their streams: one on stream B waits for an earlier one
 * on stream A, and a call without a stream waits for all that are queued. Nothing else orders two streams but
 * tutti_stream_after: they progress independently. So all ranks must make the calls on one communicator in
 * one order, but may spread several communicators over streams as they like.
 *
 * Threads. Every function may be called from any thread. One communicator is used by one thread at a time
 * (the threads of streams do not count), except tutti_comm_abort, tutti_comm_abort_local, tutti_comm_state,
 * tutti_comm_get_error and tutti_query of the "recorder", which any thread may call at any moment before
 * tutti_comm_destroy.
 * A stream may be used by any number of threads. Groups and last errors belong to the thread.
 *
 * Ends. A rank is lost when its process ends, by whatever signal, or becomes another program (exec): the
 * calls of its peers that need it end with PEER_LOST within a second or so. A thread may end, and another go
 * on with its communicators, so nobody notices the end of a thread: destroy them first, else the peers wait
 * until their timeout has passed.
 *
 * Forks. A child can use none of the communicators, streams and programs that were made before: every call
 * with one is an INVALID_USAGE that changes nothing, so what a language cleans up in a child harms nobody. It
 * may make its own, at once, whatever other threads of its parent were doing.
 *
 * Errors. Every call checks its arguments first; on TUTTI_INVALID_ARGUMENT, TUTTI_INVALID_USAGE,
 * TUTTI_UNSUPPORTED and TUTTI_OUT_OF_MEMORY nothing was done at this rank and the communicator goes on.
 * Its peers may be in the same call already, and wait for it: this rank has a second to make it right
 * (setting `refusal`); then the communicator ends, on all ranks, with INVALID_USAGE and this rank's reason.
 * The others are sticky: the communicator is over, every rank gets the same first cause (but for one that
 * ended it for itself, by tutti_comm_abort_local), and only abort, state, get_error, get_last_error, traffic,
 * rank, size, op_destroy and destroy are left. Of a call with a stream, what can be told from the arguments
 * is returned at once, as of any other; a later failure ends the communicator (even for want of memory), and
 * the points of the stream tell it. Outputs are set only on success. tutti_get_last_error says what was wrong
 * and what would be legal. */
#ifndef TUTTI_H
#define TUTTI_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header: major * 10000 + minor * 100 + patch. tutti_get_version() is that of the loaded
 * library. */
#define TUTTI_VERSION 100

/* One rank's end of a communicator. */
typedef struct tutti_comm tutti_comm;

/* A group that was kept, to be started many times. */
typedef struct tutti_program tutti_program;

/* Memory that calls of a communicator will use. */
typedef struct tutti_registration tutti_registration;

/* An id says where ranks meet, and is a secret that proves they may. Hand it to the other ranks by any
 * channel that is private. */
typedef struct {
    uint8_t bytes[128];
} tutti_id;

/* Values never change, new ones are appended. Errors are negative. */
typedef enum {
    TUTTI_OK = 0,
    TUTTI_IN_PROGRESS = 1, /* only from queries, and of non-blocking communicators */
    TUTTI_INVALID_ARGUMENT = -1, /* -1 to -4 are local: nothing was done, the communicator goes on */
    TUTTI_INVALID_USAGE = -2,
    TUTTI_UNSUPPORTED = -3,
    TUTTI_OUT_OF_MEMORY = -4,
    TUTTI_SYSTEM_ERROR = -5, /* -5 and below are sticky, with the same cause on every rank */
    TUTTI_DEVICE_ERROR = -6,
    TUTTI_MISMATCH = -7, /* ranks called different things */
    TUTTI_PEER_LOST = -8, /* a rank died, or destroyed or aborted its end too early */
    TUTTI_TIMEOUT = -9,
    TUTTI_ABORTED = -10,
    TUTTI_INTERNAL_ERROR = -11
} tutti_status;

/* Element types; NCCL's numbers. float16, bfloat16 and both float8 accumulate in float32 within a pass and
 * round once, to nearest even, when stored; a NaN that is computed is all ones, in every type.
 *
 * float8_e4m3 is OCP's E4M3: 448 is the greatest number, there is no infinity. float8_e5m2 is OCP's E5M2:
 * an infinity that comes in counts as one, so that inf - inf is NaN. Results saturate in both, as those of
 * CUDA's __NV_SATFINITE do: beyond the greatest number, infinite ones included, they are stored as plus or
 * minus 448, or 57344. So no operation gives an infinity, not even the greatest of some. */
typedef enum {
    TUTTI_INT8 = 0,
    TUTTI_UINT8,
    TUTTI_INT32,
    TUTTI_UINT32,
    TUTTI_INT64,
    TUTTI_UINT64,
    TUTTI_FLOAT16,
    TUTTI_FLOAT32,
    TUTTI_FLOAT64,
    TUTTI_BFLOAT16,
    TUTTI_FLOAT8_E4M3,
    TUTTI_FLOAT8_E5M2
} tutti_type;

/* Reductions: built in, NCCL's numbers first, or created by tutti_op_create and _pre_mul_sum. Integers wrap
 * modulo 2^bits: a sum of int8 stays in -128 to 127. In MAX and MIN a number beats NaN, and -0 < +0. AVG is
 * the sum, divided by n once, at the end: integers truncate towards zero, after the sum may have wrapped;
 * float16 may overflow where the sum does. BIT_AND, BIT_OR and BIT_XOR take integers only: of floats they are
 * UNSUPPORTED. */
typedef uint32_t tutti_op;
enum {
    TUTTI_SUM = 0,
    TUTTI_PROD,
    TUTTI_MAX,
    TUTTI_MIN,
    TUTTI_AVG,
    TUTTI_BIT_AND = 16,
    TUTTI_BIT_OR,
    TUTTI_BIT_XOR
};

/* Settings of a communicator. Zero means the default in every field, or for tutti_comm_split what the parent
 * has; set size to sizeof(tutti_config). The struct grows only at its end: a shorter one reads as zeros, a
 * longer one is refused if what is unknown is not zero.
 *
 * on_wait is what a call does for others while it waits: the progress of another library, or a look at the
 * signals of an interpreter. A call on the communicator that has waited for a millisecond runs it on the
 * thread that made the call, then again and again, at first a millisecond apart, later ten. Calls with a
 * stream return at once and so do not run it, nor does a thread of the library's. If it answers anything but
 * 0 the communicator ends, on all ranks, with TUTTI_ABORTED. It must not call this library, but for
 * tutti_comm_abort, tutti_comm_abort_local, tutti_comm_state, tutti_comm_get_error and tutti_query of the
 * "recorder".
 *
 * device is the CUDA device of the communicator, and beats the setting `device`, in options, too. The default
 * takes a device only where the process uses CUDA already and the thread has one. TUTTI_DEVICE_CURRENT asks
 * for one, as NCCL does: that of cudaGetDevice, which is device 0 in a thread that has chosen none; where
 * there is no device it is UNSUPPORTED, with words that say what is missing. It makes no device current. */
typedef struct {
    size_t size;
    uint64_t flags; /* TUTTI_COMM_EXACT, TUTTI_COMM_NONBLOCKING, or both */
    int64_t timeout_ms; /* how long nothing may move before a wait fails; 0: ten minutes; -1: for ever */
    const char *name; /* for messages, recorder and trace; NULL: "comm-K", alike on all ranks */
    const char *options; /* "algo=all_reduce:ring;slice=64K"; tutti-info lists them; beats the environment */
    int (*on_wait)(void *context); /* NULL: none; see below */
    void *on_wait_context;
    int64_t device; /* 0: as the setting `device` says; else one of the following */
} tutti_config;
enum { TUTTI_DEVICE_NONE = -1 /* host memory only */, TUTTI_DEVICE_CURRENT = -2 };
/* Of a number from 0 up; of -1, which tutti_comm_device tells where there is none, TUTTI_DEVICE_NONE. */
static inline int64_t tutti_device(int number)
{
    return number < 0 ? (int64_t)TUTTI_DEVICE_NONE : (int64_t)number + 1;
}

/* Flags. TUTTI_COMM_EXACT: every reduction is the canonical tree, each node rounded to the type: a sum of
 * equal contiguous parts has the same bits on 1, 2, 4 and 8 ranks (version 1 of that promise). Rank 0's
 * choice is everybody's.
 *
 * In general: let there be B leaves, of which each of n ranks has B / n in a row, in rank order, and
 * combines them by tutti_reduce_local. If B / n is a power of two, or n is 1, the result has the same bits
 * for all such n: 12 leaves on 1, 3, 6 and 12 ranks, but not on 2 or 4. AVG is no such sum, for it divides
 * by the ranks. What a rank has not is no leaf: +0 in its place changes a sum of -0 into +0, and no other.
 *
 * TUTTI_COMM_NONBLOCKING: init_rank and init_env check their arguments and return at once, also inside a
 * group; a thread of the library's own goes on. tutti_comm_state is TUTTI_IN_PROGRESS until the communicator
 * is ready, or says why it could not be made. Until it is ready other calls are an INVALID_ARGUMENT, but for
 * get_error, get_last_error, abort and destroy, which return at once; then the attempt ends by itself, at the
 * latest when the time of init_rank has passed. init_all waits for nobody and is ready when it returns; split
 * does wait, and refuses the flag with UNSUPPORTED. */
enum { TUTTI_COMM_NONBLOCKING = 1, TUTTI_COMM_EXACT = 2 };

/* The reason why a communicator ended. Set size to sizeof(tutti_error). */
typedef struct {
    size_t size;
    tutti_status status; /* TUTTI_OK: nothing did */
    int32_t rank; /* who found it */
    int32_t peer; /* whom it concerns; -1: nobody */
    uint64_t sequence; /* number of the operation */
    char operation[32];
    char text[480];
} tutti_error;

/* The stream on which a call is ordered: 16 bytes, by value. NONE: nowhere, the call returns when its result
 * is there. HOST: a stream of tutti_stream_create. CUDA: a cudaStream_t, of the communicator's device.
 *
 * A communicator has the device that its config or the setting `device` says: by default the one that is
 * current in the thread that makes it, if the process uses CUDA by then. On a CUDA stream a call is enqueued
 * and returns: it runs after what the stream has so far, and what comes later on the stream runs after it.
 * Each buffer may be memory of the communicator's device, managed, pinned or ordinary host memory, whatever
 * the others are, and must stay, and be left alone, until the stream has passed the call: memory of the host
 * is read and written where it lies, and a process that unmaps it while the call is under way may end by a
 * signal. A peer may as well call without a stream, or on one of the host, but where a kernel serves the
 * collective (below). Calls of one communicator run in the order they were made, on whatever streams. In a
 * group all calls are on CUDA streams, or none; where they differ the first one carries them, and the others
 * wait for it. An error that is found after the call has returned is the communicator's (tutti_comm_state);
 * the stream goes on, with results that mean nothing.
 *
 * Several ranks of one process share the locks of its driver, and those on one device its queues. So where
 * such a rank makes a call on a CUDA stream, all of them do, and it returns only when they have called; one
 * thread that has several of them calls in a group. A call also waits, for its own stream, when that has some
 * 900 pieces of work to do, for a GPU's queues hold little more, and who finds one full keeps the driver from
 * everybody. Each 5 MiB of a long call are four pieces (more with a longer `slice`), a small call is six by
 * itself, and thirty are one or two in a group of one communicator, where none reads or writes what an
 * earlier one writes.
 *
 * Collectives of at most eight ranks that are all in one process and on one device are one kernel, and a send
 * and its recv between two ranks of one process and device are one copy, where the buffers are that device's
 * or managed; the others go by way of the host's memory (setting executor), or are UNSUPPORTED where the
 * device's streams cannot wait for words of memory. The kernel, or the copy, runs when the streams of all its
 * ranks have come to it, and they go on when it is over. In a graph it is the graph's alone: the recorder
 * does not have its replays, and calls without a stream do not wait for them.
 * Where several processes share a device, the kernel of the lowest rank does collectives for all of up to
 * eight, where that is faster: then all ranks make them on CUDA streams, or none does, or it is a MISMATCH.
 * Where each of at most eight ranks has a device of its own, and these reach each other, collectives but
 * all_to_all_v and those of users' operators are kernels on the streams of all ranks, which wait for each
 * other on the devices. That, too, all ranks call on CUDA streams, and all replay it or all call it; in a
 * graph it is the graph's alone, as above. Calls on several such communicators of a device are made in the
 * same order on all ranks, as kernels that wait may hold up those behind them.
 *
 * On a stream that is being captured a call becomes a part of the graph, and each replay is that call once
 * more, with what the buffers hold by then; all ranks replay, or call, alike. A communicator's replays and
 * calls on CUDA streams have one order, that in which they are launched and made, on whatever streams. Other
 * calls, sends and receives too, wait for a replay that the device has reached; one that the device reaches
 * while such a call is under way, or queued on a stream of the host, ends the communicator, on all ranks
 * (INVALID_USAGE): let the one be over before the other is made or launched. Graphs may hold any number of
 * calls. INVALID_USAGE, with nothing captured: a group of which some streams are in the capture and some are
 * not; a capture that is broken; a call for one of several ranks that one process has on one device, unless
 * those it concerns are in the same group; a capture that another one took turns with. A replay of a
 * communicator that has failed, or was destroyed, runs through at once, with results that mean nothing. The
 * memory, and a thread, that graphs use of a communicator that was destroyed are given back, when they are
 * gone, with the next one that this process makes or destroys on a device.
 *
 * Memory that goes too early: cudaFree and its like wait, as a rule, for what is enqueued, so that does calls
 * no harm; no contract of CUDA's says so. cudaFreeAsync, pools and allocators that keep what is freed do not
 * wait: who frees to those does it on the call's stream, or when that has passed the call (PyTorch:
 * record_stream). A device that copies from where nothing is any more, as a replay may, fails, and so does
 * the communicator, on all ranks, with words that name the call (DEVICE_ERROR). So it does when host memory
 * is no longer mapped as a call begins, or as the device reaches its replay (INVALID_USAGE). Not found out is
 * memory that goes back to an allocator which keeps it mapped: other data is sent then; nor host memory that
 * is unmapped while a call runs: that kills the process. */
typedef struct {
    void *handle;
    int32_t kind;
    int32_t device;
} tutti_stream;
enum { TUTTI_STREAM_NONE = 0, TUTTI_STREAM_HOST = 1, TUTTI_STREAM_CUDA = 2 };
static inline tutti_stream tutti_no_stream(void)
{
#ifdef __cplusplus
    tutti_stream stream = { nullptr, TUTTI_STREAM_NONE, -1 };
#else
    tutti_stream stream = { NULL, TUTTI_STREAM_NONE, -1 };
#endif
    return stream;
}
/* NULL is CUDA's default stream of the communicator's device. A stream is of the context that was current
 * when the communicator was made; programs that make none of their own (cuCtxCreate) have but one. */
static inline tutti_stream tutti_cuda_stream(void *cuda_stream)
{
    tutti_stream stream = { cuda_stream, TUTTI_STREAM_CUDA, -1 };
    return stream;
}

/* ---- Library ---- */

/* Version of the library that is loaded, as TUTTI_VERSION. */
int tutti_get_version(void);

/* A name for a status, "TUTTI_TIMEOUT: ..."; never NULL, also for unknown values. */
const char *tutti_status_string(tutti_status status);

/* Text of the last failure of this thread (comm NULL), or of the sticky error of a communicator ("" if
 * there is none). Never NULL; valid until this thread's next call. */
const char *tutti_get_last_error(const tutti_comm *comm);

/* Ask in words, as snprintf answers: writes at most `bytes` bytes with a final 0 to text (which may be NULL
 * if bytes is 0) and returns the length of the whole answer; 0, with a last error that lists the questions,
 * if `what` is none. comm may be NULL where the answer does not depend on one. An answer that did not fit is
 * kept, and this thread gets it by its next question if that has the same words, and room for it; so who asks
 * for the length, and then for the text, gets all of one text. Questions: "version", "config" (settings),
 * "variables" (of the environment), "transports", "cpu", "algorithms COLLECTIVE", "choice COLLECTIVE BYTES",
 * "why COLLECTIVE BYTES [N [exact] [TOPOLOGY]]" (all predicted times and the choice, of comm or of N ranks
 * here), "price COLLECTIVE BYTES" (the predicted microseconds of a call of comm, "12.345": on CUDA
 * streams, by the way that would serve it, if comm has a device, else on host memory), "price group" (of all
 * calls of this thread's group so far, each on its stream, one after the other), "schedule COLLECTIVE
 * ALGORITHM N ROOT RANK in_place|out_of_place [exact]", "paths" (bytes that this rank sent, by path), "name"
 * (of comm), "memory" (of comm, what it has here for itself: "host=N pinned=N device=N" bytes), "hosts" (the
 * ranks of each, as 0-3/4-7), "network" (the class of what is between them, as "1g,lan, measured"),
 * "executor" (of comm on CUDA streams, where it can: L: one kernel for ranks of one process; W: one for
 * several processes; S: kernels of several devices; H: pinned memory and the processors; host: no device),
 * "lost_wakeups"; "recorder [json]": the last 256 calls on comm, and how far they are, which any thread may
 * ask while an operation of comm hangs; "attach PID [json]": the same of all communicators of another process
 * of this user, and of one that is being made, whom it waits for.
 * JSON is a line for each communicator. */
size_t tutti_query(const tutti_comm *comm, const char *what, char *text, size_t bytes);

/* Bytes of one element; 0 for an unknown type. */
size_t tutti_type_bytes(tutti_type type);

/* ---- Communicators ---- */

/* Make an id. This process answers at it, on a thread of its own, until all ranks have come or the default
 * timeout has passed: at a local socket, and at an address of this host for ranks of other hosts
 * (TUTTI_INTERFACE chooses the interface). Errors: INVALID_ARGUMENT (id NULL), INVALID_USAGE (no such
 * interface), SYSTEM_ERROR (no private directory, socket or thread). */
tutti_status tutti_get_id(tutti_id *id);

/* Join n ranks that have the same id: this one is `rank`. Collective; returns when all have joined, or
 * with TIMEOUT, naming who is missing: after five minutes, or what the setting init_timeout says
 * (TUTTI_INIT_TIMEOUT, in milliseconds), or timeout_ms where that is shorter. A rank that dies before it
 * comes is such a one. A rank that cannot take part, for its config or settings are not legal or it has no
 * memory or addresses, tells the others: they all fail at once, with its rank and its reason, and the id has
 * served then. All ranks must run as one user, on hosts of one byte order. config may be NULL.
 * Inside a group (several ranks of one thread) it is deferred to tutti_group_end; config and comm must stay
 * valid until then. Many ranks need many descriptors for a moment: the soft limit of open files
 * is raised towards the hard one if they would not fit. Errors: INVALID_ARGUMENT (n, rank, id, comm; ranks
 * that disagree on n; a rank that comes twice), UNSUPPORTED (flags, isa, a device that cannot be used),
 * SYSTEM_ERROR, DEVICE_ERROR, TIMEOUT, PEER_LOST, OUT_OF_MEMORY. */
tutti_status tutti_comm_init_rank(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm);

/* Joins as tutti_comm_init_rank does, with n, rank and id from the first of these sources that the
 * environment has. If it has only some of the variables of that source, the error names what is missing.
 *   1. TUTTI_RANK, TUTTI_SIZE and TUTTI_ID, the 256 hexadecimal digits of an id (`tutti-info id` makes one);
 *   2. TUTTI_RANK, TUTTI_SIZE (or torchrun's RANK and WORLD_SIZE), TUTTI_ROOT, the host:port at which rank 0
 *      listens, written alike for all ranks (or torchrun's MASTER_ADDR, and the port after MASTER_PORT), and
 *      TUTTI_SECRET_FILE, a regular file of this user with mode 0600 or 0400 and 32 to 4096 random
 *      hexadecimal digits, the same for all ranks (`tutti-info secret FILE` makes one);
 *   3. torchrun: TORCHELASTIC_RUN_ID, with RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, and LOCAL_WORLD_SIZE
 *      equal to WORLD_SIZE (else TUTTI_SECRET_FILE is needed, for torchrun has no secret);
 *   4. PMIx: PMIX_RANK or PMIX_NAMESPACE (mpirun of Open MPI, srun --mpi=pmix);
 *   5. PMI: PMI_RANK, PMI_SIZE and PMI_FD (mpirun of MPICH, srun --mpi=pmi2);
 *   6. RANK and WORLD_SIZE, with MASTER_ADDR and MASTER_PORT as under 3, if MASTER_ADDR is this machine.
 * Collective; each call makes another communicator of all ranks. Waits no longer than init_rank would. A
 * program with rights that its user lacks (setuid, setgid, capabilities) takes nothing from the environment,
 * settings neither. Errors: INVALID_USAGE (no source; variables of one that are missing or wrong),
 * TIMEOUT (ranks that did not start), SYSTEM_ERROR (the launcher
 * failed), and those of tutti_comm_init_rank. */
tutti_status tutti_comm_init_env(const tutti_config *config, tutti_comm **comm);

/* All n ranks in this process: comms[n] in rank order, for n threads, or for one thread that groups its
 * calls. devices: the CUDA device of each rank, -1 for host memory only; several ranks may share one. NULL:
 * as config or the setting `device` says, for all. A communicator with a device pins memory for all devices
 * of the process, and CUDA may wait for what they have to do meanwhile: so none is made, by this or another
 * way, while a call of this process on a CUDA stream waits for its peers and a thread that makes one has yet
 * to call what that waits for. Errors as tutti_comm_init_rank, and UNSUPPORTED, DEVICE_ERROR. */
tutti_status tutti_comm_init_all(int n, const int *devices, const tutti_config *config, tutti_comm **comms);

/* Collective over comm: ranks of one colour (0 and up) form a child, in the order of (key, rank in comm);
 * colour -1: no child, *child is set to NULL. Inside a group (several ranks of one thread) it is deferred to
 * tutti_group_end, after the calls of the group; config and child must stay valid until then.
 *
 * What config does not set (NULL: nothing) the child has of its parent:
 *   flags: TUTTI_COMM_EXACT, which options can end ("exact=off"). NONBLOCKING is refused.
 *   timeout_ms: 0 is the parent's, unless options name a `timeout`.
 *   name: a child without one is "split K of PARENT", the K-th.
 *   options: each setting that they do not name is the parent's, whatever the environment says by now.
 *     Which ranks share a cache is known of the parent, and `topology` says it of the child.
 *   device: unless options name one, 0 is the parent's: the one that it has, or none, whatever is current in
 *     this thread; TUTTI_DEVICE_CURRENT, and device=auto in options, look anew.
 *   on_wait: NULL is the parent's, with its on_wait_context.
 * Shared settings are those of the child's rank 0 (tutti-info config tells which are).
 *
 * What ends a child is told with its own ranks and with those of the world, the communicator that all was
 * split from. Errors: INVALID_ARGUMENT (comm, child, config, a colour below -1, on any rank), UNSUPPORTED
 * (NONBLOCKING, isa, a device that cannot be used), INVALID_USAGE, OUT_OF_MEMORY, and sticky ones. */
tutti_status tutti_comm_split(
    tutti_comm *comm, int color, int key, const tutti_config *config, tutti_comm **child);

/* A communicator of those ranks of comm that are not excluded, in the same order; all of them call it, with
 * the same ranks in excluded[count], and the others do not. flags: TUTTI_SHRINK_ABORT: comm is aborted first,
 * or has ended already, as when one of the excluded has died; then destroy is all that is left of it. 0: comm
 * goes on, and its calls on streams are waited for. It needs no id: the ranks meet by what they know of each
 * other. What config does not set is as of tutti_comm_split; a child without a name is "rest of PARENT".
 * Where ranks die meanwhile it fails, and may be called again without them. Inside a group it is deferred, as
 * tutti_comm_split is; excluded is read now. Source: ncclCommShrink.
 *
 * Errors: INVALID_ARGUMENT (comm, child; excluded: not of comm, twice, or this rank; count, flags, config),
 * INVALID_USAGE (made before a fork; this rank has called tutti_comm_abort_local), UNSUPPORTED
 * (NONBLOCKING), PEER_LOST (the lowest of the ranks that are left has ended), TIMEOUT (as
 * tutti_comm_init_rank: some have not called it, or with other ranks), those of tutti_comm_init_rank, and
 * sticky ones of comm, without TUTTI_SHRINK_ABORT. */
enum { TUTTI_SHRINK_ABORT = 1 };
tutti_status tutti_comm_shrink(tutti_comm *comm, const int *excluded, int count, uint64_t flags,
    const tutti_config *config, tutti_comm **child);

/* A communicator of the ranks of comm, which keep their numbers, and of new ones, up to n. One rank of comm
 * makes an id by tutti_comm_get_id and hands it to the new ranks; they call tutti_comm_grow with comm NULL,
 * the id and their new rank, which is tutti_comm_init_rank. The ranks of comm call it with rank -1; id may be
 * NULL there, for it is known. comm goes on. What config does not set is, of ranks of comm, as of
 * tutti_comm_split; shared settings are those of rank 0. Inside a group it is deferred, as tutti_comm_split
 * is; id is read now. Source: ncclCommGrow.
 *
 * Errors: INVALID_ARGUMENT (n, comm, id, rank, grown, config; no rank has called get_id), INVALID_USAGE (made
 * before a fork), TIMEOUT (a rank is missing), PEER_LOST, those of tutti_comm_init_rank, and sticky ones
 * of comm. */
tutti_status tutti_comm_get_id(tutti_comm *comm, tutti_id *id);
tutti_status tutti_comm_grow(
    tutti_comm *comm, int n, const tutti_id *id, int rank, const tutti_config *config, tutti_comm **grown);

/* Rank, number of ranks, device (-1: host memory); -1 if comm is not a communicator. */
int tutti_comm_rank(const tutti_comm *comm);
int tutti_comm_size(const tutti_comm *comm);
int tutti_comm_device(const tutti_comm *comm);

/* TUTTI_OK, or the sticky error, found here or on another rank; TUTTI_IN_PROGRESS while it is being made
 * (TUTTI_COMM_NONBLOCKING). Any thread. */
tutti_status tutti_comm_state(const tutti_comm *comm);

/* The sticky error with all that is known of it. Any thread. Errors: INVALID_ARGUMENT (comm, error,
 * error->size). */
tutti_status tutti_comm_get_error(const tutti_comm *comm, tutti_error *error);

/* The sum of the calls of a communicator that ended well at this rank, since it began: each counts one, also
 * in a group or a program. So the difference of two answers is the cost of what was called in between.
 *
 * called_bytes: the vector of the call. Of all_reduce, reduce and broadcast that has count elements, of
 * a send or recv count, of what takes blocks (reduce_scatter, all_gather, all_to_all, gather, scatter) n
 * blocks, of v-forms the sum of the counts; where a rank knows only its own, those are of what it sends
 * (all_to_all_v), or its block (gather_v and scatter_v, but at root). Of a barrier: 0.
 *
 * sent_bytes, received_bytes: what the algorithm that ran sends from this rank to others, and they to
 * it, by whatever path, copied or read in place. Over all ranks both have the same sum; a ring's
 * all_reduce, say, sends 2 (n - 1) times its vector in all. A barrier's messages have 4 bytes. Of what
 * split and finalize call (three all_gathers, a barrier) the same holds. */
typedef struct {
    size_t size;
    uint64_t calls, called_bytes, sent_bytes, received_bytes;
} tutti_traffic;

/* Set traffic->size to sizeof(tutti_traffic). Local; waits until what is queued on streams for comm is over.
 * Also of a communicator that has failed. Errors: INVALID_ARGUMENT (comm, traffic, traffic->size),
 * INVALID_USAGE (made before a fork). */
tutti_status tutti_comm_traffic(tutti_comm *comm, tutti_traffic *traffic);

/* Local: waits until the calls on streams that this rank has made are over, and replays that its device has
 * reached; then what they store is there. TUTTI_IN_PROGRESS: timeout_ms have passed, and nothing is lost; -1:
 * never; 0: only look. Errors: INVALID_ARGUMENT (comm, timeout_ms), INVALID_USAGE (inside a group), and
 * sticky ones. */
tutti_status tutti_comm_flush(tutti_comm *comm, int64_t timeout_ms);

/* Collective: returns when all ranks have called it; then all that was issued, on streams, too, is done
 * everywhere, and only destroy is left. Inside a group (several ranks of one thread) it is deferred to
 * tutti_group_end, after the calls of the group. Errors: INVALID_ARGUMENT, and sticky ones. */
tutti_status tutti_comm_finalize(tutti_comm *comm);

/* The same, but waits for timeout_ms at most (-1: no bound; 0: not at all). TUTTI_IN_PROGRESS: some rank has
 * not called it yet, or has calls left; ask again, on any thread, or destroy. The communicator takes no more
 * calls as soon as this has not failed. So one thread can finalize several ranks. Errors: as finalize,
 * INVALID_ARGUMENT (timeout_ms), INVALID_USAGE (inside a group), SYSTEM_ERROR (no thread), OUT_OF_MEMORY.
 * Source: ncclCommFinalize. */
tutti_status tutti_comm_finalize_within(tutti_comm *comm, int64_t timeout_ms);

/* End the communicator on all ranks with TUTTI_ABORTED, unless it ended before; every wait on it returns. Any
 * thread may call it. It waits for nobody and frees nothing: tutti_comm_destroy does. Errors:
 * INVALID_ARGUMENT, INVALID_USAGE (made before a fork). */
tutti_status tutti_comm_abort(tutti_comm *comm);

/* The same at this rank alone, unless the communicator ended before: its calls end with TUTTI_ABORTED, on
 * streams, too, and only what is left after an error is legal here, not even a shrink of it. The other ranks
 * go on, with messages between two of them, or a shrink without this one. One that needs this rank, for a
 * message of it or a collective that it has not completed, gets PEER_LOST within a second or so, which ends
 * the communicator for all that are left. When a call that was ended so has returned, no peer uses its
 * buffers any more, as after any error; a group returns when its calls on other communicators are over, too.
 * On a stream of a device that is so when the stream has passed the call. Where kernels of several devices
 * meet (the query `executor` says S) and one of this rank's runs, it ends the communicator on all ranks, as
 * tutti_comm_abort does, if some call has had its buffers read in place (tutti_mem_register): then that has
 * to stop. Any thread may call it, in a group, too, where it acts at once. It waits for nobody and frees
 * nothing. Errors: as tutti_comm_abort. Source: ncclCommAbort. */
tutti_status tutti_comm_abort_local(tutti_comm *comm);

/* Tells the peers that this rank refused a call. It is for a layer between a program and this library that
 * checks arguments itself: on the peers, who may be in theirs, the refusal has the effect of one by the
 * library (see Errors, above): this rank has a second to make it right; then the communicator ends, on all
 * ranks, with INVALID_USAGE and `why`. peer: of a send or recv; -1: the call is a collective. Local, returns
 * at once. Errors: INVALID_ARGUMENT (comm, peer, why NULL), INVALID_USAGE (made before a fork), and sticky
 * ones. */
tutti_status tutti_comm_refuse(tutti_comm *comm, int peer, const char *why);

/* Local; then the handle is dead, and using it is an INVALID_ARGUMENT. A rank that destroys its end while
 * others still need it makes them fail with PEER_LOST. Calls on CUDA streams that have been enqueued are
 * waited for, as long as a call may wait (timeout_ms); who does not want that aborts first, also from another
 * thread meanwhile. Calls that are in host streams, or past that time, and replays that wait are aborted, on
 * all ranks; when it returns no stream touches their buffers any more (a group that has begun is waited for;
 * its calls on other communicators go on). Errors: INVALID_ARGUMENT, INVALID_USAGE (inside a group; made
 * before a fork, as where a child's language cleans up: nobody else is harmed). */
tutti_status tutti_comm_destroy(tutti_comm *comm);

/* As destroy, but nobody waits and nobody is harmed: returns at once, and the handle is dead. The library
 * keeps this rank's end until its calls on streams are over, and then for the peers, until all of them have
 * released or destroyed theirs, or ended, or until linger_ms have passed (-1: no bound). A peer that calls
 * what this rank has not called gets PEER_LOST, but may finalize, or call a barrier. The end of the process
 * waits two seconds for that. Errors: INVALID_ARGUMENT (comm, linger_ms), INVALID_USAGE (inside a group; made
 * before a fork), OUT_OF_MEMORY, SYSTEM_ERROR (no thread): then the handle lives. Source: ncclCommDestroy. */
tutti_status tutti_comm_release(tutti_comm *comm, int64_t linger_ms);

/* ---- Memory ---- */

/* How many CUDA devices this process can use: numbers below *count are legal where a device is named. Where
 * there is none, *count is 0, the status TUTTI_OK, and tutti_get_last_error(NULL) says what is missing: the
 * plugin, a driver, a newer one, or a device. It starts CUDA, unless the process uses that already, so that
 * children that are forked later can use no device; it makes none current. Errors: INVALID_ARGUMENT (count
 * NULL), INVALID_USAGE (this process was forked by one that uses devices; another device_library than the
 * process uses), OUT_OF_MEMORY. */
tutti_status tutti_device_count(int *count);

/* The owner of memory: the host, or a CUDA device. */
typedef enum { TUTTI_MEM_HOST = 0, TUTTI_MEM_CUDA = 1 } tutti_mem_kind;

/* Zeroed memory, page-aligned, of this process, which lives until tutti_mem_free. TUTTI_MEM_HOST: host
 * memory, which peers on this machine read and write in place, without a copy. TUTTI_MEM_CUDA: memory of the
 * CUDA device that is current in this thread (device 0, which becomes that, if the thread has chosen none),
 * to be used as any other of that device; its length is rounded up, by CUDA to 2 MiB mostly. As cudaMalloc
 * does, that may wait for all that this process has enqueued on the device; so no thread that still has to
 * make a call which that waits for may ask for it. Errors: INVALID_ARGUMENT (ptr NULL, kind), OUT_OF_MEMORY;
 * of CUDA memory: UNSUPPORTED (no plugin, driver or device), DEVICE_ERROR, INVALID_USAGE (this process was
 * forked by one that uses devices; another device_library than the process uses; where a capture forbids
 * it). */
tutti_status tutti_mem_alloc(size_t bytes, tutti_mem_kind kind, void **ptr);

/* NULL is legal. Calls must be over, on streams, too, and graphs that use the memory gone. That of a device
 * may wait as cudaFree does, as above; any thread frees it, whatever device is current there. What another
 * process has mapped (see tutti_mem_register) the device has back some calls later, or when the communicator
 * is destroyed. Errors:
 * INVALID_ARGUMENT if ptr is not the start of such memory; of a device's, which then stays: DEVICE_ERROR,
 * INVALID_USAGE as above. */
tutti_status tutti_mem_free(void *ptr);

/* Say that calls on this communicator will use these bytes, so that it may prepare for that. It has an effect
 * where several processes have ranks on one device: the memory is handed to those of them whose kernels serve
 * this rank's calls, and read and write it where it lies; and where each rank has a device and a process of
 * its own, and kernels of all devices do a collective: they read it where it lies. Other memory is copied.
 * Handed over is the whole allocation in which the bytes lie, to processes of this user, until it is
 * deregistered. Elsewhere, and for memory that cannot be handed over (of the host, managed, of pools, or in
 * several mappings), it is TUTTI_OK and has no effect; the log says why (level info). Results are the same
 * with and without it. Memory of tutti_mem_alloc needs none.
 *
 * Local: ranks may differ in what they register. Memory may be registered several times, by any communicator;
 * parts of an allocation, too. It must not be freed before all that is deregistered. It may wait as
 * tutti_mem_alloc does, and for the processes that map it, a second at most. Source: ncclCommRegister.
 * Errors: INVALID_ARGUMENT (comm; ptr or registration NULL, bytes 0; memory that a call could not have: of
 * another device, or of fewer bytes), OUT_OF_MEMORY, and sticky ones. */
tutti_status tutti_mem_register(tutti_comm *comm, void *ptr, size_t bytes, tutti_registration **registration);

/* When it returns the handle is dead, and the memory may be freed, if all calls that use it are over, on
 * streams, too, and their graphs gone; what is still in use is waited for, five seconds at most, and then a
 * warning is logged. Also on a communicator that has failed; destroying it ends its registrations. Errors:
 * INVALID_ARGUMENT (comm; registration is none, or another communicator's), INVALID_USAGE (made before a
 * fork). */
tutti_status tutti_mem_deregister(tutti_comm *comm, tutti_registration *registration);

/* Where another rank's device has what is registered: *there is an address in that rank's process, for
 * kernels of the program, or copies, to load from this rank or to store to it, until it is deregistered.
 * NULL: that rank does not have it, as memory of the host, and what could not be handed over to it. Who
 * registers knows it, and the other one does not: hand it over, in a call. Local. Errors: INVALID_ARGUMENT
 * (comm; registration is none, or another communicator's; rank; there NULL), and sticky ones. Source:
 * ncclGetPeerDevicePointer. */
tutti_status tutti_mem_address_at(tutti_comm *comm, tutti_registration *registration, int rank, void **there);

/* ---- Streams ---- Every function but create checks its streams: INVALID_ARGUMENT (destroyed, or none),
 * UNSUPPORTED (kind), INVALID_USAGE (made before a fork). */

/* A host stream: a thread that runs what it is given, in order. Errors: INVALID_ARGUMENT (stream NULL),
 * OUT_OF_MEMORY, SYSTEM_ERROR (no thread). */
tutti_status tutti_stream_create(tutti_stream *stream);

/* Waits for what is queued; then the handle is dead. It does not say how the queued calls ended: ask a point
 * before. */
tutti_status tutti_stream_destroy(tutti_stream stream);

/* A point in a stream (CUDA: an event): all that was given to it so far, but for calls of a group that is
 * still open. It is a number, there is nothing to free. Errors: INVALID_ARGUMENT (point NULL). */
tutti_status tutti_stream_record(tutti_stream stream, uint64_t *point);

/* Is all up to this point over? TUTTI_OK: yes, and all went well. TUTTI_IN_PROGRESS: no. Else the first
 * failure among all that this stream ran up to this point, with its text as this thread's last error. A
 * stream goes on after a failure: errors belong to communicators, and tutti_comm_state tells those that can
 * go on from those that cannot. Errors of its own: INVALID_ARGUMENT (point is beyond what was queued). */
tutti_status tutti_stream_query(tutti_stream stream, uint64_t point);

/* Wait for a point: the same answers. TUTTI_IN_PROGRESS: timeout_ms have passed, nothing is lost, and one may
 * wait again; -1: never. Errors of its own: INVALID_ARGUMENT (point, timeout_ms below -1). */
tutti_status tutti_stream_wait(tutti_stream stream, uint64_t point, int64_t timeout_ms);

/* A call that is given to `later` from now on runs after `earlier` has reached this point, well or not.
 * The function returns at once. Errors: INVALID_ARGUMENT (point), OUT_OF_MEMORY. */
tutti_status tutti_stream_after(tutti_stream later, tutti_stream earlier, uint64_t point);

/* ---- Groups ---- */

/* Calls of this thread between start and the matching end are checked at once, queued, and start together
 * at the end of the outermost group, which returns when all are done. Sends and receives in a group may be
 * in any order; collectives of one communicator run in the order of the calls. A thread that has several
 * ranks must group their calls. If a call was wrong, or what it needs cannot be made, the end returns the
 * first such error and nothing was started.
 *
 * A group may have ranks join, by tutti_comm_init_rank, before its calls, and after them split, shrink, grow
 * and finalize communicators, in the order of these calls: each waits for ranks that may be this thread's.
 * Their outputs are set when all have succeeded; if one fails none is set, and what was made is destroyed.
 *
 * Streams in a group: if all calls have one, the end returns at once; if some have, it waits for all. The
 * calls still start and progress together: they wait until each of their streams and communicators has come
 * to them, and are one item in the order of each of these; if one fails, the points of all of them say so.
 *
 * Errors of start: none. Of end: INVALID_USAGE (no start), the first of the group's. */
tutti_status tutti_group_start(void);
tutti_status tutti_group_end(void);

/* End the outermost group of this thread, however deep it is in groups, in place of tutti_group_end. Nothing
 * of it starts, and its outputs stay as they were. Peers are not told of calls, which may be made again; who
 * waits for this rank in a tutti_comm_init_rank of the group fails at once. Errors: INVALID_USAGE (no
 * start). */
tutti_status tutti_group_cancel(void);

/* ---- Programs ---- A group that is called over and over with the same buffers: what its calls need (choice,
 * schedules, memory) is made once. Source: persistent operations (MPI 4.1, 3.9 and 6.13). */

/* End the outermost group without starting it. It may have calls on several communicators, sends, receives
 * and streams; arrays of its calls are read now, buffers at each start, operators must stay valid as long as
 * the program. Waits for what streams have to do for its communicators. A group that failed is over, and
 * there is no program. Errors: INVALID_USAGE (no start, an inner group, an initialisation in it, an algorithm
 * that cannot serve), INVALID_ARGUMENT (program NULL), OUT_OF_MEMORY, the first of the group's. */
tutti_status tutti_group_keep(tutti_program **program);

/* Start it, as the end of its group would have: returns when all is done, or at once if all calls have a
 * stream. Its calls count as new operations; all ranks start it in the same order among their calls. A start
 * allocates nothing, but for the first ones that queue up behind one that is not over. The program is used by
 * one thread at a time, as its communicators are. Where a communicator has a device, each start looks at the
 * buffers of its calls as those would, so that memory which was freed since is found out here, on this rank
 * alone; elsewhere nobody looks. Errors: INVALID_ARGUMENT (program, a destroyed stream, a buffer that is too
 * short by now), INVALID_USAGE (inside a group; a communicator that was destroyed or finalized; a buffer that
 * was memory of a device and is not, or the other way round), OUT_OF_MEMORY, and sticky ones. */
tutti_status tutti_program_start(tutti_program *program);

/* Tells what one start of a program is at this rank, before the first: its calls, the bytes that they are
 * called with, and the bytes that the chosen algorithms send and receive, as tutti_comm_traffic will count
 * them. Set traffic->size to sizeof(tutti_traffic). Local; waits until what is queued on streams for its
 * communicators is over. Errors: INVALID_ARGUMENT (program, traffic, traffic->size), INVALID_USAGE (a
 * communicator that was destroyed; made before a fork). */
tutti_status tutti_program_traffic(tutti_program *program, tutti_traffic *traffic);

/* Waits until its last start is over; then the handle is dead. Errors: INVALID_ARGUMENT. */
tutti_status tutti_program_destroy(tutti_program *program);

/* ---- Operators ---- */

/* A function that combines two vectors: dst[i] = left[i] (op) right[i] for `count` elements of the operator's
 * element_bytes. dst may be left or right; the three are aligned as the type of the call demands, no more.
 * It runs on the thread that drives the call, and must not call this library. */
typedef void (*tutti_reduce_fn)(void *dst, const void *left, const void *right, size_t count, void *context);

/* An operator for the reductions of this communicator: an associative function of the caller's own, which
 * sees host memory, also where the buffers are a device's, on elements of element_bytes bytes (1 to 4096).
 * `commutes`: left (op) right == right (op) left; if 0, operands always stand in rank order, and an
 * algorithm that cannot keep it is refused. A call gives its vector as always, as count elements of a type:
 * element_bytes must be a multiple of the type's size and count a multiple of that, elements are never
 * split, and all bytes are the function's. Local: ids are this rank's own and may differ from rank to rank,
 * but all ranks of a call must use operators of equal element_bytes and commutes, else MISMATCH; that fn and
 * context mean the same is the caller's care. Both must stay valid until the calls that use the operator are
 * over. Source: MPI_Op_create (MPI 4.1, 6.9.5). Errors: INVALID_ARGUMENT (comm, fn or op NULL,
 * element_bytes), UNSUPPORTED (more than 4096 operators at a time), OUT_OF_MEMORY, and sticky ones. */
tutti_status tutti_op_create(
    tutti_comm *comm, tutti_reduce_fn fn, void *context, size_t element_bytes, int commutes, tutti_op *op);

/* The sum of all ranks' vectors, each multiplied by its own rank's factor first: in[i] of each rank is
 * replaced by factor * in[i], rounded to the type, and then summed as by TUTTI_SUM; the send buffer is not
 * written. `scalar` points to one factor of this type; ranks may have different ones. A call must have the
 * same type, and all its ranks must use a pre-mul-sum. Local, as tutti_op_create. Source:
 * ncclRedOpCreatePreMulSum.
 *
 * on_device 0: scalar is host memory, and is read before the call returns. on_device 1: scalar is memory of
 * the communicator's device, managed or pinned, and each call with the operator reads it when the stream
 * comes to that call (each replay of a graph anew), so what the stream did before may write it. It must stay
 * valid, and be left alone, as the buffers must, until the stream has passed the call. Such an operator is
 * for calls on CUDA streams only; other ranks may use others, with factors on the host.
 *
 * Errors: INVALID_ARGUMENT (comm, scalar or op NULL, type, on_device; on_device 1 and scalar is ordinary
 * memory, of another device, or freed: also of the calls that use it, and of calls without a CUDA stream),
 * UNSUPPORTED (on_device 1 and the communicator has no device; a type that cannot be summed; more than 4096
 * operators at a time), OUT_OF_MEMORY, and sticky ones. */
tutti_status tutti_op_create_pre_mul_sum(
    tutti_comm *comm, const void *scalar, tutti_type type, int on_device, tutti_op *op);

/* From now on the id is refused, also when there are new operators; calls that were made with it go on.
 * Local; also on a communicator that has failed. Destroying the communicator destroys its operators. Errors:
 * INVALID_ARGUMENT (comm; op is none of this communicator's created ones). */
tutti_status tutti_op_destroy(tutti_comm *comm, tutti_op op);

/* ---- Collectives ---- All take a communicator and a stream, or tutti_no_stream(). count 0 and n = 1 are
 * legal. Errors of each: INVALID_ARGUMENT (comm, type, op, root or peer out of range, a NULL buffer that is
 * needed, overlapping buffers, a reduction of misaligned elements, a count beyond 8 TiB or that splits an
 * operator's elements, a stream that is none), UNSUPPORTED (a bit operation of floats, a kind of stream,
 * memory of a device though the communicator has none: this is seen in the first call of its kind only),
 * INVALID_USAGE (after finalize; a forced algorithm that cannot serve; a handle made before a fork),
 * OUT_OF_MEMORY; sticky: MISMATCH, PEER_LOST, TIMEOUT, ABORTED, SYSTEM_ERROR, INTERNAL_ERROR. Meanings are
 * MPI's (MPI 4.1, chapter 6), in-place rules NCCL's. */

/* Returns when all ranks have called it. */
tutti_status tutti_barrier(tutti_comm *comm, tutti_stream stream);

/* recv[i] = send[i] of rank 0 (op) ... (op) send[i] of rank n - 1, on every rank; count elements each.
 * In place: recv == send. */
tutti_status tutti_all_reduce(const void *send, void *recv, size_t count, tutti_type type, tutti_op op,
    tutti_comm *comm, tutti_stream stream);

/* Reduces as tutti_all_reduce, at root only; elsewhere recv is not touched and may be NULL. In place (at
 * root): recv == send. */
tutti_status tutti_reduce(const void *send, void *recv, size_t count, tutti_type type, tutti_op op, int root,
    tutti_comm *comm, tutti_stream stream);

/* recv = send of root, on every rank, count elements; send is read at root only and may be NULL elsewhere.
 * In place: recv == send. */
tutti_status tutti_broadcast(const void *send, void *recv, size_t count, tutti_type type, int root,
    tutti_comm *comm, tutti_stream stream);

/* send has n blocks of recv_count elements; rank r gets the reduction of all blocks r. In place: recv is
 * block `rank` of send. */
tutti_status tutti_reduce_scatter(const void *send, void *recv, size_t recv_count, tutti_type type,
    tutti_op op, tutti_comm *comm, tutti_stream stream);

/* recv has n blocks of send_count elements; block r is send of rank r. In place: send is block `rank` of
 * recv. */
tutti_status tutti_all_gather(
    const void *send, void *recv, size_t send_count, tutti_type type, tutti_comm *comm, tutti_stream stream);

/* Blocks of different length: rank r gives recv_counts_shared[r] elements, which arrive at recv +
 * recv_displs[r] elements (NULL: packed in rank order). The counts are equal on all ranks, send_count is
 * this rank's own; displs may differ from rank to rank and must not overlap. The arrays have n entries and
 * are read before the call returns. In place: send is this rank's block of recv. */
tutti_status tutti_all_gather_v(const void *send, size_t send_count, void *recv,
    const size_t *recv_counts_shared, const size_t *recv_displs, tutti_type type, tutti_comm *comm,
    tutti_stream stream);

/* send and recv have n blocks of `count` elements: block r of send goes to rank r, block r of recv comes from
 * rank r. In place: recv == send; ranks may differ in that. */
tutti_status tutti_all_to_all(
    const void *send, void *recv, size_t count, tutti_type type, tutti_comm *comm, tutti_stream stream);

/* recv of root has n blocks of send_count elements; block r is send of rank r. Elsewhere recv is not touched
 * and may be NULL. In place (at root): send is block `root` of recv. */
tutti_status tutti_gather(const void *send, void *recv, size_t send_count, tutti_type type, int root,
    tutti_comm *comm, tutti_stream stream);

/* send of root has n blocks of recv_count elements; rank r gets block r. send is read at root only and may be
 * NULL elsewhere. In place (at root): recv is block `root` of send. */
tutti_status tutti_scatter(const void *send, void *recv, size_t recv_count, tutti_type type, int root,
    tutti_comm *comm, tutti_stream stream);

/* The v-forms: blocks of different length. Arrays have n entries and are read before the call returns; counts
 * are elements; displs are elements from the start of the buffer, NULL: packed in rank order. Blocks of recv
 * must not overlap each other, nor blocks of send; what lies between blocks is neither read nor written, and
 * a block of 0 elements is nowhere. As tutti_all_gather_v is to tutti_all_gather, each is to the collective
 * of its name. */

/* Rank r gets the reduction of recv_counts_shared[r] elements, its block of the packed send of all ranks; the
 * counts are equal on all ranks. In place: recv is this rank's block of send. */
tutti_status tutti_reduce_scatter_v(const void *send, const size_t *recv_counts_shared, void *recv,
    tutti_type type, tutti_op op, tutti_comm *comm, tutti_stream stream);

/* In this and the next two, a count is known to the two ranks of its block only. What one sends must be what
 * the other expects, else all ranks get MISMATCH, which names those two. 0 is no exception, but a short
 * message that nobody expects is found only when that pair next has one, in whatever call. What a rank has
 * for itself has one count on both sides. Not in place. */
tutti_status tutti_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_displs,
    void *recv, const size_t *recv_counts, const size_t *recv_displs, tutti_type type, tutti_comm *comm,
    tutti_stream stream);

/* Arrays and recv are read at root only. In place (at root): send is block `root` of recv. */
tutti_status tutti_gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts,
    const size_t *recv_displs, tutti_type type, int root, tutti_comm *comm, tutti_stream stream);

/* Arrays and send are read at root only. In place (at root): recv is block `root` of send. */
tutti_status tutti_scatter_v(const void *send, const size_t *send_counts, const size_t *send_displs,
    void *recv, size_t recv_count, tutti_type type, int root, tutti_comm *comm, tutti_stream stream);

/* One message to, or from, rank `peer`. Messages of a pair are matched in the order of the calls; both
 * sides give the same count and a type, else both get MISMATCH. A send returns when its buffer may be
 * reused, which may need the receiver: a pair that exchanges must group, or order its calls. Ranks that
 * wait for each other in a circle, each in a send or recv, the last call of its group, get INVALID_USAGE
 * within a second or so, with the circle in words. A circle that has a collective in it, a group of which
 * two calls are left, a call on a CUDA stream, or two communicators ends by TIMEOUT. A message of 0
 * elements is not sent. Messages of one communicator have one order with all its other calls, on whatever
 * streams: where each of two ranks queues a send on stream A and then a recv on stream B of one
 * communicator, each recv waits for the send before it, which is a circle as well. A group of the two, or
 * a communicator for each direction, does it. A rank may be its own peer inside a group that holds as
 * many such sends as receives: each receive then copies. Outside, or without the other, it is an
 * INVALID_USAGE. */
tutti_status tutti_send(
    const void *send, size_t count, tutti_type type, int peer, tutti_comm *comm, tutti_stream stream);
tutti_status tutti_recv(
    void *recv, size_t count, tutti_type type, int peer, tutti_comm *comm, tutti_stream stream);

/* A reduction without ranks: dst = sources[0] (op) ... (op) sources[k - 1], in the canonical tree, each node
 * rounded to the type, so with the bits that k ranks get under TUTTI_COMM_EXACT. k pointers to count elements
 * each; dst may be one of them, and has nothing in common with the others. AVG divides by k. Built-in
 * operations only: created ones belong to a communicator. Errors: INVALID_ARGUMENT (k, NULL, misaligned or
 * overlapping memory, a count beyond 8 TiB, a created op), UNSUPPORTED (type or op). */
tutti_status tutti_reduce_local(
    const void *const *sources, int k, void *dst, size_t count, tutti_type type, tutti_op op);

/* to[i] = from[i] in the other type, rounded to nearest, ties to even, whatever the modes of this thread are:
 * FLOAT32 to FLOAT16 or BFLOAT16, or back. What is too large becomes infinite. A NaN stays one, with its sign
 * and the upper bits of its payload, and is quiet. The same bits on every processor. Errors: INVALID_ARGUMENT
 * (NULL, misaligned or overlapping memory, a count beyond 8 TiB), UNSUPPORTED (other types). */
tutti_status tutti_convert(
    const void *from, tutti_type from_type, void *to, tutti_type to_type, size_t count);

#ifdef __cplusplus
}
#endif
#endif
