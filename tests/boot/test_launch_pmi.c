/* SPDX-License-Identifier: BSD-3-Clause */
/* test_launch_pmi.c: ranks and a launcher that speaks PMI, in its own words and in nonsense. */
#include <criterion/criterion.h>
#include <poll.h>
#include <sys/socket.h>

#include "launch/launch.h"
#include "launch/launch_pmi_wire.h"
#include "meeting.h"

enum { RANKS = 4, PAIRS = 8 };

static const char one_machine[] = "(vector,(0,1,4))";

/* The launcher: one key-value space, one barrier. */
struct launcher {
    int n, in_barrier, pairs;
    int sockets[RANKS][2]; /* [0] the rank's, [1] the launcher's */
    const char *mapping; /* NULL: it knows none */
    int nets; /* addresses of the network that an id is to have */
    char keys[PAIRS][64], values[PAIRS][512];
    pthread_t thread;
};

static void answer(int socket, const char *text)
{
    stranger_say(socket, text, strlen(text));
}

static void answer_get(struct launcher *l, int socket, const char *key)
{
    char text[700];
    const char *value = strcmp(key, "PMI_process_mapping") == 0 ? l->mapping : NULL;
    for (int i = 0; i < l->pairs; i++)
        value = strcmp(l->keys[i], key) == 0 ? l->values[i] : value;
    if (value)
        snprintf(text, sizeof text, "cmd=get_result rc=0 msg=success value=%s\n", value);
    else
        snprintf(text, sizeof text, "cmd=get_result rc=1 msg=key_%s_not_found value=unknown\n", key);
    answer(socket, text);
}

static void answer_line(struct launcher *l, int socket, const char *line)
{
    char key[64], value[512];
    if (strcmp(line, "cmd=init pmi_version=1 pmi_subversion=1\n") == 0) {
        answer(socket, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    } else if (strcmp(line, "cmd=get_my_kvsname\n") == 0) {
        answer(socket, "cmd=my_kvsname kvsname=kvs_7 rc=0\n");
    } else if (sscanf(line, "cmd=put kvsname=kvs_7 key=%63s value=%511s\n", key, value) == 2) {
        snprintf(l->keys[l->pairs], sizeof key, "%s", key);
        snprintf(l->values[l->pairs++], sizeof value, "%s", value);
        answer(socket, "cmd=put_result rc=0 msg=success\n");
    } else if (sscanf(line, "cmd=get kvsname=kvs_7 key=%63s\n", key) == 1) {
        answer_get(l, socket, key);
    } else if (strcmp(line, "cmd=barrier_in\n") == 0 && ++l->in_barrier == l->n) {
        l->in_barrier = 0;
        for (int i = 0; i < l->n; i++)
            answer(l->sockets[i][1], "cmd=barrier_out rc=0\n");
    }
}

static void *launch(void *argument)
{
    struct launcher *l = argument;
    struct pollfd polls[RANKS];
    int open = l->n;
    for (int i = 0; i < l->n; i++)
        polls[i] = (struct pollfd){ l->sockets[i][1], POLLIN, 0 };
    while (open > 0 && poll(polls, (nfds_t)l->n, PATIENCE_MS) > 0) {
        for (int i = 0; i < l->n; i++) {
            char line[1024];
            ssize_t got = polls[i].revents != 0 ? read(polls[i].fd, line, sizeof line - 1) : -1;
            if (got > 0) { /* a question comes in one piece */
                line[got] = 0;
                answer_line(l, polls[i].fd, line);
            } else if (got == 0) {
                polls[i].fd = -1;
                open--;
            }
        }
    }
    return NULL;
}

static void clear_environment(void)
{
    static const char *const names[] = { "TUTTI_ID", "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_ROOT",
        "TUTTI_SECRET_FILE", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_FD", "PMI_RANK", "PMI_SIZE" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
}

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_place(int n, int rank, int socket)
{
    clear_environment();
    set_number("PMI_SIZE", n);
    set_number("PMI_RANK", rank);
    set_number("PMI_FD", socket);
}

/* As a rank of the launcher: two ids, at each of which all ranks meet. */
static int be_rank(const struct launcher *l, int me)
{
    tutti_id ids[2];
    set_place(l->n, me, l->sockets[me][0]);
    for (int i = 0; i < 2; i++) {
        int n = -1, rank = -1;
        if (tt_launch_find(PATIENCE_MS, &n, &rank, &ids[i]) != TUTTI_OK || n != l->n || rank != me) {
            fprintf(stderr, "rank %d: %s\n", me, tt_last_error());
            return 1;
        }
        struct call c = call_for(&ids[i], n, rank);
        run_call(&c);
        if (c.status != TUTTI_OK || !c.right)
            return 2;
        struct tt_id read;
        if (tt_id_read(&ids[i], &read) != TUTTI_OK || read.count != l->nets)
            return 4;
    }
    return memcmp(&ids[0], &ids[1], sizeof ids[0]) != 0 ? 0 : 3;
}

static void run_ranks(const char *mapping, int nets)
{
    static struct launcher l;
    pid_t children[RANKS];
    int status;
    l = (struct launcher){ .n = RANKS, .mapping = mapping, .nets = nets };
    for (int i = 0; i < RANKS; i++)
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, l.sockets[i]), 0);
    for (int i = 0; i < RANKS; i++) {
        children[i] = fork();
        if (children[i] != 0)
            continue;
        for (int k = 0; k < RANKS; k++) {
            close(l.sockets[k][1]);
            if (k != i)
                close(l.sockets[k][0]);
        }
        _exit(be_rank(&l, i));
    }
    for (int i = 0; i < RANKS; i++)
        close(l.sockets[i][0]);
    cr_assert_eq(pthread_create(&l.thread, NULL, launch, &l), 0);
    for (int i = 0; i < RANKS; i++) {
        waitpid(children[i], &status, 0);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "rank %d: %x", i, status);
    }
    pthread_join(l.thread, NULL);
    for (int i = 0; i < RANKS; i++)
        close(l.sockets[i][1]);
}

