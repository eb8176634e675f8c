/* SPDX-License-Identifier: BSD-3-Clause */
/* test_page.c: what the figures of a page show is what the lists of ranks say, and what a page has of text
 * and numbers is written so that a reader gets just that. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/training/options_rig.h"
#include "training/account/flows.h"
#include "training/compare/timeline.h"
#include "training/page/page.h"

static const char *const lines[] = { "--dp 1", "--dp 4", "--tp 4 --sp", "--pp 4 --micro 8",
    "--pp 4 --schedule naive", "--pp 2 --micro 4 --schedule zb-h1",
    "--pp 2 --chunks 2 --micro 4 --schedule interleaved", "--pp 2 --chunks 2 --micro 4 --schedule dualpipev",
    "--dp 4 --zero 1", "--dp 4 --zero 3 --micro 2", "--dp 2 --zero 3 --zero3-prefetch 1 --zero3-keep",
    "--cp 4 --cp-attention ring", "--cp 4 --cp-attention ulysses", "--cp 4 --cp-attention ulysses+ring",
    "--dp 2 --tp 2 --pp 2 --micro 2", "--dp 2 --offload both", "--dp 2 --recompute full", "--dp 2 --overlap",
    "--dp 4 --servers 2", "--dp 2 --dp-reduce root --bucket 64K", "--model moe:nano --dp 4 --ep 4",
    "--model cnn:nano --cp 2 --tp 2", "--model mlp:nano --tp 2", "--precision bfloat16 --dp 2 --zero 1",
    "--pp 2 --micro 4 --async stash --clip 0 --untied" };
enum { LINES = sizeof lines / sizeof *lines };

/* ---- memory over a step ---- */

Test(page, memory_over_a_step_has_the_peaks_of_the_plan)
{
    for (int l = 0; l < LINES; l++) {
        struct tr_prepared p;
        rig_prepare(&p, lines[l]);
        for (int r = 0; r < p.run.plan.mesh.n; r++) {
            const struct tr_tape *t = tr_tapes_of(p.tapes, r);
            for (int host = 0; host < 2; host++) {
                int64_t *over = tr_new(((size_t)t->n_instrs + 1) * TR_MEMORIES, sizeof *over), most = 0;
                int64_t peak[TR_MEMORIES] = { 0 };
                tr_memory_over(t, host, over);
                for (int n = 0; n < t->n_instrs; n++) {
                    int64_t all = 0;
                    for (int k = 0; k < TR_MEMORIES; k++) {
                        int64_t now = over[n * TR_MEMORIES + k];
                        cr_assert_geq(now, 0, "%s: rank %d, instruction %d", lines[l], r, n);
                        peak[k] = now > peak[k] ? now : peak[k];
                        all += now;
                    }
                    most = all > most ? all : most;
                }
                for (int k = 0; k < TR_MEMORIES; k++)
                    cr_expect_eq(peak[k], host ? t->host.peak[k] : t->peak[k], "%s: rank %d, %s", lines[l], r,
                        tr_memory_names[k]);
                cr_expect_eq(most, host ? t->host.peak_total : t->peak_total, "%s: rank %d", lines[l], r);
                free(over);
            }
        }
        tr_prepared_free(&p);
    }
}

/* ---- who sends to whom ---- */

static double *flows(struct tr_prepared *p, const char *line)
{
    rig_prepare(p, line);
    int n = p->run.plan.mesh.n;
    double *of = tr_new((size_t)n * (size_t)n, sizeof *of);
    for (int r = 0; r < n; r++)
        tr_flows_add(of, tr_tapes_of(p->tapes, r));
    return of;
}

Test(page, what_a_rank_sends_to_all_is_what_its_ledger_says)
{
    for (int l = 0; l < LINES; l++) {
        struct tr_prepared p;
        double *of = flows(&p, lines[l]);
        int n = p.run.plan.mesh.n;
        for (int r = 0; r < n; r++) {
            struct tr_ledger ledger;
            double sum = 0;
            for (int q = 0; q < n; q++)
                sum += of[r * n + q];
            tr_ledger_predict(&ledger, tr_tapes_of(p.tapes, r));
            double wanted = (double)tr_ledger_sum(&ledger, -1, -1, -1, -1).least;
            cr_expect(fabs(sum - wanted) < 1e-6 * (wanted + 1),
                "%s: rank %d sends %.0f, and by its ledger %.0f", lines[l], r, sum, wanted);
            cr_expect_eq(of[r * n + r], 0, "%s: rank %d sends to itself", lines[l], r);
        }
        free(of);
        tr_prepared_free(&p);
    }
}

