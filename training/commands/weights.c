/* SPDX-License-Identifier: BSD-3-Clause */
/* weights.c: the commands `tutti-train export` and `tutti-train import`: of a
 * checkpoint a file that other programs read, and the other way. Both work on
 * files alone: a checkpoint knows no mesh. */
#include "training/checkpoint/file.h"
#include "training/checkpoint/head.h"
#include "training/commands/commands.h"
#include "training/commands/prepare.h"
#include "training/weights/names.h"
#include "training/weights/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char export_usage[] = "export CHECKPOINT FILE\n"
                                   "\n"
                                   "Writes the parameters of a checkpoint as safetensors, which Hugging "
                                   "Face's libraries read. Those of a "
                                   "GPT\n"
                                   "and of a Llama have the names and the layout of GPT-2 and of Llama in "
                                   "transformers, and what its\n"
                                   "config.json must say is printed; other models keep theirs.";
static const char import_usage[] =
    "import FILE CHECKPOINT [OPTION]...\n"
    "\n"
    "Makes a checkpoint of step 0 of safetensors: of a GPT-2, or with --model "
    "llama:nano of a Llama, as\n"
    "transformers writes it, or of what export wrote. F32, F16 and BF16 are "
    "read. The sizes of a GPT are "
    "read off the file; its heads are not in "
    "there,\n"
    "and are those of GPT-2, of 64 channels each, without --heads. The options "
    "are those of train: the run\n"
    "that will begin with the checkpoint by --load.";

/* The first two words, which are files; false: status says how the command
 * ends. */
static bool two_files(int argc, char **argv, const char *usage, int *status)
{
    bool help = argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"));
    *status = help ? 0 : 2;
    if (help)
        printf("usage: tutti-train %s\n", usage);
    else if (argc < 3 || argv[1][0] == '-' || argv[2][0] == '-')
        fprintf(stderr, "tutti-train %s: two files are needed; legal is %.*s\n", argv[0],
            (int)strcspn(usage, "\n"), usage);
    else
        return true;
    return false;
}

/* The longest array of a parameter, and room for it. */
static int64_t longest(const struct tr_heading *h)
{
    int64_t most = 1;
    for (uint32_t i = 0; i < h->head.entries; i++) {
        int64_t count = h->entries[i].rows * h->entries[i].columns;
        most = count > most ? count : most;
    }
    return most;
}

/* ---- export ---- */

/* `stored`: how many tensors the entries before it gave. */
static bool export_entry(const struct tr_heading *h, int i, int *stored, int from, const char *path,
    const struct tr_safetensors *to, float *here, float *there, struct tr_error *e)
{
    const struct tr_saved *entry = &h->entries[i];
    struct tr_piece piece = { .at = here, .count = entry->rows * entry->columns };
    if (!tr_read_at(from, here, piece.count * 4, entry->at, path, e))
        return false;
    if (tr_piece_sum(&piece) != entry->sums[TR_VALUES])
        return tr_fail(e, "%s is damaged: the checksum of values of %s is wrong", path, entry->name);
    for (int part = 0; part < tr_foreign_parts(&h->head, entry); part++) {
        struct tr_foreign f;
        const struct tr_stored *t = &to->tensors[(*stored)++];
        tr_foreign_of(&f, &h->head, entry, part);
        for (int64_t k = 0; k < t->count; k++)
            there[k] = here[tr_foreign_at(&f, k)];
        if (!tr_safetensors_write(to, t, there, e))
            return false;
    }
    return true;
}

