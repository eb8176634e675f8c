/* SPDX-License-Identifier: BSD-3-Clause */
/* weights.c: the commands `tutti-train export` and `tutti-train import`: of a
 * checkpoint a file that other programs read, and the other way. Both work on
 * files alone: a checkpoint knows no mesh. */
#include "training/checkpoint/file.h"
#include "training/checkpoint/head.h"
#include "training/commands/commands.h"
#include "training/commands/prepare.h"
#include "training/weights/foreign.h"
#include "training/weights/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* The file that is written would take the place of the one that is read. */
static bool is_same(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

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
    else if (is_same(argv[1], argv[2]))
        fprintf(stderr, "tutti-train %s: %s and %s are one file; legal are two\n", argv[0], argv[1], argv[2]);
    else
        return true;
    return false;
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
    return tr_foreign_write(h, i, stored, here, there, to, e);
}

static bool export_all(
    const struct tr_heading *h, int from, const char *path, const char *to, struct tr_error *e)
{
    struct tr_safetensors s = { .file = -1 };
    char part_name[TR_PATH];
    int stored = 0;
    if (!tr_file_part(part_name, to, e))
        return false;
    tr_foreign_add(h, &s);
    float *here = tr_new((size_t)tr_longest(h), sizeof *here),
          *there = tr_new((size_t)tr_longest(h), sizeof *there);
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

static void print_llama(const struct tr_heading *of)
{
    const struct tr_head *h = &of->head;
    printf("{\"model_type\": \"llama\", \"num_hidden_layers\": %" PRId64 ", \"hidden_size\": %" PRId64
           ", \"num_attention_heads\": %" PRId64 ", \"num_key_value_heads\": %" PRId64
           ", \"intermediate_size\": %" PRId64 ", \"max_position_embeddings\": %" PRId64
           ", \"vocab_size\": %" PRId64 ", \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, "
           "\"tie_word_embeddings\": false}\n",
        h->layers, h->channels, h->heads, tr_kv_heads(h, tr_entry_named(of, "layer0.qkv.weight")),
        tr_entry_named(of, "layer0.fc2.weight")->rows, h->context, h->vocabulary);
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
    int from;
    if (!tr_heading_open(&h, &from, argv[1], &e))
        return tr_refuse(1, &e);
    bool ok = export_all(&h, from, argv[1], argv[2], &e);
    if (ok)
        print_config(&h, argv[2]);
    free(h.entries);
    close(from);
    return ok ? 0 : tr_refuse(1, &e);
}

/* ---- import ---- */

static bool import_entry(struct tr_heading *h, int i, const struct tr_safetensors *s, int to,
    const char *path, float *here, float *there, struct tr_error *e)
{
    struct tr_saved *entry = &h->entries[i];
    struct tr_piece piece = { .at = here, .count = entry->rows * entry->columns };
    if (!tr_foreign_read(h, entry, s, here, there, e))
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
    float *here = tr_new((size_t)tr_longest(h), sizeof *here),
          *there = tr_new((size_t)tr_longest(h), sizeof *there);
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
            tr_kv_heads(h, tr_entry_named(of, "layer0.qkv.weight")),
            tr_entry_named(of, "layer0.fc2.weight")->rows);
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
    tr_foreign_sizes(&o.model.sizes, o.model.name, &s);
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