/* Of gpt:nano a micro-batch of 8 sequences has 131072 bytes of activations at a border. */
Test(page, messages_go_where_their_lists_send_them)
{
    struct tr_prepared p;
    double *of = flows(&p, "--pp 4 --untied");
    double world = of[0 * 4 + 2]; /* loss and norm alone: all have an equal part of these */
    cr_expect_gt(world, 0);
    cr_expect_eq(of[0 * 4 + 1] - world, 131072);
    cr_expect_eq(of[2 * 4 + 1] - world, 131072);
    cr_expect_eq(of[3 * 4 + 0], world);
    free(of);
    tr_prepared_free(&p);
    of = flows(&p, "--pp 4");
    cr_expect_eq(of[0 * 4 + 3] - of[0 * 4 + 2], 65536, "the tied embedding");
    free(of);
    tr_prepared_free(&p);
    of = flows(&p, "--dp 2 --servers 1");
    cr_expect_eq(of[0 * 3 + 2] - of[0 * 3 + 1], 947712);
    cr_expect(fabs(of[2 * 3 + 1] - of[1 * 3 + 0] - 882176) <= 16,
        "the world's parts are as large but for an element");
    free(of);
    tr_prepared_free(&p);
    of = flows(&p, "--cp 4 --cp-attention ring");
    double others = of[1 * 4 + 3];
    cr_expect(of[1 * 4 + 2] > others && of[1 * 4 + 2] > of[1 * 4 + 0], "the ring goes to the rank behind");
    free(of);
    tr_prepared_free(&p);
    of = flows(&p, "--dp 2 --tp 2");
    cr_expect(of[0 * 4 + 1] > of[0 * 4 + 2] && of[0 * 4 + 2] > of[0 * 4 + 3],
        "tp's neighbours have more than dp's, and the diagonal loss and norm alone");
    free(of);
    tr_prepared_free(&p);
}

/* ---- a step on other cores ---- */

static double simulated(struct tr_timeline *t, const char *line, const struct tr_machine *m)
{
    struct tr_prepared p;
    const struct tr_core core = { 1e10, 1e9 };
    rig_prepare(&p, line);
    cr_assert(tr_timeline_simulate(t, p.tapes, m, &core), "%s: somebody waits for ever", line);
    double end = t->end, work = 0;
    for (int r = 0; r < t->n; r++) {
        const struct tr_tape *tape = tr_tapes_of(p.tapes, r);
        double mine = tr_tape_flops(tape) / core.flops, busy = 0, before = 0;
        for (int n = 0; n < tape->n_instrs; n++)
            mine += tape->instrs[n].code == TR_UPDATE ? (double)tape->instrs[n].count / core.updates : 0;
        for (int k = 0; k < TR_DOINGS; k++)
            busy += k == TR_DOES_TALK || k == TR_DOES_COPY ? 0 : tr_timeline_of(t, r, (enum tr_does)k);
        cr_expect(fabs(busy - mine) < 1e-9 * mine + 1e-15, "%s: rank %d computes %g s, and its list says %g",
            line, r, busy, mine);
        for (int k = t->begin[r]; k < t->begin[r + 1]; k++) {
            cr_expect(t->spans[k].from >= before - 1e-15 && t->spans[k].to > t->spans[k].from,
                "%s: rank %d does two things at once", line, r);
            before = t->spans[k].to;
        }
        work = mine > work ? mine : work;
    }
    cr_expect(end >= work - 1e-15, "%s: it ends before its work is done", line);
    tr_prepared_free(&p);
    return end;
}

static struct tr_machine machine_of(void)
{
    struct tr_machine m;
    struct tr_error e;
    cr_assert(tr_machine_read(&m, "host", &e), "%s", e.text);
    return m;
}

Test(page, every_step_can_be_simulated_and_does_the_work_of_its_lists)
{
    struct tr_machine m = machine_of();
    for (int l = 0; l < LINES; l++) {
        struct tr_timeline t = { .n = 0 };
        simulated(&t, lines[l], &m);
        tr_timeline_free(&t);
    }
}

Test(page, a_simulated_step_takes_what_it_must)
{
    struct tr_machine m = machine_of();
    struct tr_timeline t;
    m.latency[TR_INSIDE] = m.message[TR_INSIDE] = 0, m.rate[TR_INSIDE] = 1e18; /* messages take no time */
    double one = simulated(&t, "--optimizer sgd --untied", &m), naive, full, all = 0;
    cr_expect_eq(t.n, 1);
    tr_timeline_free(&t);
    naive = simulated(&t, "--optimizer sgd --untied --pp 4 --schedule naive", &m);
    for (int k = 0; k < TR_DOINGS; k++)
        all += k == TR_DOES_TALK ? 0 : tr_timeline_of(&t, -1, (enum tr_does)k);
    cr_expect(naive <= all && naive > 0.97 * all, "one stage at a time: %g of %g", naive, all);
    tr_timeline_free(&t);
    full = simulated(&t, "--optimizer sgd --untied --pp 4 --micro 8", &m);
    cr_expect(full < 0.5 * naive && full > one / 4, "micro-batches fill it: %g of %g", full, naive);
    tr_timeline_free(&t);
    /* what every worker gives to one server comes one after the other */
    m.rate[TR_INSIDE] = 1e6;
    double two = simulated(&t, "--dp 2 --servers 1", &m);
    tr_timeline_free(&t);
    double eight = simulated(&t, "--dp 8 --servers 1", &m);
    tr_timeline_free(&t);
    cr_expect(two > 2 * 1.8 && two < 2.2 * 2.2, "two workers: %g s", two);
    cr_expect(eight > 8 * 1.8 && eight < 8.2 * 2.2, "eight workers: %g s", eight);
}

