/* SPDX-License-Identifier: BSD-3-Clause */
/* push_order.c: orders of pushes from a seed or a file, and whether workers that wait for each other and for
 * servers can come in such an order. */
#include "training/data/push_order.h"

#include "training/data/data.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

long tr_ahead(const long *clocks, int workers, int worker)
{
    long slowest = clocks[0];
    for (int w = 1; w < workers; w++)
        slowest = clocks[w] < slowest ? clocks[w] : slowest;
    return clocks[worker] - slowest;
}

static bool may_go(const long *clocks, int workers, int worker, long staleness)
{
    return staleness < 0 || tr_ahead(clocks, workers, worker) <= staleness;
}

/* ---- from a file ---- */

void tr_push_order_name(char *to, size_t room, const char *file, int server, int servers)
{
    if (servers > 1)
        snprintf(to, room, "%s.%d", file, server);
    else
        snprintf(to, room, "%s", file);
}

static bool read_order(int *order, const struct tr_push_order *a, const char *name, struct tr_error *e)
{
    FILE *file = fopen(name, "r");
    char line[256];
    long n = 0, number = 0, all = a->workers * a->steps;
    bool ok = file || tr_fail(e, "--arrivals %s: the file cannot be read", name);
    while (ok && fgets(line, sizeof line, file)) {
        char *end;
        number++;
        errno = 0;
        long worker = strtol(line, &end, 10);
        if (*line == '#' || *line == '\n')
            continue;
        bool number_alone = end != line && !errno && (!*end || isspace((unsigned char)*end));
        if (!number_alone || worker < 0 || worker >= a->workers)
            ok = tr_fail(
                e, "--arrivals %s, line %ld: legal are workers, 0 to %d", name, number, a->workers - 1);
        else if (n == all)
            ok = tr_fail(e, "--arrivals %s, line %ld: %d workers push %ld times each; legal are %ld lines",
                name, number, a->workers, a->steps, all);
        else
            order[n++] = (int)worker;
    }
    if (ok && ferror(file))
        ok = tr_fail(e, "--arrivals %s: the file cannot be read", name);
    if (ok && n < all)
        ok = tr_fail(e, "--arrivals %s: %ld pushes, and %d workers push %ld times each; legal are %ld lines",
            name, n, a->workers, a->steps, all);
    if (file)
        fclose(file);
    return ok;
}

/* ---- what can be ---- */

/* Workers go from server to server, and wait at each until they may go on. */
struct walk {
    const struct tr_push_order *a;
    long staleness;
    long *next, *clocks; /* of each server: its next push; of each server and worker */
    int *at; /* of each worker: the server that it pushes to, or waits for */
    bool *waits;
};

static void begin(struct walk *w, const struct tr_push_order *a, long staleness)
{
    size_t workers = (size_t)a->workers, servers = (size_t)a->servers;
    *w = (struct walk){ .a = a,
        .staleness = staleness,
        .next = tr_new(servers, sizeof(long)),
        .clocks = tr_new(servers * workers, sizeof(long)),
        .at = tr_new(workers, sizeof(int)),
        .waits = tr_new(workers, sizeof(bool)) };
}

static void end(struct walk *w)
{
    free(w->next), free(w->clocks), free(w->at), free(w->waits);
}

static bool comes(const struct walk *w, int server, int worker)
{
    return w->at[worker] == server && !w->waits[worker] &&
           w->clocks[server * w->a->workers + worker] < w->a->steps;
}

static void take(struct walk *w, int server, int worker)
{
    const struct tr_push_order *a = w->a;
    long *clocks = &w->clocks[server * a->workers];
    w->next[server]++;
    clocks[worker]++;
    w->waits[worker] = true;
    for (int x = 0; x < a->workers; x++)
        if (w->at[x] == server && w->waits[x] && may_go(clocks, a->workers, x, w->staleness))
            w->waits[x] = false, w->at[x] = (server + 1) % a->servers;
}

/* ---- from a seed: each push is of one of those who come, by chance ---- */

