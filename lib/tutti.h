/* tutti.h: the one public header. C99, C++, no CUDA header. All calls are safe from any thread; one communicator is used by one thread at a
 * time, except tutti_comm_abort, _state, _get_error (any thread, any moment). Group state is per thread. count = elements, bytes = bytes.
 * Every call checks first: on a usage error nothing was done. Outputs are last and set only on success. `config` may be NULL. */
#ifndef TUTTI_H
#define TUTTI_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif
#define TUTTI_VERSION 100                        /* of this header: major * 10000 + minor * 100 + patch */
typedef struct tutti_comm tutti_comm;            /* one rank's end of a communicator */
typedef struct { uint8_t bytes[128]; } tutti_id; /* rendezvous addresses and a secret; copy it by any channel that is private */
typedef enum {                                   /* values never change; new ones are appended; test with < 0 */
    TUTTI_OK = 0, TUTTI_IN_PROGRESS = 1,         /* 1 comes only from queries and from non-blocking communicators */
    TUTTI_INVALID_ARGUMENT = -1, TUTTI_INVALID_USAGE = -2, TUTTI_UNSUPPORTED = -3, TUTTI_OUT_OF_MEMORY = -4, /* local: the communicator goes on */
    TUTTI_SYSTEM_ERROR = -5, TUTTI_DEVICE_ERROR = -6, TUTTI_MISMATCH = -7, TUTTI_PEER_LOST = -8, TUTTI_TIMEOUT = -9,
    TUTTI_ABORTED = -10, TUTTI_INTERNAL_ERROR = -11                       /* -5 and below: sticky, the same cause on every rank */
} tutti_status;
typedef enum { TUTTI_INT8 = 0, TUTTI_UINT8, TUTTI_INT32, TUTTI_UINT32, TUTTI_INT64, TUTTI_UINT64, TUTTI_FLOAT16, TUTTI_FLOAT32, TUTTI_FLOAT64,
    TUTTI_BFLOAT16, TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2 } tutti_type;    /* NCCL's numbers, so that its shim need not translate */
typedef uint32_t tutti_op;                       /* built in: below 256, NCCL's numbers first; created ones: 256 and up */
enum { TUTTI_SUM = 0, TUTTI_PROD, TUTTI_MAX, TUTTI_MIN, TUTTI_AVG, TUTTI_BIT_AND = 16, TUTTI_BIT_OR, TUTTI_BIT_XOR };
typedef struct {                                 /* size = sizeof; zero means default in every field; growth only at the end (rule: openat2) */
    size_t size;
    uint64_t flags;                              /* TUTTI_COMM_* */
    int64_t timeout_ms;                          /* 0: ten minutes; -1: never */
    const char *name;                            /* for logs and errors */
    const char *options;                         /* "algo=all_reduce:ring;slice=64K": the table tutti-info prints; beats the environment */
} tutti_config;
enum { TUTTI_COMM_NONBLOCKING = 1, TUTTI_COMM_EXACT = 2 }; /* return from init at once; canonical association for every float result */
typedef struct { size_t size; tutti_status status; int32_t rank, peer; uint64_t sequence; char operation[32], text[480]; } tutti_error;

/* Streams: 16 bytes by value, nothing to look up or free on a call. {0} = none: a call on host memory returns when its result is there. */
typedef struct { void *handle; int32_t kind; int32_t device; } tutti_stream;
enum { TUTTI_STREAM_NONE = 0, TUTTI_STREAM_HOST = 1, TUTTI_STREAM_CUDA = 2 };
static inline tutti_stream tutti_no_stream(void) { tutti_stream s = { 0, TUTTI_STREAM_NONE, -1 }; return s; }

