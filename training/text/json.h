/* SPDX-License-Identifier: BSD-3-Clause */
/* json.h: reading JSON (RFC 8259) from a text, piece by piece, as far as a head of weights needs it: the
 * caller says what comes next, and hears whether it came. */
#ifndef TRAINING_TEXT_JSON_H
#define TRAINING_TEXT_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_json {
    const char *text, *end; /* what is not read yet */
};

/* Whether this sign comes next, behind white space, and is read. */
bool tr_json_sign(struct tr_json *j, char sign);
/* A string, without its quotes, and with 0 behind it, in UTF-8. false: there is none, it is longer than the
 * room, or it has a sign that no name here has (a control sign, or half of a pair of surrogates). */
bool tr_json_string(struct tr_json *j, char *to, size_t room);
/* A whole number from 0 on, below 2^62. */
bool tr_json_whole(struct tr_json *j, int64_t *to);
/* A string, or a number, true, false or null as it stands. */
bool tr_json_scalar(struct tr_json *j, char *to, size_t room);
/* Whatever value comes next is passed over, to a depth that no head has. */
bool tr_json_skip(struct tr_json *j);
/* Nothing but white space is left. */
bool tr_json_over(struct tr_json *j);

#endif
