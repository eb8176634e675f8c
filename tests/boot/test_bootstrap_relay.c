/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_relay.c: ranks of many hosts, who get what all get from one another, and those among them
 * that are silent, lie, cannot be reached or die.
 *
 * Each rank is a process with a TUTTI_HOSTID of its own, or shares one with another; the root sends what all
 * get to one of them, so most get it from a rank. A rank in the hands of the test says that it has it and has
 * a door, behind which it does as it likes. */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/bootstrap_reach.h"
#include "bootstrap/bootstrap_root.h"
#include "meeting.h"
#include "tests/rig/patience.h"

enum { RANKS = 8, LATE_MS = 20000 };

static void limit_time(void)
{
    alarm(patience_seconds(60));
}

TestSuite(bootstrap_relay, .init = limit_time);

/* An id at a port that the system chose, whose root this process is. */
static struct tt_id start_root(tutti_id *bytes, int few, int64_t timeout_ms)
{
    struct tt_id id = { .agreed = true, .directory = TT_DIRECTORY_TMP, .count = 1 };
    id.nets[0] = (struct tt_net){ TT_FAMILY_IPV4, 0, { 127, 0, 0, 1 } };
    tt_wire_few = few;
    tt_random_bytes(&id.session, sizeof id.session);
    tt_random_bytes(id.secret, sizeof id.secret);
    tt_random_bytes(id.token, sizeof id.token);
    cr_assert_eq(tt_directory_make(id.directory), TUTTI_OK);
    setenv("TUTTI_HOSTID", "host of the root", 1);
    cr_assert_eq(tt_root_start(&id, NULL, timeout_ms), TUTTI_OK, "%s", tt_last_error());
    tt_id_write(&id, bytes);
    return id;
}

/* Of these hosts the root's has rank 0 alone, the others `each` ranks. */
static int host_of(int rank, int each)
{
    return (rank + each - 1) / each;
}

/* Meets and exchanges. What went wrong goes to `said`. */
static bool take_part(const tutti_id *id, int n, int rank, int each, int64_t timeout_ms, int said)
{
    struct tt_member *members = calloc((size_t)n, sizeof *members);
    struct tt_newcomer mine;
    struct call c = { .n = n, .rank = rank, .exchanges = 4, .right = true };
    struct tt_session *session = NULL;
    char host[32];
    snprintf(host, sizeof host, rank > 0 ? "host %d" : "host of the root", host_of(rank, each));
    setenv("TUTTI_HOSTID", host, 1);
    make_newcomer(rank, &mine);
    tutti_status status = tt_bootstrap_meet(id, n, rank, &mine, timeout_ms, members, &session);
    bool right = status == TUTTI_OK;
    for (int r = 0; r < n && right; r++) {
        right = members[r].host == host_of(r, each);
        for (int i = 0; i < TT_BLOB_FDS && right; i++) {
            int fd = members[r].fds[i];
            bool ours = r != rank && host_of(r, each) == host_of(rank, each) && gives(r, i);
            right = ours ? is_file(fd, r, i) : fd == -1;
        }
    }
    if (right)
        status = exchange(&c, session);
    if (status != TUTTI_OK)
        dprintf(said, "%s\n", tt_last_error());
    return right && status == TUTTI_OK && c.right;
}

struct job {
    tutti_id id;
    struct tt_id known;
    int n, said, hears; /* the ends of a pipe, by which ranks say why they failed */
    pid_t ranks[16];
};

/* Starts the root, and all ranks but those that the test plays, a bit for each. `each` share a host. */
static struct job start_all_but(unsigned played, int n, int few, int each, int64_t timeout_ms)
{
    struct job job = { .n = n };
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    job.hears = ends[0];
    job.said = ends[1];
    job.known = start_root(&job.id, few, timeout_ms);
    for (int r = 0; r < n; r++) {
        bool plays = (played >> r & 1) != 0;
        job.ranks[r] = plays ? 0 : fork();
        if (!plays && job.ranks[r] == 0)
            _exit(take_part(&job.id, n, r, each, timeout_ms, job.said) ? 0 : 1);
    }
    return job;
}

