/* SPDX-License-Identifier: BSD-3-Clause */
/* test_launch.c: what launchers say in the environment, and what is made of half of it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "bootstrap/bootstrap.h"

enum { DIGITS = 256, PATIENCE_MS = 600000 };
static char good_id[DIGITS + 1];

/* NULL unsets. */
static void set_all(const char *id, const char *rank, const char *size)
{
    const char *const names[] = { "TUTTI_ID", "TUTTI_RANK", "TUTTI_SIZE" }, *const values[] = { id, rank,
        size };
    for (int i = 0; i < 3; i++) {
        if (values[i])
            setenv(names[i], values[i], 1);
        else
            unsetenv(names[i]);
    }
    static const char *const others[] = { "PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK", "PMI_FD", "RANK",
        "WORLD_SIZE", "TUTTI_ROOT", "TUTTI_SECRET_FILE", "TORCHELASTIC_RUN_ID", "SLURM_PROCID" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        unsetenv(others[i]);
    for (int i = 0; i < DIGITS; i++)
        good_id[i] = "0123456789abcdefABCDEF"[i % 22];
}

/* Nothing is written, and each word stands in the text. */
static void expect_refusal(const char *word, const char *other)
{
    int n = -7, rank = -7;
    tutti_id id, before;
    memset(&id, 0x11, sizeof id);
    before = id;
    cr_expect_eq(tt_launch_find(PATIENCE_MS, &n, &rank, &id), TUTTI_INVALID_USAGE);
    cr_expect(strstr(tt_last_error(), word), "\"%s\" is not in \"%s\"", word, tt_last_error());
    cr_expect(strstr(tt_last_error(), other), "\"%s\" is not in \"%s\"", other, tt_last_error());
    cr_expect(n == -7 && rank == -7 && memcmp(&id, &before, sizeof id) == 0);
}

Test(launch, variables_are_read)
{
    int n, rank;
    tutti_id id;
    set_all(NULL, NULL, NULL);
    set_all(good_id, "7", "8");
    cr_assert_eq(tt_launch_find(PATIENCE_MS, &n, &rank, &id), TUTTI_OK, "%s", tt_last_error());
    cr_expect_eq(n, 8);
    cr_expect_eq(rank, 7);
    for (int i = 0; i < DIGITS; i++) {
        int digit = i % 2 ? id.bytes[i / 2] % 16 : id.bytes[i / 2] / 16;
        cr_expect_eq(digit, (int)strtol((const char[]){ good_id[i], 0 }, NULL, 16), "digit %d", i);
    }
    set_all(good_id, "65535", "65536");
    cr_expect_eq(tt_launch_find(PATIENCE_MS, &n, &rank, &id), TUTTI_OK);
}

Test(launch, nothing_set_names_what_is_legal)
{
    set_all(NULL, NULL, NULL);
    expect_refusal("mpirun", "TUTTI_ID");
    setenv("SLURM_PROCID", "1", 1);
    expect_refusal("SLURM_PROCID is set", "srun --mpi=pmix or --mpi=pmi2");
}

Test(launch, missing_variable_is_named)
{
    set_all(NULL, NULL, NULL);
    set_all(NULL, "0", "1");
    expect_refusal("TUTTI_ID is not set", "none of them");
    set_all(good_id, NULL, "1");
    expect_refusal("TUTTI_RANK is not set", "none of them");
    set_all(good_id, "0", NULL);
    expect_refusal("TUTTI_SIZE is not set", "none of them");
    set_all(NULL, NULL, "1");
    expect_refusal("TUTTI_ID is not set", "none of them");
}

Test(launch, malformed_values_are_named)
{
    static const char *const numbers[] = { "", " 1", "+1", "-1", "1x", "0x1", "1.0", "99999999999999999999" };
    set_all(NULL, NULL, NULL);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        set_all(good_id, numbers[i], "4");
        expect_refusal("TUTTI_RANK", "0 to 3");
        set_all(good_id, "0", numbers[i]);
        expect_refusal("TUTTI_SIZE", "1 to 65536");
    }
    set_all(good_id, "4", "4");
    expect_refusal("TUTTI_RANK is \"4\"", "0 to 3");
    set_all(good_id, "0", "0");
    expect_refusal("TUTTI_SIZE is \"0\"", "1 to 65536");
    set_all(good_id, "0", "65537");
    expect_refusal("TUTTI_SIZE is \"65537\"", "1 to 65536");
    set_all("123", "0", "1");
    expect_refusal("TUTTI_ID has 3 characters", "256 hexadecimal digits");
    char bad[DIGITS + 2];
    snprintf(bad, sizeof bad, "%s0", good_id);
    set_all(bad, "0", "1");
    expect_refusal("TUTTI_ID has 257 characters", "256 hexadecimal digits");
    bad[DIGITS] = 0;
    bad[100] = 'g';
    set_all(bad, "0", "1");
    expect_refusal("TUTTI_ID", "256 hexadecimal digits");
    cr_expect_not(strstr(tt_last_error(), "abcdef"), "the error repeats the secret");
}
