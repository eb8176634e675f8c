/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_library.c: what libtutti_train_cuda.so offers, over the stub of the devices' runtime that the library
 * under test uses: emulated kernels run as functions of the host, each in the order of its stream, and see of
 * the device's memory what the stub sees. Nobody else can touch it: see tests/stub/stub_memory.c. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/dev.h"
#include "kernels/cuda/cuda_emulate.h"
#include "tests/stub/stub.h"
#include "training/kernels/cuda/cublas.h"
#include "training/kernels/cuda/tune.h"

enum { SAID_BYTES = 300, MOST_PARAMS = 512 };

/* The sanitizer of threads takes a fiber's switches for calls that never return. */
#ifdef __SANITIZE_THREAD__
static const enum tt_emulation emulation = TT_EMULATE_THREADS;
#else
static const enum tt_emulation emulation = TT_EMULATE_FIBERS;
#endif

static const struct tt_dev *dev;
static const struct tt_stub *stub;
static _Thread_local char said[SAID_BYTES]; /* of the last error */

/* How often the processor waited, events that tell times, and graphs that ran: at the end of the process a
 * line of the file that TRAIN_STUB_COUNTS names. */
static atomic_int syncs, waits, timed, replays;

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("TRAIN_STUB_COUNTS");
    FILE *to = path != NULL ? fopen(path, "a") : NULL;
    if (to == NULL)
        return;
    fprintf(to, "syncs %d waits %d timed %d replays %d\n", atomic_load(&syncs), atomic_load(&waits),
        atomic_load(&timed), atomic_load(&replays));
    fclose(to);
}

static int told(enum tt_dev_error error)
{
    if (error != TT_DEV_OK)
        snprintf(said, sizeof said, "%s", dev->why());
    return (int)error;
}

const char *tr_cuda_words(int status)
{
    (void)status;
    return said;
}

/* The instance that the library has loaded. */
static void find_once(void)
{
    const char *path = getenv("TUTTI_DEVICE_LIBRARY");
    void *module = path != NULL ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    tt_dev_table_fn table;
    tt_stub_fn controls;
    *(void **)&table = module != NULL ? dlsym(module, "tutti_device_table") : NULL;
    *(void **)&controls = module != NULL ? dlsym(module, "tt_stub") : NULL;
    if (table == NULL || controls == NULL)
        return;
    dev = table(TT_DEV_VERSION);
    stub = controls();
}

static bool find(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_once);
    if (dev == NULL)
        snprintf(said, sizeof said, "TUTTI_DEVICE_LIBRARY names no stub, or the library has not loaded it");
    return dev != NULL;
}

/* ---- kernels ---- */

struct work {
    struct tt_emulated_launch launch;
    bool kept; /* by a graph, which runs it again */
    int64_t params_bytes;
    uintptr_t params[];
};

/* Where the stub has what a parameter points to. */
static void follow(const struct work *w, uintptr_t *params)
{
    for (size_t i = 0; i <= (size_t)w->params_bytes / sizeof *params; i++) {
        uintptr_t seen = (uintptr_t)stub->look((void *)w->params[i]);
        params[i] = seen != 0 ? seen : w->params[i];
    }
}

/* By a function of the host, so that one kernel runs at a time. The order of the threads differs. */
static void run(void *argument)
{
    static uint32_t order;
    struct work *w = argument;
    struct tt_emulated_launch now = w->launch;
    uintptr_t params[MOST_PARAMS];
    follow(w, params);
    now.order = order++ % 5;
    now.params = params;
    tt_emulate_grid(&now);
    if (!w->kept)
        free(w);
}

/* Of what a graph keeps, the argument lives as long as that. */
static int enqueue(void *stream, void (*run_it)(void *), void *argument, bool *kept)
{
    struct tt_dev_capture capture;
    int status = told(dev->stream.capture(stream, &capture));
    *kept = status == 0 && capture.active;
    if (*kept)
        status = told(dev->graph.retain(capture.graph, free, argument));
    bool owned = *kept && status == 0;
    if (status == 0)
        status = told(dev->host_call(stream, run_it, argument));
    if (status != 0 && !owned)
        free(argument);
    return status;
}

