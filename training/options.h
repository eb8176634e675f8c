/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h: what the user asks for, and the run that follows from it. */
#ifndef TRAINING_OPTIONS_H
#define TRAINING_OPTIONS_H

#include "training/kernels/kernels.h"
#include "training/parallel/paradigms.h"
#include "training/schedule/schedule.h"

/* Every model, for --help and for who asks for another one. */
#define TR_MODELS                                                                                            \
    "gpt:nano, gpt:nano8, gpt:micro, gpt:small, mlp:nano, mlp:micro, cnn:nano, cnn:micro, "                  \
    "moe:nano, moe:micro"

struct tr_options {
    /* the model */
    char model[32];
    long layers, channels, heads, context, inputs, vocabulary, experts, top_k; /* 0: as the model says */
    double capacity_factor, aux_loss;
    bool untied;
    /* what is learned */
    char data[512], labels[512];
    long steps, batch, seed;
    double rate, decay, clip;
    char optimizer[16];
    /* ranks */
    long ranks; /* 0: what the mesh needs */
    long pp, dp, cp, ep, tp;
    long servers, staleness; /* -1: no bound */
    char server_mode[16], arrivals[512], arrivals_log[512], slow[32];
    char workers[32]; /* compare server: numbers of them */
    bool sp;
    char cp_attention[16], cp_map[16], cnn_cut[16], conv_split[16], norm[16];
    long norm_groups, grid, planes; /* 0: as the model says */
    long cp_ulysses; /* 0: two, where there are two levels */
    long zero, micro, chunks;
    char dp_reduce[16], bucket[32];
    bool overlap;
    bool zero3_keep;
    long zero3_prefetch, zero3_persist;
    char schedule[256], async[16], stage_layers[128], balance[16];
    char recompute[16], recompute_comm[16];
    char wgrad[16], offload[16];
    long optimizer_threads, offload_delay;
    /* what is kept */
    char save[512], load[512];
    long save_every, check_replicas; /* the latter -1: not said */
    /* what is shown */
    char memory[32], host_memory[32];
    char order[16], kernels[16], precision[16], rounding[16];
    bool json, markdown, hex, gantt, stage_memory, all, quick, quiet;
    long random; /* verify: so many option sets */
    char trace[512];
    long trace_step; /* -1: the last */
    char inject[48];
    long tape; /* explain: a rank whose list is printed; -1: none */
    bool help;
};

void tr_options_default(struct tr_options *o);
/* Words after the command's name. An unknown option names the nearest one. */
bool tr_options_parse(struct tr_options *o, int argc, char **argv, struct tr_error *e);
void tr_options_help(FILE *to);

enum { TR_OPTION_TEXT = 160 };
/* Whether two ranks were given the same; else the first option that differs, as each of them has it. */
bool tr_options_same(const struct tr_options *a, const struct tr_options *b, char of_a[TR_OPTION_TEXT],
    char of_b[TR_OPTION_TEXT]);

/* "--tp 2 --sp": those of these options that differ from what `without` has, as far as there is room; NULL
 * ends the names. How long it is. */
size_t tr_options_beyond(char *to, size_t room, const struct tr_options *o, const struct tr_options *without,
    const char *const *names);

/* Those in which it differs from one device, of the paradigms that it has. */
void tr_options_how(char *to, size_t room, const struct tr_options *o);

/* A run: a model, a plan for a mesh, and a schedule. They refer to each other: none may move. */
struct tr_run {
    struct tr_graph graph;
    struct tr_plan plan;
    struct tr_schedule schedule;
};

/* dp 0 takes the ranks that are left. Sizes that do not fit are an error that says what would. */
/* What the options say of pictures; `grid` is that of the model, and 0 if it has none. */
bool tr_cnn_options(struct tr_model_options *to, const struct tr_options *o, const char *model, int64_t grid,
    struct tr_error *e);
/* The mesh alone, whatever the model and the batch. */
bool tr_options_mesh(struct tr_mesh *m, const struct tr_options *o, struct tr_error *e);
bool tr_run_make(struct tr_run *r, const struct tr_options *o, struct tr_error *e);
void tr_run_free(struct tr_run *r);
/* Whether sums may have any order. */
bool tr_options_any_order(const struct tr_options *o);
/* The set of kernels that is asked for; NULL if this machine has it not. */
const struct tr_kernels *tr_options_kernels(const struct tr_options *o, struct tr_error *e);
/* "64M" */
bool tr_parse_bytes(const char *text, int64_t *bytes);

#endif
