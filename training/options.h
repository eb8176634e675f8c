/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h: what the user asks for, and the run that follows from it. */
#ifndef TRAINING_OPTIONS_H
#define TRAINING_OPTIONS_H

#include "training/kernels/kernels.h"
#include "training/parallel/paradigms.h"
#include "training/schedule/schedule.h"

/* Every model, for --help and for who asks for another one. */
#define TR_MODELS                                                                                            \
    "gpt:nano, gpt:nano8, gpt:micro, gpt:small, gpt2:124M, gpt2:355M, gpt2:774M, gpt2:1.5B, gpt3:175B, "     \
    "gpt:1T, llama:nano, llama:micro, llama2:7B, llama2:13B, llama2:70B, mlp:nano, mlp:micro, cnn:nano, "    \
    "cnn:micro, moe:nano, moe:micro"

/* What the user asks for. A number that the model or the mesh has of itself is 0 where it is not said. */
struct tr_options {
    struct {
        char name[32];
        bool norm; /* cnn: group norm after each convolution */
        struct tr_model_options sizes;
    } model;
    struct tr_plan plan; /* the mesh and what else follows stand in the plan of a tr_run */
    long ranks, steps, seed;
    bool ranks_as_threads;
    struct {
        char data[512], labels[512], save[512], save_gradients[512], load[512];
        long save_every, check_replicas; /* the latter -1: not said */
    } files;
    struct {
        long every, batches; /* a loss of text that is not learned; 0: never */
    } held_out;
    struct {
        int64_t memory, host_memory; /* limits of a rank; 0: none */
        bool json, markdown, hex, gantt, stage_memory, quiet;
        char html[512]; /* compare: a page to write */
        char trace[512], log[512];
        char machine[512]; /* plan: a preset, or a file */
        bool measure; /* plan: this one */
        long trace_step; /* -1: the last */
        long tape; /* explain: a rank whose list is printed; -1: none */
    } shown;
    struct {
        bool all, quick;
        long random; /* so many option sets */
        char inject[48]; /* an error that is planted */
    } tests;
    char prompt[4096], tokenizer[512]; /* sample: a text to go on with; a directory */
    long tokens; /* that follow it */
    double temperature;
    char kernels[16];
    long threads; /* of a rank that compute together */
    bool device; /* ranks compute on devices */
    char tune[512]; /* a file: tiles of products on a device */
    bool no_graphs; /* where each step is begun piece by piece */
    bool help;
};

void tr_options_default(struct tr_options *o);
/* Words after the command's name. An unknown option names the nearest one. */
bool tr_options_parse(struct tr_options *o, int argc, char **argv, struct tr_error *e);
void tr_options_help(FILE *to);

enum { TR_OPTION_TEXT = 160 };
/* Whether it has another value than without a word. */
bool tr_options_given(const struct tr_options *o, const char *name);
/* The first option that was given and is not in the list, which NULL ends; NULL: there is none. */
const char *tr_options_other(const struct tr_options *o, const char *const *names);
/* Whether two ranks were given the same; else the first option that differs, as each of them has it. */
bool tr_options_same(const struct tr_options *a, const struct tr_options *b, char of_a[TR_OPTION_TEXT],
    char of_b[TR_OPTION_TEXT]);

/* Copies what says what one rank computes, of the options of paradigms. */
void tr_options_bits(struct tr_options *to, const struct tr_options *from);

/* "--tp 2 --sp": those of these options that differ from what `without` has, as far as there is room; NULL
 * ends the names. */
void tr_options_beyond(char *to, size_t room, const struct tr_options *o, const struct tr_options *without,
    const char *const *names);

/* Those in which it differs from one device, of the paradigms that it has. */
void tr_options_how(char *to, size_t room, const struct tr_options *o);

/* A run: a model, a plan for a mesh, and a schedule. They refer to each other: none may move. */
struct tr_run {
    struct tr_graph graph;
    struct tr_plan plan;
    struct tr_schedule schedule;
};

/* What the options say of pictures; `grid` is that of the model, and 0 if it has none. */
bool tr_cnn_options(struct tr_model_options *to, const struct tr_options *o, const char *model, int64_t grid,
    struct tr_error *e);
/* The sizes and the mesh alone, whatever the model and the batch: dp 0 takes the ranks that are left. Sizes
 * that do not fit are an error that says what would. */
bool tr_options_mesh(struct tr_plan *p, const struct tr_options *o, struct tr_error *e);
bool tr_run_make(struct tr_run *r, const struct tr_options *o, struct tr_error *e);
void tr_run_free(struct tr_run *r);
/* The processor's set of kernels that is asked for; NULL if this machine has it not. */
const struct tr_kernels *tr_options_kernels(const struct tr_options *o, struct tr_error *e);
/* The set that a plan is made for, of the processor or of a device; NULL. */
const struct tr_kernels *tr_options_planned(const struct tr_options *o, struct tr_error *e);
/* "64M", and back. */
bool tr_parse_bytes(const char *text, int64_t *bytes);
const char *tr_bytes_text(int64_t bytes, char text[32]);

#endif
