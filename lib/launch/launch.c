/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.c: which launcher started this process, and what it says.
 *
 * What a user wrote (TUTTI_RANK, TUTTI_SIZE, and an id or what to make one of) beats what a launcher set.
 * The user sets all of these or none: half a description is a mistake, and to go on with another source
 * would hide it. The id holds a secret, so no error repeats it. */
#include "launch/launch.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/fork.h"
#include "base/status.h"

pthread_mutex_t tt_launch_lock = PTHREAD_MUTEX_INITIALIZER;

/* Gives a child of fork a new lock. A launcher may take minutes to answer, so a fork does not wait for the
 * lock; what the lock guards is of no use to the child. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&tt_launch_lock, NULL);
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_LAUNCH, NULL, after_fork_in_child);
}

static _Atomic unsigned calls;

unsigned tt_launch_count(void)
{
    return atomic_fetch_add(&calls, 1);
}

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

const char *tt_launch_first_unset(const char *const *names)
{
    while (*names && tt_environment(*names))
        names++;
    return *names;
}

static bool any_set(const char *const *names)
{
    while (*names && !tt_environment(*names))
        names++;
    return *names != NULL;
}

tutti_status tt_launch_rank(const char *size_name, const char *rank_name, int *n, int *rank)
{
    const char *size = tt_environment(size_name), *text = tt_environment(rank_name);
    if (!tt_launch_number(size, 1, TT_LAUNCH_RANKS, n))
        return tt_fail(
            TUTTI_INVALID_USAGE, "%s is \"%.60s\"; legal: 1 to %d ranks", size_name, size, TT_LAUNCH_RANKS);
    if (!tt_launch_number(text, 0, *n - 1, rank))
        return tt_fail(TUTTI_INVALID_USAGE, "%s is \"%.60s\"; legal: 0 to %d", rank_name, text, *n - 1);
    return TUTTI_OK;
}

static tutti_status read_id(int *n, int *rank, tutti_id *id)
{
    const char *text = tt_environment("TUTTI_ID");
    tutti_status status = tt_launch_rank("TUTTI_SIZE", "TUTTI_RANK", n, rank);
    if (status == TUTTI_OK && !tt_launch_read_id(text, id))
        status = tt_fail(TUTTI_INVALID_USAGE,
            "TUTTI_ID has %zu characters; legal: the %d hexadecimal digits of an id that tutti_get_id made",
            strlen(text), TT_LAUNCH_ID_DIGITS);
    return status;
}

static tutti_status read_root(bool torch, int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    const char *root = tt_environment("TUTTI_ROOT");
    char job[TT_LAUNCH_JOB] = "", made[TT_LAUNCH_ROOT];
    if (torch)
        tt_launch_torch_job(job);
    tutti_status status =
        tt_launch_rank(torch ? "WORLD_SIZE" : "TUTTI_SIZE", torch ? "RANK" : "TUTTI_RANK", n, rank);
    if (status == TUTTI_OK && root == NULL) {
        status = tt_launch_torch_root(made);
        root = made;
    }
    if (status != TUTTI_OK)
        return status;
    return tt_launch_root(root, tt_environment("TUTTI_SECRET_FILE"), job, *rank, timeout_ms, id);
}

/* Reads what the user set: an id, or what to make one of; with the latter, torchrun may say n and rank, and
 * where rank 0 is. */
static tutti_status read_variables(int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    bool root = any_set(TT_LAUNCH_NAMES("TUTTI_ROOT", "TUTTI_SECRET_FILE"));
    bool torch = root && !any_set(TT_LAUNCH_NAMES("TUTTI_RANK", "TUTTI_SIZE")) &&
                 !tt_launch_first_unset(TT_LAUNCH_NAMES("RANK", "WORLD_SIZE"));
    bool master = torch && !tt_launch_first_unset(TT_LAUNCH_NAMES("MASTER_ADDR", "MASTER_PORT"));
    const char *missing;
    if (root && tt_environment("TUTTI_ID"))
        return tt_fail(TUTTI_INVALID_USAGE,
            "TUTTI_ID is set, and so is %s: set an id, or what to make one of, not both",
            tt_environment("TUTTI_ROOT") ? "TUTTI_ROOT" : "TUTTI_SECRET_FILE");
    missing = tt_launch_first_unset(!root    ? TT_LAUNCH_NAMES("TUTTI_ID")
                                    : master ? TT_LAUNCH_NAMES("TUTTI_SECRET_FILE")
                                             : TT_LAUNCH_NAMES("TUTTI_ROOT", "TUTTI_SECRET_FILE"));
    if (!missing && !torch)
        missing = tt_launch_first_unset(TT_LAUNCH_NAMES("TUTTI_RANK", "TUTTI_SIZE"));
    if (missing)
        return tt_fail(TUTTI_INVALID_USAGE,
            "%s is not set: set TUTTI_RANK, TUTTI_SIZE, and TUTTI_ID or both TUTTI_ROOT and "
            "TUTTI_SECRET_FILE; or none of them",
            missing);
    return root ? read_root(torch, timeout_ms, n, rank, id) : read_id(n, rank, id);
}

/* Chooses the source. torchrun may itself be started by mpirun or srun, whose variables its workers
 * inherit, so it comes first; RANK and WORLD_SIZE alone may be anybody's, so they come last. */
static tutti_status find(int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    if (any_set(TT_LAUNCH_NAMES("TUTTI_ID", "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_ROOT", "TUTTI_SECRET_FILE")))
        return read_variables(timeout_ms, n, rank, id);
    if (any_set(TT_LAUNCH_NAMES("TORCHELASTIC_RUN_ID")))
        return tt_launch_torch(timeout_ms, n, rank, id);
    if (any_set(TT_LAUNCH_NAMES("PMIX_RANK", "PMIX_NAMESPACE")))
        return tt_launch_pmix(timeout_ms, n, rank, id);
    if (any_set(TT_LAUNCH_NAMES("PMI_RANK", "PMI_FD")))
        return tt_launch_pmi(timeout_ms, n, rank, id);
    if (any_set(TT_LAUNCH_NAMES("RANK", "WORLD_SIZE")))
        return tt_launch_torch(timeout_ms, n, rank, id);
    if (tt_environment_is_ignored())
        return tt_fail(TUTTI_INVALID_USAGE,
            "no rank is known: the environment is ignored, because this program has rights that its user "
            "lacks (setuid, setgid or capabilities); give it an id by tutti_comm_init_rank");
    if (any_set(TT_LAUNCH_NAMES("SLURM_PROCID")))
        return tt_fail(TUTTI_INVALID_USAGE,
            "Slurm started this process (SLURM_PROCID is set) without a way to meet the others: start it "
            "with "
            "srun --mpi=pmix or --mpi=pmi2 (srun --mpi=list tells which there are), or set TUTTI_ROOT, "
            "TUTTI_SECRET_FILE, TUTTI_RANK and TUTTI_SIZE");
    return tt_fail(TUTTI_INVALID_USAGE,
        "no launcher told this process its rank: start it with mpirun, with srun --mpi=pmix or pmi2, or with "
        "torchrun, or set TUTTI_ID (tutti-info id makes one), TUTTI_RANK and TUTTI_SIZE for each process");
}

tutti_status tt_launch_find(int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    int found_n, found_rank;
    tutti_id found;
    tutti_status status = find(timeout_ms, &found_n, &found_rank, &found);
    if (status != TUTTI_OK)
        return status;
    *n = found_n;
    *rank = found_rank;
    *id = found;
    return TUTTI_OK;
}
