/* SPDX-License-Identifier: BSD-3-Clause */
/* dev.h: the device table: all that Tutti asks of a GPU's runtime, as plain C.
 *
 * No file of the library but one names CUDA: the plugin libtutti_cuda.so fills this table with the real
 * runtime, one thin file; the stub of the tests fills it with streams that are threads, and device memory
 * that is host memory, so that everything above is tested where no GPU is. lib/device/dev.c finds the one or
 * the other (tt_dev_find).
 *
 * Streams, events, graphs are the runtime's own handles: what users pass in is passed on. NULL is the legacy
 * default stream, TT_DEV_STREAM_PER_THREAD that of the calling thread. A device is a number; calls that name
 * none mean the one that is current in the calling thread.
 *
 * "Enqueues": returns at once, the work is done in the order of the stream, and while the stream is being
 * captured it becomes a part of its graph. What does not enqueue may wait for all streams of the process,
 * as allocation does; no call of Tutti that takes a stream may come by one of those. */
#ifndef TT_BASE_DEV_H
#define TT_BASE_DEV_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Counts changes of this file: a plugin of another build is refused. */
enum { TT_DEV_VERSION = 5 };

/* Every function that returns one of these sets the text of `why` when it is not OK or NOT_READY, and outputs
 * only when it is OK. */
enum tt_dev_error {
    TT_DEV_OK,
    TT_DEV_NOT_READY, /* queries: work is under way */
    TT_DEV_ABSENT, /* no driver, or no device of that number */
    TT_DEV_OLD, /* the driver is older than this plugin needs */
    TT_DEV_NO_MEMORY,
    TT_DEV_INVALID, /* an argument */
    TT_DEV_UNSUPPORTED, /* by this device, driver or kind of memory */
    TT_DEV_CAPTURE, /* not while a stream is being captured */
    TT_DEV_BROKEN, /* the device gives this error for everything from now on */
};

#define TT_DEV_STREAM_PER_THREAD ((void *)2)

struct tt_dev_facts { /* of a device */
    char name[64];
    char address[32]; /* on the bus: which devices of two processes are one */
    int capability; /* 90 is sm_90 */
    int sms;
    uint64_t bytes;
    bool words; /* streams can write and wait for words, for all that is known; who needs it tries */
    bool managed; /* host and device may use managed memory at once */
    bool fds; /* segments can be exported as file descriptors */
    bool shared_context; /* processes run on it at once (MPS) */
};

enum tt_dev_kind { TT_DEV_HOST /* pageable */, TT_DEV_PINNED, TT_DEV_DEVICE, TT_DEV_MANAGED };

struct tt_dev_pointer { /* what an address is */
    enum tt_dev_kind kind;
    int device; /* DEVICE and MANAGED: whose; else -1 */
    uintptr_t base; /* of the allocation, or of what is mapped there of a range; HOST: 0 */
    uint64_t bytes;
    uintptr_t range; /* the begin of the addresses among which that, and more, was mapped; else `base` */
    uint64_t id; /* no other allocation of this process has or had it */
};

/* Device memory that another process can map. */
struct tt_dev_segment {
    void *base;
    uint64_t bytes;
    int device;
    bool imported;
    void *handle; /* the runtime's own */
};
enum { TT_DEV_HANDLE_BYTES = 64 };
struct tt_dev_export {
    uint64_t bytes;
    int32_t fd; /* -1: `handle` says it */
    uint8_t handle[TT_DEV_HANDLE_BYTES];
};

struct tt_dev_capture { /* of a stream */
    bool active;
    bool broken; /* something that cannot be captured was done meanwhile: it is active no more */
    uint64_t id; /* of this capture */
    void *graph; /* that it builds */
};

struct tt_dev_launch {
    uint32_t kernel; /* kernels/cuda/cuda_kernels.h */
    uint32_t grid, grid_y; /* blocks, in x and in y: at least one each */
    uint32_t block; /* threads, in x only */
    uint32_t shared_bytes;
    const void *params; /* one plain struct, copied before the call returns */
    size_t params_bytes;
};

struct tt_dev {
    uint32_t version; /* TT_DEV_VERSION */
    const char *(*describe)(void); /* "CUDA 13.0, driver 13.0" */
    const char *(*why)(
        void); /* of this thread's last error: the function, what was wrong, the runtime's name */

    /* Devices. `current`: of this thread; -1 if it has used none yet, or `use` of -1 was the last. */
    enum tt_dev_error (*count)(int *n);
    enum tt_dev_error (*facts)(int device, struct tt_dev_facts *facts);
    enum tt_dev_error (*current)(int *device);
    enum tt_dev_error (*use)(int device);
    /* Whether kernels of `device` can reach the memory of segments of another one, which is named by its
     * address on the bus. ABSENT: this process does not see that one, and who needs it tries. */
    enum tt_dev_error (*reaches)(int device, const char *address, bool *reaches);

    /* Memory. `pin` makes host memory of the caller pinned: *seen is the address by which devices know it.
     * `classify` is for threads that use a device; in others it is INVALID, and so is an address of a range
     * of the runtime's at which nothing is mapped. */
    struct {
        enum tt_dev_error (*alloc)(size_t bytes, void **ptr);
        enum tt_dev_error (*free)(void *ptr);
        enum tt_dev_error (*alloc_managed)(size_t bytes, void **ptr);
        enum tt_dev_error (*alloc_pinned)(size_t bytes, void **ptr);
        enum tt_dev_error (*free_pinned)(void *ptr);
        enum tt_dev_error (*pin)(void *ptr, size_t bytes, void **seen);
        enum tt_dev_error (*unpin)(void *ptr);
        enum tt_dev_error (*classify)(const void *ptr, struct tt_dev_pointer *what);
    } memory;

