/* SPDX-License-Identifier: BSD-3-Clause */
/* names.c: GPT-2's names as a table, and the order of elements as a function.
 */
#include "training/weights/names.h"

#include <stdio.h>
#include <string.h>

enum { PARTS = 3 };
/* %d: the layer. */
struct name {
    const char *here, *there[PARTS];
    enum tr_lies lies;
};
static const struct name gpt2[] = {
    { "wte", { "transformer.wte.weight" }, TR_AS_HERE },
    { "wpe", { "transformer.wpe.weight" }, TR_AS_HERE },
    { "layer%d.ln1.weight", { "transformer.h.%d.ln_1.weight" }, TR_AS_HERE },
    { "layer%d.ln1.bias", { "transformer.h.%d.ln_1.bias" }, TR_AS_HERE },
    { "layer%d.qkv.weight", { "transformer.h.%d.attn.c_attn.weight" }, TR_BY_KIND },
    { "layer%d.qkv.bias", { "transformer.h.%d.attn.c_attn.bias" }, TR_BY_KIND },
    { "layer%d.proj.weight", { "transformer.h.%d.attn.c_proj.weight" }, TR_AS_HERE },
    { "layer%d.proj.bias", { "transformer.h.%d.attn.c_proj.bias" }, TR_AS_HERE },
    { "layer%d.ln2.weight", { "transformer.h.%d.ln_2.weight" }, TR_AS_HERE },
    { "layer%d.ln2.bias", { "transformer.h.%d.ln_2.bias" }, TR_AS_HERE },
    { "layer%d.fc1.weight", { "transformer.h.%d.mlp.c_fc.weight" }, TR_TRANSPOSED },
    { "layer%d.fc1.bias", { "transformer.h.%d.mlp.c_fc.bias" }, TR_AS_HERE },
    { "layer%d.fc2.weight", { "transformer.h.%d.mlp.c_proj.weight" }, TR_AS_HERE },
    { "layer%d.fc2.bias", { "transformer.h.%d.mlp.c_proj.bias" }, TR_AS_HERE },
    { "lnf.weight", { "transformer.ln_f.weight" }, TR_AS_HERE },
    { "lnf.bias", { "transformer.ln_f.bias" }, TR_AS_HERE },
    { "head.weight", { "lm_head.weight" }, TR_AS_HERE },
    { NULL, { NULL }, TR_AS_HERE },
};
#define SELF "model.layers.%d.self_attn."
#define MLP "model.layers.%d.mlp."
static const struct name llama[] = {
    { "wte", { "model.embed_tokens.weight" }, TR_AS_HERE },
    { "layer%d.ln1.weight", { "model.layers.%d.input_layernorm.weight" }, TR_AS_HERE },
    { "layer%d.qkv.weight", { SELF "q_proj.weight", SELF "k_proj.weight", SELF "v_proj.weight" },
        TR_BY_GROUP },
    { "layer%d.proj.weight", { SELF "o_proj.weight" }, TR_TRANSPOSED },
    { "layer%d.ln2.weight", { "model.layers.%d.post_attention_layernorm.weight" }, TR_AS_HERE },
    { "layer%d.fc1.weight", { MLP "gate_proj.weight", MLP "up_proj.weight" }, TR_BY_GATE },
    { "layer%d.fc2.weight", { MLP "down_proj.weight" }, TR_TRANSPOSED },
    { "lnf.weight", { "model.norm.weight" }, TR_AS_HERE },
    { "head.weight", { "lm_head.weight" }, TR_AS_HERE },
    { NULL, { NULL }, TR_AS_HERE },
};

/* "layer12.fc1.bias" -> 12, and "layer%d.fc1.bias" */
static int layer_of(const char *name, char *pattern, size_t room)
{
    int layer = 0, read = 0;
    if (sscanf(name, "layer%d%n", &layer, &read) == 1)
        snprintf(pattern, room, "layer%%d%s", name + read);
    else
        snprintf(pattern, room, "%s", name);
    return layer;
}

int64_t tr_kv_heads(const struct tr_head *h, const struct tr_saved *qkv)
{
    return (qkv->rows / (h->channels / h->heads) - h->heads) / 2;
}

