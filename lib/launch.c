/* launch.c: which launcher started this process, and what it says.
 *
 * What a user wrote (TUTTI_ID, TUTTI_RANK, TUTTI_SIZE) beats what a launcher set. All three or none: half a
 * description is a mistake, and to go on with another source would hide it. The id holds a secret, so no
 * error repeats it. */
#include "launch.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/status.h"

#ifndef HAVE_PMIX
tutti_status tt_launch_pmix(int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    (void)timeout_ms, (void)n, (void)rank, (void)id;
    return tt_fail(TUTTI_UNSUPPORTED, "a launcher started this process with PMIx, which this library was "
                                      "built without: build it where pmix.h "
                                      "is, or set TUTTI_ID, TUTTI_RANK and TUTTI_SIZE");
}
#endif

bool tt_launch_number(const char *text, int least, int most, int *value)
{
    int sum = 0;
    size_t digits = strlen(text);
    if (digits < 1 || digits > 6)
        return false;
    for (; *text != 0; text++) {
        if (!isdigit((unsigned char)*text))
            return false;
        sum = 10 * sum + (*text - '0');
    }
    *value = sum;
    return sum >= least && sum <= most;
}

static int hex_digit(char c)
{
    if (!isxdigit((unsigned char)c))
        return -1;
    return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10;
}

bool tt_launch_read_id(const char *text, tutti_id *id)
{
    if (strlen(text) != TT_LAUNCH_ID_DIGITS)
        return false;
    for (int i = 0; i < TT_LAUNCH_ID_DIGITS; i += 2) {
        int high = hex_digit(text[i]), low = hex_digit(text[i + 1]);
        if (high < 0 || low < 0)
            return false;
        id->bytes[i / 2] = (uint8_t)(16 * high + low);
    }
    return true;
}

void tt_launch_write_id(const tutti_id *id, char text[TT_LAUNCH_ID_DIGITS + 1])
{
    for (size_t i = 0; i < sizeof id->bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", id->bytes[i]);
}

static tutti_status read_variables(
    const char *id_text, const char *rank_text, const char *size_text, int *n, int *rank, tutti_id *id)
{
    int read_n, read_rank;
    tutti_id read;
    const char *missing = !id_text     ? "TUTTI_ID"
                          : !rank_text ? "TUTTI_RANK"
                          : !size_text ? "TUTTI_SIZE"
                                       : NULL;
    if (missing)
        return tt_fail(TUTTI_INVALID_USAGE,
            "%s is not set: set all of TUTTI_ID, TUTTI_RANK and TUTTI_SIZE, or none of them", missing);
    if (!tt_launch_number(size_text, 1, TT_LAUNCH_RANKS, &read_n))
        return tt_fail(
            TUTTI_INVALID_USAGE, "TUTTI_SIZE is \"%.60s\"; legal: 1 to %d ranks", size_text, TT_LAUNCH_RANKS);
    if (!tt_launch_number(rank_text, 0, read_n - 1, &read_rank))
        return tt_fail(TUTTI_INVALID_USAGE, "TUTTI_RANK is \"%.60s\"; legal: 0 to %d", rank_text, read_n - 1);
    if (!tt_launch_read_id(id_text, &read))
        return tt_fail(TUTTI_INVALID_USAGE,
            "TUTTI_ID has %zu characters; legal: the %d hexadecimal digits of an id that tutti_get_id made",
            strlen(id_text), TT_LAUNCH_ID_DIGITS);
    *n = read_n;
    *rank = read_rank;
    *id = read;
    return TUTTI_OK;
}

static bool any_set(const char *const *names)
{
    while (*names && !tt_environment(*names))
        names++;
    return *names != NULL;
}

tutti_status tt_launch_find(int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    const char *id_text = tt_environment("TUTTI_ID");
    const char *rank_text = tt_environment("TUTTI_RANK"), *size_text = tt_environment("TUTTI_SIZE");
    if (id_text || rank_text || size_text)
        return read_variables(id_text, rank_text, size_text, n, rank, id);
    if (any_set((const char *const[]){ "PMIX_RANK", "PMIX_NAMESPACE", NULL }))
        return tt_launch_pmix(timeout_ms, n, rank, id);
    if (any_set((const char *const[]){ "PMI_RANK", "PMI_FD", NULL }))
        return tt_launch_pmi(timeout_ms, n, rank, id);
    return tt_fail(TUTTI_INVALID_USAGE,
        "no launcher told this process its rank: start it with mpirun, or with srun --mpi=pmix or pmi2, or "
        "set TUTTI_ID (tutti-info id makes one), TUTTI_RANK and TUTTI_SIZE for each process");
}
