/* SPDX-License-Identifier: BSD-3-Clause */
/* configure.c: the run that the options describe: a model, a plan for a mesh, a schedule. */
#include "training/options.h"

#include "training/backend/cuda.h"
#include "training/backend/threaded.h"
#include "training/kernels/openblas.h"
#include "training/parallel/balance.h"

#include <stdlib.h>
#include <string.h>

const struct tr_kernels *tr_options_kernels(const struct tr_options *o, struct tr_error *e)
{
    const struct tr_kernels *k = *o->kernels ? tr_kernels_named(o->kernels) : tr_kernels_best();
    if (!k)
        tr_fail(e, "--kernels %s: legal are generic, avx2, avx512, where the machine has them", o->kernels);
    if (k && o->threads > TR_THREADS_MOST) {
        tr_fail(e, "--threads %ld: legal are 1 to %d", o->threads, TR_THREADS_MOST);
        return NULL;
    }
    k = k && o->plan.numbers.free_order ? tr_kernels_free(k) : k;
    return k ? tr_kernels_threaded(k, (int)o->threads) : NULL;
}

struct model {
    const char *name;
    int64_t layers, channels, heads, context, inputs, vocabulary, grid, experts, choices, kv_heads, hidden;
};

static const struct model models[] = {
    { "gpt:nano", 4, 64, 4, 64, 0, 256, 0, 0, 0, 0, 0 },
    { "gpt:nano8", 8, 64, 8, 64, 0, 256, 0, 0, 0, 0, 0 },
    { "gpt:micro", 6, 128, 8, 128, 0, 256, 0, 0, 0, 0, 0 },
    { "gpt:small", 8, 256, 8, 256, 0, 256, 0, 0, 0, 0, 0 },
    /* Radford et al. 2019, Brown et al. 2020 (without its sparse attention), Narayanan et al. 2021. */
    { "gpt2:124M", 12, 768, 12, 1024, 0, 50257, 0, 0, 0, 0, 0 },
    { "gpt2:355M", 24, 1024, 16, 1024, 0, 50257, 0, 0, 0, 0, 0 },
    { "gpt2:774M", 36, 1280, 20, 1024, 0, 50257, 0, 0, 0, 0, 0 },
    { "gpt2:1.5B", 48, 1600, 25, 1024, 0, 50257, 0, 0, 0, 0, 0 },
    { "gpt3:175B", 96, 12288, 96, 2048, 0, 50257, 0, 0, 0, 0, 0 },
    { "gpt:1T", 128, 25600, 160, 2048, 0, 51200, 0, 0, 0, 0, 0 },
    { "mlp:nano", 4, 64, 0, 0, 32, 10, 0, 0, 0, 0, 0 },
    { "mlp:micro", 8, 256, 0, 0, 256, 100, 0, 0, 0, 0, 0 },
    { "cnn:nano", 4, 64, 0, 0, 4, 10, 8, 0, 0, 0, 0 },
    { "cnn:micro", 6, 128, 0, 0, 4, 16, 16, 0, 0, 0, 0 },
    { "moe:nano", 4, 64, 4, 64, 0, 256, 0, 8, 2, 0, 0 },
    { "moe:micro", 6, 128, 8, 128, 0, 256, 0, 16, 2, 0, 0 },
    { "llama:nano", 4, 64, 4, 64, 0, 256, 0, 0, 0, 2, 192 },
    { "llama:micro", 6, 128, 8, 128, 0, 256, 0, 0, 0, 4, 384 },
    /* Touvron et al. 2023. */
    { "llama2:7B", 32, 4096, 32, 4096, 0, 32000, 0, 0, 0, 32, 11008 },
    { "llama2:13B", 40, 5120, 40, 4096, 0, 32000, 0, 0, 0, 40, 13824 },
    { "llama2:70B", 80, 8192, 64, 4096, 0, 32000, 0, 0, 0, 8, 28672 },
};

