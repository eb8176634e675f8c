/* SPDX-License-Identifier: BSD-3-Clause */
/* text.c: what tutti-sim says, for people. */
#include "request.h"

const char *const sim_part_names[TT_COST_PARTS] = { "messages", "bytes", "folds", "copies", "switches" };

static double us(uint64_t femtoseconds)
{
    return 1e-9 * (double)femtoseconds;
}

/* Nothing takes as long as nothing. */
static double times(uint64_t time, uint64_t unit)
{
    return unit > 0 ? (double)time / (double)unit : 1;
}

static const char *name_of(char name[64], const char *algorithm, const char *protocol)
{
    snprintf(name, 64, "%s%s%s", algorithm, protocol[0] != '\0' ? ", " : "", protocol);
    return name;
}

static void begin(const struct sim_request *r, const char *title)
{
    const struct sim_preset *preset = sim_preset_find(r->machine_name);
    printf("# tutti-sim: %s\n", title);
    if (preset != NULL && preset->omits != NULL)
        printf("# %s\n", preset->omits);
    if (r->n == 1 && r->query.collective != TT_BARRIER)
        printf("# one rank sends nothing: it copies its vector, at the price of copy_byte\n");
}

static void put_row(const struct sim_row *row, int number)
{
    char name[64];
    if (number == 0)
        printf("\n  %-26s %15s %9s   %s\n", "algorithm", "time", "of chosen", "simulated");
    name_of(name, row->algorithm, row->protocol);
    if (row->refused)
        printf("  %-26s cannot serve: %s\n", name, row->none);
    else if (row->total == UINT64_MAX)
        printf("  %-26s %s\n", name, row->none);
    else
        printf("  %-26s %12.3f us %9.2f   %s%s\n", name, us(row->total), row->of_chosen,
            row->kernels          ? "by its price"
            : row->representative ? "some for all"
                                  : "all ranks",
            row->chosen ? "   <- chosen" : "");
    fflush(stdout);
}

static void put_rank(const struct sim_request *r, const struct sim_facts *f)
{
    static const char *const names[2][2] = { { "sends inside its host", "sends to other hosts" },
        { "sends inside its domain", "sends to other domains" } };
    printf("\n  rank %d, which ends last:\n", f->rank);
    for (int level = 0; level < TT_LEVELS; level++)
        if (f->peers[level] > 0)
            printf("  %-26s %llu messages a slice, %llu bytes in all, %llu peers\n",
                names[r->cores != NULL][level != TT_NEAR], (unsigned long long)f->messages[level],
                (unsigned long long)f->bytes[level], (unsigned long long)f->peers[level]);
    printf("  %-26s schedule of %llu steps, %llu bytes; scratch %llu bytes\n", "keeps",
        (unsigned long long)f->steps, (unsigned long long)f->keeps_bytes,
        (unsigned long long)f->scratch_bytes);
}

static void put_critical_path(const struct sim_facts *f)
{
    printf("\n  critical path: ");
    if (f->simulated < f->slices)
        printf("(of the first %u of %u slices) ", f->simulated, f->slices);
    printf("%llu messages in flight %.3f us", (unsigned long long)f->flights, us(f->flight_time));
    if (f->call > 0)
        printf(", launch and the like %.3f", us(f->call));
    for (int i = 0; i < TT_COST_PARTS; i++)
        if (f->parts[i] > 0)
            printf(", %s %.3f", sim_part_names[i], us(f->parts[i]));
    printf("\n");
}

static void end(const struct sim_request *r, const struct sim_facts *f)
{
    char name[64];
    printf("\n  %-26s %12.3f us\n", name_of(name, f->algorithm, f->protocol), us(f->total));
    if (f->kernels) {
        printf("  they are told by the price that the library has for them; no message is simulated\n");
        return;
    }
    printf("  %-26s %12.3f us; %.2f times that\n", "LogGP bound", us(f->bound), times(f->total, f->bound));
    put_rank(r, f);
    put_critical_path(f);
    if (f->executed)
        printf("\n  by the real executor: %.3f us (%.4f of the prediction), %llu messages, %llu bytes%s\n",
            us(f->execution.time), times(f->execution.time, f->total),
            (unsigned long long)f->execution.messages, (unsigned long long)f->execution.bytes,
            f->execution.full_slots > 0 ? "; some waited for a slot" : "");
}

const struct sim_format sim_text = { begin, put_row, end };