/* Of these the test plays one; -1: none, and two share a host. */
static struct job start_job(int n, int few, int without, int64_t timeout_ms)
{
    return start_all_but(without < 0 ? 0 : 1u << without, n, few, without < 0 ? 2 : 1, timeout_ms);
}

/* Returns how many ended well; `text` is what the others said. */
static int end_job(struct job *job, char *text, size_t bytes)
{
    int good = 0;
    for (int r = 0; r < job->n; r++)
        good += job->ranks[r] != 0 && ended_well(job->ranks[r]);
    close(job->said);
    ssize_t got = read(job->hears, text, bytes - 1);
    text[got > 0 ? got : 0] = 0;
    close(job->hears);
    return good;
}

/* All but rank 0 get it from the root, or from another; from a few each, down to one. */
Test(bootstrap_relay, ranks_pass_on)
{
    char text[4096];
    for (int few = 1; few <= 3; few++) {
        struct job job = start_job(RANKS, few, -1, LATE_MS);
        cr_expect_eq(end_job(&job, text, sizeof text), RANKS, "few = %d: %s", few, text);
    }
}

/* A rank that the test plays: it comes by the network, and has a door. */
struct played {
    int socket, door;
    uint64_t session;
};

static struct played play(const struct job *job, int rank)
{
    struct tt_net net = { TT_FAMILY_IPV4, 0, { 127, 0, 0, 1 } };
    struct played p = { tt_net_connect(&job->known.nets[0], LATE_MS), tt_net_listen(&net),
        job->known.session };
    struct tt_challenge challenge;
    uint8_t proof[TT_SHA256_BYTES], hello[TT_HELLO_BYTES];
    static const uint8_t blob[TT_BLOB_BYTES];
    cr_assert(p.socket >= 0 && p.door >= 0 && fcntl(p.socket, F_SETFL, 0) == 0);
    cr_assert(stranger_greet(p.socket, rank, &challenge));
    tt_proof_make(&job->known, TT_ROLE_RANK, &challenge, proof);
    cr_assert(stranger_say(p.socket, proof, sizeof proof) && stranger_hear(p.socket, proof, sizeof proof));
    tt_hello_write(
        &(struct tt_hello){ job->n, PATIENCE_MS, 0, blob, blob, true, 0, net.port }, p.session, hello);
    cr_assert(stranger_say(p.socket, hello, sizeof hello));
    return p;
}

/* The next frame that is no notice; its kind, and what follows its head in `body`. */
static uint32_t hear(const struct played *p, uint8_t *body, size_t room)
{
    struct tt_frame frame;
    uint8_t head[TT_FRAME_BYTES];
    do {
        if (!stranger_hear(p->socket, head, sizeof head) || !tt_frame_read(head, p->session, &frame) ||
            frame.length > room || !stranger_hear(p->socket, body, frame.length))
            return 0;
    } while (frame.kind == TT_FRAME_NOTICE);
    return frame.kind;
}

static void say_taken(const struct played *p, bool taken)
{
    uint8_t bytes[TT_TAKEN_BYTES];
    tt_taken_write(taken, p->session, bytes);
    cr_expect(stranger_say(p->socket, bytes, sizeof bytes));
}

static void report(const struct played *p)
{
    uint8_t bytes[TT_VERDICT_BYTES];
    tt_verdict_write(&(struct tt_verdict){ .status = TUTTI_OK }, p->session, bytes);
    cr_expect(stranger_say(p->socket, bytes, sizeof bytes));
}

enum { N = 5, MEMBERS_BYTES = TT_BLOB_BYTES + N * TT_ENTRY_BYTES };

/* What this rank is told of where the members come from. */
static struct tt_source hear_source(const struct played *p)
{
    struct tt_source source = { .rank = 99 };
    uint8_t bytes[TT_SOURCE_BYTES];
    cr_assert_eq(hear(p, bytes + TT_FRAME_BYTES, sizeof bytes - TT_FRAME_BYTES), TT_FRAME_SOURCE);
    tt_source_read(bytes, &source);
    return source;
}

/* True if all N - 1 others failed with this text. */
static bool all_say(const char *text, const char *expected)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, expected)) != NULL; at++)
        count++;
    return count == N - 1;
}

enum behaviour { SILENT, LYING, SHORT, CLOSED, HONEST };