Test(launch_pmi, ranks_meet_at_the_ids_of_rank_0)
{
    run_ranks(one_machine, 0);
    run_ranks(NULL, 0);
}

/* What a launcher says in turn, whatever it is asked. It ends with these lines, or in the midst of one. */
struct script {
    const char *lines[8];
    int sockets[2];
    pthread_t thread;
};

static void *read_out(void *argument)
{
    struct script *s = argument;
    char line[1024];
    bool whole = true;
    for (int i = 0; whole && i < 8 && s->lines[i] && read(s->sockets[1], line, sizeof line) > 0; i++) {
        answer(s->sockets[1], s->lines[i]);
        whole = strchr(s->lines[i], '\n') != NULL;
    }
    shutdown(s->sockets[1], SHUT_WR);
    return NULL;
}

static void start_script(struct script *s)
{
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, s->sockets), 0);
    cr_assert_eq(pthread_create(&s->thread, NULL, read_out, s), 0);
}

static void end_script(struct script *s)
{
    close(s->sockets[0]);
    pthread_join(s->thread, NULL);
    close(s->sockets[1]);
}

/* All that a rank asks: the value, or the error's text. */
static tutti_status ask_all(const struct script *s, char text[TT_ERROR_TEXT])
{
    struct tt_pmi pmi = { .socket = s->sockets[0], .timeout_ms = PATIENCE_MS, .deadline_ns = INT64_MAX };
    const char *got = "";
    tutti_status status = tt_pmi_open(&pmi);
    if (status == TUTTI_OK)
        status = tt_pmi_put(&pmi, "k", "v");
    if (status == TUTTI_OK)
        status = tt_pmi_barrier(&pmi);
    if (status == TUTTI_OK)
        status = tt_pmi_get(&pmi, "k", true, &got);
    snprintf(text, TT_ERROR_TEXT, "%s", status == TUTTI_OK ? got : tt_last_error());
    if (status != TUTTI_OK) /* what comes now could be the answer to something else */
        cr_expect(pmi.lost && tt_pmi_barrier(&pmi) == TUTTI_SYSTEM_ERROR);
    return status;
}

#define INIT "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\n"
#define NAME "cmd=my_kvsname kvsname=kvs_7\n"
#define PUT "cmd=put_result rc=0\n"
#define OUT "cmd=barrier_out\n"
#define GOT "cmd=get_result rc=0 value=sesame\n"

