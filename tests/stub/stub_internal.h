/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_internal.h: what the files of the stub share.
 *
 * One lock, tt_stub_runtime.lock, guards all that is written here; it is held for moments only, and the
 * threads that do the work hold it between two pieces of work. A second one, `api`, is what the runtime of a
 * GPU holds during a call: enqueueing takes it, and an allocation keeps it while it waits for all streams of
 * a device. The process has one, or, if so configured, each device. Where both are held, `api` was taken
 * first. */
#ifndef TT_STUB_INTERNAL_H
#define TT_STUB_INTERNAL_H
#include <pthread.h>
#include <stdatomic.h>

#include "stub.h"

enum { STUB_DEVICES = 8, STUB_QUEUES = 32, STUB_CONTEXTS = 2 /* of a device: primary, the user's own */ };

/* The functions of the table that are counted and can be made to fail. */
#define STUB_FUNCTIONS(X)                                                                                    \
    X(count), X(facts), X(current), X(use), X(reaches), X(alloc), X(free), X(alloc_managed),                 \
        X(alloc_pinned), X(free_pinned), X(pin), X(unpin), X(classify), X(copy), X(copy_rows), X(fill),      \
        X(stream_create), X(stream_destroy), X(stream_query), X(stream_sync), X(stream_device),              \
        X(stream_capture), X(event_create), X(event_destroy), X(event_record), X(event_wait),                \
        X(event_query), X(event_elapsed), X(write_word), X(wait_word), X(host_call), X(range_begin),         \
        X(range_end), X(preload), X(occupancy), X(launch), X(segment_alloc), X(segment_export),              \
        X(segment_export_of), X(segment_import), X(segment_free), X(capture_begin), X(capture_end),          \
        X(graph_retain), X(graph_destroy), X(graph_instantiate), X(graph_launch), X(runnable_destroy)
#define STUB_NUMBER(name) STUB_##name
enum stub_function { STUB_FUNCTIONS(STUB_NUMBER), STUB_FUNCTION_COUNT };
#undef STUB_NUMBER

struct stub_event;

enum stub_kind { STUB_MARK, STUB_COPY, STUB_FILL, STUB_WRITE, STUB_WAIT, STUB_HOST, STUB_LAUNCH, STUB_KINDS };

struct stub_task { /* what is to be done, whenever */
    enum stub_kind kind;
    union {
        struct { /* of a mark: what it records, and what it waits for */
            struct stub_event *record, *wait;
            bool external;
        } event;
        struct {
            void *dst;
            const void *src;
            size_t dst_pitch, src_pitch, row_bytes, rows;
        } copy;
        struct {
            void *dst;
            size_t bytes;
            int byte;
        } fill;
        struct {
            uint32_t *word, value;
        } word;
        struct {
            void (*call)(void *);
            void *argument;
        } host;
        struct tt_dev_launch launch;
    };
};

struct stub_work { /* a task in a queue; it lives until nobody can ask for it any more */
    int references;
    bool done;
    int64_t done_ns;
    struct stub_task task;
    struct stub_work **after; /* what must be done before it begins */
    int nafter;
    struct stub_graph *graph; /* at the end of a replay: what was replayed */
    struct stub_work *next;
};

struct stub_device;

struct stub_front { /* nodes, by number, that others come after */
    int *nodes;
    int n;
};

struct stub_node {
    struct stub_task task;
    struct stub_front after;
    int branch; /* which of the captured streams */
};

struct stub_retained {
    void (*release)(void *);
    void *argument;
};

struct stub_graph {
    struct stub_graph *next;
    int references;
    struct stub_node *nodes;
    int n, nretained;
    struct stub_retained *retained;
};

struct stub_runnable {
    struct stub_runnable *next;
    struct stub_graph *graph;
    struct stub_work *last; /* the end of its last launch */
};

struct stub_capture {
    struct stub_capture *next;
    uint64_t id;
    struct stub_stream *origin;
    struct stub_graph *graph;
    pthread_t thread;
    int branches;
    bool broken;
};

struct stub_queue { /* of the hardware: in order, one piece of work at a time */
    struct stub_device *device;
    pthread_cond_t wake; /* of its thread */
    bool started, held_up; /* its first work comes after some of another queue */
    struct stub_work *first, *last;
    int length;
};

struct stub_stream {
    struct stub_stream *next;
    struct stub_device *device;
    struct stub_queue *queue;
    struct stub_work *last; /* that was enqueued */
    int context; /* of the device */
    bool blocking; /* waits for the legacy stream of its context, as that does for it */
    struct stub_capture *capture;
    struct stub_front front; /* while it is captured: what its next node comes after */
    int branch;
};