    /* Copies between memory of any kind but pageable, and `fill` with a byte. Enqueue. */
    enum tt_dev_error (*copy)(void *dst, const void *src, size_t bytes, void *stream);
    enum tt_dev_error (*copy_rows)(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
        size_t row_bytes, size_t rows, void *stream);
    enum tt_dev_error (*fill)(void *dst, int byte, size_t bytes, void *stream);

    /* Streams; those made here do not wait for the legacy one. `stream.sync` is for tests, benchmarks and
     * what may wait as allocation does. `stream.device`: whose the stream is, and of which of that device's
     * contexts, a name to compare (a default stream's: those of the thread; -1 and NULL, if it has none). */
    struct {
        enum tt_dev_error (*create)(void **stream);
        enum tt_dev_error (*destroy)(void *stream);
        enum tt_dev_error (*query)(void *stream);
        enum tt_dev_error (*sync)(void *stream);
        enum tt_dev_error (*device)(void *stream, int *device, void **context);
        enum tt_dev_error (*capture)(void *stream, struct tt_dev_capture *capture);
    } stream;

    /* Events. A wait for an event that was never recorded is none. `external`: in a capture, the record or
     * wait is done at each replay, which orders what is outside the graph; else it changes nothing. */
    struct {
        enum tt_dev_error (*create)(bool timed, void **event);
        enum tt_dev_error (*destroy)(void *event);
        enum tt_dev_error (*record)(void *event, void *stream, bool external);
        enum tt_dev_error (*wait)(void *event, void *stream, bool external);
        enum tt_dev_error (*query)(void *event);
        enum tt_dev_error (*elapsed)(void *begin, void *end, float *ms);
    } event;

    /* Words: 32 bits in pinned or device memory, by the device's address. A write is seen after all that was
     * enqueued before it; a wait ends when *word - value, as a signed number, is not negative. */
    enum tt_dev_error (*write_word)(void *stream, uint32_t *word, uint32_t value);
    enum tt_dev_error (*wait_word)(void *stream, uint32_t *word, uint32_t value);
    /* `call` runs on a thread of the runtime and must not use this table, nor wait. Enqueues. */
    enum tt_dev_error (*host_call)(void *stream, void (*call)(void *), void *argument);

    /* For profilers: this thread is in this call, until the end of as many. The name is copied, or there is
     * no profiler. They never fail. */
    struct {
        void (*begin)(const char *name);
        void (*end)(void);
    } range;

    /* Kernels. `preload`: all of them, on the current device, so that no launch has to load one. */
    enum tt_dev_error (*preload)(void);
    enum tt_dev_error (*occupancy)(
        uint32_t kernel, uint32_t block, uint32_t shared_bytes, int *blocks_per_sm);
    enum tt_dev_error (*launch)(const struct tt_dev_launch *launch, void *stream);

    /* Segments. An export holds a descriptor (to be closed by who has it) or a handle; `import` is for other
     * processes: in the one that allocated it it is INVALID, where the runtime can tell. Who imports maps it
     * for his current device. All devices of the process that reach the memory of a segment have it at its
     * one address. What travels as a descriptor lives until its last user has freed it; of a
     * handle, all have freed their imports before the owner frees the memory.
     *
     * `export_of`: the memory of a device at `ptr` that this process has, whoever allocated it: the whole
     * allocation, or what is mapped there of a range, which begins at *base. UNSUPPORTED, where the runtime
     * can tell: managed, pinned and pageable memory, what was imported, and what was made without a way to
     * export it, as pools and memory that grows mostly are. Neither export waits for a device. Imports may be
     * made and freed while streams are captured. */
    struct {
        enum tt_dev_error (*alloc)(size_t bytes, struct tt_dev_segment *segment);
        enum tt_dev_error (*export)(const struct tt_dev_segment *segment, struct tt_dev_export *out);
        enum tt_dev_error (*export_of)(const void *ptr, struct tt_dev_export *out, uintptr_t *base);
        enum tt_dev_error (*import)(const struct tt_dev_export *from, struct tt_dev_segment *segment);
        enum tt_dev_error (*free)(struct tt_dev_segment *segment); /* or unmap, if it is imported */
    } segment;

    /* Graphs. `graph.retain`: `release` is called when the graph and all that was made of it are gone; on a
     * thread of the runtime, under the rules of host_call. After an error it is not called. */
    struct {
        enum tt_dev_error (*capture_begin)(void *stream);
        enum tt_dev_error (*capture_end)(void *stream, void **graph);
        enum tt_dev_error (*retain)(void *graph, void (*release)(void *), void *argument);
        enum tt_dev_error (*destroy)(void *graph);
        enum tt_dev_error (*instantiate)(void *graph, void **runnable);
        enum tt_dev_error (*launch)(void *runnable, void *stream);
        enum tt_dev_error (*runnable_destroy)(void *runnable);
    } graph;
};

/* A plugin exports tutti_device_table, of this type; NULL if it cannot serve `version`. */
typedef const struct tt_dev *(*tt_dev_table_fn)(uint32_t version);

#endif
