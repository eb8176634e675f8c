/* SPDX-License-Identifier: BSD-3-Clause */
/* gemm.h: products of matrices whose bits depend on a row of a and a column of b alone.
 *
 * A tile of TILE_ROWS x TILE_VECTORS vectors of c stays in registers over all of k. Lanes lie along n, never
 * along k. At the end of a chunk the tile goes into a binary counter, which is the tree over the chunks.
 *
 * Small products are the usual case here, and packing costs as much as it gains there. So a is read where it
 * lies, unless it is large; so is b where its rows are contiguous. Where its columns are, it is turned once a
 * panel, in registers. */
enum {
    PANEL = TILE_VECTORS * WIDTH,
    LEVELS = 16, /* of the counter: fewer than 2^16 chunks */
    LARGE =
        1 << 15, /* floats of a matrix that is packed, as its strides would fight for places in the cache */
    A_PAD = 16 /* between packed rows of a, so that their strides are no power of two */
};

struct tile {
    const float *a, *b;
    float *c;
    int64_t a_row, a_column, b_row, c_row;
    int64_t k, chunk, chunks, skip; /* a and b begin with chunk `skip`; those before are empty */
    int64_t width; /* columns of c */
    bool add;
};

typedef vec tile_sums[TILE_ROWS][TILE_VECTORS];

/* n steps of each chain. */
INLINE void tile_chains(
    int rows, int vectors, tile_sums acc, const float *a, const float *b, const struct tile *t, int64_t n)
{
    for (int64_t k = 0; k < n; k++, a += t->a_column, b += t->b_row) {
        vec line[TILE_VECTORS];
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            line[v] = vec_load(b + v * WIDTH);
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++) {
            vec x = vec_all(a[i * t->a_row]);
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vec_fma(x, line[v], acc[i][v]);
        }
    }
}

INLINE void tile_set(int rows, int vectors, tile_sums to, tile_sums from)
{
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            to[i][v] = from[i][v];
}

/* acc = left + acc */
INLINE void tile_add(int rows, int vectors, tile_sums acc, tile_sums left)
{
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++)
            acc[i][v] = left[i][v] + acc[i][v];
}

INLINE void tile_store(int rows, int vectors, tile_sums acc, const struct tile *t)
{
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int v = 0; v < vectors; v++) {
            float *c = t->c + i * t->c_row + v * WIDTH;
            int64_t left = t->width - v * WIDTH;
            if (left >= WIDTH)
                vec_store(c, t->add ? vec_load(c) + acc[i][v] : acc[i][v]);
            else
                vec_store_first(c, t->add ? vec_load_first(c, left) + acc[i][v] : acc[i][v], left);
        }
}

/* A chunk that is done waits on its level for its right neighbour; behind the last, an odd one passes up. */
INLINE void tile_run(int rows, int vectors, const struct tile *t)
{
    tile_sums waiting[LEVELS];
    for (int64_t g = 0; g < t->chunks; g++) {
        tile_sums acc;
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
            for (int v = 0; v < vectors; v++)
                acc[i][v] = vec_all(0);
        int64_t begin = (g - t->skip) * t->chunk, n = lesser(t->chunk, t->k - begin);
        if (g >= t->skip)
            tile_chains(rows, vectors, acc, t->a + begin * t->a_column, t->b + begin * t->b_row, t, n);
        bool last = g == t->chunks - 1;
        int level = 0;
        for (; g >> level && (last || g >> level & 1); level++)
            if (g >> level & 1)
                tile_add(rows, vectors, acc, waiting[level]);
        if (last)
            tile_store(rows, vectors, acc, t);
        else
            tile_set(rows, vectors, waiting[level], acc);
    }
}

/* Each number of rows has its own code; none reads what lies behind the last. */
INLINE void tile_rows(int64_t rows, int vectors, const struct tile *t)
{
    switch (rows) {
    case 1:
        tile_run(1, vectors, t);
        break;
    case 2:
        tile_run(2, vectors, t);
        break;
    case 3:
        tile_run(3, vectors, t);
        break;
    case 4:
        tile_run(4, vectors, t);
        break;
    case 5:
        tile_run(5 < TILE_ROWS ? 5 : TILE_ROWS, vectors, t);
        break;
    case 6:
        tile_run(6 < TILE_ROWS ? 6 : TILE_ROWS, vectors, t);
        break;
    case 7:
        tile_run(7 < TILE_ROWS ? 7 : TILE_ROWS, vectors, t);
        break;
    default:
        tile_run(TILE_ROWS, vectors, t);
    }
}
static void tile_narrow(int64_t rows, const struct tile *t)
{
    tile_rows(rows, 1, t);
}
static void tile_wide(int64_t rows, const struct tile *t)
{
    tile_rows(rows, TILE_VECTORS, t);
}

/* to[columns][rows] = from[rows][columns] turned, for at most WIDTH of both; what is missing becomes 0 up to
 * WIDTH rows. Each round shuffles the lower half of the vectors into the upper one. */
