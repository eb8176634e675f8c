/* SPDX-License-Identifier: BSD-3-Clause */
/* rules.c: the rules, each with what it is about and where it stands. A rule speaks of the best configuration
 * alone; the price knows none of them. */
#include "training/advice/rules.h"

const char *const tr_binding_names[] = { "compute", "link", "memory", "batch" };

static const struct tr_candidate *best(const struct tr_search *s)
{
    return &s->evaluated[s->best[0]];
}

static enum tr_verdict verdict(bool agrees)
{
    return agrees ? TR_AGREES : TR_DISAGREES;
}

static bool fits_alone(const struct tr_search *s)
{
    int i = s->alone[TR_ALONE_DP];
    return i >= 0 && (s->evaluated[i].fate == TR_SLOWER || s->evaluated[i].fate == TR_WON);
}

static bool cuts_model(const struct tr_choice *c)
{
    return c->tp > 1 || c->pp > 1;
}

static enum tr_verdict data_parallel(const struct tr_search *s, const struct tr_machine *m)
{
    const struct tr_choice *c = &best(s)->choice;
    (void)m;
    return fits_alone(s) ? verdict(c->dp > 1 && !cuts_model(c)) : TR_DOES_NOT_APPLY;
}

static enum tr_verdict model_parallel(const struct tr_search *s, const struct tr_machine *m)
{
    const struct tr_choice *c = &best(s)->choice;
    (void)m;
    return fits_alone(s) ? TR_DOES_NOT_APPLY : verdict(cuts_model(c));
}

/* Pipelines alone against data parallelism alone. */
static enum tr_verdict little_pipeline(const struct tr_search *s, const struct tr_machine *m)
{
    int pp = s->alone[TR_ALONE_PP], dp = s->alone[TR_ALONE_DP];
    (void)m;
    if (!fits_alone(s) || pp < 0 || !s->evaluated[pp].estimate.legal)
        return TR_DOES_NOT_APPLY;
    return verdict(s->evaluated[pp].estimate.price.step > s->evaluated[dp].estimate.price.step);
}

static enum tr_verdict within_host(const struct tr_search *s, const struct tr_machine *m)
{
    const struct tr_choice *c = &best(s)->choice;
    return c->tp > 1 && m->ranks_per_host ? verdict(c->tp <= m->ranks_per_host) : TR_DOES_NOT_APPLY;
}

/* As few ranks for a model as hold it: data parallelism has the rest. */
static enum tr_verdict just_enough(const struct tr_search *s, const struct tr_machine *m)
{
    const struct tr_choice *c = &best(s)->choice;
    int mine = c->tp * c->pp;
    (void)m;
    if (!cuts_model(c) || c->dp == 1)
        return TR_DOES_NOT_APPLY;
    for (int i = 0; i < s->n_evaluated; i++) {
        const struct tr_choice *other = &s->evaluated[i].choice;
        bool fits = s->evaluated[i].fate == TR_SLOWER || s->evaluated[i].fate == TR_WON;
        if (fits && other->zero == c->zero && other->cp == c->cp && other->tp * other->pp < mine)
            return TR_DISAGREES;
    }
    return TR_AGREES;
}

static enum tr_verdict full_pipeline(const struct tr_search *s, const struct tr_machine *m)
{
    const struct tr_choice *c = &best(s)->choice;
    (void)m;
    return c->pp > 1 ? verdict(c->micros >= 4 * c->pp) : TR_DOES_NOT_APPLY;
}

static enum tr_verdict all_three(const struct tr_search *s, const struct tr_machine *m)
{
    const struct tr_choice *c = &best(s)->choice;
    (void)m;
    bool extreme = s->sketch.layers * s->sketch.in_layer > (int64_t)100 * 1000 * 1000 * 1000;
    return extreme ? verdict(c->dp > 1 && c->tp > 1 && c->pp > 1) : TR_DOES_NOT_APPLY;
}

static enum tr_verdict long_context(const struct tr_search *s, const struct tr_machine *m)
{
    const struct tr_choice *c = &best(s)->choice;
    (void)m;
    return s->sketch.context >= 8192 ? verdict(c->cp > 1) : TR_DOES_NOT_APPLY;
}

static enum tr_verdict sequence_with_tensor(const struct tr_search *s, const struct tr_machine *m)
{
    const struct tr_choice *c = &best(s)->choice;
    (void)m;
    return c->tp > 1 ? verdict(c->sp) : TR_DOES_NOT_APPLY;
}

#define RASCHKA "Raschka, Machine Learning Q and AI (2024), chapter 7"
#define NARAYANAN "Narayanan et al., SC 2021 (arXiv 2104.04473)"
static const struct tr_rule rules[] = {
    { "a model that fits one device: data parallel", RASCHKA, data_parallel },
    { "a model that does not fit: tensor parallel, or a pipeline", RASCHKA, model_parallel },
    { "a pipeline gains little for small models", RASCHKA, little_pipeline },
    { "tensor parallel inside a host, no further", NARAYANAN ", takeaway 1", within_host },
    { "model parallel on as few ranks as hold the model, data parallel on the rest", NARAYANAN ", takeaway 2",
        just_enough },
    { "four times as many micro-batches as stages", "Huang et al., GPipe (arXiv 1811.06965), section 2.3",
        full_pipeline },
    { "the largest models: data, tensor and pipeline together", RASCHKA "; " NARAYANAN, all_three },
    { "context parallel from 8192 tokens on", "Megatron Core, context parallelism", long_context },
    { "sequence parallel wherever there is tensor parallel", "Korthikanti et al. (arXiv 2205.05198)",
        sequence_with_tensor },
};

const struct tr_rule *tr_rule_at(int i)
{
    return i >= 0 && i < (int)(sizeof rules / sizeof *rules) ? &rules[i] : NULL;
}

enum tr_binding tr_binding_of(const struct tr_search *s)
{
    const struct tr_price *p = &best(s)->estimate.price;
    /* What memory forbids is guessed faster than all that fit: the guess of the best tells how much. */
    if (s->unlimited && s->unlimited_seconds < 0.95 * best(s)->choice.seconds)
        return TR_BY_MEMORY;
    if (p->compute >= p->messages && p->compute >= p->waits)
        return TR_BY_COMPUTE;
    return p->messages >= p->waits ? TR_BY_LINK : TR_BY_BATCH;
}
