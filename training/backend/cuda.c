/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda.c: a device's memory and streams.
 *
 * All that a context begins stands on one stream, so kernels, copies and calls of Tutti come in the order of
 * the list, and the host waits for none of them. What runs beside has a stream of its own. A point is a
 * number in its stream, and an event; each stream has a ring of these. Who asks for a point whose event was
 * recorded again waits for a later one of the same stream, and so for more than he must, never for less.
 *
 * Devices have few queues, over which streams are spread in the order in which they are made, and a stream
 * that waits for another rank holds up those behind it in its queue: a send that waits would keep the receive
 * from being reached that its peer waits for. So the streams of a context are made together, which gives each
 * a queue of its own, and before communicators make some.
 *
 * Memory of the host that the device does not know goes by way of some that it knows, in pieces. */
#include "training/backend/cuda.h"

#include "training/kernels/cuda/tune.h"
#include "training/launch.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINES = 24, FIRST_LINES = 8, EVENTS = 64, BLOCKS = 8, BOUNCE_BYTES = 1 << 18 };

struct line {
    void *stream; /* NULL: it was ended */
    void *events[EVENTS];
    uint64_t last;
    uint64_t over; /* points up to this one are before all that comes */
    bool used;
};

struct on_device {
    struct tr_cuda cuda; /* first: it is what kernels take `self` for */
    const struct tr_cuda_library *library;
    struct line lines[LINES]; /* the first is the context's own */
    int n_lines;
    struct block {
        unsigned char *at;
        int64_t bytes;
        bool on_host;
    } blocks[BLOCKS];
    unsigned char *bounce;
    struct tr_cublas blas;
    int32_t read; /* products that the file had */
    struct mark {
        void *event; /* NULL: it was never set */
        bool set;
    } * marks;
    int n_marks;
};

/* ---- the library ---- */

static bool fits(const struct tr_cuda_library *l, const char *path, struct tr_error *e)
{
    return (l->version == TR_CUDA_VERSION && l->kernels_bytes == sizeof(struct tr_kernels)) ||
           tr_fail(e, "%s is of another version of Tutti; legal is the one that was built with this program",
               path);
}

static const struct tr_cuda_library *load(const char *path, struct tr_error *e)
{
    tr_cuda_offer_fn *offer;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    *(void **)&offer = library ? dlsym(library, TR_CUDA_OFFER) : NULL;
    if (!offer) {
        tr_fail(e, "the kernels for devices cannot be used: %s; legal is --device host", dlerror());
        return NULL;
    }
    const struct tr_cuda_library *l = offer();
    return fits(l, path, e) ? l : NULL;
}

/* The folder in which libtutti is, or the program that has it inside. */
static void find_folder(char *folder, size_t room)
{
    Dl_info info;
    bool known = dladdr((void *)(uintptr_t)&tutti_get_version, &info) && info.dli_fname;
    snprintf(folder, room, "%s", known ? info.dli_fname : "");
    char *slash = strrchr(folder, '/');
    snprintf(slash ? slash : folder, 2, slash ? "" : ".");
}

const struct tr_cuda_library *tr_cuda_load(struct tr_error *e)
{
    static const char name[] = "libtutti_train_cuda.so";
    enum { PATHS = 3, ROOM = 1024 };
    char folder[ROOM - sizeof name - 8], paths[PATHS][ROOM];
    if (*tr_device_library())
        return load(tr_device_library(), e);
    find_folder(folder, sizeof folder);
    snprintf(paths[0], ROOM, "%s/%s", folder, name);
    snprintf(paths[1], ROOM, "%s/tutti/%s", folder, name);
    snprintf(paths[2], ROOM, "%s/%s", TR_PKGLIBDIR, name);
    for (int i = 0; i < PATHS; i++)
        if (access(paths[i], F_OK) == 0)
            return load(paths[i], e);
    tr_fail(e,
        "there are no kernels for devices: this was built without CUDA, or they are not installed; looked "
        "for "
        "%s, %s and %s. Legal is --device host",
        paths[0], paths[1], paths[2]);
    return NULL;
}

bool tr_device_use(struct tr_device *d, const struct tr_cuda_library *library, int number, struct tr_error *e)
{
    *d = (struct tr_device){ .set = *library->kernels, .library = library, .number = number };
    d->set.backend = &tr_backend_cuda;
    int status = library->use(number, &d->facts);
    return !status || tr_fail(e, "device %d: %s", number, d->set.words(status));
}

void tr_device_free_order(struct tr_device *d, enum tr_cublas_precision precision)
{
    d->library->free_order(&d->set);
    d->precision = precision;
}

void tr_device_tune(struct tr_device *d, const char *file)
{
    d->tuning = file;
}

/* ---- contexts ---- */

