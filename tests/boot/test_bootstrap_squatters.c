/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_squatters.c: another user has made the directory in /tmp where this one's ranks meet: they
 * meet all the same, at an id and by what they agreed on. So they do where nothing can be made in /tmp. */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
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

/* --- Where nothing can be made in /tmp */

/* Gives this process a /tmp of its own that is read-only, and keeps the real one at `rw`. */
static bool make_tmp_read_only(const char *rw)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("/tmp", "/tmp", NULL, MS_BIND | MS_REC, NULL) == 0 &&
           mount(rw, rw, NULL, MS_BIND, NULL) == 0 &&
           mount(NULL, "/tmp", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL) == 0;
}

enum { NO_NAMESPACE = 77 };

static int meet_without_tmp(const char *rw, const char *variable, const char *words)
{
    unsetenv("TMPDIR");
    unsetenv("XDG_RUNTIME_DIR");
    if (!make_tmp_read_only(rw))
        return NO_NAMESPACE;
    if (variable != NULL)
        setenv(variable, rw, 1);
    bool met = meet_by_a_post() == TUTTI_OK;
    bool told = words == NULL || strstr(tt_last_error(), words) != NULL;
    if (!told)
        fprintf(stderr, "\"%s\" is not in \"%s\"\n", words, tt_last_error());
    return met == (words == NULL) && told ? 0 : 1;
}

/* $TMPDIR, $XDG_RUNTIME_DIR and TUTTI_DIRECTORY help; without them the error names all three, and one that is
 * there and of no use. */
Test(bootstrap_squatters, read_only_tmp)
{
    static const struct {
        const char *variable;
        mode_t mode;
        const char *words;
    } cases[] = {
        { "TMPDIR", 0755, NULL },
        { "XDG_RUNTIME_DIR", 0700, NULL },
        { "TUTTI_DIRECTORY", 0755, NULL },
        { NULL, 0755,
            "Read-only file system; TMPDIR is not set; XDG_RUNTIME_DIR is not set; TUTTI_DIRECTORY" },
        { "XDG_RUNTIME_DIR", 0755, "XDG_RUNTIME_DIR, " },
        { "XDG_RUNTIME_DIR", 0755, "with mode 0755, legal: 0 and 0700" },
    };
    char inside[64];
    if (geteuid() != 0)
        cr_skip_test("only root can mount");
    cr_assert_not_null(mkdtemp(runtime));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int status = 0;
        cr_assert_eq(chmod(runtime, cases[i].mode), 0);
        pid_t child = fork();
        if (child == 0)
            _exit(meet_without_tmp(runtime, cases[i].variable, cases[i].words));
        cr_assert_eq(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == NO_NAMESPACE)
            cr_skip_test("the system allows no namespaces");
        cr_expect_eq(
            status, 0, "%s, mode %o", cases[i].variable ? cases[i].variable : "nothing", cases[i].mode);
        for (int n = 0; n < 2; n++) {
            snprintf(inside, sizeof inside, n == 0 ? "%s/tutti" : "%s/tutti-0", runtime);
            rmdir(inside);
        }
    }
    rmdir(runtime);
}

/* It beats $XDG_RUNTIME_DIR and /tmp; and one that cannot be is an error. */
Test(bootstrap_squatters, chosen_directory)
{
    char inside[64];
    struct stat s;
    enum tt_directory directory;
    cr_assert_not_null(mkdtemp(runtime));
    setenv("XDG_RUNTIME_DIR", runtime, 1);
    cr_assert_eq(chmod(runtime, 0700), 0);
    setenv("TUTTI_DIRECTORY", runtime, 1);
    cr_expect_eq(meet_at_an_id(), TUTTI_OK);
    cr_expect_eq(meet_by_a_post(), TUTTI_OK);
    snprintf(inside, sizeof inside, "%s/tutti-%u", runtime, (unsigned)geteuid());
    cr_expect(stat(inside, &s) == 0 && (s.st_mode & 0777) == 0700, "%s", inside);
    cr_expect(settles(inside, 0));
    rmdir(inside);
    snprintf(inside, sizeof inside, "%s/tutti", runtime);
    cr_expect(stat(inside, &s) != 0, "%s was made", inside);
    rmdir(runtime);
    cr_expect_eq(tt_directory_choose(&directory), TUTTI_SYSTEM_ERROR);
    cr_expect(strstr(tt_last_error(), "in TUTTI_DIRECTORY: No such file"), "%s", tt_last_error());
    static const char *const wrong[] = { "relative", "",
        "/a/path/that/is/much/and/by/far/longer/than/the/name/of/a/socket/can/be/in/all" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("TUTTI_DIRECTORY", wrong[i], 1);
        cr_expect_eq(tt_directory_choose(&directory), TUTTI_INVALID_USAGE);
        cr_expect(strstr(tt_last_error(), "legal: an absolute path"), "%s", tt_last_error());
    }
}
