/* SPDX-License-Identifier: BSD-3-Clause */
/* model.c: the model of a file: its sizes, before ranks are there, and its parameters. */
#include "training/sample/sample.h"

#include "training/checkpoint/checkpoint.h"
#include "training/weights/foreign.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Whether a file begins as a checkpoint does; else it is safetensors, or nothing that is read. */
static bool is_checkpoint(const char *path)
{
    char magic[8] = "";
    FILE *file = fopen(path, "rb");
    size_t got = file ? fread(magic, 1, sizeof magic, file) : 0;
    if (file)
        fclose(file);
    return got == sizeof magic && !memcmp(magic, "TUTTICKP", sizeof magic);
}

static void take(int64_t *size, int64_t of_file)
{
    if (!*size)
        *size = of_file;
}

/* The model, without its sizes, that a family begins with. */
static bool take_family(struct tr_options *o, const char *family, struct tr_error *e)
{
    size_t length = strlen(family);
    bool asked = tr_options_given(o, "model");
    if (asked && (strncmp(o->model.name, family, length) || !strchr(":2", o->model.name[length])))
        return tr_fail(e, "%s is of model %s, and --model is %s; legal is to leave --model out",
            o->files.load, family, o->model.name);
    if (!asked)
        snprintf(o->model.name, sizeof o->model.name, "%s:nano", family);
    return true;
}

static bool of_checkpoint(struct tr_options *o, struct tr_error *e)
{
    struct tr_model_options *sizes = &o->model.sizes;
    struct tr_heading h;
    int file;
    if (!tr_heading_open(&h, &file, o->files.load, e))
        return false;
    close(file);
    const struct tr_head *head = &h.head;
    unsigned choices = 0, experts = 0;
    bool moe = sscanf(head->model, "moe %u of %u", &choices, &experts) == 2;
    bool gpt = moe || !strcmp(head->model, "gpt"), llama = !strcmp(head->model, "llama");
    bool ok = (gpt || llama) ||
              tr_fail(e,
                  "%s is of a %s, which goes on with no text; legal is a checkpoint of a gpt, a moe or "
                  "a llama",
                  o->files.load, head->model);
    ok = ok && take_family(o, moe ? "moe" : head->model, e);
    if (ok) {
        take(&sizes->experts, experts), take(&sizes->choices, choices);
        take(&sizes->layers, head->layers), take(&sizes->channels, head->channels);
        take(&sizes->heads, head->heads), take(&sizes->context, head->context);
        take(&sizes->vocabulary, head->vocabulary);
        sizes->untied |= gpt && !head->tied;
    }
    if (ok && llama && head->entries) {
        take(&sizes->kv_heads, tr_kv_heads(head, tr_entry_named(&h, "layer0.qkv.weight")));
        take(&sizes->hidden, tr_entry_named(&h, "layer0.fc2.weight")->rows);
    }
    free(h.entries);
    return ok;
}

static bool of_safetensors(struct tr_options *o, struct tr_error *e)
{
    struct tr_safetensors s;
    if (!tr_safetensors_open(&s, o->files.load, e))
        return false;
    const char *family = tr_foreign_family(&s);
    struct tr_model_options *sizes = &o->model.sizes;
    bool ok = family || tr_fail(e,
                            "%s has neither transformer.wte.weight nor model.embed_tokens.weight; legal are "
                            "checkpoints of tutti-train, and a GPT-2 or a Llama as transformers writes it",
                            o->files.load);
    ok = ok && take_family(o, family, e);
    if (ok && !strcmp(family, "llama") && !(sizes->heads && sizes->context))
        ok = tr_fail(e,
            "%s is of a Llama, and does not say its heads nor its context; legal is --heads N "
            "--context N",
            o->files.load);
    if (ok)
        tr_foreign_sizes(sizes, o->model.name, &s);
    tr_safetensors_close(&s);
    return ok;
}

bool tr_sampled_model(struct tr_options *o, struct tr_error *e)
{
    if (!*o->files.load)
        return tr_fail(e, "there is no model; legal is --load FILE with a checkpoint, which train writes by "
                          "--save FILE, or safetensors");
    return is_checkpoint(o->files.load) ? of_checkpoint(o, e) : of_safetensors(o, e);
}

/* ---- parameters ---- */

/* What this rank has of an entry. */
static void put(const struct tr_runner *r, int entry, const float *whole)
{
    const struct tr_tape *t = r->tape;
    for (int n = 0; n < t->n_states; n++) {
        struct tr_piece p = tr_piece_held(r, &t->states[n], TR_VALUES);
        if (tr_heading_entry(t->placed->g, t->states[n].parameter) == entry && p.count)
            tr_piece_put(&p, 0, p.count, whole + p.from);
    }
}

static bool load_foreign(const struct tr_runner *r, const char *path, struct tr_error *e)
{
    const struct tr_placed *p = r->tape->placed;
    struct tr_safetensors s;
    struct tr_heading h;
    if (!tr_safetensors_open(&s, path, e))
        return false;
    tr_heading_make(&h, p->g, p->plan, 0);
    float *here = tr_new((size_t)tr_longest(&h), sizeof *here),
          *there = tr_new((size_t)tr_longest(&h), sizeof *there);
    bool ok = true;
    for (int i = 0; i < (int)h.head.entries && ok; i++) {
        ok = tr_foreign_read(&h, &h.entries[i], &s, here, there, e);
        if (ok)
            put(r, i, here);
    }
    free(here), free(there), free(h.entries);
    tr_safetensors_close(&s);
    return ok;
}

bool tr_sampled_load(struct tr_runner *r, const char *path, tutti_comm *ranks, struct tr_error *e)
{
    return is_checkpoint(path) ? tr_checkpoint_load_values(r, path, ranks, e) : load_foreign(r, path, e);
}