static struct on_device *of(const struct tr_context *x)
{
    return x->self;
}

/* The first failure stays. */
static bool begun(struct tr_context *x, int status)
{
    if (status && !x->status)
        x->status = status;
    return !status;
}

static bool told(const struct tr_context *x, struct tr_error *e)
{
    const struct tr_device *d = (const struct tr_device *)x->k;
    return !x->status || tr_fail(e, "device %d: %s", d->number, x->k->words(x->status));
}

static bool add_line(struct tr_context *x)
{
    struct on_device *d = of(x);
    return begun(x, d->library->stream(&d->lines[d->n_lines].stream)) && ++d->n_lines;
}

static void end_line(const struct tr_cuda_library *l, struct line *line)
{
    for (int i = 0; i < EVENTS; i++)
        if (line->events[i])
            l->end_event(line->events[i]);
    if (line->stream)
        l->end_stream(line->stream);
    *line = (struct line){ 0 };
}

static bool open_blas(struct on_device *d, const struct tr_device *device, struct tr_error *e)
{
    char words[512];
    if (!d->library->open_cublas(&d->blas, d->lines[0].stream, device->precision, NULL, words, sizeof words))
        return tr_fail(e, "device %d: %s; legal is --order canonical", device->number, words);
    d->cuda.blas = &d->blas;
    return true;
}

/* When all is over that was begun. */
static int64_t now(struct tr_cuda *c)
{
    ((struct on_device *)c)->library->sync(c->stream);
    return tr_now_ns();
}

static bool open_tuning(struct on_device *d, const struct tr_device *device, struct tr_error *e)
{
    char words[512];
    struct tr_cuda_tuning *t = tr_new(1, sizeof *t);
    snprintf(t->device, sizeof t->device, "%s", device->facts.name);
    snprintf(t->driver, sizeof t->driver, "%s", device->facts.driver);
    t->now = now;
    d->cuda.tuning = t;
    if (access(device->tuning, F_OK) == 0 && !d->library->read_tuning(t, device->tuning, words, sizeof words))
        return tr_fail(e, "--tune %s", words);
    d->read = t->count;
    return true;
}

bool tr_device_keep(struct tr_context *x, bool writes, struct tr_error *e)
{
    const struct on_device *d = of(x);
    struct tr_cuda_tuning *t = d->cuda.tuning;
    char words[512];
    if (!t)
        return true;
    t->now = NULL;
    return !writes || t->count == d->read ||
           d->library->write_tuning(t, ((const struct tr_device *)x->k)->tuning, words, sizeof words) ||
           tr_fail(e, "--tune %s", words);
}

static void close_device(struct tr_context *x)
{
    struct on_device *d = of(x);
    if (!d)
        return;
    if (d->cuda.blas)
        d->library->close_cublas(&d->blas);
    free(d->cuda.tuning);
    for (int i = 0; i < d->n_lines; i++)
        end_line(d->library, &d->lines[i]);
    for (int i = 0; i < d->n_marks; i++)
        if (d->marks[i].event)
            d->library->end_event(d->marks[i].event);
    free(d->marks);
    if (d->bounce)
        d->library->unpin(d->bounce);
    tutti_mem_free(d->cuda.workspace);
    free(d);
    x->self = NULL;
}

static bool open_device(struct tr_context *x, struct tr_error *e)
{
    const struct tr_device *device = (const struct tr_device *)x->k;
    struct on_device *d = tr_new(1, sizeof *d);
    void *workspace = NULL;
    x->self = d;
    d->library = device->library;
    d->cuda.launch = device->library->launch;
    d->cuda.multiprocessors = device->facts.multiprocessors;
    d->cuda.workspace_floats = TR_CUDA_WORKSPACE_LEAST;
    bool ok = true;
    for (int i = 0; i < FIRST_LINES && ok; i++)
        ok = add_line(x);
    d->lines[0].used = ok;
    ok = ok && begun(x, d->library->pin((void **)&d->bounce, BOUNCE_BYTES));
    ok = ok ? tutti_mem_alloc(TR_DEVICE_OWN_BYTES, TUTTI_MEM_CUDA, &workspace) == TUTTI_OK ||
                  tr_fail(e, "%s", tutti_get_last_error(NULL))
            : told(x, e);
    d->cuda.stream = d->lines[0].stream;
    d->cuda.workspace = workspace;
    ok = ok && (!x->k->free || open_blas(d, device, e)) && (!device->tuning || open_tuning(d, device, e));
    if (!ok)
        close_device(x);
    return ok;
}

static void enter_device(struct tr_context *x)
{
    struct tr_cuda_facts facts;
    begun(x, of(x)->library->use(((const struct tr_device *)x->k)->number, &facts));
}

/* ---- memory ---- */