/* An option of the other model would be ignored without a word, so it is refused. */
static bool has_options(const struct model *m, const struct tr_options *o, struct tr_error *e)
{
    const struct tr_model_options *sizes = &o->model.sizes;
    const char *data = o->files.data, *foreign = NULL;
    const char *of_experts = sizes->experts        ? "experts"
                             : sizes->choices      ? "top-k"
                             : sizes->capacity > 0 ? "capacity-factor"
                             : sizes->balance > 0  ? "aux-loss"
                                                   : NULL;
    if (!m->experts && of_experts)
        return tr_fail(
            e, "--%s: %s has no experts; legal with --model moe:nano or moe:micro", of_experts, m->name);
    if (!m->hidden && (sizes->kv_heads || sizes->hidden))
        return tr_fail(e, "--%s: legal with --model llama:nano or llama:micro, and %s is none",
            sizes->kv_heads ? "kv-heads" : "hidden", m->name);
    if (sizes->dropout > 0 && !m->heads)
        return tr_fail(
            e, "--dropout %g: legal with gpt, llama and moe, and not with %s", sizes->dropout, m->name);
    if (m->hidden && sizes->untied)
        return tr_fail(e, "--untied: the head of %s has values of its own always; leave it out", m->name);
    if (m->inputs == 0)
        foreign = sizes->inputs ? "inputs" : NULL;
    else if (!m->grid && *data && strcmp(data, "grammar"))
        return tr_fail(e, "--data %s: %s learns rows that are made up; leave --data out", data, m->name);
    else
        foreign = sizes->heads               ? "heads"
                  : sizes->context           ? "context"
                  : sizes->untied            ? "untied"
                  : m->grid && sizes->inputs ? "inputs"
                                             : NULL;
    return !foreign || tr_fail(e, "--%s is no option of %s, which has --layers, --channels, --vocabulary%s",
                           foreign, m->name,
                           m->grid     ? ", --grid and --norm"
                           : m->inputs ? " and --inputs"
                                       : ", --heads, --context and --untied");
}

static const struct model *model_of(const struct tr_options *o)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(o->model.name, models[i].name))
            return &models[i];
    return NULL;
}

static bool fits_device(const struct tr_options *o, struct tr_error *e)
{
    if (*o->kernels)
        return tr_fail(e, "--kernels %s is a set of the processor's; legal is --device host, or no --kernels",
            o->kernels);
    if (o->threads > 1)
        return tr_fail(
            e, "--threads %ld are of the processor; legal is --device host, or --threads 1", o->threads);
    if (o->plan.numbers.tf32 && (!o->plan.numbers.free_order || o->plan.numbers.bfloat16))
        return tr_fail(e, "--tf32 is how cuBLAS multiplies float32; legal with --order free and without "
                          "--precision bfloat16");
    if (*o->tune && o->plan.numbers.free_order)
        return tr_fail(e,
            "--tune is of the canonical products, and with --order free they are cuBLAS's; legal "
            "is one of both");
    return !o->plan.servers.async ||
           tr_fail(e, "servers that take pushes one by one have no place on devices; legal is --device host");
}

const struct tr_kernels *tr_options_planned(const struct tr_options *o, struct tr_error *e)
{
    const struct tr_cuda_library *library = NULL;
    if (o->device)
        library = fits_device(o, e) ? tr_cuda_load(e) : NULL;
    else if (!o->plan.numbers.tf32 && !*o->tune)
        return tr_kernels_planned(o->kernels);
    else
        tr_fail(e, "--%s is of products on devices; legal with --device cuda",
            o->plan.numbers.tf32 ? "tf32" : "tune");
    return library ? library->kernels : NULL;
}

static int64_t either(int64_t asked, int64_t own)
{
    return asked ? asked : own;
}

static bool make_model(
    struct tr_graph *g, const struct tr_options *o, const struct tr_plan *p, struct tr_error *e)
{
    const struct model *m = model_of(o);
    struct tr_model_options sizes = o->model.sizes;
    if (!m)
        return tr_fail(e, "--model %s: legal are " TR_MODELS, o->model.name);
    sizes.layers = either(sizes.layers, m->layers), sizes.channels = either(sizes.channels, m->channels);
    sizes.heads = either(sizes.heads, m->heads), sizes.context = either(sizes.context, m->context);
    sizes.inputs = either(sizes.inputs, m->inputs);
    sizes.vocabulary = either(sizes.vocabulary, m->vocabulary);
    sizes.experts = either(sizes.experts, m->experts), sizes.choices = either(sizes.choices, m->choices);
    sizes.kv_heads = either(sizes.kv_heads, m->kv_heads), sizes.hidden = either(sizes.hidden, m->hidden);
    tr_plan_model(p, &sizes);
    return has_options(m, o, e) && tr_cnn_options(&sizes, o, m->name, m->grid, e) &&
           (m->grid        ? tr_model_cnn
               : m->inputs ? tr_model_mlp
               : m->hidden ? tr_model_llama
                           : tr_model_gpt)(g, &sizes, e);
}

