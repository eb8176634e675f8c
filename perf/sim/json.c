/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c: what tutti-sim says, as one JSON object. Times are in microseconds; what has none has null. */
#include "request.h"

static void put_string(const char *string)
{
    char bytes[4096];
    struct tt_text text = { bytes, sizeof bytes, 0 };
    tt_put_json(&text, string);
    fputs(text.length < sizeof bytes ? bytes : "\"\"", stdout);
}

static void put_time(const char *name, uint64_t femtoseconds)
{
    if (femtoseconds == UINT64_MAX)
        printf(", \"%s\": null", name);
    else
        printf(", \"%s\": %.6f", name, 1e-9 * (double)femtoseconds);
}

static void put_way(const char *algorithm, const char *protocol, uint64_t total)
{
    printf("{\"algorithm\": ");
    put_string(algorithm);
    printf(", \"protocol\": ");
    put_string(protocol);
    put_time("us", total);
}

static void begin(const struct sim_request *r, const char *title)
{
    (void)title;
    const struct sim_preset *preset = sim_preset_find(r->machine_name);
    printf("{\"collective\": \"%s\", \"bytes\": %llu, \"ranks\": %d, \"hosts\": %d,\n", r->collective,
        (unsigned long long)r->bytes, r->n, r->topology.domains);
    printf(" \"machine\": ");
    put_string(r->machine_name);
    printf(", \"library\": ");
    put_string(r->machine.library);
    printf(", \"omits\": ");
    put_string(preset != NULL && preset->omits != NULL ? preset->omits : "");
    printf(",\n \"ways\": [");
}

static void put_row(const struct sim_row *row, int number)
{
    printf("%s\n  ", number > 0 ? "," : "");
    put_way(row->algorithm, row->protocol, row->total);
    if (row->total != UINT64_MAX)
        printf(", \"of_chosen\": %.4f, \"simulated\": \"%s\", \"chosen\": %s", row->of_chosen,
            row->kernels          ? "none"
            : row->representative ? "some"
                                  : "all",
            row->chosen ? "true" : "false");
    else {
        printf(", \"none\": ");
        put_string(row->none);
    }
    printf("}");
}

static void put_rank(const struct sim_facts *f)
{
    static const char *const names[TT_LEVELS] = { "near", "far", "away" };
    printf(",\n \"rank\": {\"rank\": %d, \"steps\": %llu, \"keeps_bytes\": %llu, \"scratch_bytes\": %llu",
        f->rank, (unsigned long long)f->steps, (unsigned long long)f->keeps_bytes,
        (unsigned long long)f->scratch_bytes);
    for (int level = 0; level < TT_LEVELS; level++)
        printf(", \"%s\": {\"messages\": %llu, \"bytes\": %llu, \"peers\": %llu}", names[level],
            (unsigned long long)f->messages[level], (unsigned long long)f->bytes[level],
            (unsigned long long)f->peers[level]);
    printf("}");
}

static void end(const struct sim_request *r, const struct sim_facts *f)
{
    (void)r;
    printf("\n ],\n \"way\": ");
    put_way(f->algorithm, f->protocol, f->total);
    printf("}");
    if (!f->kernels) {
        put_time("bound_us", f->bound);
        put_rank(f);
        printf(",\n \"critical_path\": {\"slices\": %u, \"of_slices\": %u, \"flights\": %llu", f->simulated,
            f->slices, (unsigned long long)f->flights);
        put_time("flight_us", f->flight_time);
        put_time("call_us", f->call);
        for (int i = 0; i < TT_COST_PARTS; i++) {
            char name[32];
            snprintf(name, sizeof name, "%s_us", sim_part_names[i]);
            put_time(name, f->parts[i]);
        }
        printf("}");
    }
    if (f->executed) {
        printf(",\n \"executor\": {\"messages\": %llu, \"bytes\": %llu, \"full_slots\": %llu",
            (unsigned long long)f->execution.messages, (unsigned long long)f->execution.bytes,
            (unsigned long long)f->execution.full_slots);
        put_time("us", f->execution.time);
        printf("}");
    }
    printf("}\n");
}

const struct sim_format sim_json = { begin, put_row, end };
