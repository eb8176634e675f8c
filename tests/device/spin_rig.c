/* SPDX-License-Identifier: BSD-3-Clause */
/* spin_rig.c: making the rig. All processes are on the same devices of the stub, for which they have a file;
 * with that, a device is one process's at a time, as without MPS. */
#include "spin_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/handle.h"
#include "device/device.h"

void spin_run_all(const struct spin_plan *plans, size_t count)
{
    char file[] = "/tmp/tutti-spin-XXXXXX", stub[256];
    plugin_must_have_kernels();
    int fd = mkstemp(file);
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    for (const struct spin_plan *p = plans; p < plans + count; p++) {
        bool threads = p->per_process == p->n;
        snprintf(
            stub, sizeof stub, "devices=%d,share=%s,%s", p->devices > 0 ? p->devices : p->n, file, p->stub);
        setenv("STUB_GPU", stub, 1);
        ranks_run(&(struct ranks_plan){ .n = p->n,
            .kind = threads ? RANKS_THREADS : RANKS_PROCESSES,
            .per_process = threads ? 0 : p->per_process,
            .run = p->run,
            .context = p->context,
            .seed = 13,
            .limit_s = 100,
            .may_die = p->may_die });
    }
    close(fd);
    unlink(file);
}

tutti_comm *spin_join(struct ranks_me *me, const char *more, int64_t timeout_ms)
{
    char options[160];
    snprintf(options, sizeof options, "slice=8192;device=%d%s", me->rank, more);
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = timeout_ms };
    return ranks_join(me, &config);
}

bool spin_sit_down(struct ranks_me *me, struct local_desk *d, int64_t timeout_ms)
{
    return local_prepare_on(me, d, me->rank) &&
           (d->comm = spin_join(me, ";executor=spin", timeout_ms)) != NULL &&
           spin_says(me, d->comm, "executor", "S");
}

void spin_get_up(struct local_desk *d)
{
    ranks_ok(d->me, tutti_comm_destroy(d->comm), "tutti_comm_destroy");
    for (int a = 0; a < AREAS; a++)
        local_fine(d, d->dev->memory.free(d->areas[a]));
    local_fine(d, d->dev->memory.free_pinned(d->host));
    local_fine(d, d->dev->stream.destroy(d->stream));
}

bool spin_says(struct ranks_me *me, const tutti_comm *comm, const char *question, const char *words)
{
    enum { SHOWN = 400 };
    char answer[8192];
    size_t length = tutti_query(comm, question, answer, sizeof answer);
    const char *end = length > SHOWN ? answer + length - SHOWN : answer;
    return ranks_expect(me, strstr(answer, words) != NULL, "%s: no \"%s\" in %s", question, words, end);
}

struct tt_spin *spin_of(const tutti_comm *comm)
{
    return tt_comm_find(comm)->device->spin;
}