INLINE void turn_square(
    float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns)
{
    vec x[WIDTH], y[WIDTH];
#pragma GCC unroll 16
    for (int i = 0; i < WIDTH; i++)
        x[i] = i >= rows          ? vec_all(0)
               : columns >= WIDTH ? vec_load(from + i * from_row)
                                  : vec_load_first(from + i * from_row, columns);
#pragma GCC unroll 4
    for (int round = 1; round < WIDTH; round *= 2) {
#pragma GCC unroll 16
        for (int i = 0; i < WIDTH / 2; i++) {
            y[2 * i] = vec_low_pairs(x[i], x[i + WIDTH / 2]);
            y[2 * i + 1] = vec_high_pairs(x[i], x[i + WIDTH / 2]);
        }
#pragma GCC unroll 16
        for (int i = 0; i < WIDTH; i++)
            x[i] = y[i];
    }
#pragma GCC unroll 16
    for (int i = 0; i < WIDTH; i++)
        if (i < columns)
            vec_store(to + i * to_row, x[i]);
}

/* to[columns][to_row] = from[rows][columns] turned, with zeros behind it up to whole vectors. */
static void turn(
    float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < rows; i += WIDTH)
        for (int64_t j = 0; j < columns; j += WIDTH)
            turn_square(to + j * to_row + i, to_row, from + i * from_row + j, from_row,
                lesser(WIDTH, rows - i), lesser(WIDTH, columns - j));
}

/* A panel of b: k rows of `width` columns, with zeros behind it up to whole vectors. */
static void pack_panel(float *to, const struct tr_gemm *g, int64_t j, int64_t width)
{
    const float *from = g->b + j * g->b_column;
    if (g->b_column != 1) {
        turn(to, PANEL, from, g->b_column, width, g->k);
        return;
    }
    for (int64_t k = 0; k < g->k; k++, to += PANEL, from += g->b_row)
        for (int64_t x = 0; x < width; x += WIDTH)
            vec_store(to + x, width - x >= WIDTH ? vec_load(from + x) : vec_load_first(from + x, width - x));
}

/* Lines of a one after the other: rows as they lie, or parts of its columns. */
static void pack_rows(float *to, const struct tr_gemm *g)
{
    if (g->a_column == 1)
        for (int64_t i = 0; i < g->m; i++)
            memcpy(to + i * (g->k + A_PAD), g->a + i * g->a_row, (size_t)g->k * sizeof(float));
    else
        for (int64_t i = 0; i < g->m; i += TILE_ROWS)
            for (int64_t k = 0; k < g->k; k++)
                memcpy(to + i * g->k + k * TILE_ROWS, g->a + i + k * g->a_column,
                    (size_t)lesser(TILE_ROWS, g->m - i) * sizeof(float));
}

/* Rows of which there are at most TR_GEMM_ROWS. */
static void gemm_rows(const struct tr_gemm *g, int64_t skip, float *scratch)
{
    struct tile t = { .a_row = g->a_row,
        .a_column = g->a_column,
        .c_row = g->c_row,
        .k = g->k,
        .chunk = g->chunk,
        .chunks = g->chunks,
        .skip = skip,
        .add = g->add };
    const float *a = g->a;
    float *packed = scratch + g->k * PANEL;
    int64_t a_tile = TILE_ROWS * g->a_row;
    if (g->m * g->k >= LARGE && g->n > PANEL) {
        pack_rows(packed, g);
        a = packed;
        t.a_row = g->a_column == 1 ? g->k + A_PAD : 1;
        t.a_column = g->a_column == 1 ? 1 : TILE_ROWS;
        a_tile = TILE_ROWS * (g->a_column == 1 ? t.a_row : g->k);
    }
    for (int64_t j = 0; j < g->n; j += PANEL) {
        t.width = lesser(PANEL, g->n - j);
        bool large = g->k * g->b_row >= LARGE && g->m > 4 * TILE_ROWS;
        bool direct = g->b_column == 1 && t.width % WIDTH == 0 && !large;
        t.b = direct ? g->b + j : scratch;
        t.b_row = direct ? g->b_row : PANEL;
        if (!direct)
            pack_panel(scratch, g, j, t.width);
        for (int64_t i = 0; i < g->m; i += TILE_ROWS) {
            t.a = a + i / TILE_ROWS * a_tile;
            t.c = g->c + i * g->c_row + j;
            if (t.width <= WIDTH)
                tile_narrow(lesser(TILE_ROWS, g->m - i), &t);
            else
                tile_wide(lesser(TILE_ROWS, g->m - i), &t);
        }
    }
}

/* The product without its first `skip` chunks, which are empty: k, a and b begin behind them. So many rows
 * at a time, as all of them need not be packed at once; to pack b again for each is a small part of the
 * work. */
static void gemm_behind(const struct tr_gemm *g, int64_t skip, float *scratch)
{
    for (int64_t i = 0; i < g->m; i += TR_GEMM_ROWS) {
        struct tr_gemm rows = *g;
        rows.m = lesser(TR_GEMM_ROWS, g->m - i);
        rows.a += i * g->a_row, rows.c += i * g->c_row;
        gemm_rows(&rows, skip, scratch);
    }
}

/* Of several sequences one after the other: in one product of all their tokens a and b would leave the caches
 * before they are needed again. */
static void gemm(CONTEXT, const struct tr_gemm *g, float *scratch)
{
    struct tr_gemm one = *g;
    one.sequences = 0;
    float *level[TR_LEVELS];
    if (g->sequences && !g->c_next)
        levels_at(level, scratch + tr_lines(tr_scratch_gemm(&one)), g->sequences, g->m * g->n);
    for (int64_t s = 0; s < g->sequences || s == 0; s++) {
        gemm_behind(&one, 0, scratch);
        if (g->sequences && !g->c_next)
            tree_in(context, g->c, level, g->m * g->n, s, g->sequences);
        one.a += g->k * g->a_column, one.b += g->k * g->b_row, one.c += g->c_next;
    }
}