Test(launch_pmi, nonsense_is_refused_and_not_repeated)
{
    static char long_line[3000];
    static const struct {
        const char *lines[8], *words;
    } scripts[] = {
        { { INIT, NAME, PUT, OUT, GOT }, NULL },
        { { INIT, "cmd=my_kvsname  kvsname=a rc=0\n", PUT, OUT, GOT }, NULL },
        { { NULL }, "closed the connection" },
        { { "cmd=response_to_init rc=1 pmi_version=1 pmi_subversion=1\n" }, "join the job: it refused" },
        { { "cmd=response_to_init rc=0 pmi_version=2 pmi_subversion=0\n" }, "does not speak version 1.1" },
        { { "cmd=response_to_init rc=0\n" }, "does not speak version 1.1" },
        { { "sesame\n" }, "makes no sense" },
        { { "\n" }, "makes no sense" },
        { { INIT INIT }, "makes no sense" },
        { { INIT, "cmd=my_kvsname rc=0\n" }, "makes no sense" },
        { { INIT, "cmd=my_kvsname kvsname=\n" }, "makes no sense" },
        { { INIT, NAME, PUT OUT }, "makes no sense" },
        { { INIT, NAME, "cmd=put_result rc=-1 msg=sesame\n" }, "publish the id: it refused" },
        { { INIT, NAME, "cmd=put_resultant rc=0\n" }, "makes no sense" },
        { { INIT, NAME, "cmd=put_result" }, "closed the connection" },
        { { INIT, NAME, PUT, "cmd=barrier_out rc=00\n" }, "it refused" },
        { { INIT, NAME, PUT, OUT, "cmd=get_result rc=1 value=sesame\n" }, "it refused" },
        { { INIT, NAME, PUT, OUT, "cmd=get_result rc=0 sesame\n" }, "makes no sense" },
        { { INIT, NAME, PUT, OUT, long_line }, "too long" },
    };
    memset(long_line, 'x', sizeof long_line - 1);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        struct script s = { .lines = { NULL } };
        char text[TT_ERROR_TEXT];
        memcpy(s.lines, scripts[i].lines, sizeof s.lines);
        start_script(&s);
        tutti_status status = ask_all(&s, text);
        end_script(&s);
        cr_expect_eq(status, scripts[i].words ? TUTTI_SYSTEM_ERROR : TUTTI_OK, "script %zu", i);
        cr_expect(strstr(text, scripts[i].words ? scripts[i].words : "sesame"), "script %zu: %s", i, text);
        cr_expect_eq(status != TUTTI_OK, !strstr(text, "sesame"), "script %zu: %s", i, text);
    }
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Seeded damage to what a good launcher says: an error or an answer, and no step beyond a buffer. */
Test(launch_pmi, damaged_answers_are_survived)
{
    static const char *const good[] = { INIT, NAME, PUT, OUT, GOT };
    uint32_t seed = 3;
    int failures = 0;
    for (int round = 0; round < 400; round++) {
        char lines[5][64], text[TT_ERROR_TEXT];
        struct script s = { .lines = { NULL } };
        for (int i = 0; i < 5; i++) {
            snprintf(lines[i], sizeof lines[i], "%s", good[i]);
            s.lines[i] = lines[i];
        }
        char *damaged = lines[next_random(&seed) % 5];
        size_t at = next_random(&seed) % strlen(damaged);
        damaged[at] = "\n =0\377acm"[next_random(&seed) % 8];
        if (next_random(&seed) % 4 == 0)
            damaged[at] = 0;
        start_script(&s);
        failures += ask_all(&s, text) != TUTTI_OK;
        end_script(&s);
    }
    cr_expect(failures > 200 && failures < 400, "%d", failures);
}

Test(launch_pmi, silent_launcher_times_out)
{
    int n = -7, rank = -7, sockets[2];
    tutti_id id;
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    set_place(2, 0, sockets[0]);
    cr_expect_eq(tt_launch_find(100, &n, &rank, &id), TUTTI_TIMEOUT);
    cr_expect(strstr(tt_last_error(), "within 100 ms"), "%s", tt_last_error());
    cr_expect(n == -7 && rank == -7);
    close(sockets[0]);
    close(sockets[1]);
}

static void expect_refusal(tutti_status status, const char *words)
{
    int n, rank;
    tutti_id id;
    cr_expect_eq(tt_launch_find(100, &n, &rank, &id), status, "%s", tt_last_error());
    cr_expect(strstr(tt_last_error(), words), "\"%s\" is not in \"%s\"", words, tt_last_error());
}

Test(launch_pmi, half_a_description_is_named)
{
    set_place(2, 0, 1 << 19);
    expect_refusal(TUTTI_SYSTEM_ERROR, "join the job: Bad file descriptor");
    set_place(2, 2, 9);
    expect_refusal(TUTTI_INVALID_USAGE, "PMI_RANK to 2 and PMI_SIZE to 2");
    set_place(2, 0, 9);
    unsetenv("PMI_FD");
    expect_refusal(TUTTI_INVALID_USAGE, "not PMI_FD");
    set_place(2, 0, 9);
    unsetenv("PMI_RANK");
    expect_refusal(TUTTI_INVALID_USAGE, "not PMI_RANK");
    set_place(2, 0, 9);
    unsetenv("PMI_SIZE");
    expect_refusal(TUTTI_INVALID_USAGE, "not PMI_SIZE");
    setenv("PMI_SIZE", "two", 1);
    expect_refusal(TUTTI_INVALID_USAGE, "PMI_SIZE to \"two\"; legal: 1 to 65536");
}

Test(launch_pmi, machines_are_read)
{
    static const struct {
        const char *mapping;
        bool one;
    } mappings[] = {
        { "(vector,(0,1,4))", true },
        { "(vector,(0,1,4),(0,1,2))", true },
        { "(vector,(3,1,1))", true },
        { "(vector,(0,2,4))", false },
        { "(vector,(0,1,4),(1,1,4))", false },
        { "(vector,(0,1,4),(0,2,1))", false },
        { "", false },
        { "(vector", false },
        { "(vector)", false },
        { "(vector,)", false },
        { "(vector,(0,1,4)", false },
        { "(vector,(0,1,4),)", false },
        { "(vector,(0,1,-4))", false },
        { "(vector,(0,1)", false },
        { "(vector,(0,1,4))x", false },
        { "(vector,(99999999999999999999999,1,4),(0,1,1))", false },
    };
    for (size_t i = 0; i < sizeof mappings / sizeof mappings[0]; i++)
        cr_expect_eq(tt_pmi_one_machine(mappings[i].mapping), mappings[i].one, "%s", mappings[i].mapping);
}

Test(launch_pmi, job_of_several_hosts_gets_an_id_for_them)
{
    setenv("TUTTI_INTERFACE", "127.0.0.1", 1);
    run_ranks("(vector,(0,2,1))", 1);
}