/* Rank 1 does so to the first who comes to its door. */
static void behave(const struct played *p, enum behaviour behaviour, const struct tt_source *source,
    uint8_t members[MEMBERS_BYTES])
{
    uint8_t token[TT_PASS_BYTES];
    fcntl(p->door, F_SETFL, 0);
    int guest = accept(p->door, NULL, NULL);
    cr_assert(guest >= 0 && stranger_hear(guest, token, sizeof token));
    cr_expect_arr_eq(token, source->token, sizeof token);
    members[MEMBERS_BYTES - 4] ^= behaviour == LYING;
    if (behaviour != SILENT)
        stranger_say(guest, members, MEMBERS_BYTES - (behaviour == SHORT));
    if (behaviour != SILENT)
        close(guest);
}

/* Whatever rank 1 does behind its door, the others get what all get. The played rank then leaves, and is
 * named. */
static void meet_with(enum behaviour behaviour)
{
    struct job job = start_job(N, 1, 1, LATE_MS);
    struct played p = play(&job, 1);
    char text[4096];
    uint8_t members[MEMBERS_BYTES], verdict[TT_VERDICT_BYTES];
    struct tt_source source = hear_source(&p);
    cr_expect_eq(source.rank, -1, "the root sends to the first itself");
    cr_assert_eq(hear(&p, members, sizeof members), TT_FRAME_MEMBERS);
    if (behaviour == CLOSED)
        close(p.door);
    say_taken(&p, true);
    if (behaviour != CLOSED)
        behave(&p, behaviour, &source, members);
    cr_expect_eq(hear(&p, verdict, sizeof verdict), TT_FRAME_VERDICT, "%d", behaviour);
    report(&p);
    cr_expect_eq(hear(&p, verdict, sizeof verdict), TT_FRAME_VERDICT, "%d", behaviour);
    close(p.socket);
    cr_expect_eq(end_job(&job, text, sizeof text), 0);
    cr_expect(all_say(text, " before all 5 ranks had exchanged their addresses"), "%d: %s", behaviour, text);
    cr_expect(strncmp(text, "rank 1 ", 7) == 0, "%d: %s", behaviour, text); /* left, or was lost */
    if (behaviour != CLOSED)
        close(p.door);
}

Test(bootstrap_relay, whom_a_rank_is_sent_to_may_be_of_no_use)
{
    for (enum behaviour behaviour = SILENT; behaviour <= HONEST; behaviour++)
        meet_with(behaviour);
}

/* Rank 1 dies when rank 2 waits at its door: all are told at once. */
Test(bootstrap_relay, death_of_who_passes_on_is_told)
{
    struct job job = start_job(N, 1, 1, PATIENCE_MS);
    struct played p = play(&job, 1);
    char text[4096];
    uint8_t members[MEMBERS_BYTES];
    hear_source(&p);
    cr_assert_eq(hear(&p, members, sizeof members), TT_FRAME_MEMBERS);
    say_taken(&p, true);
    fcntl(p.door, F_SETFL, 0);
    int guest = accept(p.door, NULL, NULL);
    close(p.socket);
    cr_expect_eq(end_job(&job, text, sizeof text), 0);
    cr_expect(all_say(text, "rank 1 was lost before all 5 ranks had met"), "%s", text);
    close(guest);
    close(p.door);
}

/* Rank 1 is to get the members first, and says no word: the others do not need it, and it alone is named. */
Test(bootstrap_relay, who_does_not_take_it_is_named_alone)
{
    struct job job = start_job(N, 1, 1, 2000);
    struct played p = play(&job, 1);
    char text[4096];
    cr_expect_eq(end_job(&job, text, sizeof text), 0);
    cr_expect(all_say(text, "rank 1 came, but fell silent for 2000 ms"), "%s", text);
    close(p.socket);
    close(p.door);
}

/* While it says no word, the root sends the members to another one, long before its time is up: so those
 * that can go on do. */