static struct block *block_of(const struct on_device *d, const void *p)
{
    const unsigned char *at = p;
    for (int i = 0; i < BLOCKS; i++)
        if (d->blocks[i].at && at >= d->blocks[i].at && at < d->blocks[i].at + d->blocks[i].bytes)
            return (struct block *)&d->blocks[i];
    return NULL;
}

static void *alloc(struct tr_context *x, int64_t bytes, bool on_host)
{
    struct on_device *d = of(x);
    void *memory = NULL;
    int i = 0;
    bytes = bytes > 0 ? bytes : 1;
    while (i < BLOCKS && d->blocks[i].at)
        i++;
    if (i == BLOCKS || (on_host ? d->library->pin(&memory, bytes) != 0
                                : tutti_mem_alloc((size_t)bytes, TUTTI_MEM_CUDA, &memory) != TUTTI_OK))
        return NULL;
    d->blocks[i] = (struct block){ memory, bytes, on_host };
    return memory;
}

static void sync_all(struct tr_context *x)
{
    struct on_device *d = of(x);
    for (int i = 0; i < d->n_lines; i++)
        if (d->lines[i].used)
            begun(x, d->library->sync(d->lines[i].stream));
}

static void release(struct tr_context *x, void *memory, bool on_host)
{
    struct on_device *d = of(x);
    sync_all(x);
    *block_of(d, memory) = (struct block){ 0 };
    if (on_host)
        d->library->unpin(memory);
    else
        tutti_mem_free(memory);
}

static tutti_stream stream(struct tr_context *x)
{
    return tutti_cuda_stream(of(x)->cuda.stream);
}

static void sync_own(struct tr_context *x)
{
    begun(x, of(x)->library->sync(of(x)->cuda.stream));
}

static void copy_later(struct tr_context *x, tutti_stream on, void *to, const void *from, int64_t bytes)
{
    if (bytes > 0 && !x->status)
        begun(x, of(x)->library->copy(on.handle, to, from, bytes));
}

static void copy_own(struct tr_context *x, void *to, const void *from, int64_t bytes)
{
    copy_later(x, stream(x), to, from, bytes);
}

/* One side is memory that no device knows. */
static void copy_piece(struct tr_context *x, void *to, const void *from, int64_t bytes)
{
    unsigned char *bounce = of(x)->bounce;
    if (block_of(of(x), to)) {
        memcpy(bounce, from, (size_t)bytes);
        copy_own(x, to, bounce, bytes);
        sync_own(x);
    } else {
        copy_own(x, bounce, from, bytes);
        sync_own(x);
        memcpy(to, bounce, (size_t)bytes);
    }
}

static void copy(struct tr_context *x, void *to, const void *from, int64_t bytes)
{
    const struct on_device *d = of(x);
    if (block_of(d, to) && block_of(d, from)) {
        copy_own(x, to, from, bytes);
        sync_own(x);
        return;
    }
    for (int64_t i = 0; i < bytes; i += BOUNCE_BYTES)
        copy_piece(x, (unsigned char *)to + i, (const unsigned char *)from + i,
            bytes - i < BOUNCE_BYTES ? bytes - i : BOUNCE_BYTES);
}

/* The processor fills what it may be in, when nobody else is. */
static void clear(struct tr_context *x, void *to, int byte, int64_t bytes)
{
    struct on_device *d = of(x);
    if (!block_of(d, to)->on_host) {
        if (bytes > 0 && !x->status)
            begun(x, d->library->fill(d->cuda.stream, to, byte, bytes));
        return;
    }
    sync_own(x);
    memset(to, byte, (size_t)bytes);
}

/* ---- streams ---- */

static bool make_stream(struct tr_context *x, tutti_stream *made, struct tr_error *e)
{
    struct on_device *d = of(x);
    int i = 0;
    while (i < d->n_lines && (d->lines[i].used || !d->lines[i].stream))
        i++;
    if (i == LINES)
        return tr_fail(e, "there are %d streams; no more are legal", LINES);
    if (i == d->n_lines && !add_line(x))
        return told(x, e);
    d->lines[i].used = true;
    *made = tutti_cuda_stream(d->lines[i].stream);
    return true;
}

static struct line *line_of(struct on_device *d, tutti_stream stream)
{
    int i = 0;
    while (d->lines[i].stream != stream.handle)
        i++;
    return &d->lines[i];
}

static void end_stream(struct tr_context *x, tutti_stream ended)
{
    struct line *line = line_of(of(x), ended);
    begun(x, of(x)->library->sync(line->stream));
    end_line(of(x)->library, line);
}