static bool export_all(
    const struct tr_heading *h, int from, const char *path, const char *to, struct tr_error *e)
{
    struct tr_safetensors s = { .file = -1 };
    struct tr_foreign f;
    char part_name[TR_PATH];
    int stored = 0;
    if (!tr_file_part(part_name, to, e))
        return false;
    for (uint32_t i = 0; i < h->head.entries; i++)
        for (int part = 0; part < tr_foreign_parts(&h->head, &h->entries[i]); part++) {
            tr_foreign_of(&f, &h->head, &h->entries[i], part);
            tr_safetensors_add(&s, f.name, f.dims, f.shape);
        }
    float *here = tr_new((size_t)longest(h), sizeof *here),
          *there = tr_new((size_t)longest(h), sizeof *there);
    bool ok = tr_safetensors_make(&s, part_name, e);
    for (uint32_t i = 0; i < h->head.entries && ok; i++)
        ok = export_entry(h, (int)i, &stored, from, path, &s, here, there, e);
    ok = ok && tr_file_name(s.file, part_name, to, e);
    if (!ok)
        unlink(part_name);
    free(here), free(there);
    tr_safetensors_close(&s);
    return ok;
}

/* The entry of that name, or the first. */
static const struct tr_saved *entry_named(const struct tr_heading *h, const char *name)
{
    uint32_t i = 0;
    while (i < h->head.entries && strcmp(h->entries[i].name, name) != 0)
        i++;
    return &h->entries[i < h->head.entries ? i : 0];
}

static void print_llama(const struct tr_heading *of)
{
    const struct tr_head *h = &of->head;
    printf("{\"model_type\": \"llama\", \"num_hidden_layers\": %" PRId64 ", \"hidden_size\": %" PRId64
           ", \"num_attention_heads\": %" PRId64 ", \"num_key_value_heads\": %" PRId64
           ", \"intermediate_size\": %" PRId64 ", \"max_position_embeddings\": %" PRId64
           ", \"vocab_size\": %" PRId64 ", \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, "
           "\"tie_word_embeddings\": false}\n",
        h->layers, h->channels, h->heads, tr_kv_heads(h, entry_named(of, "layer0.qkv.weight")),
        entry_named(of, "layer0.fc2.weight")->rows, h->context, h->vocabulary);
}

static void print_config(const struct tr_heading *of, const char *to)
{
    const struct tr_head *h = &of->head;
    printf("# %s has %s of step %" PRId64 "\n", to, h->model, h->step);
    if (!strcmp(h->model, "llama"))
        print_llama(of);
    if (!strcmp(h->model, "gpt"))
        printf("{\"model_type\": \"gpt2\", \"n_layer\": %" PRId64 ", \"n_embd\": %" PRId64
               ", \"n_head\": %" PRId64 ", \"n_positions\": %" PRId64 ", \"vocab_size\": %" PRId64
               ", \"tie_word_embeddings\": %s}\n",
            h->layers, h->channels, h->heads, h->context, h->vocabulary, h->tied ? "true" : "false");
}

int tr_command_export(int argc, char **argv)
{
    struct tr_error e;
    struct tr_heading h = { .entries = NULL };
    int status;
    if (!two_files(argc, argv, export_usage, &status))
        return status;
    if (argc > 3) {
        fprintf(stderr, "tutti-train export: %s is one word too many; legal are two files\n", argv[3]);
        return 2;
    }
    int from = open(argv[1], O_RDONLY | O_CLOEXEC);
    bool ok = from >= 0 || tr_fail(&e, "%s cannot be read: %s", argv[1], strerror(errno));
    ok = ok && tr_heading_read(&h, from, argv[1], NULL, &e) && export_all(&h, from, argv[1], argv[2], &e);
    if (ok)
        print_config(&h, argv[2]);
    free(h.entries);
    if (from >= 0)
        close(from);
    return ok ? 0 : tr_refuse(1, &e);
}

/* ---- import ---- */

/* As transformers writes a whole model, and as it writes one without its head:
 * GPT-2's own files. */