int tutti_get_version(void);                                                    /* of the library that is loaded */
const char *tutti_status_string(tutti_status status);                           /* never NULL */
const char *tutti_get_last_error(const tutti_comm *comm);                       /* NULL: this thread's last failure; valid to its next call */
size_t tutti_query(const tutti_comm *comm, const char *what, char *text, size_t bytes); /* as snprintf: "algorithms all_reduce", "choice ...", "config" */
size_t tutti_type_bytes(tutti_type type);

tutti_status tutti_get_id(tutti_id *id);                                        /* this process answers at it until n ranks came, or the deadline */
tutti_status tutti_comm_init_rank(int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm); /* in a group: several per thread */
tutti_status tutti_comm_init_env(const tutti_config *config, tutti_comm **comm);                   /* launcher's rank, n and id */
tutti_status tutti_comm_init_all(int n, const int *devices, const tutti_config *config, tutti_comm **comms); /* all ranks here; devices may be NULL */
tutti_status tutti_comm_split(tutti_comm *comm, int color, int key, const tutti_config *config, tutti_comm **child); /* colour -1: child is NULL */
int tutti_comm_rank(const tutti_comm *comm);                                    /* -1: not a communicator */
int tutti_comm_size(const tutti_comm *comm);
int tutti_comm_device(const tutti_comm *comm);                                  /* -1: host only */
tutti_status tutti_comm_state(const tutti_comm *comm);                          /* one load: ready, in progress, or the sticky error */
tutti_status tutti_comm_get_error(const tutti_comm *comm, tutti_error *error);  /* who, with whom, which operation, which number */
tutti_status tutti_comm_finalize(tutti_comm *comm);                             /* collective: all that was issued is done everywhere */
tutti_status tutti_comm_abort(tutti_comm *comm);                                /* local, bounded; wakes every waiter on every rank; frees nothing */
tutti_status tutti_comm_destroy(tutti_comm *comm);                              /* local; aborts what is pending; then the handle is dead */

tutti_status tutti_mem_alloc(size_t bytes, int cuda, void **ptr);               /* memory that peers can map, host (0) or this thread's device (1) */
tutti_status tutti_mem_free(void *ptr);

tutti_status tutti_group_start(void);                                           /* nests; calls are checked when made, start together at the end */
tutti_status tutti_group_end(void);                                             /* first error and nothing started, or all started (no stream: done) */

tutti_status tutti_reduce_local(const void *const *sources, int k, void *dst, size_t count, tutti_type type, tutti_op op); /* the canonical tree, no ranks */

tutti_status tutti_barrier(tutti_comm *comm, tutti_stream stream);
tutti_status tutti_all_reduce(const void *send, void *recv, size_t count, tutti_type type, tutti_op op, tutti_comm *comm, tutti_stream stream);
tutti_status tutti_reduce(const void *send, void *recv, size_t count, tutti_type type, tutti_op op, int root, tutti_comm *comm, tutti_stream stream);
tutti_status tutti_broadcast(const void *send, void *recv, size_t count, tutti_type type, int root, tutti_comm *comm, tutti_stream stream);
tutti_status tutti_reduce_scatter(const void *send, void *recv, size_t recv_count, tutti_type type, tutti_op op, tutti_comm *comm, tutti_stream stream);
tutti_status tutti_all_gather(const void *send, void *recv, size_t send_count, tutti_type type, tutti_comm *comm, tutti_stream stream);
tutti_status tutti_send(const void *send, size_t count, tutti_type type, int peer, tutti_comm *comm, tutti_stream stream);
tutti_status tutti_recv(void *recv, size_t count, tutti_type type, int peer, tutti_comm *comm, tutti_stream stream);
/* v-forms: arrays of n, read before the call returns; places in elements, NULL = packed; `shared` arrays must be equal on all ranks */
tutti_status tutti_all_gather_v(const void *send, size_t send_count, void *recv, const size_t *recv_counts_shared, const size_t *recv_places,
    tutti_type type, tutti_comm *comm, tutti_stream stream);
#ifdef __cplusplus
}
#endif
#endif
