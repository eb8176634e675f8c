/* SPDX-License-Identifier: BSD-3-Clause */
/* launch_torch.c: rank, n and id from the environment that torchrun gives its workers.
 *
 * It holds a rank, a size and an address, and no secret: what is public must not be made into one. The ranks
 * of one machine meet by a file in this user's private directory, whose name is made of the address, the run
 * and the number of its restart, so that neither the next run nor a restart is mixed with this one. */
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/status.h"
#include "base/net.h"
#include "launch/launch.h"
#include "bootstrap/sha256.h"

void tt_launch_torch_job(char job[TT_LAUNCH_JOB])
{
    static const char *const names[] = { "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT" };
    struct tt_sha256 hash;
    uint8_t digest[TT_SHA256_BYTES];
    tt_sha256_begin(&hash);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = tt_environment(names[i]);
        tt_sha256_add(&hash, value ? value : "", value ? strlen(value) + 1 : 1);
    }
    tt_sha256_end(&hash, digest);
    for (int i = 0; i < (TT_LAUNCH_JOB - 1) / 2; i++)
        snprintf(job + 2 * i, 3, "%02x", digest[i]);
}

tutti_status tt_launch_torch_root(char root[TT_LAUNCH_ROOT])
{
    const char *host = tt_environment("MASTER_ADDR"), *text = tt_environment("MASTER_PORT");
    int port;
    if (!tt_launch_number(text, 1, 65535, &port))
        return tt_fail(TUTTI_INVALID_USAGE, "MASTER_PORT is \"%.60s\"; legal: 1 to 65535", text);
    port += port < 65535 ? 1 : -1; /* torchrun's own store has that one */
    snprintf(root, TT_LAUNCH_ROOT, strchr(host, ':') != NULL ? "[%.400s]:%d" : "%.400s:%d", host, port);
    return TUTTI_OK;
}

/* Sets *one to whether all ranks are on this machine. */
static tutti_status check_machine(int n, bool *one)
{
    const char *text = tt_environment("LOCAL_WORLD_SIZE");
    char address[512];
    struct tt_net nets[TT_NETS];
    int count, local;
    if (text) {
        if (!tt_launch_number(text, 1, n, &local))
            return tt_fail(TUTTI_INVALID_USAGE, "LOCAL_WORLD_SIZE is \"%.60s\"; legal: 1 to %d", text, n);
        *one = local == n;
        return TUTTI_OK;
    }
    const char *host = tt_environment("MASTER_ADDR");
    bool colons = strchr(host, ':') != NULL;
    snprintf(address, sizeof address, colons ? "[%.400s]:%.8s" : "%.400s:%.8s", host,
        tt_environment("MASTER_PORT"));
    tutti_status status = tt_net_resolve("MASTER_ADDR:MASTER_PORT", address, nets, &count);
    *one = status == TUTTI_OK && tt_net_is_here(&nets[0]);
    return status;
}

tutti_status tt_launch_torch(int64_t timeout_ms, int *n, int *rank, tutti_id *id)
{
    const char *missing =
        tt_launch_first_unset(TT_LAUNCH_NAMES("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"));
    char name[TT_LAUNCH_JOB + 16];
    bool one = false;
    if (missing)
        return tt_fail(TUTTI_INVALID_USAGE,
            "%s is not set: torchrun sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; without it set "
            "TUTTI_ID, TUTTI_RANK and TUTTI_SIZE",
            missing);
    tutti_status status = tt_launch_rank("WORLD_SIZE", "RANK", n, rank);
    if (status == TUTTI_OK)
        status = check_machine(*n, &one);
    if (status != TUTTI_OK)
        return status;
    if (!one)
        return tt_fail(TUTTI_INVALID_USAGE,
            "the job's %d ranks are not all on this machine (LOCAL_WORLD_SIZE, or MASTER_ADDR, says so), and "
            "torchrun hands out no secret: set TUTTI_SECRET_FILE, a file that all hosts have (`tutti-info "
            "secret FILE` makes it); TUTTI_ROOT may name host:port of rank 0, in place of MASTER_ADDR and "
            "the "
            "port after MASTER_PORT",
            *n);
    tt_launch_torch_job(name);
    /* The number of the call: a second communicator gets a name of its own. */
    snprintf(name + TT_LAUNCH_JOB - 1, 16, "-%u", tt_launch_count());
    return *rank == 0 ? tt_bootstrap_publish(name, timeout_ms, id)
                      : tt_bootstrap_look_up(name, timeout_ms, id);
}
