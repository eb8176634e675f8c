/* SPDX-License-Identifier: BSD-3-Clause */
/* test_kernels_dropout.c: which elements each set's dropout keeps, against the generator as its paper gives
 * it, and that against the known answers of the paper's authors. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/training/kernels/kernels_rig.h"
#include "training/kernels/stripes.h"

enum { ROUNDS = 60 };

/* philox4x32 10 of kat_vectors in Random123, the library of the paper's authors: counter, key, answer. */
static const uint32_t known[][10] = {
    { 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
    { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e,
        0xa20bc7c6, 0x6d5451fd },
    { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb,
        0x5001e420, 0x24126ea1 },
};

Test(train_kernels, dropout_draws_the_known_answers_of_philox)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t c[4];
        memcpy(c, known[i], sizeof c);
        ref_philox(c, known[i][4], known[i][5]);
        cr_assert(!memcmp(c, known[i] + 6, sizeof c), "vector %zu", i);
    }
    /* The first one as a set draws it, of the first counter of a token with four channels: a word is the
     * least that keeps its own channel. */
    struct tr_dropped d = { .at = { 1, 1, 1, 4, 8, { 0, 0 }, false, 0 }, .site = 0, .scale = 2 };
    for (int s = 0; s < RIG_SETS; s++)
        for (int64_t channel = 0; channel < 4 && rig_context(s)->k; channel++)
            for (uint32_t more = 0; more < 2; more++) {
                uint32_t draws[TR_DRAW_WORDS] = { 0, 0, 0, known[0][6 + channel] + more };
                float *x = rig_random(4), *y = rig_empty(4);
                x[channel] = 3;
                rig_context(s)->k->embed.dropout(rig_context(s), y, x, draws, &d);
                cr_assert(y[channel] == (more ? 0.0f : 6.0f), "%s: channel %d", rig_context(s)->k->name,
                    (int)channel);
                rig_end();
            }
}

static int64_t place_of(const struct tr_positions *p, int64_t token)
{
    int64_t place = p->first[token / p->tokens] + token % p->tokens;
    return p->striped ? tr_striped_token(p->context, place) : place;
}

static void ref_dropout(float *y, const float *x, const uint32_t *draws, const struct tr_dropped *d)
{
    int64_t c = d->at.columns, quarter = (c + 3) / 4, tokens = d->at.runs * d->at.tokens;
    for (int64_t t = 0; t < d->at.sequences * tokens; t++)
        for (int64_t i = 0; i < c; i++) {
            const uint32_t *draw = draws + t / tokens * TR_DRAW_WORDS;
            uint32_t word[4] = { (uint32_t)(i % quarter), (uint32_t)place_of(&d->at, t % tokens),
                draw[TR_DRAW_SEQUENCE], (uint32_t)d->site };
            ref_philox(word, draw[TR_DRAW_KEY], draw[TR_DRAW_KEY_2]);
            float scaled = draw[TR_DRAW_LEAST] ? x[t * c + i] * d->scale : x[t * c + i];
            y[t * c + i] = word[i / quarter] >= draw[TR_DRAW_LEAST] ? scaled : 0;
        }
}

Test(train_kernels, dropout_keeps_what_the_golden_program_keeps)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t context = 8 * rig_between(1, 8), runs = rig_between(1, 2);
        struct tr_dropped d = { .at = { .sequences = rig_between(1, 3),
                                    .runs = runs,
                                    .tokens = rig_between(1, context / runs),
                                    .columns = rig_between(1, 150),
                                    .context = context,
                                    .striped = round % 3 == 0 },
            .site = rig_between(0, 300),
            .scale = 1.25f };
        for (int64_t r = 0; r < runs; r++)
            d.at.first[r] = rig_between(0, context - d.at.tokens);
        int64_t count = d.at.sequences * runs * d.at.tokens * d.at.columns;
        float *x = rig_random(count), *want = rig_empty(count);
        uint32_t draws[3 * TR_DRAW_WORDS];
        for (int i = 0; i < 3 * TR_DRAW_WORDS; i++)
            draws[i] = rig_word();
        draws[TR_DRAW_LEAST] = round % 5 ? draws[TR_DRAW_LEAST] : 0;
        ref_dropout(want, x, draws, &d);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            float *y = rig_empty(count), *own = rig_copy(x, count);
            if (!on->k)
                continue;
            on->k->embed.dropout(on, y, x, draws, &d);
            on->k->embed.dropout(on, own, own, draws, &d);
            rig_equal(y, want, count, on->k->name, "dropout");
            rig_equal(own, want, count, on->k->name, "dropout in place");
        }
        rig_end();
    }
}
