/* SPDX-License-Identifier: BSD-3-Clause */
/* pipeline.c: why a pipeline cuts its batch: layers in a row, where one device works at a time, against the
 * same with micro-batches. `tutti-train schedule` shows more of each. */
#include "training/demo/demo.h"
#include "training/schedule/schedule.h"

#include <stdio.h>

enum { MOST = 8 };

static bool show(const char *name, const char *what, int ranks, int micros, struct tr_error *e)
{
    struct tr_schedule s;
    struct tr_timing t;
    /* a step is one batch, however it is cut: a part of it takes so much less */
    struct tr_costs c = { .f = 8.0 / micros, .i = 8.0 / micros, .w = 8.0 / micros };
    if (!tr_schedule_make(&s, name, ranks, 1, micros, e))
        return false;
    bool ok = tr_schedule_simulate(&s, &c, &t, e);
    if (ok) {
        printf("\n%s: %.0f units of time, %.0f %% of it idle, at most %d micro-batch%s kept on rank 0\n",
            what, t.total, 100 * tr_bubble(&s, &t), t.in_flight[0], t.in_flight[0] == 1 ? "" : "es");
        tr_schedule_draw(&s, &c, &t, stdout);
        tr_timing_free(&t, s.ranks);
    }
    tr_schedule_free(&s);
    return ok;
}

int tr_demo_pipeline(int argc, char **argv, struct tr_demo_sizes *s)
{
    struct tr_error e;
    int n = tr_demo_ranks("pipeline", argc, argv, 4, MOST);
    if (n < 0)
        return 2;
    *s = (struct tr_demo_sizes){ .ranks = n };
    printf(
        "layers on %d ranks, in a row; a batch is 8 units of work forward and 16 backward on each rank\n    ",
        n);
    for (int r = 0; r < n; r++)
        printf("[ rank %d: layers %d-%d ]%s", r, 2 * r + 1, 2 * r + 2, r + 1 < n ? " --> " : "\n");
    printf("a digit is a micro-batch forward, a letter the same backward, a dot is idle\n");
    bool ok = show("naive", "one batch, as a whole: each waits for the one before", n, 1, &e) &&
              show("gpipe", "8 micro-batches, all forward and then all backward (GPipe)", n, 8, &e) &&
              show("1f1b", "8 micro-batches, one forward and one backward by turns (1F1B)", n, 8, &e);
    if (!ok)
        return tr_demo_failed(&e);
    printf(
        "\nmicro-batches fill the row: (n - 1) / (m + n - 1) of the time is idle, for m of them; 1F1B keeps\n"
        "less memory, as it is done with the first before the last has begun\n");
    return 0;
}
