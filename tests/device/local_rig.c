/* SPDX-License-Identifier: BSD-3-Clause */
/* local_rig.c: making the rig. */
#include "local_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/handle.h"
#include "run/comm.h"

bool local_fine(const struct local_desk *d, enum tt_dev_error error)
{
    return ranks_expect(d->me, error == TT_DEV_OK, "device: %s", error == TT_DEV_OK ? "" : d->dev->why());
}

tutti_comm *local_join(struct ranks_me *me, const char *more, int64_t timeout_ms)
{
    char options[160];
    snprintf(options, sizeof options, "slice=8192;device=0%s", more);
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = timeout_ms };
    return ranks_join(me, &config);
}

void local_hurry(const tutti_comm *comm, int64_t timeout_ms)
{
    tt_comm_find(comm)->waiting.timeout_ms = timeout_ms;
}

bool local_prepare(struct ranks_me *me, struct local_desk *d)
{
    return local_prepare_on(me, d, 0);
}

bool local_prepare_on(struct ranks_me *me, struct local_desk *d, int device)
{
    void *memory = NULL;
    *d = (struct local_desk){ .me = me };
    bool good = ranks_ok(me, tt_dev_find(plugin_path(), &d->dev), "tt_dev_find");
    good = good && local_fine(d, d->dev->use(device)) && local_fine(d, d->dev->stream.create(&d->stream));
    for (int a = 0; a < AREAS && good; a++) {
        good = local_fine(d, d->dev->memory.alloc(AREA, &memory));
        d->areas[a] = memory;
    }
    good = good && local_fine(d, d->dev->memory.alloc_pinned(AREA, &memory));
    d->host = memory;
    d->stub = plugin_stub();
    return good;
}

bool local_sit_down(struct ranks_me *me, struct local_desk *d, int64_t timeout_ms)
{
    return local_prepare(me, d) && (d->comm = local_join(me, "", timeout_ms)) != NULL;
}

void local_run_threads(const char *stub, int n, ranks_fn run)
{
    plugin_must_have_kernels();
    setenv("STUB_GPU", stub, 1);
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    ranks_run(&(struct ranks_plan){ .n = n, .kind = RANKS_THREADS, .run = run, .seed = 7, .limit_s = 100 });
}

void local_give(const struct local_desk *d, int area, const void *bytes, size_t count)
{
    memcpy(d->host, bytes, count);
    local_fine(d, d->dev->copy(d->areas[area], d->host, count, d->stream));
    local_fine(d, d->dev->stream.sync(d->stream));
}

const uint8_t *local_take(const struct local_desk *d, int area, size_t count)
{
    local_fine(d, d->dev->copy(d->host, d->areas[area], count, d->stream));
    local_fine(d, d->dev->stream.sync(d->stream));
    return d->host;
}

tutti_stream local_on(const struct local_desk *d)
{
    return tutti_cuda_stream(d->stream);
}

void local_settle(const struct local_desk *d)
{
    local_fine(d, d->dev->stream.sync(d->stream));
    ranks_meet(d->me);
}

/* --- Nothing is stored */

enum { POISON = 0xa5, POISONED = 4096 };

void local_poison(const struct local_desk *d)
{
    local_fine(d, d->dev->fill(d->areas[GOT], POISON, POISONED, d->stream));
    local_settle(d);
}

bool local_is_poisoned(const struct local_desk *d)
{
    const uint8_t *got = d->stub->look(d->areas[GOT]);
    for (int i = 0; i < POISONED; i++)
        if (!ranks_expect(d->me, got[i] == POISON, "byte %d of the result is %u", i, got[i]))
            return false;
    return true;
}

void local_drains(const struct local_desk *d)
{
    enum tt_dev_error error = TT_DEV_NOT_READY;
    for (int ms = 0; ms < 60000 && error == TT_DEV_NOT_READY; ms++) {
        error = d->dev->stream.query(d->stream);
        ranks_sleep_us(1000);
    }
    ranks_expect(d->me, error == TT_DEV_OK, "the stream is not through");
}

void *local_capture(const struct local_desk *d, tutti_status (*call)(const struct local_desk *d))
{
    void *graph = NULL, *runnable = NULL;
    ranks_meet(d->me); /* what another thread does meanwhile would break it */
    local_fine(d, d->dev->graph.capture_begin(d->stream));
    ranks_ok(d->me, call(d), "captured");
    local_fine(d, d->dev->graph.capture_end(d->stream, &graph));
    ranks_meet(d->me);
    local_fine(d, d->dev->graph.instantiate(graph, &runnable));
    local_fine(d, d->dev->graph.destroy(graph));
    local_fine(d, d->dev->graph.launch(runnable, d->stream));
    local_settle(d);
    return runnable;
}

double local_price(struct ranks_me *me, const tutti_comm *comm, const char *question)
{
    char text[64] = "", *end = text;
    tutti_query(comm, question, text, sizeof text);
    double us = strtod(text, &end);
    ranks_expect(me, end != text && *end == '\0', "%s: \"%s\"", question, text);
    return us;
}
