/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.h: what is done with whole arrays: they are copied, filled and added, and trees run over those that
 * come one after the other, as gradients of sequences do. */

static void copy(CONTEXT, void *to, const void *from, const struct tr_copy *c)
{
    for (int64_t i = 0; i < c->n[0]; i++)
        for (int64_t j = 0; j < c->n[1]; j++)
            for (int64_t k = 0; k < c->n[2]; k++)
                memcpy((char *)to + i * c->to[0] + j * c->to[1] + k * c->to[2],
                    (const char *)from + i * c->from[0] + j * c->from[1] + k * c->from[2], (size_t)c->bytes);
}

static void fill(CONTEXT, void *to, int byte, int64_t bytes)
{
    memset(to, byte, (size_t)bytes);
}

INLINE void add_arrays(float *out, const float *a, const float *b, int64_t count)
{
    for (int64_t i = 0; i < count; i += WIDTH)
        vec_store_some(out + i, vec_load_some(a + i, count - i) + vec_load_some(b + i, count - i), count - i);
}

/* Sums of complete subtrees wait in levels, as the digits of a binary number. */
static void tree_in(CONTEXT, float *sum, float *const *level, int64_t count, int64_t j, int64_t n)
{
    int l = 0;
    for (; j >> l & 1; l++)
        add_arrays(sum, level[l], sum, count);
    if (j + 1 < n) {
        memcpy(level[l], sum, (size_t)count * sizeof *sum);
        return;
    }
    for (l = 0; !(n >> l & 1); l++)
        continue;
    for (l++; n >> l; l++)
        if (n >> l & 1)
            add_arrays(sum, level[l], sum, count);
}

/* Where the levels of a tree over n arrays lie, one behind the other. */
INLINE void levels_at(float *level[TR_LEVELS], float *scratch, int64_t n, int64_t count)
{
    for (int64_t l = 0; l < tr_levels(n); l++)
        level[l] = scratch + l * count;
}