static int launch(struct tr_cuda *c, const struct tr_cuda_launch *l)
{
    struct work *w = calloc(1, sizeof *w + (size_t)l->params_bytes + sizeof(uintptr_t));
    if (w == NULL || (size_t)l->params_bytes >= MOST_PARAMS * sizeof(uintptr_t)) {
        free(w);
        return TT_DEV_NO_MEMORY;
    }
    w->params_bytes = l->params_bytes;
    memcpy(w->params, l->params, (size_t)l->params_bytes);
    w->launch = (struct tt_emulated_launch){
        .function = l->function, .grid = l->grid, .grid_y = 1, .block = l->block, .way = emulation
    };
    return enqueue(c->stream, run, w, &w->kept);
}

/* ---- cuBLAS ---- */

/* A library that stands for it, on the host: its products are functions of the host in the order of the
 * stream, and see the device's memory as kernels do. What a pointer of the processor says is read at once. */
struct stand_in {
    void *handle, *stream;
    tr_cublas_multiply *multiply;
    tr_cublas_destroy *destroy;
};

struct product {
    struct stand_in of;
    int turn_a, turn_b, m, n, k, a_type, a_column, b_type, b_column, c_type, c_column, compute, algorithm;
    float alpha, beta;
    const void *a, *b;
    void *c;
    bool kept;
};

static void run_product(void *argument)
{
    struct product *p = argument;
    if (p->of.multiply(p->of.handle, p->turn_a, p->turn_b, p->m, p->n, p->k, &p->alpha, stub->look(p->a),
            p->a_type, p->a_column, stub->look(p->b), p->b_type, p->b_column, &p->beta, stub->look(p->c),
            p->c_type, p->c_column, p->compute, p->algorithm) != 0)
        abort();
    if (!p->kept)
        free(p);
}

static int multiply_later(void *handle, int turn_a, int turn_b, int m, int n, int k, const void *alpha,
    const void *a, int a_type, int a_column, const void *b, int b_type, int b_column, const void *beta,
    void *c, int c_type, int c_column, int compute, int algorithm)
{
    const struct stand_in *of = handle;
    struct product *p = malloc(sizeof *p);
    if (p == NULL)
        return TT_DEV_NO_MEMORY;
    *p = (struct product){ *of, turn_a, turn_b, m, n, k, a_type, a_column, b_type, b_column, c_type, c_column,
        compute, algorithm, *(const float *)alpha, *(const float *)beta, a, b, c, false };
    return enqueue(of->stream, run_product, p, &p->kept) == 0 ? 0 : 13; /* CUBLAS_STATUS_EXECUTION_FAILED */
}

static int end_stand_in(void *handle)
{
    struct stand_in *of = handle;
    int status = of->destroy(of->handle);
    free(of);
    return status;
}

static bool open_stand_in(struct tr_cublas *b, void *stream, enum tr_cublas_precision precision,
    const char *library, char *words, size_t size)
{
    const char *named = getenv("TRAIN_STUB_CUBLAS");
    if (!tr_cublas_open(b, NULL, precision, library != NULL ? library : named, words, size))
        return false;
    struct stand_in *of = malloc(sizeof *of);
    if (of == NULL)
        abort();
    *of = (struct stand_in){ b->handle, stream, b->multiply, b->destroy };
    b->handle = of;
    b->multiply = multiply_later;
    b->destroy = end_stand_in;
    return true;
}

/* ---- the runtime ---- */

