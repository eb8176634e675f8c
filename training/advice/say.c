/* SPDX-License-Identifier: BSD-3-Clause */
/* say.c: what a search found. */
#include "training/advice/say.h"

#include <inttypes.h>
#include <string.h>

static const char *const verdict_names[] = { "does not apply", "agrees", "disagrees" };

/* "1.23 s", "4.56 ms" */
static const char *seconds_text(double seconds, char text[32])
{
    double shown = seconds >= 1 ? seconds : seconds * 1e3;
    snprintf(text, 32, "%.*f %s", shown < 10 ? 2 : shown < 100 ? 1 : 0, shown, seconds >= 1 ? "s" : "ms");
    return text;
}

static void say_best(const struct tr_search *s, FILE *to)
{
    fprintf(
        to, "\n# the best: a step's time, tokens a second, the most memory of a rank, pipeline's bubble\n\n");
    for (int i = 0; i < s->n_best; i++) {
        const struct tr_candidate *x = &s->evaluated[s->best[i]];
        char text[160], time[32];
        fprintf(to, "%d. %s\n   %s a step, %.0f tokens/s, %.3f GB, bubble %.1f %%\n", i + 1,
            tr_choice_text(&x->choice, text), seconds_text(x->estimate.price.step, time), x->estimate.tokens,
            1e-9 * (double)x->estimate.arena, 100 * x->estimate.price.bubble);
        fprintf(to, "   memory, peaks by kind:");
        for (int k = 0; k < TR_MEMORIES; k++)
            fprintf(to, "%s %s %" PRId64, k ? "," : "", tr_memory_names[k], x->estimate.peak[k]);
        fprintf(to, "\n   sent in a step:");
        for (int k = 0; k < x->estimate.n_groups; k++)
            fprintf(
                to, "%s %s %" PRId64, k ? "," : "", x->estimate.groups[k].group, x->estimate.groups[k].sent);
        fprintf(to, "%s\n", x->estimate.n_groups ? " bytes" : " nothing");
    }
}

static void say_binding(const struct tr_search *s, FILE *to)
{
    static const char *const why[] = { "most of the step is operations: faster ranks, or more of them",
        "most of the step is messages that nothing covers: a faster network, or a larger batch",
        "what would be faster needs more memory than there is",
        "most of the step is waiting for other stages: a larger batch fills the pipeline" };
    const struct tr_price *p = &s->evaluated[s->best[0]].estimate.price;
    enum tr_binding by = tr_binding_of(s);
    fprintf(to,
        "\n# what binds the first: %s\n\n%s. Of its step operations take %.0f %%, messages %.0f %%, waiting "
        "%.0f %%\n",
        tr_binding_names[by], why[by], 100 * p->compute / p->step, 100 * p->messages / p->step,
        100 * p->waits / p->step);
}

static void say_rules(const struct tr_search *s, const struct tr_machine *m, FILE *to)
{
    const struct tr_rule *rule;
    fprintf(to, "\n# what the literature says\n\n");
    for (int i = 0; (rule = tr_rule_at(i)); i++) {
        enum tr_verdict v = rule->judge(s, m);
        if (v != TR_DOES_NOT_APPLY)
            fprintf(to, "%-10s %s (%s)\n", verdict_names[v], rule->says, rule->source);
    }
}

static void say_alone(const struct tr_search *s, const struct tr_candidate *x, FILE *to)
{
    const struct tr_candidate *first = s->n_best ? &s->evaluated[s->best[0]] : NULL;
    char text[160], time[32];
    if (x->fate == TR_REFUSED)
        fprintf(to, "refused: %s\n", x->estimate.why);
    else if (x->fate == TR_NO_FIT)
        fprintf(to, "%s needs %.3f GB\n", tr_choice_text(&x->choice, text), 1e-9 * (double)x->estimate.arena);
    else if (first == x)
        fprintf(to, "it is the answer\n");
    else
        fprintf(to, "%s: %s, %.2f times the best\n", tr_choice_text(&x->choice, text),
            seconds_text(x->estimate.price.step, time), x->estimate.price.step / first->estimate.price.step);
}

static void say_others(const struct tr_search *s, FILE *to)
{
    fprintf(to, "\n# why not another: %" PRId64 " choices\n\n", s->choices);
    for (int k = 0; k < TR_FATES; k++)
        if (s->fates[k])
            fprintf(to, "%8" PRId64 "  %s\n", s->fates[k], tr_fate_names[k]);
    fprintf(to, "\n# each paradigm alone, on all ranks\n\n");
    for (int k = 0; k < TR_ALONES; k++) {
        if (k == TR_ALONE_EP && !s->sketch.experts)
            continue;
        fprintf(to, "%-16s ", tr_alone_names[k]);
        if (s->alone[k] >= 0)
            say_alone(s, &s->evaluated[s->alone[k]], to);
        else
            fprintf(to, "does not divide the model, the batch or the ranks, is refused, or needs more memory "
                        "than there is\n");
    }
}