Test(bootstrap_relay, who_does_not_take_it_holds_up_no_other)
{
    enum { TIME_MS = 8000 };
    struct job job = start_all_but(1u << 1 | 1u << 2, N, 1, 1, TIME_MS);
    struct played silent = play(&job, 1), other = play(&job, 2);
    char text[4096];
    uint8_t members[MEMBERS_BYTES];
    hear_source(&silent);
    int64_t late_ns = tt_deadline_ns(TIME_MS / 2);
    struct tt_source source = hear_source(&other);
    cr_expect_eq(source.rank, -1, "nobody else has it");
    cr_expect_eq(hear(&other, members, sizeof members), TT_FRAME_MEMBERS);
    cr_expect_lt(tt_now_ns(), late_ns);
    close(other.socket);
    cr_expect_eq(end_job(&job, text, sizeof text), 0);
    cr_expect(strstr(text, "rank 2 was lost before all 5 ranks had met") != NULL, "%s", text);
    close(silent.socket);
    close(silent.door);
    close(other.door);
}

/* The same in an exchange. */
Test(bootstrap_relay, who_does_not_take_an_exchange_is_named_alone)
{
    struct job job = start_job(N, 1, 1, 2000);
    struct played p = play(&job, 1);
    char text[4096];
    uint8_t body[MEMBERS_BYTES], part[TT_FRAME_BYTES + 1] = { 0 };
    hear_source(&p);
    cr_assert_eq(hear(&p, body, sizeof body), TT_FRAME_MEMBERS);
    say_taken(&p, true);
    cr_expect_eq(hear(&p, body, sizeof body), TT_FRAME_VERDICT);
    report(&p);
    cr_expect_eq(hear(&p, body, sizeof body), TT_FRAME_VERDICT);
    tt_frame_write(
        &(struct tt_frame){ TT_WIRE_HIGHEST, TT_WIRE_HIGHEST, TT_FRAME_EXCHANGE, 1, p.session }, part);
    cr_expect(stranger_say(p.socket, part, sizeof part));
    cr_expect_eq(end_job(&job, text, sizeof text), 0);
    cr_expect(all_say(text, "rank 1 came, but fell silent for 2000 ms"), "%s", text);
    close(p.socket);
    close(p.door);
}

/* The door of rank 1 opens to the token, whoever else stands before it; and to nothing else. */
Test(bootstrap_relay, doors_open_to_the_token)
{
    enum { STRANGERS = 40 };
    struct job job = start_job(N, 1, 2, LATE_MS);
    struct played p = play(&job, 2);
    char text[4096];
    uint8_t members[MEMBERS_BYTES], got[MEMBERS_BYTES], byte;
    int strangers[STRANGERS];
    struct tt_source source = hear_source(&p);
    cr_expect_eq(source.rank, 1);
    for (int i = 0; i < STRANGERS; i++) {
        uint8_t wrong[TT_PASS_BYTES];
        memcpy(wrong, source.token, sizeof wrong);
        wrong[TT_PASS_BYTES - 1] ^= 1;
        strangers[i] = tt_net_connect(&source.net, LATE_MS);
        cr_assert(strangers[i] >= 0 && fcntl(strangers[i], F_SETFL, 0) == 0);
        if (i % 2 == 0)
            stranger_say(strangers[i], wrong, sizeof wrong);
    }
    cr_expect(turned_away(strangers[0]));
    int guest = tt_net_connect(&source.net, LATE_MS);
    cr_assert(guest >= 0 && fcntl(guest, F_SETFL, 0) == 0);
    cr_expect(stranger_say(guest, source.token, sizeof source.token));
    cr_expect(stranger_hear(guest, got, sizeof got));
    cr_expect_eq(recv(guest, &byte, 1, 0), 0);
    say_taken(&p, false);
    cr_assert_eq(hear(&p, members, sizeof members), TT_FRAME_MEMBERS);
    cr_expect_arr_eq(got, members, sizeof members);
    cr_expect_eq(poll(&(struct pollfd){ p.door, POLLIN, 0 }, 1, 100), 0, "nobody is sent to who has nothing");
    say_taken(&p, true);
    cr_expect_eq(hear(&p, members, sizeof members), TT_FRAME_VERDICT);
    close(p.socket);
    end_job(&job, text, sizeof text);
    cr_expect(all_say(text, "rank 2 was lost before all 5 ranks had met"), "%s", text);
    for (int i = 0; i < STRANGERS; i++)
        close(strangers[i]);
    close(guest);
    close(p.door);
}