static int use(int device, struct tr_cuda_facts *facts)
{
    struct tt_dev_facts known;
    if (!find())
        return TT_DEV_ABSENT;
    int status = told(dev->use(device));
    if (status == 0)
        status = told(dev->facts(device, &known));
    if (status != 0)
        return status;
    snprintf(facts->name, sizeof facts->name, "%.63s", known.name);
    facts->name[strcspn(facts->name, " ")] = 0; /* the stub's have a number there */
    snprintf(facts->driver, sizeof facts->driver, "CUDA 13.0");
    snprintf(facts->address, sizeof facts->address, "%.31s", known.address);
    facts->multiprocessors = known.sms;
    facts->free = (int64_t)known.bytes;
    return 0;
}

static int pin(void **memory, int64_t bytes)
{
    return told(dev->memory.alloc_pinned((size_t)bytes, memory));
}

static int unpin(void *memory)
{
    return told(dev->memory.free_pinned(memory));
}

static int make_stream(void **stream)
{
    return told(dev->stream.create(stream));
}

static int end_stream(void *stream)
{
    return told(dev->stream.destroy(stream));
}

static int make_event(void **event)
{
    return told(dev->event.create(false, event));
}

static int make_timed_event(void **event)
{
    atomic_fetch_add(&timed, 1);
    return told(dev->event.create(true, event));
}

static int end_event(void *event)
{
    return told(dev->event.destroy(event));
}

static int record(void *event, void *stream)
{
    return told(dev->event.record(event, stream, false));
}

static int await(void *stream, void *event)
{
    return told(dev->event.wait(event, stream, false));
}

/* The table has no such wait, as the library must not wait. */
static int wait(void *event)
{
    enum tt_dev_error error;
    atomic_fetch_add(&waits, 1);
    while ((error = dev->event.query(event)) == TT_DEV_NOT_READY)
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    return told(error);
}

static int elapsed(void *begin, void *end, float *ms)
{
    return told(dev->event.elapsed(begin, end, ms));
}

static int copy(void *stream, void *to, const void *from, int64_t bytes)
{
    return told(dev->copy(to, from, (size_t)bytes, stream));
}

static int fill(void *stream, void *to, int byte, int64_t bytes)
{
    return told(dev->fill(to, byte, (size_t)bytes, stream));
}

static int sync(void *stream)
{
    atomic_fetch_add(&syncs, 1);
    return told(dev->stream.sync(stream));
}

static int keep(void *stream)
{
    return told(dev->graph.capture_begin(stream));
}

static int kept(void *stream, void **graph)
{
    void *captured;
    int status = told(dev->graph.capture_end(stream, &captured));
    if (status != 0)
        return status;
    status = told(dev->graph.instantiate(captured, graph));
    told(dev->graph.destroy(captured));
    return status;
}

static int replay(void *graph, void *stream)
{
    atomic_fetch_add(&replays, 1);
    return told(dev->graph.launch(graph, stream));
}

static int drop(void *graph)
{
    return told(dev->graph.runnable_destroy(graph));
}

/* A profiler's place: a line for each begin and each end, in the file that TRAIN_STUB_RANGES names. */
static void tell_range(const char *does, const char *name)
{
    const char *path = getenv("TRAIN_STUB_RANGES");
    FILE *to = path != NULL ? fopen(path, "a") : NULL;
    if (to == NULL)
        return;
    fprintf(to, "%s %s\n", does, name);
    fclose(to);
}

static void begin_range(const char *does, const char *name)
{
    tell_range(does, name);
}

static void end_range(void)
{
    tell_range("end", "of it");
}

const struct tr_cuda_library *tr_cuda_offer(void)
{
    static const struct tr_cuda_library offered = { TR_CUDA_VERSION, sizeof(struct tr_kernels),
        &tr_kernels_cuda, launch, use, pin, unpin, make_stream, end_stream, make_event, make_timed_event,
        end_event, record, await, wait, elapsed, copy, fill, sync, keep, kept, replay, drop, open_stand_in,
        tr_cublas_close, tr_cuda_set_free_order, tr_cuda_tuning_read, tr_cuda_tuning_write, begin_range,
        end_range };
    return &offered;
}
