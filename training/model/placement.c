/* SPDX-License-Identifier: BSD-3-Clause */
/* placement.c: placements and their two characters, and what each collective makes of each. */
#include "training/model/placement.h"

#include <string.h>

static const struct {
    char text[3];
    struct tr_placement p;
} named[] = {
    { "R", { .kind = TR_R } },
    { "Sb", { .kind = TR_S, .dim = 'b' } },
    { "St", { .kind = TR_S, .dim = 't' } },
    { "Sc", { .kind = TR_S, .dim = 'c' } },
    { "Sr", { .kind = TR_S, .dim = 'r' } },
    { "F", { .kind = TR_S, .dim = 'f' } },
    { "E", { .kind = TR_S, .dim = 'e' } },
    { "O", { .kind = TR_O } },
    { "P+", { .kind = TR_P, .dim = 'c' } },
    { "Pm", { .kind = TR_P, .dim = 'c', .fold = TR_FOLD_MAX } },
    { "P1", { .kind = TR_P, .dim = 'c', .fold = TR_FOLD_ONE } },
    { "Pb", { .kind = TR_P, .dim = 't' } },
    { "Ps", { .kind = TR_P, .dim = 'b' } },
    { "Pc", { .kind = TR_P, .dim = 'c', .packed = 'c' } },
    { "Xc", { .kind = TR_S, .dim = 't', .packed = 'c' } },
    { "Yc", { .kind = TR_R, .packed = 'c' } },
    { "Zt", { .kind = TR_S, .dim = 't', .zigzag = true } },
    { "Yt", { .kind = TR_R, .packed = 't' } },
    { "Gb", { .kind = TR_R, .packed = 'b' } },
    { "Gr", { .kind = TR_S, .dim = 'r', .packed = 'b' } },
    { "Pz", { .kind = TR_P, .dim = 't', .halves = true } },
    { "Pq", { .kind = TR_P, .dim = 't', .halves = true, .packed = 't' } },
    { "Hz", { .kind = TR_R, .halves = true } },
    { "Hs", { .kind = TR_S, .dim = 't', .zigzag = true, .halves = true } },
    { "Nt", { .kind = TR_S, .dim = 't', .halo = true } },
};

const struct tr_placement tr_whole = { .kind = TR_R }, tr_flat = { .kind = TR_S, .dim = 'f' };

_Static_assert(
    sizeof(struct tr_placement) == 10, "placements are compared as bytes, so there may be no gaps");

bool tr_placement_is(struct tr_placement a, struct tr_placement b)
{
    return !memcmp(&a, &b, sizeof a);
}

struct tr_placement tr_placement_of(const char *text, int shift)
{
    char j = (char)(text[1] == '#' ? shift : text[1] - '0');
    struct tr_placement p = { .kind = TR_S, .dim = 't' };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (text[0] == named[i].text[0] && (!named[i].text[1] || text[1] == named[i].text[1]))
            return named[i].p;
    if (text[0] == 'T' || text[0] == 'W')
        p.shift = (signed char)j;
    if (text[0] != 'T')
        p.term = text[0] == 'V' ? TR_OF_KEYS : TR_OF_QUERIES, p.of = j;
    return p;
}

const char *tr_placement_text(struct tr_placement p, char text[3])
{
    const char *name = NULL;
    for (size_t i = 0; i < sizeof named / sizeof *named && !name; i++)
        if (tr_placement_is(p, named[i].p))
            name = named[i].text;
    if (name) {
        text[0] = name[0], text[1] = name[1] == 's' && name[0] == 'H' ? 'z' : name[1] ? name[1] : ' ';
    } else {
        text[0] = p.term == TR_OF_KEYS ? 'V' : !p.term ? 'T' : p.shift ? 'W' : 'U';
        text[1] = (char)('0' + (p.term ? p.of : p.shift) % 10);
    }
    text[2] = 0;
    return text;
}

/* Whether the parts of ranks lie one behind the other in what a call takes or gives. */
static bool in_order(char dim, bool zigzag)
{
    return dim == 'f' || (dim == 't' && !zigzag);
}

bool tr_move(struct tr_placement from, enum tr_move m, char dim, struct tr_placement *to)
{
    struct tr_placement p = { .halves = from.halves };
    bool plain = !from.shift && !from.term && !from.halo && !from.packed && !from.halves;
    switch (m) {
    case TR_MOVE_ALL_REDUCE:
        *to = p;
        return from.kind == TR_P && !from.packed;
    case TR_MOVE_REDUCE:
        *to = p, to->kind = TR_O;
        return from.kind == TR_P && !from.packed && !from.halves;
    case TR_MOVE_BROADCAST:
        *to = tr_whole;
        return from.kind == TR_O;
    case TR_MOVE_REDUCE_SCATTER:
        p.kind = TR_S, p.dim = dim, p.zigzag = from.halves;
        *to = p;
        return from.kind == TR_P && (from.packed ? from.packed == dim : !from.halves && in_order(dim, false));
    case TR_MOVE_ALL_GATHER:
        p.packed = in_order(from.dim, from.zigzag) ? 0 : from.dim;
        *to = p;
        return from.kind == TR_S && plain && from.dim != 'r' && from.dim != 'e';
    case TR_MOVE_ALL_TO_ALL: /* channels lie packed beside it, on the side of the tokens */
        p.kind = TR_S, p.dim = dim, p.packed = dim == 't' ? 'c' : 0;
        *to = p;
        return from.kind == TR_S && !from.zigzag &&
               ((from.packed == 'c' && dim == 'c') || (plain && from.dim == 'c' && dim == 't') ||
                   (plain && from.dim == 'b' && dim == 'e') || (plain && from.dim == 'e' && dim == 'b'));
    case TR_MOVE_SHIFT: /* operands are handed on by one, summands go home */
        *to = from;
        to->shift = from.term ? 0 : (signed char)(from.shift + 1);
        return from.kind == TR_S && from.dim == 't' && !from.packed && !from.halo && !from.halves &&
               (!from.term || from.shift);
    default: /* TR_MOVE_HALO */
        *to = from;
        to->halo = true;
        return from.kind == TR_S && from.dim == 't' && plain && !from.zigzag;
    }
}

int tr_move_between(struct tr_placement from, struct tr_placement to)
{
    struct tr_placement made;
    for (int m = 0; m < TR_MOVES; m++)
        if (tr_move(from, (enum tr_move)m, to.dim, &made) && tr_placement_is(made, to))
            return m;
    return -1;
}

bool tr_placement_cuts_tokens(struct tr_placement p)
{
    return p.kind == TR_S && p.dim == 't' && !p.shift && !p.term && !p.packed && !p.halves;
}