/* A file may say sizes that no model has; then it keeps its layout. */
static bool comes_apart(const struct tr_head *h, const struct tr_saved *entry, enum tr_lies lies)
{
    if (lies == TR_BY_GATE)
        return entry->rows % (2 * TR_CUT) == 0;
    if (lies != TR_BY_GROUP)
        return true;
    int64_t heads = h->heads, kv = heads > 0 && h->channels >= heads ? tr_kv_heads(h, entry) : 0;
    return kv > 0 && heads % kv == 0 && h->channels % heads == 0 &&
           entry->rows == h->channels + 2 * kv * (h->channels / heads);
}

/* NULL: it is called as here. */
static const struct name *find(const struct tr_head *h, const struct tr_saved *entry, int *layer)
{
    char pattern[TR_FOREIGN_NAME];
    const struct name *n = !strcmp(h->model, "gpt") ? gpt2 : !strcmp(h->model, "llama") ? llama : NULL;
    *layer = layer_of(entry->name, pattern, sizeof pattern);
    while (n && n->here && strcmp(n->here, pattern) != 0)
        n++;
    return n && n->here && comes_apart(h, entry, n->lies) ? n : NULL;
}

int tr_foreign_parts(const struct tr_head *h, const struct tr_saved *entry)
{
    int layer, parts = 1;
    const struct name *n = find(h, entry, &layer);
    while (n && parts < PARTS && n->there[parts])
        parts++;
    return parts;
}

/* The rows of a part. */
static int64_t rows_of(const struct tr_foreign *f, const struct tr_head *h, const struct tr_saved *entry)
{
    if (f->lies == TR_BY_GATE)
        return entry->rows / 2;
    if (f->lies == TR_BY_GROUP && f->part)
        return tr_kv_heads(h, entry) * f->depth;
    return f->lies == TR_BY_GROUP ? h->channels : entry->rows;
}

void tr_foreign_of(struct tr_foreign *f, const struct tr_head *h, const struct tr_saved *entry, int part)
{
    int layer;
    const struct name *n = find(h, entry, &layer);
    *f = (struct tr_foreign){ .dims = entry->columns > 1 ? 2 : 1,
        .lies = n ? n->lies : TR_AS_HERE,
        .heads = h->heads,
        .depth = h->heads ? h->channels / h->heads : 0,
        .inputs = entry->columns,
        .part = part,
        .chunk = entry->rows / (2 * TR_CUT) };
    snprintf(f->name, sizeof f->name, "%s", entry->name);
    if (n) {
        const char *there = n->there[part], *number = strchr(there, '%');
        int before = number ? (int)(number - there) : (int)strlen(there);
        snprintf(f->name, sizeof f->name, "%.*s", before, there);
        if (number)
            snprintf(f->name + before, sizeof f->name - (size_t)before, "%d%s", layer, number + 2);
    }
    if (f->lies == TR_BY_GROUP)
        f->share = h->heads / tr_kv_heads(h, entry);
    f->shape[0] = rows_of(f, h, entry), f->shape[1] = entry->columns;
    if ((f->lies == TR_TRANSPOSED || f->lies == TR_BY_KIND) && f->dims == 2)
        f->shape[0] = entry->columns, f->shape[1] = entry->rows;
}

/* Of a matrix that lies as [outputs][inputs] there, too: which row of ours is
 * row r. */
static int64_t row_of(const struct tr_foreign *f, int64_t r)
{
    if (f->lies == TR_BY_GATE)
        return (r / f->chunk * 2 + f->part) * f->chunk + r % f->chunk;
    int64_t head = r / f->depth, group = f->part ? head : head / f->share;
    int64_t within = f->part ? f->share + f->part - 1 : head % f->share;
    return (group * (f->share + 2) + within) * f->depth + r % f->depth;
}

int64_t tr_foreign_at(const struct tr_foreign *f, int64_t i)
{
    if (f->lies == TR_AS_HERE)
        return i;
    if (f->lies == TR_BY_GROUP || f->lies == TR_BY_GATE)
        return row_of(f, i / f->inputs) * f->inputs + i % f->inputs;
    int64_t outputs = f->dims == 2 ? f->shape[1] : f->shape[0], in = i / outputs, out = i % outputs;
    if (f->lies == TR_BY_KIND) {
        int64_t kind = out / (f->heads * f->depth), head = out / f->depth % f->heads, d = out % f->depth;
        out = (head * 3 + kind) * f->depth + d;
    }
    return out * f->inputs + in;
}