/* Ranks are workers and servers. */
static bool count_workers(long *dp, const struct tr_sizes *s, long ranks, struct tr_error *e)
{
    *dp = s->dp ? s->dp : ranks > s->servers ? ranks - s->servers : 1;
    if (ranks == 0 || *dp + s->servers == ranks)
        return true;
    if (ranks <= s->servers)
        return tr_fail(e, "%ld rank%s, and --servers %ld: there is no worker", ranks, ranks == 1 ? "" : "s",
                   s->servers) ||
               tr_offer(e, "ranks", s->servers + 1);
    return tr_fail(e, "%ld ranks, but %ld workers (--dp) and %ld servers are %ld", ranks, *dp, s->servers,
               *dp + s->servers) ||
           tr_offer(e, "ranks", *dp + s->servers) || tr_offer(e, "dp", ranks - s->servers);
}

/* How many data-parallel ranks there are beside the other axes. */
static bool count_dp(long *dp, const struct tr_sizes *s, int chunks, long ranks, struct tr_error *e)
{
    enum { MOST_RANKS = 1 << 20 };
    bool small = s->pp <= MOST_RANKS && s->cp <= MOST_RANKS && s->tp <= MOST_RANKS;
    long others = small ? s->pp * s->cp * s->tp : MOST_RANKS + 1;
    char cp[32] = "";
    if (others > MOST_RANKS)
        return tr_fail(e, "--pp %ld --cp %ld --tp %ld: legal are 1 and more, and %d in all", s->pp, s->cp,
            s->tp, MOST_RANKS);
    if (chunks > MOST_RANKS / s->pp)
        return tr_fail(
            e, "--pp %ld --chunks %d: legal are %d stages in all at most", s->pp, chunks, MOST_RANKS);
    if (s->servers)
        return count_workers(dp, s, ranks, e);
    *dp = s->dp ? s->dp : ranks > others ? ranks / others : 1;
    if (ranks == 0 || *dp * others == ranks)
        return true;
    if (s->cp > 1)
        snprintf(cp, sizeof cp, " x cp %ld", s->cp);
    tr_fail(e, "%ld rank%s, but dp %ld x tp %ld x pp %ld%s is %ld", ranks, ranks == 1 ? "" : "s", *dp, s->tp,
        s->pp, cp, *dp * others);
    return tr_offer(e, "ranks", *dp * others) || (ranks % others == 0 && tr_offer(e, "dp", ranks / others));
}

/* Ranks of a group inside cp that exchange tokens for heads, where there are two levels. */
static bool ulysses_inside(long *inside, const struct tr_plan *p, struct tr_error *e)
{
    bool two = p->tokens.form == TR_CP_TWO;
    long cp = p->sizes.cp;
    if (!two && p->sizes.ulysses)
        return tr_fail(e, "--cp-ulysses %ld is for --cp-attention ulysses+ring; --cp-attention is %s",
            p->sizes.ulysses, tr_cp_form_names[p->tokens.form]);
    if (!two || cp == 1)
        return true;
    *inside = p->sizes.ulysses ? p->sizes.ulysses : 2;
    return (cp % *inside == 0 && *inside > 1 && *inside < cp) ||
           tr_fail(e,
               "--cp %ld --cp-attention ulysses+ring with --cp-ulysses %ld: groups are parts of cp that "
               "leave a ring of two and more",
               cp, *inside) ||
           tr_offer_divisors(e, "cp-ulysses", cp < TR_BLOCKS ? cp : TR_BLOCKS) ||
           tr_offer_divisors(e, "cp", TR_BLOCKS);
}

bool tr_options_mesh(struct tr_plan *p, const struct tr_options *o, struct tr_error *e)
{
    long inside = 1;
    *p = o->plan;
    struct tr_sizes *s = &p->sizes;
    if (!count_dp(&s->dp, &o->plan.sizes, p->pipeline.chunks, o->ranks, e) ||
        !ulysses_inside(&inside, p, e) || !tr_expert_divides(s->dp, s->ep, e))
        return false;
    int size[TR_AXES] = { (int)s->pp, (int)(s->dp / s->ep), (int)(s->cp / inside), (int)inside, (int)s->ep,
        (int)s->tp };
    return tr_mesh_make(&p->mesh, size, (int)s->servers, e);
}

/* The plan as it was asked for, and what follows. */
static bool plan(struct tr_plan *p, const struct tr_options *o, struct tr_error *e)
{
    if (!tr_options_mesh(p, o, e))
        return false;
    p->tokens.space = model_of(o) && model_of(o)->grid;
    p->offload.what = p->offload.what < 0 ? TR_OFFLOAD_NONE : p->offload.what;
    p->servers.live = p->servers.async && !strcmp(p->servers.arrivals, "live");
    return true;
}

