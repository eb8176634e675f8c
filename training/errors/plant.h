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

struct tr_planting {
    struct tr_injection is;
    enum tr_planted_on on;
    /* Plants it there; false, with nothing changed: this instruction cannot have the error. */
    bool (*change)(const struct tr_spot *s);
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

bool tr_drop(const struct tr_spot *s);
/* Who reads its result reads what it was to change. */
bool tr_bypass(const struct tr_spot *s);
/* It is done again; a collective, with its own result. */
bool tr_double(const struct tr_spot *s);
/* To where the second stands. */
bool tr_put(const struct tr_spot *s);
bool tr_swap(const struct tr_spot *s);
/* Operands `to` and `from`. */
bool tr_swap_operands(const struct tr_spot *s);
/* Operand `to` is operand `from` of the second. */
bool tr_redirect(const struct tr_spot *s);
/* It reads what the second reads, and not what that makes. */
bool tr_read_before(const struct tr_spot *s);
/* Its result lies where the second's lies, which was made before. */
bool tr_lay_over(const struct tr_spot *s);
/* A field; one that has that value already does not take the error. */
bool tr_set(const struct tr_spot *s);

/* ---- special.c: what depends on the plan, or on several instructions ---- */

bool tr_sum_for_mean(const struct tr_spot *s);
bool tr_bias_before_reduce(const struct tr_spot *s);
bool tr_not_received(const struct tr_spot *s);
bool tr_count_padding(const struct tr_spot *s);
bool tr_load_neighbours(const struct tr_spot *s);
bool tr_send_less(const struct tr_spot *s);
bool tr_gather_once(const struct tr_spot *s);
bool tr_other_micro(const struct tr_spot *s);
bool tr_swap_axes(const struct tr_spot *s);
bool tr_into_the_group(const struct tr_spot *s);
bool tr_second_half_follows(const struct tr_spot *s);
bool tr_halves_added_first(const struct tr_spot *s);
bool tr_losses_follow(const struct tr_spot *s);
bool tr_round_before(const struct tr_spot *s);
bool tr_result_is_bfloat16(const struct tr_spot *s);
bool tr_push_is_bfloat16(const struct tr_spot *s);
bool tr_masters_forgotten(const struct tr_spot *s);
bool tr_update_stashed(const struct tr_spot *s);
bool tr_own_sums(const struct tr_spot *s);
bool tr_behind_its_reader(const struct tr_spot *s);
bool tr_read_what_went_down(const struct tr_spot *s);
bool tr_not_computed_again(const struct tr_spot *s);
bool tr_ask_the_last_rank(const struct tr_spot *s);
bool tr_before_the_last_count(const struct tr_spot *s);
bool tr_halo_short(const struct tr_spot *s);
bool tr_halo_round(const struct tr_spot *s);
bool tr_before_the_update(const struct tr_spot *s);

bool tr_norm_of_a_replica(struct tr_tape *tapes, int n);
bool tr_norm_of_the_last_replica(struct tr_tape *tapes, int n);
bool tr_circle_of_sends(struct tr_tape *tapes, int n);
bool tr_stale_version(struct tr_tape *tapes, int n);
bool tr_stash_too_small(struct tr_tape *tapes, int n);
bool tr_sent_at_the_turning_point(struct tr_tape *tapes, int n);

#endif
