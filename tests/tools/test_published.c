/* SPDX-License-Identifier: BSD-3-Clause */
/* test_published.c: what tutti-sim says that NCCL takes (perf/sim/presets.c) is within 1.5 of what others
 * have measured and published (nccl_published.txt). All ratios are printed, so that one sees what comes near.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "perf/sim/request.h"

#define BAR 1.5
enum { LEAST_ROWS = 29 };

static FILE *open_figures(void)
{
    char path[4096];
    const char *source = getenv("srcdir"); /* set by make check */
    snprintf(path, sizeof path, "%s/tests/tools/nccl_published.txt", source != NULL ? source : "..");
    return fopen(path, "r");
}

static double predicted(const char *machine, const char *collective, uint64_t bytes, int n, int hosts)
{
    struct sim_request r = { .n = n, .bytes = bytes };
    struct sim_choice choice;
    char why[SIM_WHY_BYTES];
    int32_t *host = malloc((size_t)n * sizeof *host);
    int c = 0;
    cr_assert_not_null(host);
    cr_assert(sim_machine_read(machine, &r.machine, why), "%s", why);
    cr_assert_str_eq(r.machine.library, "NCCL");
    while (c < TT_COLLECTIVES && strcmp(tt_collectives[c].name, collective) != 0)
        c++;
    cr_assert_lt(c, TT_COLLECTIVES, "%s", collective);
    for (int i = 0; i < n; i++)
        host[i] = i / (n / hosts);
    cr_assert_eq(tt_topology_create(&r.topology, n, host), TUTTI_OK);
    cr_assert_eq(r.topology.domains, hosts);
    for (int p = 0; p < r.machine.protocols_count; p++)
        r.machine.protocols[p].costs.hosts = (uint64_t)hosts;
    r.query = (struct tt_cost_query){ .collective = (enum tt_collective)c,
        .requirements = { .n = n, .topology = &r.topology },
        .bytes = bytes,
        .element_bytes = 4,
        .slot_bytes = 1 << 20 };
    cr_assert_eq(sim_choose(&r, &choice), TUTTI_OK);
    tt_topology_free(&r.topology);
    free(host);
    return 1e-9 * (double)choice.total;
}

Test(published, what_nccl_takes_is_within_half_as_much_again)
{
    FILE *file = open_figures();
    char line[512], collective[32], machine[32], source[64];
    int rows = 0, n, hosts;
    unsigned long long bytes;
    double us;
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        cr_assert_eq(sscanf(line, "%31s %llu %d %d %lf %31s %63s", collective, &bytes, &n, &hosts, &us,
                         machine, source),
            7, "%s", line);
        double ratio = predicted(machine, collective, bytes, n, hosts) / us;
        printf("%s of %llu bytes, %d ranks on %d hosts: %.4g us published (%s), %.2f of it predicted\n",
            collective, bytes, n, hosts, us, source, ratio);
        cr_expect(ratio < BAR && ratio > 1 / BAR, "%s", line);
        rows++;
    }
    fclose(file);
    cr_expect_geq(rows, LEAST_ROWS);
}