struct stub_event {
    struct stub_event *next;
    int references; /* nodes of graphs name it, too */
    uint64_t capture_id; /* of its last record; 0: it was not captured */
    struct stub_front front; /* at that */
    struct stub_device *device;
    int context;
    struct stub_work *work; /* of its last record; NULL: there was none */
    bool timed;
};

struct stub_device {
    int number;
    pthread_mutex_t own_api; /* if each device has one */
    struct stub_queue queues[STUB_QUEUES];
    int streams; /* made so far: the next one's queue */
    struct stub_stream *legacy[STUB_CONTEXTS]; /* that of the user's own is made with it */
    uint64_t used_bytes;
    bool broken;
    /* Kernels that were loaded, and the places of their blocks. */
    bool preloaded;
    uint32_t *loaded;
    int nloaded, places_taken;
    /* Of this process: blocks that run, and the token that they need if the device is shared. */
    int active;
    bool token_held, token_wanted, preempted;
    int64_t token_since_ns;
};

struct stub_file { /* what a segment is, or what was imported: other processes have it, too */
    bool is, imported;
    int fd;
    uint64_t inode, at; /* where it begins in the file */
};

struct stub_memory { /* one allocation */
    struct stub_memory *next;
    enum tt_dev_kind kind;
    int device;
    uintptr_t base;
    size_t bytes, mapped; /* asked for, and taken */
    uint64_t id;
    bool pinned_by_user;
    uintptr_t range; /* in which other parts are mapped, too; 0: it has none */
    bool hole; /* addresses of a range, and nothing there */
    /* Where devices have another address for that, there are two of these: the user's knows its twin, and the
     * devices' where the host has it. */
    struct stub_memory *twin;
    void *host;
    struct stub_file file;
    bool exported; /* by a handle, and without a file of its own */
};

enum { STUB_WORDS_REFUSED = 1, STUB_WRITES_LOST, STUB_WAITS_PASS, STUB_WAITS_HANG };

struct stub_config {
    int devices, queues, depth, sms, blocks_per_sm, slice_us;
    int words_fault;
    uint64_t memory_bytes, seed;
    int64_t delay_us[STUB_KINDS];
    bool words, managed, fds, exports, one_address, yield, launch_blocking, peers;
    bool one_lock; /* of all devices */
    char share[256];
};

struct stub_runtime {
    pthread_mutex_t lock, api;
    pthread_cond_t changed; /* work was done, a place is free, a device broke: for all but the queues */
    struct stub_config config;
    struct stub_device devices[STUB_DEVICES];
    struct stub_stream *streams;
    pthread_key_t own_streams; /* of a thread */
    struct stub_event *events;
    struct stub_memory *memory; /* by address */
    struct stub_capture *captures;
    struct stub_graph *graphs;
    struct stub_runnable *runnables;
    struct stub_device backstage; /* its first queue calls what graphs release */
    pthread_mutex_t host; /* functions of the host are called one at a time, as by one thread */
};
extern struct stub_runtime tt_stub_runtime;

/* --- stub_config.c */
extern const char *const tt_stub_names[STUB_FUNCTION_COUNT];
/* `text` over what is there. False if it is wrong, which `why` says. */
bool tt_stub_config_read(struct stub_config *config, const char *text, char *why, size_t why_bytes);