static const struct tr_stored *find(const struct tr_safetensors *s, const char *name)
{
    static const char outer[] = "transformer.";
    const struct tr_stored *found = tr_safetensors_find(s, name);
    return found || strncmp(name, outer, strlen(outer)) != 0 ? found
                                                             : tr_safetensors_find(s, name + strlen(outer));
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
static void read_sizes(struct tr_options *o, const struct tr_safetensors *s)
{
    struct tr_model_options *sizes = &o->model.sizes;
    const struct tr_stored *wte = find(s, "transformer.wte.weight"), *wpe = find(s, "transformer.wpe.weight");
    if (!strncmp(o->model.name, "llama", 5))
        read_llama_sizes(sizes, s);
    if (strncmp(o->model.name, "gpt", 3) != 0 || !wte || !wpe || wte->dims != 2 || wpe->dims != 2)
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

static bool import_part(const struct tr_heading *h, const struct tr_saved *entry, int part,
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

static bool import_entry(struct tr_heading *h, int i, const struct tr_safetensors *s, int to,
    const char *path, float *here, float *there, struct tr_error *e)
{
    struct tr_saved *entry = &h->entries[i];
    struct tr_piece piece = { .at = here, .count = entry->rows * entry->columns };
    for (int part = 0; part < tr_foreign_parts(&h->head, entry); part++)
        if (!import_part(h, entry, part, s, here, there, e))
            return false;
    entry->sums[TR_VALUES] = tr_piece_sum(&piece);
    if (!tr_write_at(to, here, piece.count * 4, entry->at, path, e))
        return false;
    memset(
        here, 0, (size_t)piece.count * sizeof *here); /* AdamW has seen no gradient: the file has 0 there */
    if (h->head.adamw)
        entry->sums[TR_M] = entry->sums[TR_V] = tr_piece_sum(&piece);
    return true;
}

static bool import_all(
    struct tr_heading *h, const struct tr_safetensors *s, const char *path, struct tr_error *e)
{
    char part[TR_PATH];
    if (!tr_file_part(part, path, e) || !tr_file_make(part, h->head.bytes, e))
        return false;
    float *here = tr_new((size_t)longest(h), sizeof *here),
          *there = tr_new((size_t)longest(h), sizeof *there);
    int to = open(part, O_WRONLY | O_CLOEXEC);
    bool ok = to >= 0 || tr_fail(e, "%s cannot be written: %s", part, strerror(errno));
    for (uint32_t i = 0; i < h->head.entries && ok; i++)
        ok = import_entry(h, (int)i, s, to, part, here, there, e);
    ok = ok && tr_heading_write(h, to, part, e) && tr_file_name(to, part, path, e);
    if (!ok)
        unlink(part);
    free(here), free(there);
    if (to >= 0)
        close(to);
    return ok;
}

/* The sizes that a run says which will --load it. */
static void say_imported(const struct tr_heading *of, const char *to)
{
    const struct tr_head *h = &of->head;
    printf("# %s: %s with --layers %" PRId64 " --channels %" PRId64 " --heads %" PRId64 " --context %" PRId64
           " --vocabulary %" PRId64,
        to, h->model, h->layers, h->channels, h->heads, h->context, h->vocabulary);
    if (!strcmp(h->model, "llama"))
        printf(" --kv-heads %" PRId64 " --hidden %" PRId64 "\n",
            tr_kv_heads(h, entry_named(of, "layer0.qkv.weight")), entry_named(of, "layer0.fc2.weight")->rows);
    else
        printf("%s\n", h->heads && !h->tied ? " --untied" : "");
}

int tr_command_import(int argc, char **argv)
{
    struct tr_options o;
    struct tr_error e;
    struct tr_safetensors s;
    struct tr_run run;
    int status;
    if (!two_files(argc, argv, import_usage, &status) ||
        !tr_begin(&o, argc - 2, argv + 2, import_usage, true, &status))
        return status;
    if (!tr_safetensors_open(&s, argv[1], &e))
        return tr_refuse(1, &e);
    read_sizes(&o, &s);
    bool ok = tr_run_make(&run, &o, &e);
    if (ok) {
        struct tr_heading h;
        tr_heading_make(&h, &run.graph, &run.plan, (uint64_t)o.seed);
        ok = import_all(&h, &s, argv[2], &e);
        if (ok)
            say_imported(&h, argv[2]);
        free(h.entries);
        tr_run_free(&run);
    }
    tr_safetensors_close(&s);
    return ok ? 0 : tr_refuse(1, &e);
}
