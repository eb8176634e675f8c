/* SPDX-License-Identifier: BSD-3-Clause */
/* patches.h: what the taps of a convolution read, as rows for a product. */

static void patches(CONTEXT, float *to, const float *x, const struct tr_grid *g, int64_t channels,
    bool channels_outside, int64_t direction)
{
    int64_t side = g->side, above = g->halo, rows = g->rows + 2 * above;
    for (int64_t t = 0; t < g->rows * side; t++, to += 9 * channels)
        for (int64_t tap = 0; tap < 9; tap++) {
            int64_t i = above + t / side + direction * (tap / 3 - 1),
                    j = t % side + direction * (tap % 3 - 1);
            bool inside = i >= 0 && i < rows && j >= 0 && j < side;
            const float *from = inside ? x + (i * side + j) * channels : NULL;
            if (channels_outside)
                for (int64_t c = 0; c < channels; c++)
                    to[c * 9 + tap] = from ? from[c] : 0;
            else if (from)
                memcpy(to + tap * channels, from, (size_t)channels * sizeof *to);
            else
                memset(to + tap * channels, 0, (size_t)channels * sizeof *to);
        }
}
