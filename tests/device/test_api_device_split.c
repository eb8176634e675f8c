/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_split.c: which device a child of a communicator has: its parent's, unless its own options
 * name another, whatever the thread has chosen by then. */
#include <criterion/criterion.h>
#include <string.h>

#include "graph_rig.h"
#include "tests/rig/plugin.h"

TestSuite(api_device_split, .timeout = 120);

static const struct child {
    const char *parent, *options; /* NULL: no config at all; "": a name alone */
    int current; /* before the split */
    int device; /* that the child has */
    int64_t field; /* of its config */
} children[] = {
    { "device=1", NULL, 0, 1, 0 },
    { "device=1", "", 0, 1, 0 },
    { "device=1", "slice=64K", 0, 1, 0 },
    { "device=1", "device=0", 1, 0, 0 },
    { "device=1", "device=none", 1, -1, 0 },
    { "device=1", "device=auto", 0, 0, 0 },
    { "device=auto", NULL, 0, 1, 0 }, /* 1 is current as the parent is made */
    { "device=auto", "", 0, 1, 0 },
    { "device=none", NULL, 1, -1, 0 },
    { "device=none", "", 1, -1, 0 },
    { "device=none", "device=1", 0, 1, 0 },
    { "device=none", "device=auto", 0, 0, 0 },
    { "device=1", "", 0, 0, 1 /* tutti_device(0) */ },
    { "device=0", "device=0", 0, 1, 2 }, /* the field beats the options */
    { "device=1", "", 1, -1, TUTTI_DEVICE_NONE },
    { "device=none", "", 1, 1, TUTTI_DEVICE_CURRENT },
    { "device=none", "", -1, 0, TUTTI_DEVICE_CURRENT },
};

/* A call on a stream of the device that the child should have, and one on none if it should have none. */
static void use(struct ranks_me *me, const struct tt_dev *dev, tutti_comm *comm, int device)
{
    void *stream = NULL;
    int32_t value = me->rank + 1;
    ranks_ok(me, tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
        "all_reduce");
    ranks_expect(me, value == 3, "the sum is %d", value);
    if (device < 0 ||
        !ranks_expect(me, dev->use(device) == TT_DEV_OK && dev->stream.create(&stream) == TT_DEV_OK,
            "device %d: %s", device, dev->why()))
        return;
    ranks_ok(me, tutti_barrier(comm, tutti_cuda_stream(stream)), "barrier on a stream");
    ranks_expect(me, dev->stream.sync(stream) == TT_DEV_OK && dev->stream.destroy(stream) == TT_DEV_OK,
        "device %d: %s", device, dev->why());
}

static void inherit(struct ranks_me *me)
{
    const struct tt_dev *dev = NULL;
    char text[8192];
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &dev), "tt_dev_find"))
        return;
    for (size_t i = 0; i < sizeof children / sizeof children[0]; i++) {
        const struct child *c = &children[i];
        tutti_config config = { .size = sizeof config, .options = c->parent };
        tutti_config own = { .size = sizeof own, .name = "child", .options = c->options, .device = c->field };
        tutti_comm *child = NULL;
        dev->use(1);
        tutti_comm *comm = ranks_join(me, &config);
        dev->use(c->current);
        ranks_at(me, "a child of %s, with %s", c->parent, c->options == NULL ? "no config" : c->options);
        if (comm == NULL ||
            !ranks_ok(
                me, tutti_comm_split(comm, 0, me->rank, c->options != NULL ? &own : NULL, &child), "split"))
            return;
        ranks_expect(me, tutti_comm_device(child) == c->device, "it has device %d, expected %d",
            tutti_comm_device(child), c->device);
        tutti_query(child, "config", text, sizeof text);
        bool asked = c->options != NULL && strstr(c->options, "slice") != NULL;
        const char *slice = strstr(text, asked ? "\nslice=64K " : "\nslice=2560K ");
        ranks_expect(me, c->device < 0 || slice != NULL, "its slices are not those of a device: %s", text);
        use(me, dev, child, c->device);
        ranks_part(me, child);
        ranks_part(me, comm);
    }
}

Test(api_device_split, a_child_has_its_parents_device)
{
    graph_run({ "devices=2", 2, RANKS_PROCESSES, inherit, NULL, 0 });
}

/* A device that is not there is told on all ranks, and nothing is made. */
static void wrong(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "device=0" };
    tutti_config own = { .size = sizeof own, .options = me->rank == 1 ? "device=7" : NULL };
    tutti_comm *child = NULL, *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    ranks_refused(me, tutti_comm_split(comm, 0, 0, &own, &child), TUTTI_INVALID_ARGUMENT, "split",
        me->rank == 1 ? "device is 7|0 to 1" : "rank 1");
    ranks_expect(me, child == NULL, "a child that failed was set");
    ranks_part(me, comm);
}

Test(api_device_split, a_device_that_is_not_there)
{
    graph_run({ "devices=2", 2, RANKS_PROCESSES, wrong, NULL, 0 });
}
