/* SPDX-License-Identifier: BSD-3-Clause */
/* golden.h: which schedules are golden: each algorithm at four ranks, out of place, root 1 where there is
 * one; send and receive together, 0 to 1 and 2 to 3; cache domains of two where they are needed. */
#ifndef TT_TESTS_GOLDEN_H
#define TT_TESTS_GOLDEN_H
#include "schedules.h"

enum { GOLDEN_RANKS = 4 };

/* Rows of the registry, without receive: it is in send's. */
static inline int golden_count(void)
{
    int count = 0;
    for (int i = 0; i < tt_algorithm_count; i++)
        count += tt_algorithms[i].collective != TT_P2P_RECV;
    return count;
}

static inline int golden_row(int golden)
{
    int row = 0;
    while (tt_algorithms[row].collective == TT_P2P_RECV || golden-- > 0)
        row++;
    return row;
}

static inline struct schedule_set golden_set(int golden)
{
    int row = golden_row(golden);
    const struct tt_algorithm *a = &tt_algorithms[row];
    struct tt_key key = { .collective = a->collective, .algorithm = (uint8_t)row, .n = GOLDEN_RANKS };
    if (a->collective == TT_P2P_SEND)
        return set_point_to_point(GOLDEN_RANKS);
    key.root = tt_collectives[a->collective].rooted ? 1 : 0;
    static struct tt_topology *pairs;
    if (pairs == NULL)
        pairs = topology_of("0-1/2-3");
    key.topology = a->domains != TT_ANY_DOMAINS ? pairs : NULL;
    return set_build(key, 0);
}

/* "all_reduce_ring" */
static inline void golden_name(int golden, char *name, size_t bytes)
{
    const struct tt_algorithm *a = &tt_algorithms[golden_row(golden)];
    snprintf(name, bytes, "%s_%s", tt_collectives[a->collective].name, a->name);
}

/* The folder of a golden text: its collective's name, and for a v-form that of the even form. */
static inline void golden_folder(int golden, const char *directory, char *path, size_t bytes)
{
    const char *name = tt_collectives[tt_algorithms[golden_row(golden)].collective].name;
    int length = snprintf(path, bytes, "%s/%s", directory, name);
    if (strcmp(path + length - 2, "_v") == 0)
        path[length - 2] = '\0';
}

static inline void golden_path(int golden, const char *directory, char *path, size_t bytes)
{
    char folder[512], name[64];
    golden_folder(golden, directory, folder, sizeof folder);
    golden_name(golden, name, sizeof name);
    snprintf(path, bytes, "%s/%s_n%d.txt", folder, name, GOLDEN_RANKS);
}

/* The texts of all ranks; the caller frees it. */
static inline char *golden_text(const struct schedule_set *set)
{
    size_t bytes = 1, at = 0;
    for (int r = 0; r < set->n; r++)
        bytes += tt_schedule_print(set->list[r], NULL, 0);
    char *text = malloc(bytes);
    cr_assert(text != NULL);
    for (int r = 0; r < set->n; r++)
        at += tt_schedule_print(set->list[r], text + at, bytes - at);
    return text;
}

#endif
