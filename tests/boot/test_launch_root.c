/* SPDX-License-Identifier: BSD-3-Clause */
/* test_launch_root.c: ranks that were told where to meet and where a secret lies; what is a secret, and what
 * is not. */
#include <sys/stat.h>

#include "launch/launch.h"
#include "meeting.h"

static char path[64]; /* a secret file */

/* Writes so many digits, of which the first are "5ec4e7". */
static void write_secret(const char *name, size_t digits, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    cr_assert(fd >= 0);
    for (size_t i = 0; i < digits; i++)
        cr_assert_eq(write(fd, &"5ec4e7a0"[i % 8], 1), 1);
    cr_assert_eq(fchmod(fd, mode), 0);
    close(fd);
}

static void write_text(const char *text)
{
    int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void set_variable(const char *name, const char *value)
{
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static void set_all(const char *root, const char *file, const char *rank, const char *size)
{
    static const char *const names[] = { "TUTTI_ID", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_FD", "PMI_RANK" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    set_variable("TUTTI_ROOT", root);
    set_variable("TUTTI_SECRET_FILE", file);
    set_variable("TUTTI_RANK", rank);
    set_variable("TUTTI_SIZE", size);
}

static void make_file_name(void)
{
    snprintf(path, sizeof path, "/tmp/tutti_secret_XXXXXX");
    close(mkstemp(path));
    write_secret(path, 64, 0600);
}

static void remove_file(void)
{
    unlink(path);
}

TestSuite(launch_root, .init = make_file_name, .fini = remove_file);

static void expect_refusal(const char *word, const char *other)
{
    int n = -7, rank = -7;
    tutti_id id;
    cr_expect_eq(tt_launch_find(1000, &n, &rank, &id), TUTTI_INVALID_USAGE, "%s", tt_last_error());
    cr_expect(strstr(tt_last_error(), word), "\"%s\" is not in \"%s\"", word, tt_last_error());
    cr_expect(strstr(tt_last_error(), other), "\"%s\" is not in \"%s\"", other, tt_last_error());
    cr_expect_not(strstr(tt_last_error(), "5ec4e7") || strstr(tt_last_error(), "sesame"),
        "the error repeats the secret");
    cr_expect(n == -7 && rank == -7);
}

Test(launch_root, half_a_description_is_named)
{
    set_all(NULL, path, "1", "2");
    expect_refusal("TUTTI_ROOT is not set", "none of them");
    set_all("localhost:4000", NULL, "1", "2");
    expect_refusal("TUTTI_SECRET_FILE is not set", "none of them");
    set_all("localhost:4000", path, NULL, "2");
    expect_refusal("TUTTI_RANK is not set", "none of them");
    set_all("localhost:4000", path, "1", NULL);
    expect_refusal("TUTTI_SIZE is not set", "none of them");
    set_all("localhost:4000", path, "2", "2");
    expect_refusal("TUTTI_RANK is \"2\"", "0 to 1");
    set_all("localhost:4000", path, "1", "2");
    setenv("TUTTI_ID", "00", 1);
    expect_refusal("TUTTI_ID is set, and so is TUTTI_ROOT", "not both");
}

Test(launch_root, malformed_roots_are_named)
{
    static const char *const roots[] = { "", ":", "localhost", "localhost:", ":4000", "localhost:0",
        "localhost:65536", "localhost:123456", "localhost:4000x", "localhost:+400", "::1:4000", "[]:4000",
        "[::1:4000" };
    for (size_t i = 0; i < sizeof roots / sizeof roots[0]; i++) {
        set_all(roots[i], path, "1", "2");
        expect_refusal("TUTTI_ROOT", i + 1 < sizeof roots / sizeof roots[0] ? "legal: a host" : "[::1");
    }
    set_all("no.such.host.invalid:4000", path, "1", "2");
    expect_refusal("TUTTI_ROOT", "no.such.host.invalid");
}

Test(launch_root, secrets_that_are_none_are_refused)
{
    char other[80];
    set_all("127.0.0.1:4000", path, "1", "2");
    write_secret(path, 31, 0600);
    expect_refusal(path, "holds 31 hexadecimal digits, so few that all can be tried");
    write_secret(path, 0, 0600);
    expect_refusal(path, "tutti-info secret FILE");
    write_secret(path, 4097, 0600);
    expect_refusal(path, "32 to 4096 random hexadecimal digits");
    write_secret(path, 10000, 0600);
    expect_refusal(path, "or too many");
    write_text("sesame! sesame! sesame! sesame! sesame! sesame!\n");
    expect_refusal(path, "words that a person made up can be guessed");
    write_text("0123456789abcdef0123456789abcdeg0123456789abcdef");
    expect_refusal(path, "more than hexadecimal digits");
    for (mode_t bit = 1; bit <= 040; bit <<= 1) {
        write_secret(path, 32, 0600 | bit);
        expect_refusal(path, "can be read or written by others");
    }
    write_secret(path, 32, 0600);
    set_all("127.0.0.1:4000", "/tmp", "1", "2");
    expect_refusal("/tmp", "no regular file");
    set_all("127.0.0.1:4000", "/tmp/no/such/file", "1", "2");
    expect_refusal("/tmp/no/such/file", "No such file");
    snprintf(other, sizeof other, "%s.pipe", path);
    cr_assert_eq(mkfifo(other, 0600), 0);
    set_all("127.0.0.1:4000", other, "1", "2");
    expect_refusal(other, "no regular file");
    unlink(other);
    if (geteuid() == 0 && chown(path, 65534, 65534) == 0) {
        set_all("127.0.0.1:4000", path, "1", "2");
        expect_refusal(path, "belongs to another user");
    }
}

/* What rank 1 makes of it, in a process that has made none yet. */
static tutti_id id_of(const char *root, const char *file, int call)
{
    tutti_id id = { { 0 } };
    int pipes[2], n, rank;
    cr_assert_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        set_all(root, file, "1", "2");
        for (int i = 0; i <= call; i++)
            if (tt_launch_find(1000, &n, &rank, &id) != TUTTI_OK || n != 2 || rank != 1)
                _exit(1);
        _exit(write(pipes[1], &id, sizeof id) == sizeof id ? 0 : 2);
    }
    cr_expect(ended_well(child));
    cr_assert_eq(read(pipes[0], &id, sizeof id), sizeof id);
    close(pipes[0]);
    close(pipes[1]);
    return id;
}

/* All of the id but what is public: session, secret, token. */
static bool any_equal(const tutti_id *a, const tutti_id *b)
{
    return memcmp(a->bytes + 8, b->bytes + 8, 8) == 0 || memcmp(a->bytes + 16, b->bytes + 16, 32) == 0 ||
           memcmp(a->bytes + 52, b->bytes + 52, 16) == 0;
}

Test(launch_root, ids_depend_on_file_root_and_call)
{
    char link[80];
    tutti_id id = id_of("127.0.0.1:4000", path, 0), again = id_of("127.0.0.1:4000", path, 0);
    cr_expect_arr_eq(id.bytes, again.bytes, sizeof id.bytes);
    snprintf(link, sizeof link, "%s.link", path);
    cr_assert_eq(symlink(path, link), 0);
    again = id_of("127.0.0.1:4000", link, 0);
    unlink(link);
    cr_expect_arr_eq(id.bytes, again.bytes, sizeof id.bytes);
    again = id_of("127.0.0.1:4001", path, 0);
    cr_expect_not(any_equal(&id, &again));
    again = id_of("127.0.0.1:4000", path, 1);
    cr_expect_not(any_equal(&id, &again));
    write_text(" 5EC4E7A05ec4e7a05ec4e7a05ec4e7a0\r\n5ec4e7a05ec4e7a0\t5ec4e7a05ec4e7a0\n");
    again = id_of("127.0.0.1:4000", path, 0);
    cr_expect_arr_eq(id.bytes, again.bytes, sizeof id.bytes, "white space and case count");
    write_secret(path, 65, 0400);
    again = id_of("127.0.0.1:4000", path, 0);
    cr_expect_not(any_equal(&id, &again));
    write_secret(path, 32, 0600);
    again = id_of("127.0.0.1:4000", path, 0);
    cr_expect_not(any_equal(&id, &again));
    write_secret(path, 4096, 0600);
    again = id_of("127.0.0.1:4000", path, 0);
    cr_expect_not(any_equal(&id, &again));
}

static int be_rank(const char *root, int n, int me)
{
    char rank[12], size[12];
    snprintf(rank, sizeof rank, "%d", me);
    snprintf(size, sizeof size, "%d", n);
    set_all(root, path, rank, size);
    return meet_by_launcher(n, me, PATIENCE_MS, 2);
}

/* Twice, so that the second meeting begins while some are still in the first. */
Test(launch_root, processes_meet)
{
    enum { RANKS = 4 };
    char root[32];
    pid_t children[RANKS];
    snprintf(root, sizeof root, "127.0.0.1:%d", 20000 + (int)(getpid() % 10000));
    for (int r = RANKS - 1; r >= 0; r--) {
        children[r] = fork();
        if (children[r] == 0)
            _exit(be_rank(root, RANKS, r));
    }
    for (int r = 0; r < RANKS; r++)
        cr_expect(ended_well(children[r]), "rank %d", r);
}
