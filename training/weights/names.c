/* SPDX-License-Identifier: BSD-3-Clause */
/* names.c: GPT-2's names as a table, and the order of elements as a function. */
#include "training/weights/names.h"

#include <stdio.h>
#include <string.h>

/* %d: the layer. */
static const struct {
    const char *here, *there;
    enum tr_lies lies;
} gpt2[] = {
    { "wte", "transformer.wte.weight", TR_AS_HERE },
    { "wpe", "transformer.wpe.weight", TR_AS_HERE },
    { "layer%d.ln1.weight", "transformer.h.%d.ln_1.weight", TR_AS_HERE },
    { "layer%d.ln1.bias", "transformer.h.%d.ln_1.bias", TR_AS_HERE },
    { "layer%d.qkv.weight", "transformer.h.%d.attn.c_attn.weight", TR_BY_KIND },
    { "layer%d.qkv.bias", "transformer.h.%d.attn.c_attn.bias", TR_BY_KIND },
    { "layer%d.proj.weight", "transformer.h.%d.attn.c_proj.weight", TR_AS_HERE },
    { "layer%d.proj.bias", "transformer.h.%d.attn.c_proj.bias", TR_AS_HERE },
    { "layer%d.ln2.weight", "transformer.h.%d.ln_2.weight", TR_AS_HERE },
    { "layer%d.ln2.bias", "transformer.h.%d.ln_2.bias", TR_AS_HERE },
    { "layer%d.fc1.weight", "transformer.h.%d.mlp.c_fc.weight", TR_TRANSPOSED },
    { "layer%d.fc1.bias", "transformer.h.%d.mlp.c_fc.bias", TR_AS_HERE },
    { "layer%d.fc2.weight", "transformer.h.%d.mlp.c_proj.weight", TR_AS_HERE },
    { "layer%d.fc2.bias", "transformer.h.%d.mlp.c_proj.bias", TR_AS_HERE },
    { "lnf.weight", "transformer.ln_f.weight", TR_AS_HERE },
    { "lnf.bias", "transformer.ln_f.bias", TR_AS_HERE },
    { "head.weight", "lm_head.weight", TR_AS_HERE },
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

void tr_foreign_of(struct tr_foreign *f, const struct tr_head *h, const struct tr_saved *entry)
{
    char pattern[TR_FOREIGN_NAME];
    int layer = layer_of(entry->name, pattern, sizeof pattern);
    *f = (struct tr_foreign){ .dims = entry->columns > 1 ? 2 : 1,
        .shape = { entry->rows, entry->columns },
        .lies = TR_AS_HERE,
        .heads = h->heads,
        .depth = h->heads ? h->channels / h->heads : 0,
        .inputs = entry->columns };
    snprintf(f->name, sizeof f->name, "%s", entry->name);
    for (size_t i = 0; i < sizeof gpt2 / sizeof *gpt2 && !strcmp(h->model, "gpt"); i++) {
        if (strcmp(gpt2[i].here, pattern) != 0)
            continue;
        const char *number = strchr(gpt2[i].there, '%');
        int before = number ? (int)(number - gpt2[i].there) : (int)strlen(gpt2[i].there);
        snprintf(f->name, sizeof f->name, "%.*s", before, gpt2[i].there);
        if (number)
            snprintf(f->name + before, sizeof f->name - (size_t)before, "%d%s", layer, number + 2);
        f->lies = gpt2[i].lies;
    }
    if (f->lies != TR_AS_HERE && f->dims == 2)
        f->shape[0] = entry->columns, f->shape[1] = entry->rows;
}

int64_t tr_foreign_at(const struct tr_foreign *f, int64_t i)
{
    if (f->lies == TR_AS_HERE)
        return i;
    int64_t outputs = f->dims == 2 ? f->shape[1] : f->shape[0], in = i / outputs, out = i % outputs;
    if (f->lies == TR_BY_KIND) {
        int64_t kind = out / (f->heads * f->depth), head = out / f->depth % f->heads, d = out % f->depth;
        out = (head * 3 + kind) * f->depth + d;
    }
    return out * f->inputs + in;
}