static tutti_status record(struct tr_context *x, tutti_stream stream, uint64_t *point)
{
    const struct tr_cuda_library *l = of(x)->library;
    struct line *line = line_of(of(x), stream);
    void **event = &line->events[++line->last % EVENTS];
    *point = line->last;
    if (!x->status && (*event || begun(x, l->event(event))))
        begun(x, l->record(*event, line->stream));
    return TUTTI_OK;
}

static tutti_status after(struct tr_context *x, tutti_stream later, tutti_stream earlier, uint64_t point)
{
    struct line *line = line_of(of(x), earlier);
    if (!x->status && later.handle != earlier.handle && point > line->over)
        begun(x, of(x)->library->await(later.handle, line->events[point % EVENTS]));
    return TUTTI_OK;
}

static tutti_status wait(struct tr_context *x, tutti_stream earlier, uint64_t point)
{
    if (!x->status)
        begun(x, of(x)->library->wait(line_of(of(x), earlier)->events[point % EVENTS]));
    return TUTTI_OK;
}

/* ---- graphs ---- */

/* What was begun before is over or before all of the graph, as its streams are joined at both ends; and no
 * event of outside may be waited for inside, nor the other way round. */
static void forget_points(struct on_device *d)
{
    for (int i = 0; i < d->n_lines; i++)
        d->lines[i].over = d->lines[i].last;
}

/* Each stream waits for the context's own, or this one for each. */
static void join_streams(struct tr_context *x, bool own_waits)
{
    struct on_device *d = of(x);
    tutti_stream own = stream(x);
    uint64_t point;
    for (int i = 1; i < d->n_lines; i++) {
        tutti_stream beside = tutti_cuda_stream(d->lines[i].stream);
        if (!d->lines[i].used || !beside.handle)
            continue;
        record(x, own_waits ? beside : own, &point);
        after(x, own_waits ? own : beside, own_waits ? beside : own, point);
    }
}

static bool keep(struct tr_context *x, struct tr_error *e)
{
    if (of(x)->cuda.tuning) /* nothing is measured while it is kept */
        of(x)->cuda.tuning->now = NULL;
    if (begun(x, of(x)->library->keep(of(x)->cuda.stream))) {
        forget_points(of(x));
        join_streams(x, false);
    }
    return told(x, e);
}

static void *kept(struct tr_context *x, struct tr_error *e)
{
    void *graph = NULL;
    join_streams(x, true);
    begun(x, of(x)->library->kept(of(x)->cuda.stream, &graph));
    forget_points(of(x));
    return told(x, e) ? graph : NULL;
}

static void replay(struct tr_context *x, void *graph)
{
    if (!x->status)
        begun(x, of(x)->library->replay(graph, of(x)->cuda.stream));
}

static void drop(struct tr_context *x, void *graph)
{
    begun(x, of(x)->library->drop(graph));
}

/* ---- times ---- */

static bool make_marks(struct tr_context *x, int marks, struct tr_error *e)
{
    struct on_device *d = of(x);
    (void)e;
    if (!d->marks)
        d->marks = tr_new((size_t)marks, sizeof *d->marks), d->n_marks = marks;
    return true;
}

static void mark(struct tr_context *x, int number, tutti_stream on)
{
    struct on_device *d = of(x);
    struct mark *m = &d->marks[number];
    if (!x->status && (m->event || begun(x, d->library->timed_event(&m->event))))
        m->set = begun(x, d->library->record(m->event, on.handle));
}

static bool times(struct tr_context *x, int64_t *ns, struct tr_error *e)
{
    struct on_device *d = of(x);
    for (int i = 0; i < d->n_marks && !x->status; i++) {
        float ms = 0;
        ns[i] = -1;
        if (!d->marks[i].set || !begun(x, d->library->wait(d->marks[i].event)) ||
            !begun(x, d->library->elapsed(d->marks[0].event, d->marks[i].event, &ms)))
            continue;
        ns[i] = (int64_t)((double)ms * 1e6);
        d->marks[i].set = false;
    }
    return told(x, e);
}

/* ---- ranges ---- */

static void begin_range(struct tr_context *x, const char *does, const char *name)
{
    of(x)->library->begin_range(does, name);
}

static void end_range(struct tr_context *x)
{
    of(x)->library->end_range();
}

const struct tr_backend tr_backend_cuda = { .name = "cuda",
    .apart = true,
    .open = open_device,
    .close = close_device,
    .enter = enter_device,
    .alloc = alloc,
    .release = release,
    .copy = copy,
    .copy_later = copy_later,
    .clear = clear,
    .sync = sync_own,
    .stream = stream,
    .make_stream = make_stream,
    .end_stream = end_stream,
    .record = record,
    .after = after,
    .wait = wait,
    .keep = keep,
    .kept = kept,
    .replay = replay,
    .drop = drop,
    .make_marks = make_marks,
    .mark = mark,
    .times = times,
    .begin_range = begin_range,
    .end_range = end_range };