/* --- stub_call.c: how a call begins and fails */
/* Counts it; an error, if it must fail whatever it asks for. */
void tt_stub_count_call(enum stub_function function);
enum tt_dev_error tt_stub_enter(enum stub_function function);
/* Returns `error`, and keeps the text for `why`. */
enum tt_dev_error tt_stub_fail(enum tt_dev_error error, enum stub_function function, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
const char *tt_stub_why(void);
/* Of this thread; a thread that has used none is given number 0. */
struct stub_device *tt_stub_current(void);
int tt_stub_used(void); /* its number; -1: none yet */
int tt_stub_context(void); /* of that device, in this thread */
void tt_stub_own_context(bool own);
bool tt_stub_configure(const char *text);
uint64_t tt_stub_calls(const char *function);
bool tt_stub_fail_call(const char *function, uint64_t k, enum tt_dev_error error);
/* A thread of the runtime, which must not use the table while it calls a function of the host. */
void tt_stub_calling_host(bool calling);
void *tt_stub_new(size_t bytes); /* zeroed; ends the program if there is none */
void *tt_stub_grow(void *array, int n, size_t bytes); /* room for one more than n */

/* --- stub_memory.c */
bool tt_stub_memory_open(void);
/* Where the stub sees [ptr, ptr + bytes): NULL unless it all lies in one allocation, or in parts of one
 * range. With the lock held. */
void *tt_stub_memory_look(const void *ptr, size_t bytes);
/* What a kernel's parameter is for the stub: its own address for one of the window, else as it is. */
uintptr_t tt_stub_memory_alias(uintptr_t at);
const struct stub_memory *tt_stub_memory_find(const void *ptr);
void *tt_stub_look(const void *ptr);
/* The same for a kernel that runs, whose device breaks if it may not have that. */
void *tt_stub_reach(const void *ptr);
void *tt_stub_map_parts(size_t part_bytes, int parts, int hole);
/* Device memory, of that file if it is one, and its end. NULL: no room. With the lock held. */
struct stub_memory *tt_stub_memory_map(struct stub_device *device, size_t bytes, struct stub_file file);
/* What others have mapped by a handle is spoilt: see `lent`. */
void tt_stub_memory_unmap(struct stub_memory *memory);
/* True if it is memory of this process that another one has mapped by a handle. */
bool tt_stub_memory_lent(const struct stub_memory *memory);
enum tt_dev_error tt_stub_memory_freed_lent(enum stub_function function); /* the error for who freed it */
/* The file behind all memory that is no segment; -1: there is none. Where memory begins in it, and where the
 * file has room to say what it is. */
int tt_stub_window_file(void);
uint64_t tt_stub_window_at(const struct stub_memory *memory);
uint64_t tt_stub_window_says(const struct stub_memory *memory);
enum { STUB_SAYS_BYTES = 32 };

/* --- stub_work.c: queues. All with the lock held, but `seize`, which takes it. */
struct stub_work *tt_stub_work_new(const struct stub_task *task);
void tt_stub_work_after(struct stub_work *work, struct stub_work *before);
void tt_stub_work_drop(struct stub_work *work);
struct stub_work *tt_stub_work_hold(struct stub_work *work);
int64_t tt_stub_now_ns(void);
/* A thread that ends by itself, or never, and takes no signals. */
void tt_stub_thread_start(void *(*run)(void *), void *argument);
void tt_stub_queue_open(struct stub_queue *queue, struct stub_device *device);
void tt_stub_work_push(struct stub_queue *queue, struct stub_work *work);
/* Work was done, or a device broke: wakes who waits for that. */
void tt_stub_work_changed(void);
/* Waits until nothing of the device is under way. */
void tt_stub_device_idle(const struct stub_device *device);
/* The `api` of the device. */
void tt_stub_api_lock(struct stub_device *device);
void tt_stub_api_unlock(struct stub_device *device);
/* What allocates, frees or loads has the device to itself: takes `api`, waits for all its streams, takes the
 * lock; and gives both back. */
void tt_stub_device_seize(struct stub_device *device);
void tt_stub_device_release(struct stub_device *device);

/* --- stub_task.c */
/* A copy that holds what it names, and its end. */
void tt_stub_task_copy(struct stub_task *to, const struct stub_task *from);
void tt_stub_task_free(struct stub_task *task);
/* On a queue's thread, without the lock. */
void tt_stub_task_run(const struct stub_task *task, struct stub_device *device);

/* --- stub_launch.c */
void tt_stub_set_kernels(const struct tt_stub_kernels *set);
void tt_stub_pause(void);
/* On a queue's thread, without the lock; returns when all blocks are over. */
void tt_stub_launch_run(const struct tt_dev_launch *launch, struct stub_device *device);

/* --- stub_context.c: with the lock held, which they give up while they wait */
bool tt_stub_context_open(void);
void tt_stub_context_forked(void);
void tt_stub_context_enter(struct stub_device *device);
void tt_stub_context_leave(struct stub_device *device);
/* Others may run, if it is their turn. */
void tt_stub_context_pause(struct stub_device *device);

/* --- stub_stream.c */
void tt_stub_streams_open(void); /* once */
/* The legacy stream of a context of the device, unless it is there. */
void tt_stub_legacy_open(struct stub_device *device, int context);
bool tt_stub_stream_is_legacy(const struct stub_stream *stream);
/* Does the legacy stream wait for this one, and this one for it? */
bool tt_stub_stream_blocks(const struct stub_stream *stream, const struct stub_stream *legacy);
/* Begins a call that names a stream. NULL and an error: no stream, or of a device that is broken. */
struct stub_stream *tt_stub_stream_enter(void *handle, enum stub_function function, enum tt_dev_error *error);
/* Enqueues, or captures; the device's `api` is taken meanwhile. */
enum tt_dev_error tt_stub_stream_add(
    struct stub_stream *stream, const struct stub_task *task, enum stub_function function);
/* The parts of that, with `api` and the lock held: waits until its queue has room; what the work comes after
 * by the rules of streams, and by the events it names; puts it behind all else. */
void tt_stub_stream_room(const struct stub_stream *stream);
void tt_stub_stream_order(const struct stub_stream *stream, struct stub_work *work);
void tt_stub_event_wait_order(struct stub_work *work);
void tt_stub_event_record_order(struct stub_work *work);
void tt_stub_stream_push(struct stub_stream *stream, struct stub_work *work);
/* Waits until all in it is done, or the device is broken. With the lock held. */
void tt_stub_stream_wait(const struct stub_stream *stream);
enum tt_dev_error tt_stub_stream_create_blocking(void **stream);

/* --- stub_event.c, with the lock held */
void tt_stub_event_drop(struct stub_event *event);

/* --- stub_capture.c, with the lock held */
/* True if there was one: what is being done cannot be captured. */
bool tt_stub_captures_break(void);
/* False if the stream is not captured, nor by this: then it is to be enqueued. */
bool tt_stub_capture_takes(struct stub_stream *stream, const struct stub_task *task,
    enum stub_function function, enum tt_dev_error *error);
void tt_stub_front_clear(struct stub_front *front);

/* --- stub_graph.c, with the lock held */
void tt_stub_graph_drop(struct stub_graph *graph);

/* The functions of the table. */
enum tt_dev_error tt_stub_count(int *n);
enum tt_dev_error tt_stub_facts(int device, struct tt_dev_facts *facts);
enum tt_dev_error tt_stub_current_device(int *device);
enum tt_dev_error tt_stub_use(int device);
enum tt_dev_error tt_stub_reaches(int device, const char *address, bool *reaches);
enum tt_dev_error tt_stub_alloc(size_t bytes, void **ptr);
enum tt_dev_error tt_stub_free(void *ptr);
enum tt_dev_error tt_stub_alloc_managed(size_t bytes, void **ptr);
enum tt_dev_error tt_stub_alloc_pinned(size_t bytes, void **ptr);
enum tt_dev_error tt_stub_free_pinned(void *ptr);
enum tt_dev_error tt_stub_pin(void *ptr, size_t bytes, void **seen);
enum tt_dev_error tt_stub_unpin(void *ptr);
enum tt_dev_error tt_stub_classify(const void *ptr, struct tt_dev_pointer *what);
enum tt_dev_error tt_stub_copy(void *dst, const void *src, size_t bytes, void *stream);
enum tt_dev_error tt_stub_copy_rows(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
    size_t row_bytes, size_t rows, void *stream);
enum tt_dev_error tt_stub_fill(void *dst, int byte, size_t bytes, void *stream);
enum tt_dev_error tt_stub_write_word(void *stream, uint32_t *word, uint32_t value);
enum tt_dev_error tt_stub_wait_word(void *stream, uint32_t *word, uint32_t value);
void tt_stub_range_begin(const char *name);
void tt_stub_range_end(void);
enum tt_dev_error tt_stub_host_call(void *stream, void (*call)(void *), void *argument);
enum tt_dev_error tt_stub_stream_create(void **stream);
enum tt_dev_error tt_stub_stream_destroy(void *stream);
enum tt_dev_error tt_stub_stream_query(void *stream);
enum tt_dev_error tt_stub_stream_sync(void *stream);
enum tt_dev_error tt_stub_stream_device(void *stream, int *device, void **context);
enum tt_dev_error tt_stub_stream_capture(void *stream, struct tt_dev_capture *capture);
enum tt_dev_error tt_stub_event_create(bool timed, void **event);
enum tt_dev_error tt_stub_event_destroy(void *event);
enum tt_dev_error tt_stub_event_record(void *event, void *stream, bool external);
enum tt_dev_error tt_stub_event_wait(void *event, void *stream, bool external);
enum tt_dev_error tt_stub_event_query(void *event);
enum tt_dev_error tt_stub_event_elapsed(void *begin, void *end, float *ms);
enum tt_dev_error tt_stub_preload(void);
enum tt_dev_error tt_stub_occupancy(uint32_t kernel, uint32_t block, uint32_t shared_bytes, int *n);
enum tt_dev_error tt_stub_launch(const struct tt_dev_launch *launch, void *stream);
enum tt_dev_error tt_stub_segment_alloc(size_t bytes, struct tt_dev_segment *segment);
enum tt_dev_error tt_stub_segment_export(const struct tt_dev_segment *segment, struct tt_dev_export *out);
enum tt_dev_error tt_stub_segment_export_of(const void *ptr, struct tt_dev_export *out, uintptr_t *base);
enum tt_dev_error tt_stub_segment_import(const struct tt_dev_export *from, struct tt_dev_segment *segment);
enum tt_dev_error tt_stub_segment_free(struct tt_dev_segment *segment);
enum tt_dev_error tt_stub_capture_begin(void *stream);
enum tt_dev_error tt_stub_capture_end(void *stream, void **graph);
enum tt_dev_error tt_stub_graph_retain(void *graph, void (*release)(void *), void *argument);
enum tt_dev_error tt_stub_graph_destroy(void *graph);
enum tt_dev_error tt_stub_graph_instantiate(void *graph, void **runnable);
enum tt_dev_error tt_stub_graph_launch(void *runnable, void *stream);
enum tt_dev_error tt_stub_runnable_destroy(void *runnable);

#endif
