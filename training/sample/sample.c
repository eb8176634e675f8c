/* SPDX-License-Identifier: BSD-3-Clause */
/* sample.c: the command `tutti-train sample`: a trained model goes on with a text.
 *
 * For each token the model reads a window of the text once more, by a list that is forward alone: the simple
 * form, which keeps nothing from token to token. A text that is shorter than the window is padded behind,
 * where causal attention does not look; of a longer one the last tokens are read. Each rank gives what it has
 * of the scores behind the last token; the first one chooses, and tells. */
#include "training/commands/commands.h"
#include "training/commands/device.h"
#include "training/commands/limits.h"
#include "training/commands/prepare.h"
#include "training/launch.h"
#include "training/sample/sample.h"
#include "training/text/tokenizer.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { STOPPED = -1 };

static const char usage[] =
    "sample --load FILE --prompt TEXT [OPTION]...\n"
    "\n"
    "Goes on with a text, on stdout as it comes. What is told of it goes to stderr.\n"
    "\n"
    "  --load FILE            a checkpoint of a gpt, a moe or a llama, which train writes by --save FILE; "
    "or\n"
    "                         safetensors with the names of GPT-2 or Llama in transformers\n"
    "  --prompt TEXT          what it goes on with\n"
    "  --tokens N             how many tokens; 200\n"
    "  --temperature X        a token is exp(score / X) times as likely; 0: always the likeliest; 0.8\n"
    "  --top-k N              none but the N likeliest are drawn\n"
    "  --seed N               of the random numbers, one for each token: the same text on any mesh; 1\n"
    "  --tokenizer DIRECTORY  with GPT-2's vocab.json and merges.txt; without it a token is a byte\n"
    "  --quiet                the text, and nothing else\n"
    "\n"
    "The model is that of the file. Of safetensors the heads are not in there: GPT-2 has one in 64 channels\n"
    "without --heads N; a Llama needs --heads N and --context N. One rank computes without more; a model "
    "that\n"
    "is too large for it is cut by -n N, --tp N, --sp, --pp N, --stage-layers LIST, --cp N, --cp-attention "
    "FORM,\n"
    "--cp-ulysses N and --cp-map MAP, as train cuts it. --memory, --kernels, --threads and --device are "
    "train's.\n"
    "\n"
    "  tutti-train --save model --steps 500\n"
    "  tutti-train sample --load model --prompt 'The '";

static const char *const legal[] = { "model", "layers", "channels", "heads", "kv-heads", "hidden", "context",
    "vocabulary", "untied", "top-k", "seed", "ranks", "ranks-as", "load", "memory", "kernels", "threads",
    "device", "prompt", "tokens", "temperature", "tokenizer", "quiet", "dp", "tp", "sp", "pp", "stage-layers",
    "cp", "cp-attention", "cp-ulysses", "cp-map", NULL };

/* What is asked for, and the text so far. */
struct sampling {
    const struct tr_options *options;
    struct tr_drawing drawing;
    const struct tr_tokenizer *tokenizer;
    uint16_t *text;
    int64_t count, vocabulary; /* tokens of the text; those that may follow */
    int ranks;
};

/* ---- one rank of several ---- */

/* The last tokens of the text, and behind a short one zeros; the place of its last. */
static int64_t fill_window(struct tr_data *window, const struct sampling *s, int64_t context)
{
    int64_t seen = s->count < context ? s->count : context;
    memset(window->tokens, 0, (size_t)window->count * sizeof *window->tokens);
    memcpy(window->tokens, s->text + s->count - seen, (size_t)seen * sizeof *s->text);
    return seen - 1;
}

/* A score is on one rank, and the bits of all others are 0. */
static bool gather(float *scores, int64_t count, tutti_comm *ranks, struct tr_error *e)
{
    return !ranks ||
           tutti_all_reduce(scores, scores, (size_t)count, TUTTI_UINT32, TUTTI_SUM, ranks,
               tutti_no_stream()) == TUTTI_OK ||
           tr_fail(e, "the scores: %s", tr_why(ranks));
}

static bool tell(int32_t *token, tutti_comm *ranks, struct tr_error *e)
{
    return !ranks || tutti_broadcast(token, token, 1, TUTTI_INT32, 0, ranks, tutti_no_stream()) == TUTTI_OK ||
           tr_fail(e, "the next token: %s", tr_why(ranks));
}

/* Who reads may have had enough. */
static bool write_out(
    struct tr_writer *w, const struct sampling *s, int64_t token, bool *stop, struct tr_error *e)
{
    int64_t count;
    const uint8_t *bytes = tr_decode(s->tokenizer, token, &count);
    bool ok = tr_write_text(w, bytes, count);
    *stop = !ok;
    return ok || errno == EPIPE || tr_fail(e, "the text cannot be written: %s", strerror(errno));
}