static void draw(struct tr_push_order *a, long staleness, uint64_t seed)
{
    struct walk w;
    begin(&w, a, staleness);
    for (long n = 0; n < a->servers * a->workers * a->steps; n++) {
        uint64_t count = 0;
        for (int x = 0; x < a->workers; x++)
            count += comes(&w, w.at[x], x);
        uint64_t chosen = tr_next(&seed) % count;
        int worker = -1;
        do
            worker++;
        while (!comes(&w, w.at[worker], worker) || chosen--);
        int server = w.at[worker];
        a->order[server][w.next[server]] = worker;
        take(&w, server, worker);
    }
    end(&w);
}

/* ---- whether an order can be ---- */

static bool stuck(const struct walk *w, const char *text, struct tr_error *e)
{
    const struct tr_push_order *a = w->a;
    for (int s = 0; s < a->servers; s++) {
        if (w->next[s] == a->workers * a->steps)
            continue;
        int worker = a->order[s][w->next[s]];
        const long *clocks = &w->clocks[s * a->workers];
        if (clocks[worker] == a->steps)
            return tr_fail(e,
                "--arrivals %s: push %ld is of worker %d, which has pushed %ld times; legal is that "
                "each worker pushes as often as --steps says",
                text, w->next[s], worker, a->steps);
        if (w->waits[worker] && w->at[worker] == s)
            return tr_fail(e,
                "--arrivals %s: push %ld is of worker %d, which is %ld steps before the slowest "
                "and waits; legal with --staleness %ld are up to that",
                text, w->next[s], worker, tr_ahead(clocks, a->workers, worker), w->staleness);
    }
    return tr_fail(e,
        "--arrivals %s: the servers' orders contradict each other: each waits for a worker that "
        "waits for another server",
        text);
}

static bool check(const struct tr_push_order *a, const char *text, long staleness, struct tr_error *e)
{
    struct walk w;
    bool moved = true, all = true;
    begin(&w, a, staleness);
    while (moved) {
        moved = false;
        for (int s = 0; s < a->servers; s++)
            for (; w.next[s] < a->workers * a->steps && comes(&w, s, a->order[s][w.next[s]]); moved = true)
                take(&w, s, a->order[s][w.next[s]]);
    }
    for (int s = 0; s < a->servers; s++)
        all &= w.next[s] == a->workers * a->steps;
    bool ok = all || stuck(&w, text, e);
    end(&w);
    return ok;
}

bool tr_push_order_make(struct tr_push_order *a, const char *text, const struct tr_mesh *m, long staleness,
    long steps, struct tr_error *e)
{
    *a = (struct tr_push_order){ m->size[TR_DP], m->servers, steps, NULL };
    if (!strcmp(text, "live"))
        return true;
    char *end = NULL, name[600];
    bool seeded = !strncmp(text, "seed:", 5), ok = true;
    errno = 0;
    uint64_t seed = seeded ? strtoull(text + 5, &end, 10) : 0;
    if (seeded && (!isdigit((unsigned char)text[5]) || *end || errno))
        return tr_fail(e, "--arrivals %s: legal are live, seed:N with a whole number, and a file", text);
    a->order = tr_new((size_t)a->servers, sizeof *a->order);
    for (int s = 0; s < a->servers; s++)
        a->order[s] = tr_new((size_t)(a->workers * steps), sizeof **a->order);
    if (seeded)
        draw(a, staleness, seed);
    for (int s = 0; s < a->servers && ok && !seeded; s++) {
        tr_push_order_name(name, sizeof name, text, s, a->servers);
        ok = read_order(a->order[s], a, access(name, R_OK) ? text : name, e);
    }
    if (ok && (seeded || check(a, text, staleness, e)))
        return true;
    tr_push_order_free(a);
    return false;
}

void tr_push_order_free(struct tr_push_order *a)
{
    for (int s = 0; s < a->servers && a->order; s++)
        free(a->order[s]);
    free(a->order);
    a->order = NULL;
}
