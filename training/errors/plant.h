/* SPDX-License-Identifier: BSD-3-Clause */
/* plant.h: what a row of the table says: which instructions of which ranks are changed, and how. */
#ifndef TRAINING_ERRORS_PLANT_H
#define TRAINING_ERRORS_PLANT_H

#include "training/errors/inject.h"

/* An instruction that is looked for. What is 0 or NULL is not asked. */
struct tr_pick {
    enum tr_code code; /* TR_CODES: any */
    const char *tail; /* the name of the tensor that it is about ends so */
    int axes; /* of its group, a mask */
    int op; /* of TR_COMPUTE */
    bool backward; /* of a backward part */
    int micro; /* counted from 1 on */
    enum { TR_ABOUT_ANY, TR_ABOUT_PARAMETER, TR_ABOUT_ACTIVATION } about;
    bool beside; /* on a host stream, or a wait for such a call */
};

/* On which ranks. */
enum tr_planted_on {
    TR_ON_EACH, /* on each rank; one that cannot have the error makes it impossible */
    TR_ON_ANY, /* on those that can have it */
    TR_ON_ONE, /* the first that can */
    TR_ON_THIRD, /* those of the third replica of dp that can */
    TR_ON_FIRST,
    TR_ON_LAST,
    TR_ON_SERVER, /* the last server */
    TR_ON_WORKER /* the first worker of servers */
};

/* A second instruction, of which the first is put, filled or read: where it stands. */
enum tr_second {
    TR_NONE,
    TR_ANYWHERE, /* the first such */
    TR_LATER, /* the first such behind it */
    TR_JUST_BEFORE,
    TR_JUST_BEHIND,
    TR_TWO_BEHIND
};

/* Where a row is about to plant its error. */
struct tr_spot {
    struct tr_tape *t;
    const struct tr_planting *row;
    int at, second; /* instructions; -1: the row asks for no second one */
    struct tr_instr *i; /* at `at` */
};
/* Plants it there; false, with nothing changed: this instruction cannot have the error. */
typedef bool tr_change(const struct tr_spot *s);

struct tr_planting {
    struct tr_injection is;
    enum tr_planted_on on;
    tr_change *change;
    struct tr_pick at; /* the first such that the change takes */
    bool last; /* the last one instead */
    bool every; /* all of them */
    enum tr_second second_is;
    struct tr_pick second;
    int to, from; /* operands */
    size_t field, size; /* of tr_instr: */
    int64_t value; /* what it is set to */
    bool places_stay; /* the memory was planned for the list without the error */
    bool (*whole)(struct tr_tape *tapes, int n); /* what no row can say: all is done here */
};

/* The first such instruction from `from` on; -1. */
int tr_find(const struct tr_tape *t, const struct tr_pick *p, int from);

extern const struct tr_planting tr_plantings[];
extern const int tr_n_plantings;

/* ---- mutate.c: the few ways in which a list goes wrong ---- */

/* It is left out, and who reads its result reads this value. */
void tr_read_instead(const struct tr_spot *s, int value);

tr_change tr_drop;
/* Who reads its result reads what it was to change. */
tr_change tr_bypass;
/* It is done again; a collective, with its own result. */
tr_change tr_double;
/* To where the second stands. */
tr_change tr_put;
tr_change tr_swap;
/* Operands `to` and `from`. */
tr_change tr_swap_operands;
/* Operand `to` is operand `from` of the second. */
tr_change tr_redirect;
/* It reads what the second reads, and not what that makes. */
tr_change tr_read_before;
/* Its result lies where the second's lies, which was made before. */
tr_change tr_lay_over;
/* A field; one that has that value already does not take the error. */
tr_change tr_set;

/* ---- special.c: what depends on the plan, or on several instructions ---- */

tr_change tr_sum_for_mean, tr_bias_before_reduce, tr_not_received, tr_count_padding, tr_load_neighbours,
    tr_send_less, tr_gather_once, tr_other_micro, tr_swap_axes, tr_into_the_group, tr_second_half_follows,
    tr_halves_added_first, tr_losses_follow, tr_round_before, tr_result_is_bfloat16, tr_push_is_bfloat16,
    tr_masters_forgotten, tr_update_stashed, tr_own_sums, tr_behind_its_reader, tr_read_what_went_down,
    tr_not_computed_again, tr_ask_the_last_rank, tr_before_the_last_count, tr_halo_short, tr_halo_round,
    tr_before_the_update;

bool tr_norm_of_a_replica(struct tr_tape *tapes, int n);
bool tr_norm_of_the_last_replica(struct tr_tape *tapes, int n);
bool tr_circle_of_sends(struct tr_tape *tapes, int n);
bool tr_stale_version(struct tr_tape *tapes, int n);
bool tr_stash_too_small(struct tr_tape *tapes, int n);
bool tr_sent_at_the_turning_point(struct tr_tape *tapes, int n);

#endif
