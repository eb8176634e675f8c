/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_squatters.c: another user has made the directory in /tmp where this one's ranks meet: they
 * meet all the same, at an id and by what they agreed on. */
#include <fcntl.h>
#include <grp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "bootstrap/bootstrap_root.h"
#include "launch/launch.h"
#include "meeting.h"

enum { NAMES = 16, SQUATTER = 65534 };

TestSuite(bootstrap_squatters, .timeout = 60);

static char runtime[] = "/tmp/tutti_test_XXXXXX";

static void name_of(uid_t user, int number, char path[64])
{
    snprintf(path, 64, number > 0 ? "/tmp/tutti-%u.%d" : "/tmp/tutti-%u", user, number);
}

/* Ranks of a user who is nobody else's, so that no job on this machine is disturbed. */
static bool meets(uid_t user, tutti_status (*meet)(void))
{
    pid_t child = fork();
    if (child == 0) {
        bool changed =
            setgroups(0, NULL) == 0 && setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0;
        _exit(!changed ? 2 : meet() == TUTTI_OK ? 0 : 1);
    }
    return ended_well(child);
}

static tutti_status meet_at_an_id(void)
{
    tutti_id id;
    struct call calls[2];
    tutti_status status = tt_bootstrap_create(&id, PATIENCE_MS);
    if (status != TUTTI_OK)
        return status;
    calls[0] = call_for(&id, 2, 0);
    calls[1] = call_for(&id, 2, 1);
    run_threads(calls, 2);
    return calls[0].status != TUTTI_OK ? calls[0].status : calls[1].status;
}

/* As the workers of torchrun do, each by itself. */
static tutti_status meet_by_a_post(void)
{
    tutti_id id;
    tutti_status status = tt_bootstrap_publish("squatted", PATIENCE_MS, &id);
    if (status != TUTTI_OK)
        return status;
    struct call here = call_for(&id, 2, 0);
    pid_t other = fork();
    if (other == 0) {
        if (tt_bootstrap_look_up("squatted", PATIENCE_MS, &id) != TUTTI_OK)
            _exit(1);
        struct call c = call_for(&id, 2, 1);
        run_call(&c);
        _exit(c.status == TUTTI_OK ? 0 : 1);
    }
    run_call(&here);
    return ended_well(other) ? here.status : TUTTI_INTERNAL_ERROR;
}

static void squat(uid_t user, int names)
{
    char path[64];
    for (int i = 0; i < names; i++) {
        name_of(user, i, path);
        cr_assert(mkdir(path, 0777) == 0 && chown(path, SQUATTER, SQUATTER) == 0, "%s", path);
    }
}

static void clean(uid_t user)
{
    char path[64];
    for (int i = 0; i < NAMES; i++) {
        name_of(user, i, path);
        rmdir(path);
    }
}

Test(bootstrap_squatters, another_name_is_taken)
{
    uid_t user = 100000 + (uid_t)getpid();
    char path[64];
    struct stat s;
    if (geteuid() != 0)
        cr_skip_test("only root can be two users");
    unsetenv("XDG_RUNTIME_DIR");
    squat(user, 2);
    cr_expect(meets(user, meet_at_an_id));
    cr_expect(meets(user, meet_by_a_post));
    name_of(user, 2, path);
    cr_expect(stat(path, &s) == 0 && s.st_uid == user && (s.st_mode & 0777) == 0700, "%s", path);
    name_of(user, 0, path);
    rmdir(path); /* the one that is there still counts: ranks must not part when a squatter goes */
    cr_expect(meets(user, meet_by_a_post));
    cr_expect(stat(path, &s) != 0, "%s was made", path);
    clean(user);
}

Test(bootstrap_squatters, all_names_are_taken)
{
    uid_t user = 100000 + (uid_t)getpid();
    if (geteuid() != 0)
        cr_skip_test("only root can be two users");
    unsetenv("XDG_RUNTIME_DIR");
    squat(user, NAMES);
    cr_expect_not(meets(user, meet_by_a_post));
    cr_assert_not_null(mkdtemp(runtime));
    cr_assert(chown(runtime, user, user) == 0 && setenv("XDG_RUNTIME_DIR", runtime, 1) == 0);
    cr_expect(meets(user, meet_by_a_post));
    cr_expect(meets(user, meet_at_an_id));
    char inside[64];
    snprintf(inside, sizeof inside, "%s/tutti", runtime);
    rmdir(inside);
    rmdir(runtime);
    clean(user);
}
