/* SPDX-License-Identifier: BSD-3-Clause */
/* tokenizer.c: merges byte pairs. The pairs of a word wait in a heap, so that a word of a million letters
 * takes no square of that. */
#include "training/text/tokenizer.h"

#include "training/text/split.h"

#include <stdlib.h>
#include <string.h>

struct tr_merge *tr_merge_of(const struct tr_tokenizer *t, uint32_t pair)
{
    uint32_t at = pair * 0x9E3779B1u;
    for (at = (at ^ at >> 15) & t->mask; t->merges[at].rank >= 0 && t->merges[at].pair != pair;)
        at = (at + 1) & t->mask;
    return &t->merges[at];
}

/* ---- a word ---- */

/* A pair that may be merged, at the place of its first part. */
struct waiting {
    int32_t rank;
    int64_t at;
    uint32_t pair;
};

/* Its parts are a list: those that are left of the bytes, each at the place of its first byte. */
struct word {
    const struct tr_tokenizer *t;
    uint16_t *token;
    int64_t *before, *next; /* -1: none */
    struct waiting *heap;
    int64_t n_heap, room;
};

static bool comes_first(const struct waiting *a, const struct waiting *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static void push(struct word *w, struct waiting x)
{
    int64_t i = w->n_heap++;
    for (; i > 0 && comes_first(&x, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = x;
}

static struct waiting pop(struct word *w)
{
    struct waiting first = w->heap[0], x = w->heap[--w->n_heap];
    int64_t i = 0;
    for (int64_t child; (child = 2 * i + 1) < w->n_heap; i = child) {
        child += child + 1 < w->n_heap && comes_first(&w->heap[child + 1], &w->heap[child]);
        if (!comes_first(&w->heap[child], &x))
            break;
        w->heap[i] = w->heap[child];
    }
    w->heap[i] = x;
    return first;
}

static uint32_t pair_at(const struct word *w, int64_t at)
{
    return (uint32_t)w->token[at] << 16 | w->token[w->next[at]];
}

static void wait_for(struct word *w, int64_t at)
{
    if (at < 0 || w->next[at] < 0)
        return;
    uint32_t pair = pair_at(w, at);
    const struct tr_merge *m = tr_merge_of(w->t, pair);
    if (m->rank >= 0)
        push(w, (struct waiting){ m->rank, at, pair });
}

/* A part that was merged into the one before has none behind it any more, and is no pair. */
static void merge(struct word *w, const struct waiting *x)
{
    int64_t gone = w->next[x->at];
    if (gone < 0 || pair_at(w, x->at) != x->pair)
        return;
    w->token[x->at] = tr_merge_of(w->t, x->pair)->token;
    w->next[x->at] = w->next[gone];
    if (w->next[gone] >= 0)
        w->before[w->next[gone]] = x->at;
    w->next[gone] = -1;
    wait_for(w, w->before[x->at]);
    wait_for(w, x->at);
}

/* Each merge takes a pair away and makes at most two. */
static void make_room(struct word *w, int64_t count)
{
    if (count <= w->room)
        return;
    free(w->token), free(w->before), free(w->next), free(w->heap);
    w->room = 2 * count;
    w->token = tr_new((size_t)w->room, sizeof *w->token);
    w->before = tr_new((size_t)w->room, sizeof *w->before);
    w->next = tr_new((size_t)w->room, sizeof *w->next);
    w->heap = tr_new(3 * (size_t)w->room, sizeof *w->heap);
}

/* Returns how many tokens it is. */
static int64_t encode_word(struct word *w, const uint8_t *text, int64_t count, uint16_t *to)
{
    int64_t n = 0;
    make_room(w, count);
    for (int64_t i = 0; i < count; i++) {
        w->token[i] = w->t->of_byte[text[i]];
        w->before[i] = i - 1, w->next[i] = i + 1 < count ? i + 1 : -1;
    }
    for (int64_t i = 0; i < count; i++)
        wait_for(w, i);
    while (w->n_heap > 0) {
        struct waiting x = pop(w);
        merge(w, &x);
    }
    for (int64_t i = 0; i >= 0; i = w->next[i])
        to[n++] = w->token[i];
    return n;
}

/* ---- a text ---- */

uint16_t *tr_encode(const struct tr_tokenizer *t, const uint8_t *text, int64_t count, int64_t *tokens)
{
    struct word w = { .t = t };
    uint16_t *to = tr_new(count ? (size_t)count : 1, sizeof *to);
    int64_t n = 0;
    for (int64_t at = 0, length; at < count; at += length) {
        length = t->merges ? tr_word(text + at, count - at) : 1;
        n += encode_word(&w, text + at, length, to + n);
    }
    free(w.token), free(w.before), free(w.next), free(w.heap);
    *tokens = n;
    return to;
}

const uint8_t *tr_decode(const struct tr_tokenizer *t, int64_t token, int64_t *count)
{
    *count = t->tokens[token].length;
    return t->bytes + t->tokens[token].at;
}

static void take_bytes(struct tr_tokenizer *t)
{
    t->count = 256;
    t->bytes = tr_new(256, 1);
    t->tokens = tr_new(256, sizeof *t->tokens);
    for (int i = 0; i < 256; i++) {
        t->bytes[i] = (uint8_t)i, t->of_byte[i] = (uint16_t)i;
        t->tokens[i] = (struct tr_token){ i, 1 };
    }
}

bool tr_tokenizer_open(struct tr_tokenizer *t, const char *folder, struct tr_error *e)
{
    *t = (struct tr_tokenizer){ .count = 0 };
    if (!*folder)
        take_bytes(t);
    if (!*folder || tr_vocabulary_read(t, folder, e))
        return true;
    tr_tokenizer_close(t);
    return false;
}

void tr_tokenizer_close(struct tr_tokenizer *t)
{
    free(t->tokens), free(t->bytes), free(t->merges);
    *t = (struct tr_tokenizer){ .count = 0 };
}