static bool choose(
    const struct sampling *s, const float *scores, int64_t number, int32_t *token, struct tr_error *e)
{
    *token = (int32_t)tr_draw(&s->drawing, scores, s->vocabulary, number);
    return *token >= 0 || tr_fail(e, "token %" PRId64 ": a score is no number; the parameters of %s are none",
                              number, s->options->files.load);
}

/* The first rank has the writer; NULL: this is another one. */
static bool go_on(struct tr_runner *r, struct tr_data *window, struct sampling *s, tutti_comm *ranks,
    struct tr_writer *writer, struct tr_error *e)
{
    int64_t vocabulary = r->tape->placed->g->vocabulary, context = r->tape->placed->g->context;
    float *scores = tr_new((size_t)vocabulary, sizeof *scores);
    bool ok = true, stop = false;
    for (int64_t i = 0; i < s->count && writer && ok && !stop; i++)
        ok = write_out(writer, s, s->text[i], &stop, e);
    for (int64_t n = 0; n < s->options->tokens && ok; n++) {
        int32_t token = STOPPED;
        memset(scores, 0, (size_t)vocabulary * sizeof *scores);
        ok = tr_runner_ask(r, fill_window(window, s, context), scores, e) &&
             gather(scores, vocabulary, ranks, e);
        if (ok && writer && !stop && !tr_asked())
            ok = choose(s, scores, n, &token, e);
        ok = ok && tell(&token, ranks, e);
        if (!ok || token == STOPPED)
            break;
        s->text[s->count++] = (uint16_t)token;
        if (writer)
            ok = write_out(writer, s, token, &stop, e);
    }
    free(scores);
    return ok;
}

static void say_begin(const struct sampling *s, const struct tr_prepared *p)
{
    const struct tr_graph *g = &p->run.graph;
    char mesh[64];
    fprintf(stderr, "# %s: %s of %" PRId64 " layers, %" PRId64 " channels, context %" PRId64 "; %s\n",
        s->options->files.load, g->model, g->layers, g->channels, g->context,
        tr_mesh_text(&p->run.plan.mesh, mesh));
    if (s->count > g->context)
        fprintf(stderr, "# the prompt has %" PRId64 " tokens, of which the model sees the last %" PRId64 "\n",
            s->count, g->context);
}

static bool write_all(struct tr_runner *r, struct tr_data *window, struct sampling *s,
    const struct tr_prepared *p, tutti_comm *ranks, struct tr_error *e)
{
    struct tr_writer writer = { .to = stdout };
    bool first = r->tape->rank == 0, loud = first && !s->options->shown.quiet;
    int64_t before = s->count, from = tr_now_ns();
    if (loud)
        say_begin(s, p);
    if (!go_on(r, window, s, ranks, first ? &writer : NULL, e))
        return false;
    if (first && !tr_write_end(&writer) && errno != EPIPE)
        return tr_fail(e, "the text cannot be written: %s", strerror(errno));
    double seconds = (double)(tr_now_ns() - from) * 1e-9;
    if (loud)
        fprintf(stderr, "# %" PRId64 " tokens in %.1f s, %.0f a second\n", s->count - before, seconds,
            (double)(s->count - before) / seconds);
    if (tr_asked())
        tr_ended_by(tr_asked());
    return true;
}

static bool sample(tutti_comm *world, void *context, struct tr_error *e)
{
    struct sampling own = *(const struct sampling *)context, *s = &own;
    struct tr_options o = *s->options;
    struct tr_prepared p;
    struct tr_runner runner;
    struct tr_seat seat;
    tutti_comm *ranks = NULL;
    int rank = world ? tutti_comm_rank(world) : 0, n = world ? tutti_comm_size(world) : 1;
    tutti_config config = { .size = sizeof config, .name = "sample" };
    signal(SIGPIPE, SIG_IGN);
    if (!tr_same_options(&o, world, e) || !tr_prepare(&p, &o, e))
        return false;
    if (s->ranks != n)
        return tr_fail(e, "the mesh has %d ranks, and %d were started; legal are --tp, --pp and --cp for all",
            s->ranks, n);
    int64_t room = p.run.graph.context + 1;
    struct tr_data window = { .name = "the prompt",
        .tokens = tr_new((size_t)room, sizeof *window.tokens),
        .count = room,
        .stride = room };
    s->text = tr_new((size_t)(s->count + o.tokens), sizeof *s->text);
    memcpy(s->text, ((const struct sampling *)context)->text, (size_t)s->count * sizeof *s->text);
    if (world && tutti_comm_split(world, 0, rank, &config, &ranks) != TUTTI_OK)
        return tr_fail(e, "group sample: %s", tr_why(world));
    bool ok = tr_seat_take(&seat, &o, world, e) && tr_limits_kept(&p, &o, seat.bytes, e);
    if (ok) {
        ok = tr_runner_open(&runner, tr_tapes_of(p.tapes, rank), seat.kernels, &window, seat.ranks, e) &&
             tr_sampled_load(&runner, o.files.load, ranks, e) && write_all(&runner, &window, s, &p, ranks, e);
        if (ok || !world) { /* a rank that failed ends with its process */
            tr_runner_close(&runner);
            tr_seat_leave(&seat);
        }
    }
    if (ranks)
        tutti_comm_destroy(ranks);
    free(s->text);
    tr_data_close(&window);
    tr_prepared_free(&p);
    return ok;
}

