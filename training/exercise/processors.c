/* SPDX-License-Identifier: BSD-3-Clause */
/* processors.c: exercise 7-2. Is data parallelism a good idea on a machine that has processors and no GPU?
 *
 * The other way to use two cores is two threads of one rank, which share the parameters and every product. So
 * both run, with the same bits, and a small step and a large one, as it depends on that. */
#include "training/exercise/exercise.h"

#include "training/launch.h"
#include "training/page/page.h"

#include <inttypes.h>
#include <string.h>

static const char usage[] =
    "exercise 7-2 [--model NAME] [--batch N] [OPTION]...\n"
    "\n"
    "Two cores, used as two ranks of one thread (data parallelism), and as one rank of two threads, beside "
    "one\n"
    "rank of one thread: how long a step takes, what memory all have together, and what is sent. Without\n"
    "--model, for a small model and for a larger one.";

static const struct {
    const char *name, *words;
    int ranks;
} ways[] = { { "1 rank x 1 thread", "--threads 1", 1 }, { "1 rank x 2 threads", "--threads 2", 1 },
    { "2 ranks x 1 thread", "--dp 2 --threads 1", 2 } };
enum { ONE, THREADS, RANKS, WAYS };

static int64_t together(const struct tr_contender *x)
{
    int64_t bytes = 0;
    for (int r = 0; r < x->prepared.run.plan.mesh.n; r++)
        bytes += tr_tapes_like(x->prepared.tapes, r)->arena;
    return bytes;
}

static void say_line(const struct tr_contender *x, const struct tr_contender *one)
{
    char memory[TR_PAGE_TEXT], sent[TR_PAGE_TEXT];
    printf("  %-20s %8.1f ms  %5.2f times as fast %10s of memory %10s sent  %s\n", x->name, x->ms,
        one->ms / x->ms, tr_page_bytes((double)together(x), memory), tr_page_bytes((double)x->sent_all, sent),
        tr_compare_equal(x) ? "same bits" : "OTHER BITS");
}

/* A tenth is within what a busy machine does to a step. */
static bool as_long(double a, double b)
{
    return a < 1.1 * b && b < 1.1 * a;
}

/* Of one model: which way is faster. */
static void say_model(const struct tr_contender *of)
{
    const struct tr_graph *g = &of->prepared.run.graph;
    const struct tr_contender *faster = of[RANKS].ms < of[THREADS].ms ? &of[RANKS] : &of[THREADS];
    printf("\n%s: %" PRId64 " layers of %" PRId64 " channels, a batch of %d\n", of->options.model.name,
        g->layers, g->channels, of->options.plan.batch);
    for (int w = 0; w < WAYS; w++)
        say_line(&of[w], &of[ONE]);
    if (as_long(of[RANKS].ms, of[THREADS].ms))
        printf("  here both ways to use two cores take as long, within a tenth\n");
    else
        printf("  here %s is %.2f times as fast as the other way to use two cores\n", faster->name,
            (faster == &of[RANKS] ? of[THREADS].ms : of[RANKS].ms) / faster->ms);
}

static const char *times(double one, double other, char text[48])
{
    snprintf(text, 48,
        as_long(one, other) ? "as fast"
        : other < one       ? "%.2f times as fast"
                            : "%.2f times as fast, so slower",
        one / other);
    return text;
}

const char *tr_exercise_pays(double one, double threads, double ranks, int cores)
{
    bool pays = ranks < one && !as_long(ranks, one), others = threads < one && !as_long(threads, one);
    if (cores < 2)
        return "This machine gives one core to this run, so neither can be faster: ask again with two.";
    if (!pays)
        return others ? "It does not pay here; threads do, with one copy of the model."
                      : "It does not pay here, and neither do threads: the step is too small, or something "
                        "else has the cores.";
    if (as_long(ranks, threads))
        return "It pays here against one thread; two threads do as well, with one copy of the model.";
    return ranks < threads ? "It pays here: ranks meet once in a step, and threads in every product."
                           : "It pays here against one thread, but threads do better, with one copy of the "
                             "model.";
}

static void say_answer(const struct tr_comparison *c)
{
    const struct tr_contender *of = &c->all[c->n - WAYS];
    char ranks[48], threads[48], one[TR_PAGE_TEXT], two[TR_PAGE_TEXT], sent[TR_PAGE_TEXT];
    printf("\nAnswer: data parallelism needs no GPU: its bits are the same, and two ranks are %s as one\nof "
           "%s. ",
        times(of[ONE].ms, of[RANKS].ms, ranks), of->options.model.name);
    printf("Two threads of one rank are %s.\n", times(of[ONE].ms, of[THREADS].ms, threads));
    printf(
        "What it costs is memory: %s of both ranks against %s, as parameters, gradients and the optimizer's\n"
        "state are there twice, and %s are sent in a step. Threads have one copy, and send nothing.\n",
        tr_page_bytes((double)together(&of[RANKS]), two), tr_page_bytes((double)together(&of[ONE]), one),
        tr_page_bytes((double)of[RANKS].sent_all, sent));
    printf("%s\n", tr_exercise_pays(of[ONE].ms, of[THREADS].ms, of[RANKS].ms, tr_cores()));
    printf(
        "It pays where a step is long against the reduction, and each rank has some sequences of the batch;\n"
        "where the model hardly fits the memory once, threads are the way.\n");
}

static bool say(struct tr_comparison *c, struct tr_error *e)
{
    int other = 0;
    printf("%d core%s; the median of %ld timed steps, all by turns\n", tr_cores(), tr_cores() == 1 ? "" : "s",
        c->base.steps - 2);
    for (int i = 0; i < c->n; i += WAYS)
        say_model(&c->all[i]);
    say_answer(c);
    for (int i = 0; i < c->n; i++)
        other += !tr_compare_equal(&c->all[i]);
    return !other || tr_fail(e, "%d of %d have other bits than one device", other, c->n);
}

static void add_model(struct tr_comparison *c, const char *more)
{
    for (int w = 0; w < WAYS; w++) {
        char words[128];
        snprintf(words, sizeof words, "%s %s", ways[w].words, more);
        tr_exercise_add(c, ways[w].name, words);
    }
}

static bool names_model(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--model"))
            return true;
    return false;
}

int tr_exercise_processors(int argc, char **argv)
{
    struct tr_comparison c;
    struct tr_error e;
    int status;
    if (!tr_exercise_begin(&c, argc, argv, usage, 8, &status))
        return status;
    add_model(&c, "");
    if (!names_model(argc, argv))
        add_model(&c, "--model gpt:micro");
    status = tr_exercise_prepare(&c, &e) ? tr_compare_run(&c, say) : tr_refuse(1, &e);
    tr_compare_free(&c);
    return status;
}