static void say_tightest(const struct tr_search *s, FILE *to)
{
    char text[160];
    fprintf(to,
        "\nnothing fits %" PRId64 " bytes a rank. The least that any choice needs is "
        "%" PRId64 ", by its bound, with %s. Less is needed on more ranks",
        s->memory, s->tightest.least, tr_choice_text(&s->tightest, text));
    fprintf(to, "%s\n", s->sketch.sgd ? "" : ", or with --optimizer sgd");
}

/* Not for want of memory: the options that were given exclude each other, say. */
static void say_refused(const struct tr_search *s, FILE *to)
{
    const char *why = "";
    for (int i = s->n_evaluated - 1; i >= 0; i--)
        if (s->evaluated[i].fate == TR_REFUSED)
            why = s->evaluated[i].estimate.why;
    fprintf(to, "\nthe trainer refuses all that was tried; of the first it says: %s\n", why);
}

void tr_search_say(
    const struct tr_search *s, const struct tr_options *o, const struct tr_machine *m, FILE *to)
{
    fprintf(to, "# %s, %" PRId64 " sequences of %" PRId64 " tokens a step, %s, %ld ranks of %s",
        o->model.name, s->sketch.batch, s->sketch.context, s->sketch.narrow ? "bfloat16" : "float32",
        o->ranks, m->name);
    fprintf(to, s->memory ? ", %.1f GB each\n" : "\n", 1e-9 * (double)s->memory);
    if (s->n_best) {
        say_best(s, to);
        say_binding(s, to);
        say_rules(s, m, to);
    } else if (s->fates[TR_REFUSED] && !s->fates[TR_TOO_LARGE] && !s->fates[TR_NO_FIT])
        say_refused(s, to);
    else
        say_tightest(s, to);
    say_others(s, to);
}

/* ---- JSON ---- */

static void json_candidate(const struct tr_candidate *x, FILE *to)
{
    const struct tr_estimate *y = &x->estimate;
    char text[160];
    fprintf(to, "{\"options\": \"%s\", \"fits\": %s", tr_choice_text(&x->choice, text),
        x->fate == TR_WON || x->fate == TR_SLOWER ? "true" : "false");
    if (x->fate == TR_REFUSED) {
        fprintf(to, ", \"refused\": true}");
        return;
    }
    fprintf(to,
        ", \"seconds\": %.9g, \"tokens_per_second\": %.9g, \"bubble\": %.6g, \"compute\": %.9g, "
        "\"messages\": %.9g, \"waits\": %.9g, \"bytes\": %" PRId64 ", \"host_bytes\": %" PRId64
        ", \"memory\": {",
        y->price.step, y->tokens, y->price.bubble, y->price.compute, y->price.messages, y->price.waits,
        y->arena, y->host);
    for (int k = 0; k < TR_MEMORIES; k++)
        fprintf(to, "%s\"%s\": %" PRId64, k ? ", " : "", tr_memory_names[k], y->peak[k]);
    fprintf(to, "}, \"sent\": {");
    for (int k = 0; k < y->n_groups; k++)
        fprintf(to, "%s\"%s\": %" PRId64, k ? ", " : "", y->groups[k].group, y->groups[k].sent);
    fprintf(to, "}}");
}

static void json_rules(const struct tr_search *s, const struct tr_machine *m, FILE *to)
{
    const struct tr_rule *rule;
    bool some = false;
    fprintf(to, "], \"binds\": \"%s\", \"rules\": [", tr_binding_names[tr_binding_of(s)]);
    for (int i = 0; (rule = tr_rule_at(i)); i++) {
        enum tr_verdict v = rule->judge(s, m);
        if (v == TR_DOES_NOT_APPLY)
            continue;
        fprintf(to, "%s{\"says\": \"%s\", \"source\": \"%s\", \"verdict\": \"%s\"}", some ? ", " : "",
            rule->says, rule->source, verdict_names[v]);
        some = true;
    }
}

void tr_search_json(
    const struct tr_search *s, const struct tr_options *o, const struct tr_machine *m, FILE *to)
{
    fprintf(to,
        "{\"model\": \"%s\", \"ranks\": %ld, \"batch\": %" PRId64 ", \"memory\": %" PRId64
        ", \"choices\": %" PRId64 ", \"fates\": {",
        o->model.name, o->ranks, s->sketch.batch, s->memory, s->choices);
    for (int k = 0; k < TR_FATES; k++)
        fprintf(to, "%s\"%s\": %" PRId64, k ? ", " : "", tr_fate_names[k], s->fates[k]);
    fprintf(to, "}, \"best\": [");
    for (int i = 0; i < s->n_best; i++) {
        fprintf(to, i ? ", " : "");
        json_candidate(&s->evaluated[s->best[i]], to);
    }
    if (s->n_best)
        json_rules(s, m, to);
    fprintf(to, "], \"alone\": {");
    bool some = false;
    for (int k = 0; k < TR_ALONES; k++) {
        if (s->alone[k] < 0)
            continue;
        fprintf(to, "%s\"%s\": ", some ? ", " : "", tr_alone_names[k]);
        json_candidate(&s->evaluated[s->alone[k]], to);
        some = true;
    }
    fprintf(to, "}}\n");
}
