/* SPDX-License-Identifier: BSD-3-Clause */
/* foreign.c: the parameters of a file of another program, one after the other, as a checkpoint has them. */
#include "training/weights/foreign.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int64_t tr_longest(const struct tr_heading *h)
{
    int64_t most = 1;
    for (uint32_t i = 0; i < h->head.entries; i++) {
        int64_t count = h->entries[i].rows * h->entries[i].columns;
        most = count > most ? count : most;
    }
    return most;
}

const struct tr_saved *tr_entry_named(const struct tr_heading *h, const char *name)
{
    uint32_t i = 0;
    while (i < h->head.entries && strcmp(h->entries[i].name, name) != 0)
        i++;
    return &h->entries[i < h->head.entries ? i : 0];
}

/* As transformers writes a whole model, and as it writes one without its head:
 * GPT-2's own files. */
static const struct tr_stored *find(const struct tr_safetensors *s, const char *name)
{
    static const char outer[] = "transformer.";
    const struct tr_stored *found = tr_safetensors_find(s, name);
    return found || strncmp(name, outer, strlen(outer)) != 0 ? found
                                                             : tr_safetensors_find(s, name + strlen(outer));
}

const char *tr_foreign_family(const struct tr_safetensors *s)
{
    return find(s, "transformer.wte.weight") ? "gpt" : find(s, "model.embed_tokens.weight") ? "llama" : NULL;
}

/* What all families have alike: `norm` is the name of a layer's, up to its number, and behind it. */
static void read_common_sizes(struct tr_model_options *sizes, const struct tr_safetensors *s,
    const struct tr_stored *embedding, const char *const norm[2])
{
    char name[TR_FOREIGN_NAME];
    int64_t layers = 0;
    do
        snprintf(name, sizeof name, "%s%" PRId64 "%s", norm[0], layers, norm[1]);
    while (find(s, name) && ++layers);
    if (!sizes->layers)
        sizes->layers = layers;
    if (!sizes->channels)
        sizes->channels = embedding->shape[1];
    if (!sizes->vocabulary)
        sizes->vocabulary = embedding->shape[0];
}

/* Sizes of a Llama: neither heads nor the context are in the file. */
static void read_llama_sizes(struct tr_model_options *sizes, const struct tr_safetensors *s)
{
    const struct tr_stored *wte = find(s, "model.embed_tokens.weight"),
                           *gate = find(s, "model.layers.0.mlp.gate_proj.weight"),
                           *keys = find(s, "model.layers.0.self_attn.k_proj.weight");
    if (!wte || !gate || !keys || wte->dims != 2 || gate->dims != 2 || keys->dims != 2)
        return;
    read_common_sizes(sizes, s, wte, (const char *const[]){ "model.layers.", ".input_layernorm.weight" });
    if (!sizes->hidden)
        sizes->hidden = gate->shape[0];
    if (!sizes->kv_heads && sizes->heads && sizes->channels / sizes->heads)
        sizes->kv_heads = keys->shape[0] / (sizes->channels / sizes->heads);
}

/* Sizes of a GPT that were not said are those of the file. */
void tr_foreign_sizes(struct tr_model_options *sizes, const char *model, const struct tr_safetensors *s)
{
    const struct tr_stored *wte = find(s, "transformer.wte.weight"), *wpe = find(s, "transformer.wpe.weight");
    if (!strncmp(model, "llama", 5))
        read_llama_sizes(sizes, s);
    if (strncmp(model, "gpt", 3) != 0 || !wte || !wpe || wte->dims != 2 || wpe->dims != 2)
        return;
    read_common_sizes(sizes, s, wte, (const char *const[]){ "transformer.h.", ".ln_1.weight" });
    if (!sizes->context)
        sizes->context = wpe->shape[0];
    if (!sizes->heads && sizes->channels % 64 == 0)
        sizes->heads = sizes->channels / 64;
    sizes->untied |= find(s, "lm_head.weight") != NULL;
}

static void shape_text(char *to, size_t room, int dims, const int64_t *shape)
{
    size_t n = (size_t)snprintf(to, room, "[");
    for (int d = 0; d < dims && n < room; d++)
        n += (size_t)snprintf(to + n, room - n, "%s%" PRId64, d ? ", " : "", shape[d]);
    if (n < room)
        snprintf(to + n, room - n, "]");
}

static bool same_shape(
    const struct tr_stored *t, const struct tr_foreign *f, const char *path, struct tr_error *e)
{
    char there[96], here[96];
    bool same =
        t->dims == f->dims && t->shape[0] == f->shape[0] && (f->dims < 2 || t->shape[1] == f->shape[1]);
    shape_text(there, sizeof there, t->dims, t->shape);
    shape_text(here, sizeof here, f->dims, f->shape);
    return same || tr_fail(e,
                       "%s: %s is %s, and of the model that is asked for it "
                       "is %s; legal are the "
                       "sizes of the file (--layers, --channels, --context, "
                       "--vocabulary)",
                       path, t->name, there, here);
}

static bool read_part(const struct tr_heading *h, const struct tr_saved *entry, int part,
    const struct tr_safetensors *s, float *here, float *there, struct tr_error *e)
{
    struct tr_foreign f;
    tr_foreign_of(&f, &h->head, entry, part);
    const struct tr_stored *t = find(s, f.name);
    if (!t)
        return tr_fail(e, "%s has no %s, which a %s of %" PRId64 " layers has", s->path, f.name,
            h->head.model, h->head.layers);
    if (!same_shape(t, &f, s->path, e) || !tr_safetensors_read(s, t, there, e))
        return false;
    for (int64_t k = 0; k < t->count; k++)
        here[tr_foreign_at(&f, k)] = there[k];
    return true;
}

bool tr_foreign_read(const struct tr_heading *h, const struct tr_saved *entry, const struct tr_safetensors *s,
    float *here, float *there, struct tr_error *e)
{
    for (int part = 0; part < tr_foreign_parts(&h->head, entry); part++)
        if (!read_part(h, entry, part, s, here, there, e))
            return false;
    return true;
}

void tr_foreign_add(const struct tr_heading *h, struct tr_safetensors *s)
{
    struct tr_foreign f;
    for (uint32_t i = 0; i < h->head.entries; i++)
        for (int part = 0; part < tr_foreign_parts(&h->head, &h->entries[i]); part++) {
            tr_foreign_of(&f, &h->head, &h->entries[i], part);
            tr_safetensors_add(s, f.name, f.dims, f.shape);
        }
}

bool tr_foreign_write(const struct tr_heading *h, int entry, int *stored, const float *here, float *there,
    const struct tr_safetensors *s, struct tr_error *e)
{
    struct tr_foreign f;
    for (int part = 0; part < tr_foreign_parts(&h->head, &h->entries[entry]); part++) {
        const struct tr_stored *t = &s->tensors[(*stored)++];
        tr_foreign_of(&f, &h->head, &h->entries[entry], part);
        for (int64_t k = 0; k < t->count; k++)
            there[k] = here[tr_foreign_at(&f, k)];
        if (!tr_safetensors_write(s, t, there, e))
            return false;
    }
    return true;
}