/* The sums over all ranks begin when the last has come: so all ranks end together, where an update takes no
 * time. */
Test(page, a_simulated_call_waits_for_the_last_of_its_group)
{
    static const char *const unequal[] = { "--pp 2 --stage-layers 3,1", "--pp 2 --stage-layers 1,3",
        "--pp 2 --tp 2 --micro 4 --stage-layers 1,3", "--pp 4 --schedule naive", "--dp 2 --overlap",
        "--pp 2 --micro 4 --schedule zb-h1 --stage-layers 1,3" };
    struct tr_machine m = machine_of();
    const struct tr_core core = { 1e10, 1e30 };
    for (size_t l = 0; l < sizeof unequal / sizeof *unequal; l++) {
        struct tr_prepared p;
        struct tr_timeline t;
        rig_prepare(&p, unequal[l]);
        cr_assert(tr_timeline_simulate(&t, p.tapes, &m, &core));
        for (int r = 0; r < t.n; r++)
            cr_expect(fabs(t.spans[t.begin[r + 1] - 1].to - t.end) < 1e-12, "%s: rank %d ends at %g of %g",
                unequal[l], r, t.spans[t.begin[r + 1] - 1].to, t.end);
        tr_timeline_free(&t);
        tr_prepared_free(&p);
    }
}

/* ---- text and numbers ---- */

static char *written(void (*write)(FILE *))
{
    char *text = NULL;
    size_t length;
    FILE *to = open_memstream(&text, &length);
    write(to);
    fclose(to);
    return text;
}

static void write_escaped(FILE *to)
{
    tr_page_escape(to, "<a b=\"c\">&amp;\001");
}

Test(page, text_is_escaped)
{
    char *text = written(write_escaped);
    cr_expect_str_eq(text, "&lt;a b=&quot;c&quot;&gt;&amp;amp;?");
    free(text);
}

static void write_both(FILE *to)
{
    for (int markdown = 0; markdown < 2; markdown++) {
        struct tr_page p;
        tr_page_begin(&p, to, markdown, "a <title>");
        tr_page_head(&p, "name", true);
        tr_page_head(&p, "bytes", false);
        tr_page_table(&p);
        for (int i = 0; i < 2; i++) {
            tr_page_cell(&p, "x|<y>", NAN);
            tr_page_cell(&p, "2 B", 2);
        }
        tr_page_table_end(&p);
        tr_page_figure(&p, "f", "figure");
        tr_page_figure_end(&p, "%d & %d", 1, 2);
        tr_page_end(&p);
    }
}

Test(page, a_table_and_a_figure_are_the_same_in_html_and_markdown)
{
    char *text = written(write_both);
    cr_expect(strstr(text, "<h1>a &lt;title&gt;</h1>"), "%s", text);
    cr_expect(strstr(text, "<tr><td class=\"w\" data-of=\"name\">x|&lt;y&gt;</td>"
                           "<td data-of=\"bytes\" data-value=\"2\">2 B</td></tr>\n<tr>"),
        "%s", text);
    cr_expect(strstr(text, "<figcaption>1 &amp; 2</figcaption>\n</figure>"), "%s", text);
    cr_expect(
        strstr(text, "# a &lt;title>\n\n| name | bytes |\n|---|--:|\n| x\\|&lt;y> | 2 B |\n| x"), "%s", text);
    cr_expect(strstr(text, "- figure: 1 & 2\n"), "%s", text);
    free(text);
}

Test(page, numbers_have_three_digits_and_a_unit)
{
    static const struct {
        double bytes;
        const char *text;
    } of[] = { { 0, "0 B" }, { 999, "999 B" }, { 1000, "1 kB" }, { 9377280, "9.38 MB" },
        { 12695040, "12.7 MB" }, { 882176, "882 kB" }, { 999499, "999 kB" }, { 999500, "1.00 MB" },
        { 5e15, "5000 TB" } };
    char text[TR_PAGE_TEXT];
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        cr_expect_str_eq(tr_page_bytes(of[i].bytes, text), of[i].text);
    cr_expect_str_eq(tr_page_time(0.0123, text), "12.3 ms");
    cr_expect_str_eq(tr_page_time(2, text), "2 s");
}
