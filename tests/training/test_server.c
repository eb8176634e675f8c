/* SPDX-License-Identifier: BSD-3-Clause */
/* test_server.c: what parameter servers send, receive and keep is what the formulas say. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/training/options_rig.h"
#include "training/account/ledger.h"

static void prepare(struct tr_prepared *p, int workers, int servers, const char *rest)
{
    char line[160];
    snprintf(line, sizeof line, "--batch 32 --dp %d --servers %d %s", workers, servers, rest);
    rig_prepare(p, line);
}

/* Elements of the parameters, and of the gradients: those of a tied embedding are two. */
static int64_t elements(const struct tr_graph *g, bool gradients)
{
    int64_t n = 0;
    for (int i = 0; i < g->n_tensors; i++) {
        const struct tr_tensor *t = &g->tensors[i];
        if (t->role == TR_PARAMETER && (gradients || t->values_of == i))
            n += t->size[0] * (t->dims > 1 ? t->size[1] : 1);
    }
    return n;
}

static int64_t lasting(const struct tr_tape *t, enum tr_memory memory)
{
    int64_t bytes = 0;
    for (int n = 0; n < t->n_values; n++)
        bytes += t->values[n].lasts && t->values[n].memory == memory ? t->values[n].bytes : 0;
    return bytes;
}

static int64_t bytes(const struct tr_tape *t, enum tr_edge edge)
{
    struct tr_ledger l;
    tr_ledger_predict(&l, t);
    return tr_ledger_sum(&l, -1, -1, (int)edge, -1).bytes;
}

/* Of W workers and S servers: a worker sends all gradients and receives all parameters; a server receives W
 * times its S-th part of the one, and sends W times that of the other. A worker has no optimizer. A server
 * has its part of parameters and moments, and of gradients one more than the levels of the tree. In bfloat16
 * parameters have 2 bytes, on the wire, too, a server has masters, and what is pushed stays float32. */
static void compare(int workers, int servers, const char *rest)
{
    struct tr_prepared p;
    prepare(&p, workers, servers, rest);
    bool mixed = p.run.plan.numbers.bfloat16;
    int64_t count = elements(&p.run.graph, false), values = (mixed ? 2 : 4) * count;
    int64_t gradients = 4 * elements(&p.run.graph, true);
    int levels = 0;
    while ((workers - 1) >> levels)
        levels++;
    for (int r = 0; r < workers; r++) {
        const struct tr_tape *t = &p.tapes->of[r];
        cr_expect_eq(bytes(t, TR_TO_SERVER), gradients, "%d, %d: worker %d pushes", workers, servers, r);
        cr_expect_eq(bytes(t, TR_FROM_SERVER), values, "%d, %d: worker %d pulls", workers, servers, r);
        cr_expect_eq(lasting(t, TR_MEM_PARAMETER), values, "%d, %d: worker %d", workers, servers, r);
        cr_expect_eq(lasting(t, TR_MEM_OPTIMIZER), 0, "%d, %d: worker %d", workers, servers, r);
    }
    for (int s = 0; s < servers; s++) {
        const struct tr_tape *t = &p.tapes->of[workers + s];
        cr_expect_eq(bytes(t, TR_FROM_WORKER), workers * gradients / servers, "%d, %d: server %d takes",
            workers, servers, s);
        cr_expect_eq(bytes(t, TR_TO_WORKER), workers * values / servers, "%d, %d: server %d gives", workers,
            servers, s);
        cr_expect_eq(
            lasting(t, TR_MEM_PARAMETER), values / servers, "%d, %d: server %d", workers, servers, s);
        cr_expect_eq(lasting(t, TR_MEM_OPTIMIZER), (mixed ? 12 : 8) * count / servers, "%d, %d: server %d",
            workers, servers, s);
        cr_expect_eq(t->peak[TR_MEM_ACTIVATION], 0, "%d, %d: server %d", workers, servers, s);
        if (servers == 1 && !mixed) /* else parts are rounded up to 64 bytes */
            cr_expect_leq(
                t->peak[TR_MEM_GRADIENT], (levels + 1) * gradients, "%d, %d: server %d", workers, servers, s);
    }
    tr_prepared_free(&p);
}

Test(server, bytes_and_memory_are_those_of_the_formulas)
{
    static const char *const rest[] = { "", "--untied --micro 2", "--model mlp:nano", "--model cnn:nano",
        "--precision bfloat16", "--precision bfloat16 --micro 2" };
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        for (int workers = 1; workers <= 8; workers *= 2)
            for (int servers = 1; servers <= 8; servers *= 2)
                compare(workers, servers, rest[i]);
}