/* ---- before ranks are there ---- */

/* A text is one sequence, and is read on any mesh that cuts no batch, by attention that sees all of it. */
static bool can_mesh(struct sampling *s, struct tr_options *o, struct tr_error *e)
{
    struct tr_plan p;
    const char *foreign = tr_options_other(o, legal);
    if (foreign)
        return tr_fail(e, "--%s is no option of sample, whose --help tells which are", foreign);
    if (o->plan.tokens.form == TR_CP_LOCAL)
        return tr_fail(e,
            "--cp-attention local sees a part of the text, and would go on with another one; legal "
            "are the other forms");
    if (!tr_options_mesh(&p, o, e))
        return false;
    if (p.sizes.dp > 1)
        return tr_fail(e,
            "%d ranks with dp %ld: data parallelism cuts a batch, and a text is one sequence; legal is --dp "
            "1, "
            "with --tp, --pp and --cp for more ranks",
            p.mesh.n, p.sizes.dp);
    o->plan.sizes.dp = 1;
    s->ranks = p.mesh.n;
    return true;
}

/* Every token of the prompt is one that the model knows, and every one that it may choose has a text. */
static bool take_prompt(struct sampling *s, const struct tr_graph *g, struct tr_error *e)
{
    const struct tr_options *o = s->options;
    if (!*o->prompt)
        return tr_fail(e, "there is no prompt; legal is --prompt TEXT of at least a character");
    if (g->vocabulary > s->tokenizer->count && !*o->tokenizer)
        return tr_fail(e,
            "the model has %" PRId64 " tokens, and a byte is one of %" PRId64 "; legal is --tokenizer "
            "DIRECTORY with the vocabulary that it has learned",
            g->vocabulary, s->tokenizer->count);
    s->vocabulary = g->vocabulary < s->tokenizer->count ? g->vocabulary : s->tokenizer->count;
    s->text = tr_encode(s->tokenizer, (const uint8_t *)o->prompt, (int64_t)strlen(o->prompt), &s->count);
    for (int64_t i = 0; i < s->count; i++)
        if (s->text[i] >= g->vocabulary)
            return tr_fail(e, "token %" PRId64 " of the prompt is %d; the model has 0 to %" PRId64 "%s", i,
                s->text[i], g->vocabulary - 1,
                *o->tokenizer ? ", and so it has not learned this vocabulary" : "");
    return true;
}

static bool prepare(
    struct sampling *s, struct tr_options *o, struct tr_tokenizer *tokenizer, struct tr_error *e)
{
    struct tr_prepared p;
    long top_k = o->model.sizes.choices;
    o->model.sizes.choices = 0; /* of experts: the file says how many a token has */
    *s = (struct sampling){
        .options = o, .tokenizer = tokenizer, .drawing = { o->temperature, top_k, (uint64_t)o->seed }
    };
    if (!can_mesh(s, o, e) || !tr_sampled_model(o, e) || !tr_tokenizer_open(tokenizer, o->tokenizer, e))
        return false;
    o->plan.forward = true;
    o->plan.batch = o->plan.micros = 1;
    if (!tr_prepare(&p, o, e))
        return false;
    bool ok = take_prompt(s, &p.run.graph, e);
    tr_prepared_free(&p);
    return ok;
}

int tr_command_sample(int argc, char **argv)
{
    struct tr_options o;
    struct tr_error e;
    struct sampling s;
    struct tr_tokenizer tokenizer = { .count = 0 };
    int status;
    if (!tr_begin(&o, argc, argv, usage, false, &status))
        return status;
    if (o.ranks_as_threads)
        tr_launch_threads();
    bool ok = prepare(&s, &o, &tokenizer, &e);
    status = ok ? tr_launch_asking(s.ranks, sample, &s) : tr_refuse(1, &e);
    free(s.text);
    tr_tokenizer_close(&tokenizer);
    return status;
}
