/* SPDX-License-Identifier: BSD-3-Clause */
/* translate.c: the command `tutti-train translate`: a run in the words of another trainer, and back. What
 * cannot be said is named, so that nobody takes for the same run what is none. */
#include "training/translate/translate.h"

#include "training/commands/commands.h"
#include "training/commands/prepare.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "translate TRAINER [OPTION]...\n"
    "       tutti-train translate TRAINER [-n RANKS] -- FLAGS...\n"
    "       tutti-train translate TRAINER [-n RANKS] --from FILE\n"
    "\n"
    "Says a run of these options in the words of megatron, deepspeed, torchtitan, nanotron or picotron; "
    "with\n"
    "-- or --from, the other way: flags of megatron or torchtitan, a file of JSON of deepspeed or picotron, "
    "or of\n"
    "YAML of nanotron. Lines that begin with # name what cannot be said there, or here.";

static const struct tr_dialect *dialect(const char *name, struct tr_error *e)
{
    for (int i = 0; i < tr_dialect_count; i++)
        if (!strcmp(tr_dialects[i].name, name))
            return &tr_dialects[i];
    tr_fail(e, "translate %s: legal are megatron, deepspeed, torchtitan, nanotron and picotron", name);
    return NULL;
}

static void say_left(const struct tr_words *left, const char *what)
{
    for (int i = 0; i < left->n; i++)
        printf("# %s: %s%s%s\n", what, left->of[i].name, *left->of[i].value ? " " : "", left->of[i].value);
}

/* Options that are no facts and that a step depends on: nobody else has the like. */
static void options_left(struct tr_words *left, const struct tr_options *o)
{
    static const char *const alone[] = { "dp-reduce", "bucket", "servers", "server-mode", "staleness",
        "arrivals", "slow", "cp-ulysses", "stage-layers", "balance", "async", "zero3-keep", "zero3-prefetch",
        "zero3-persist", "recompute-comm", "wgrad", "offload-delay", "order", "rounding" };
    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (tr_options_given(o, alone[i]))
            tr_words_set(left, alone[i], "%s", "");
}

static int to_theirs(const struct tr_dialect *d, const struct tr_options *o)
{
    struct tr_error e;
    struct tr_run run;
    struct tr_words facts = { .n = 0 }, left = { .n = 0 };
    if (!tr_run_make(&run, o, &e))
        return tr_refuse(1, &e);
    bool ok =
        run.graph.heads > 0 ||
        tr_fail(&e, "%s: legal are gpt, llama and moe, as the others train no other model", run.graph.model);
    if (ok) {
        tr_facts_of(&facts, &run, o);
        tr_dialect_write(stdout, d, &facts, &left);
        options_left(&left, o);
        if (d->form == TR_FLAGS)
            printf("# on %s ranks: torchrun --nproc_per_node %s\n", tr_words_get(&facts, "ranks"),
                tr_words_get(&facts, "ranks"));
        if (d->form != TR_JSON) /* which has no remarks */
            say_left(&left, "cannot be said");
        else
            for (int i = 0; i < left.n; i++)
                fprintf(stderr, "# cannot be said: %s%s%s\n", left.of[i].name, *left.of[i].value ? " " : "",
                    left.of[i].value);
    }
    tr_run_free(&run);
    free(facts.of), free(left.of);
    return ok ? 0 : tr_refuse(1, &e);
}

/* What was read is a run, or it is said why it is none. */
static bool is_legal(const struct tr_words *options, int64_t ranks, struct tr_error *e)
{
    struct tr_options o;
    struct tr_run run;
    int n = 0;
    char **words = tr_new((size_t)options->n * 2 + 2, sizeof *words), number[24], (*names)[TR_KEY + 2];
    names = tr_new((size_t)options->n, sizeof *names);
    for (int i = 0; i < options->n; i++) {
        snprintf(names[i], sizeof names[i], "--%s", options->of[i].name);
        words[n++] = names[i];
        if (*options->of[i].value)
            words[n++] = options->of[i].value;
    }
    snprintf(number, sizeof number, "%lld", (long long)ranks);
    if (ranks)
        words[n++] = "-n", words[n++] = number;
    tr_options_default(&o);
    bool ok = tr_options_parse(&o, n, words, e) && tr_run_make(&run, &o, e);
    if (ok)
        tr_run_free(&run);
    free(words), free(names);
    return ok;
}

static int to_ours(const struct tr_dialect *d, const struct tr_words *keys, int64_t ranks)
{
    struct tr_error e;
    struct tr_words facts = { .n = 0 }, left = { .n = 0 }, options = { .n = 0 };
    tr_dialect_read(d, keys, &facts, &left);
    tr_facts_words(&options, &facts, ranks, &left);
    printf("tutti-train");
    for (int i = 0; i < options.n; i++)
        printf(" --%s%s%s", options.of[i].name, *options.of[i].value ? " " : "", options.of[i].value);
    printf("\n");
    say_left(&left, "cannot be said here");
    bool ok = is_legal(&options, ranks, &e);
    free(facts.of), free(left.of), free(options.of);
    return ok ? 0 : tr_refuse(1, &e);
}

/* Behind the trainer's name, up to --: -n N and --from FILE, and nothing else; false if there is something
 * else, and so a run of options. */
static bool asks_back(int argc, char **argv, int *flags, const char **file, char **ranks)
{
    int i = 2;
    *file = NULL, *ranks = NULL, *flags = 0;
    for (; i + 1 < argc && (!strcmp(argv[i], "-n") || !strcmp(argv[i], "--from")); i += 2)
        if (argv[i][1] == 'n')
            *ranks = argv[i + 1];
        else
            *file = argv[i + 1];
    if (i < argc && !strcmp(argv[i], "--"))
        *flags = i + 1;
    return *flags || (*file && i == argc);
}

int tr_command_translate(int argc, char **argv)
{
    struct tr_error e;
    struct tr_options o;
    struct tr_words keys = { .n = 0 };
    const char *file;
    char *ranks, option[] = "-n";
    int flags, status;
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
        fprintf(argc < 2 ? stderr : stdout, "usage: tutti-train %s\n", usage);
        return argc < 2 ? 2 : 0;
    }
    const struct tr_dialect *d = dialect(argv[1], &e);
    if (!d)
        return tr_refuse(2, &e);
    if (!asks_back(argc, argv, &flags, &file, &ranks))
        return tr_begin(&o, argc - 1, argv + 1, usage, true, &status) ? to_theirs(d, &o) : status;
    bool by_flags = d->form == TR_FLAGS;
    if (by_flags == (file != NULL))
        return tr_fail(&e, "%s has %s; legal is %s", d->name, by_flags ? "flags" : "a file",
                   by_flags ? "-- and its flags" : "--from FILE")
                   ? 0
                   : tr_refuse(2, &e);
    tr_options_default(&o);
    if (ranks && !tr_options_parse(&o, 2, (char *[]){ option, ranks }, &e))
        return tr_refuse(2, &e);
    bool ok = file ? tr_words_file(&keys, d->form, file, &e)
                   : tr_words_flags(&keys, argc - flags, argv + flags, &e);
    status = ok ? to_ours(d, &keys, o.ranks) : tr_refuse(1, &e);
    free(keys.of);
    return status;
}