static bool schedule(struct tr_run *r, struct tr_error *e)
{
    const char *name = r->plan.pipeline.schedule, *dot = strrchr(name, '.');
    if (!dot || strcmp(dot, ".csv"))
        return tr_schedule_make(
            &r->schedule, name, r->plan.mesh.size[TR_PP], r->plan.pipeline.chunks, r->plan.micros, e);
    FILE *file = fopen(name, "r");
    if (!file)
        return tr_fail(e, "--schedule %s: the file cannot be read", name);
    struct tr_error why;
    bool ok = tr_schedule_read(&r->schedule, file, name, &why) && tr_schedule_check(&r->schedule, &why);
    fclose(file);
    return ok || tr_fail(e, "--schedule %s: %.900s", name, why.text);
}

static bool make(struct tr_run *r, const struct tr_options *o, struct tr_error *e)
{
    *r = (struct tr_run){ .plan = { .batch = 0 } };
    if (!plan(&r->plan, o, e) || !tr_rate_check(&r->plan, e) || !make_model(&r->graph, o, &r->plan, e))
        return false;
    if (tr_cut_layers(r->plan.pipeline.stage_layers, &r->graph,
            r->plan.mesh.size[TR_PP] * r->plan.pipeline.chunks, r->plan.pipeline.list,
            r->plan.pipeline.balance, e) &&
        tr_plan_check(&r->plan, &r->graph, e) && schedule(r, e)) {
        if (r->plan.forward)
            tr_schedule_forward(&r->schedule);
        r->plan.pipeline.vee = r->schedule.vee,
        r->plan.pipeline.no_flush = r->schedule.no_flush && r->plan.mesh.size[TR_PP] > 1;
        if (r->plan.optimizer.curve != TR_CURVE_CONSTANT && !r->plan.optimizer.until)
            r->plan.optimizer.until = o->steps * tr_updates(&r->plan);
        if (!r->plan.pipeline.no_flush || r->plan.optimizer.clip == 0)
            return true;
        tr_fail(e,
            "--schedule %s with --clip %g: its ranks update before the norm of the whole gradient is known; "
            "legal is --clip 0, which does not clip",
            r->plan.pipeline.schedule, r->plan.optimizer.clip);
        tr_schedule_free(&r->schedule);
    }
    tr_graph_free(&r->graph);
    return false;
}

static bool is_legal(const struct tr_options *o, const char *option, long value, struct tr_error *why)
{
    struct tr_options other = *o;
    struct tr_run r;
    char name[32], number[24], *words[] = { name, number };
    snprintf(name, sizeof name, "--%s", option);
    snprintf(number, sizeof number, "%ld", value);
    if (!tr_options_parse(&other, 2, words, why) || !make(&r, &other, why))
        return false;
    tr_run_free(&r);
    return true;
}

/* "; legal: --dp 1, 5 or --batch 8": of the values that were offered those with which all else may stay. */
static void name_legal(const struct tr_options *o, struct tr_error *e)
{
    size_t used = strlen(e->text), room = sizeof e->text;
    const char *before = "; legal: ";
    struct tr_error why, first = { .text = "" };
    for (int i = 0; i < e->n_offers; i++) {
        const struct tr_offer *offer = &e->offers[i];
        int named = 0;
        for (int n = 0; n < offer->n && used + 64 < room; n++) {
            if (!is_legal(o, offer->option, offer->values[n], &why)) {
                first = *first.text ? first : why;
                continue;
            }
            if (named++ == 0)
                used += (size_t)snprintf(e->text + used, room - used, "%s--%s", before, offer->option);
            used += (size_t)snprintf(
                e->text + used, room - used, "%s %ld", named > 1 ? "," : "", offer->values[n]);
            before = " or ";
        }
    }
    if (e->n_offers && *before == ';')
        snprintf(e->text + used, room - used,
            "; no other --%s alone makes it legal, for with --%s %ld: %.400s", e->offers[0].option,
            e->offers[0].option, e->offers[0].values[0], first.text);
}

bool tr_run_make(struct tr_run *r, const struct tr_options *o, struct tr_error *e)
{
    e->n_offers = 0;
    if (make(r, o, e))
        return true;
    name_legal(o, e);
    return false;
}

void tr_run_free(struct tr_run *r)
{
    tr_graph_free(&r->graph);
    tr_schedule_free(&r->schedule);
}
