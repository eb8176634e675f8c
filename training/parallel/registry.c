/* SPDX-License-Identifier: BSD-3-Clause */
/* registry.c: what the paradigms say together. */
#include "training/parallel/registry.h"

#include <string.h>

#define ROW(name) &TR_PARADIGM(name)
static const struct tr_paradigm *const registry[] = { TR_PARADIGMS(ROW) };
enum { PARADIGMS = sizeof registry / sizeof *registry };

const struct tr_paradigm *tr_paradigm_at(int i)
{
    return i < PARADIGMS ? registry[i] : NULL;
}

const struct tr_paradigm *tr_paradigm_word(const char *word)
{
    for (int i = 0; i < PARADIGMS; i++)
        if (registry[i]->word && !strcmp(registry[i]->word, word))
            return registry[i];
    return NULL;
}

int64_t tr_option_value(const struct tr_option *x, const void *in)
{
    const void *at = (const char *)in + x->offset;
    return x->size == sizeof(bool)  ? *(const bool *)at
           : x->size == sizeof(int) ? *(const int *)at
                                    : *(const int64_t *)at;
}

bool tr_paradigm_asked(const struct tr_paradigm *x, const struct tr_plan *p)
{
    return x->asked ? x->asked(p) : tr_option_value(x->options, p) > x->options->least;
}

bool tr_paradigm_cuts(const struct tr_paradigm *x, const struct tr_plan *p)
{
    return x->cuts && p->mesh.size[x->axis] > 1;
}

static const struct tr_table *table_of(const struct tr_paradigm *x, const struct tr_plan *p, int i)
{
    if (x->choose)
        return x->choose(p, i);
    return i == 0 && x->table && tr_paradigm_asked(x, p) ? x->table : NULL;
}

const struct tr_table *tr_plan_table(const struct tr_plan *p, int i)
{
    const struct tr_table *t;
    for (int r = 0; r < PARADIGMS; r++)
        for (int k = 0; (t = table_of(registry[r], p, k)); k++)
            if (i-- == 0)
                return t;
    return NULL;
}

void tr_plan_model(const struct tr_plan *p, struct tr_model_options *to)
{
    for (int r = 0; r < PARADIGMS; r++)
        if (registry[r]->model)
            registry[r]->model(p, to);
    to->forward = p->forward;
}

/* The last first: how a step is made, before the sizes into which it is cut. */
bool tr_plan_check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    for (int r = PARADIGMS - 1; r >= 0; r--)
        if (registry[r]->check && !registry[r]->check(p, g, e))
            return false;
    return true;
}
