/* SPDX-License-Identifier: BSD-3-Clause */
/* query.c: answers in text, for people, tutti-info and collperf. One row per question; an unknown one lists
 * the known. A text that did not fit is kept for who asks again with more room. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "base/status.h"
#include "base/text.h"
#include "base/cache_domain.h"
#include "api/group.h"
#include "run/run.h"
#include "device/dev.h"
#include "device/device.h"
#include "base/handle.h"
#include "run/settings.h"
#include "observe/recorder.h"
#include "select/selection.h"
#include "select/why.h"
#include "transports/registry.h"

static bool answer_version(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    (void)comm;
    (void)rest;
    tt_put(a, "%d.%d.%d", TUTTI_VERSION / 10000, TUTTI_VERSION / 100 % 100, TUTTI_VERSION % 100);
    return true;
}

static bool answer_config(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    (void)rest;
    struct tt_settings settings;
    if (comm == NULL && tt_settings_read(&settings, NULL) != TUTTI_OK)
        return true;
    a->length += tt_settings_print(comm != NULL ? &comm->settings : &settings, a->bytes, a->capacity);
    return true;
}

static bool answer_variables(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    (void)comm;
    (void)rest;
    a->length += tt_variables_print(a->bytes, a->capacity);
    return true;
}

static bool answer_transports(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    (void)rest;
    (void)comm;
    for (int i = 0; tt_transports[i] != NULL; i++)
        tt_put(a, "%s\n", tt_transports[i]->name);
    return true;
}

/* Starts the runtime of devices in this process, if there is one. */
static bool answer_devices(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    struct tt_settings settings;
    bool json = strcmp(rest, "json") == 0;
    if (!json && *rest != '\0')
        return false;
    if (comm == NULL && tt_settings_read(&settings, NULL) != TUTTI_OK)
        return true;
    tt_dev_put(a, comm != NULL ? comm->settings.device_library : settings.device_library, json);
    return true;
}

/* Answers what runs calls on streams of a device; without a device there are no such calls. */
static bool answer_executor(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    if (comm == NULL || *rest != '\0')
        return false;
    tt_put(a, "%s", comm->device != NULL ? tt_device_executor(comm) : "host");
    return true;
}

static bool answer_isa(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    (void)rest;
    (void)comm;
    tt_put(a, "%s, %d cores granted", tt_isa_name(tt_isa_of(comm != NULL ? comm->settings.isa : 0)),
        tt_cores_granted());
    return true;
}

static struct tt_requirements requirements_of(const struct tt_comm *comm)
{
    return (struct tt_requirements){ .n = comm->n, .exact = comm->exact, .topology = &comm->topology };
}

/* Finds the collective that a question names; else sets an error that says what is legal. */
static bool know_collective(const char *name, enum tt_collective *collective)
{
    char known[256] = "";
    *collective = tt_collective_find(name);
    if (*collective != TT_COLLECTIVES)
        return true;
    for (int c = 0; c < TT_COLLECTIVES; c++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", c > 0 ? ", " : "",
            tt_collectives[c].name);
    tt_fail(TUTTI_INVALID_ARGUMENT, "there is no collective \"%.40s\", the nearest is %s; legal: %s", name,
        tt_collective_nearest(name), known);
    return false;
}

static bool know_algorithm(enum tt_collective collective, const char *name, int *row)
{
    char known[256] = "";
    *row = tt_algorithm_find(collective, name);
    for (int i = 0; *row < 0 && i < tt_algorithm_count; i++)
        if (tt_algorithms[i].collective == collective)
            snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", *known != '\0' ? ", " : "",
                tt_algorithms[i].name);
    if (*row < 0)
        tt_fail(TUTTI_INVALID_ARGUMENT, "%s has no algorithm \"%.40s\"; legal: %s",
            tt_collectives[collective].name, name, known);
    return *row >= 0;
}

static bool know_size(const char *text, uint64_t *bytes)
{
    bool known = tt_parse_bytes(text, bytes);
    if (!known)
        tt_fail(TUTTI_INVALID_ARGUMENT,
            "\"%.40s\" is no size; legal: bytes, as 64K, 1.5M or 1MiB; K, M, G and T are powers of 1024",
            text);
    return known;
}

/* Checks the text of a topology of n ranks; "" says that there are no domains. */
static bool know_topology(const char *text, int n)
{
    int ranks = text[0] != '\0' ? tt_topology_ranks(text) : n;
    if (ranks == n)
        return true;
    if (ranks < 0)
        tt_fail(TUTTI_INVALID_ARGUMENT,
            "\"%.60s\" is no topology; legal: all ranks from 0 up, in domains: 0-3/4-7, or 2x4", text);
    else
        tt_fail(TUTTI_INVALID_ARGUMENT, "topology %.60s has %d ranks; legal: as many as there are, %d", text,
            ranks, n);
    return false;
}

/* Answers "algorithms all_reduce": the eligible names, one a line, with their source; without a
 * communicator, all names. */
static bool answer_algorithms(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    enum tt_collective collective;
    if (!know_collective(rest, &collective))
        return true;
    for (int i = 0; i < tt_algorithm_count; i++) {
        const struct tt_algorithm *row = &tt_algorithms[i];
        if (row->collective == collective &&
            (comm == NULL || tt_algorithm_refuse(row, requirements_of(comm)) == NULL))
            tt_put(a, "%s\t%s\n", row->name, row->source);
    }
    return true;
}

static bool request_of(
    const struct tt_comm *comm, const char *name, const char *size, struct tt_request *request)
{
    *request = (struct tt_request){ .settings = &comm->settings,
        .slot_bytes = comm->endpoint->slot_bytes,
        .requirements = requirements_of(comm) };
    return know_collective(name, &request->collective) && know_size(size, &request->bytes);
}

/* Answers "choice all_reduce BYTES": the algorithm that a call of so many bytes would take. */
static bool answer_choice(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    char name[32], size[32];
    int algorithm;
    struct tt_request request;
    if (comm == NULL || sscanf(rest, "%31s %31s", name, size) != 2)
        return false;
    if (request_of(comm, name, size, &request) && tt_choose(&request, NULL, &algorithm) == TUTTI_OK)
        tt_put(a, "%s", tt_algorithms[algorithm].name);
    return true;
}

/* Answers with the domains of a communicator; without one, with the domain of this process. */
static bool answer_topology(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    (void)rest;
    int domain = comm == NULL ? tt_cache_domain() : -1;
    if (comm != NULL)
        tt_topology_put(&comm->topology, a);
    else if (domain < 0)
        tt_put(a, "this process is in no cache domain: it may run on cores of several level 3 caches, or the "
                  "machine "
                  "has only one");
    else
        tt_put(a, "this process is in cache domain %d: all its cores share that level 3 cache", domain);
    return true;
}

/* The ranks of each host, in the form of a topology. */
static bool answer_hosts(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    struct tt_topology hosts;
    (void)rest;
    if (comm == NULL)
        return false;
    int32_t *one = comm->identity.host == NULL ? calloc((size_t)comm->n, sizeof *one) : NULL;
    const int32_t *host_of = one != NULL ? one : comm->identity.host;
    if (host_of != NULL && tt_topology_create(&hosts, comm->n, host_of) == TUTTI_OK) {
        tt_topology_put(&hosts, a);
        tt_topology_free(&hosts);
    }
    free(one);
    return true;
}

/* Answers with the class of what is between the hosts of comm, and why it is taken for that; with nothing if
 * there is one host. */
static bool answer_network(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    if (comm == NULL || *rest != '\0')
        return false;
    if (comm->identity.host != NULL)
        tt_costs_tell_network(&comm->settings.costs, a);
    return true;
}

static bool put_schedule(const struct tt_key *key, struct tt_text *a)
{
    struct tt_requirements requirements = { .n = key->n, .exact = key->exact, .topology = key->topology };
    const struct tt_algorithm *row = &tt_algorithms[key->algorithm];
    const char *why = tt_algorithm_refuse(row, requirements);
    struct tt_schedule schedule;
    if (why != NULL)
        tt_put(a, "%s %s on %d ranks%s: refused: %s\n", tt_collectives[key->collective].name, row->name,
            key->n, key->exact ? " under exact" : "", why);
    if (why != NULL || tt_schedule_build(&schedule, key) != TUTTI_OK)
        return why != NULL;
    a->length += tt_schedule_print(&schedule, a->bytes, a->capacity);
    tt_schedule_free(&schedule);
    return true;
}

/* Answers "schedule COLLECTIVE ALGORITHM N ROOT RANK in_place|out_of_place [exact] [TOPOLOGY]". */
static bool answer_schedule(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    (void)comm;
    char name[32], algorithm[32], place[16], last[2][TT_TOPOLOGY_TEXT] = { "", "" };
    int n, root, rank;
    if (sscanf(rest, "%31s %31s %d %d %d %15s %247s %247s", name, algorithm, &n, &root, &rank, place, last[0],
            last[1]) < 6)
        return false;
    enum tt_collective collective;
    int row;
    bool exact = strcmp(last[0], "exact") == 0;
    const char *text = last[exact];
    if (!know_collective(name, &collective) || !know_algorithm(collective, algorithm, &row) ||
        !know_topology(text, n))
        return true;
    bool p2p = tt_collectives[collective].p2p;
    if (n < 1 || n > 1024 || rank < 0 || rank >= n || root < 0 || root >= n || (p2p && root == rank))
        return false;
    int32_t domain_of[1024] = { 0 };
    struct tt_topology topology;
    if (text[0] != '\0')
        tt_topology_parse(text, domain_of);
    if (tt_topology_create(&topology, n, domain_of) != TUTTI_OK)
        return false;
    struct tt_key key = { .collective = (uint8_t)collective,
        .algorithm = (uint8_t)row,
        .in_place = strcmp(place, "in_place") == 0,
        .exact = exact,
        .n = n,
        .me = rank,
        .root = tt_collectives[collective].rooted || p2p ? root : 0,
        .topology = text[0] != '\0' ? &topology : NULL };
    bool answered = put_schedule(&key, a);
    tt_topology_free(&topology);
    return answered;
}

/* Answers as rank 0 of n ranks on this machine would choose; the text says which cache domains they have. */
static bool why_here(
    const char *name, const char *size, int n, bool exact, const char *text, struct tt_text *a)
{
    struct tt_settings settings;
    struct tt_topology topology;
    int32_t domain_of[1024] = { 0 };
    struct tt_request request = { .settings = &settings };
    if (!know_collective(name, &request.collective) || !know_size(size, &request.bytes) ||
        !know_topology(text, n))
        return true;
    if (n < 1 || n > 1024)
        return false;
    if (text[0] != '\0')
        tt_topology_parse(text, domain_of);
    if (tt_settings_read(&settings, NULL) != TUTTI_OK || tt_selection_read(&settings) != TUTTI_OK ||
        tt_topology_create(&topology, n, domain_of) != TUTTI_OK)
        return true;
    request.slot_bytes = tt_comm_slot_bytes(&settings, n, false);
    request.requirements =
        (struct tt_requirements){ .n = n, .exact = exact || settings.exact, .topology = &topology };
    tt_why(&request, a);
    tt_topology_free(&topology);
    return true;
}

/* Answers "why COLLECTIVE BYTES" with a communicator, else "why COLLECTIVE BYTES N [exact] [TOPOLOGY]". */
static bool answer_why(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    char name[32], size[32], last[2][TT_TOPOLOGY_TEXT] = { "", "" };
    int n = 0, words = sscanf(rest, "%31s %31s %d %247s %247s", name, size, &n, last[0], last[1]);
    bool exact = strcmp(last[0], "exact") == 0;
    struct tt_request request;
    if (comm == NULL)
        return words >= 3 && why_here(name, size, n, exact, last[exact], a);
    if (words == 2 && request_of(comm, name, size, &request) && tt_why(&request, a) && comm->device != NULL)
        tt_device_why(comm, request.collective, request.bytes, a);
    return words == 2;
}

/* Answers with the bytes that this rank sent since the communicator began, by path. */
static bool answer_paths(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    (void)rest;
    if (comm == NULL)
        return false;
    unsigned long long bytes[TT_PATHS];
    for (int path = 0; path < TT_PATHS; path++)
        bytes[path] = tt_endpoint_path_bytes(comm->endpoint, (enum tt_path)path);
    tt_put(a, "line=%llu mapped=%llu copied=%llu placed=%llu pulled=%llu", bytes[TT_PATH_INLINE],
        bytes[TT_PATH_MAPPED], bytes[TT_PATH_COPIED], bytes[TT_PATH_PLACED], bytes[TT_PATH_PULLED]);
    return true;
}

/* Answers "price all_reduce BYTES": how many microseconds a call is predicted to take, on streams of the
 * communicator's device if it has one; and "price group": those of all calls of this thread's group, one
 * after the other. */
static bool answer_price(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    char name[32], size[32];
    struct tt_request request;
    uint64_t price;
    if (strcmp(rest, "group") == 0 && tt_group_price(&price)) {
        tt_put(a, "%.3f", 1e-9 * (double)price);
        return true;
    }
    if (comm == NULL || sscanf(rest, "%31s %31s", name, size) != 2)
        return false;
    if (!request_of(comm, name, size, &request))
        return true;
    price = comm->device != NULL ? tt_device_price(comm, request.collective, request.bytes)
                                 : tt_request_price(&request);
    if (price != 0)
        tt_put(a, "%.3f", 1e-9 * (double)price);
    return true;
}

/* Answers with the memory that comm has for itself here, whether calls have used it or not. */
static bool answer_memory(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    if (comm == NULL || *rest != '\0')
        return false;
    tt_put(a, "host=%llu pinned=%llu device=%llu",
        (unsigned long long)(comm->endpoint->own_bytes + comm->memory.tmp_bytes),
        (unsigned long long)(comm->device != NULL ? comm->device->pinned_bytes : 0),
        (unsigned long long)(comm->device != NULL ? tt_device_bytes(comm) : 0));
    return true;
}

static bool answer_name(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    if (comm == NULL || *rest != '\0')
        return false;
    tt_put(a, "%s", comm->identity.name);
    return true;
}

static bool answer_lost(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    (void)rest;
    (void)comm;
    tt_put(a, "%llu", (unsigned long long)tt_wait_lost());
    return true;
}

/* Answers from the recorder's memory, which it only reads. So any thread may ask, also while an operation
 * hangs. */
static bool answer_recorder(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    bool json = strcmp(rest, "json") == 0;
    if (comm == NULL || (!json && *rest != '\0'))
        return false;
    tt_recorder_put(a, comm->recorder, json);
    return true;
}

/* Answers "attach PID [json]": the last calls of that process, on all its communicators. */
static bool answer_attach(const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    (void)comm;
    char number[16], form[8] = "", more;
    uint64_t pid;
    int words = sscanf(rest, "%15s %7s %c", number, form, &more);
    if (words < 1 || words > 2 || !tt_parse_bytes(number, &pid) || pid > INT32_MAX ||
        (form[0] != '\0' && strcmp(form, "json") != 0))
        return false;
    tt_recorder_attach(a, (int64_t)pid, form[0] != '\0');
    return true;
}

typedef bool (*answer_fn)(const struct tt_comm *comm, const char *rest, struct tt_text *a);

/* The questions. A function returns false if the question has not its form; true without a text if there
 * is no answer, and the last error says why. */
static const struct {
    const char *question, *form;
    answer_fn answer;
} questions[] = {
    { "version", "version", answer_version },
    { "config", "config", answer_config },
    { "variables", "variables", answer_variables },
    { "transports", "transports", answer_transports },
    { "cpu", "cpu", answer_isa },
    { "devices", "devices [json]", answer_devices },
    { "algorithms", "algorithms COLLECTIVE", answer_algorithms },
    { "choice", "choice COLLECTIVE BYTES *", answer_choice },
    { "why", "why COLLECTIVE BYTES [N [exact] [TOPOLOGY]] (without N: *)", answer_why },
    { "price", "price COLLECTIVE BYTES *|group", answer_price },
    { "topology", "topology", answer_topology },
    { "hosts", "hosts *", answer_hosts },
    { "network", "network *", answer_network },
    { "schedule", "schedule COLLECTIVE ALGORITHM N ROOT RANK in_place|out_of_place [exact] [TOPOLOGY]",
        answer_schedule },
    { "name", "name *", answer_name },
    { "paths", "paths *", answer_paths },
    { "memory", "memory *", answer_memory },
    { "executor", "executor *", answer_executor },
    { "recorder", "recorder [json] *", answer_recorder },
    { "attach", "attach PID [json]", answer_attach },
    { "lost_wakeups", "lost_wakeups", answer_lost },
};
enum { QUESTIONS = sizeof questions / sizeof questions[0] };

/* --- An answer that did not fit
 *
 * What an answer tells may go on meanwhile. So the text that was too long for its buffer is kept, and the
 * same thread gets it by the same question as soon as it fits. */
struct kept {
    uint64_t comm; /* 1 + its serial; 0: none */
    size_t length;
    const char *text; /* behind the question, with it in one piece */
    char question[];
};

static pthread_key_t kept_key;
static bool has_kept_key;

static void make_kept_key(void)
{
    has_kept_key = pthread_key_create(&kept_key, free) == 0;
}

static struct kept *find_kept(void)
{
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    pthread_once(&made, make_kept_key);
    return has_kept_key ? pthread_getspecific(kept_key) : NULL;
}

static uint64_t name_of(const struct tt_comm *comm)
{
    return comm != NULL ? comm->identity.serial + 1 : 0;
}

static void forget(struct kept *k)
{
    if (k == NULL)
        return;
    pthread_setspecific(kept_key, NULL);
    free(k);
}

static void keep(const struct tt_comm *comm, const char *question, const char *text, size_t length)
{
    size_t words = strlen(question) + 1;
    struct kept *k = malloc(sizeof *k + words + length + 1);
    if (k == NULL)
        return;
    k->comm = name_of(comm);
    k->length = length;
    k->text = k->question + words;
    memcpy(k->question, question, words);
    memcpy(k->question + words, text, length + 1);
    if (!has_kept_key || pthread_setspecific(kept_key, k) != 0)
        free(k);
}

/* Sets `a` to the whole answer, in memory that the caller frees. The question is asked again with more
 * room until the answer fits. */
static bool answer_whole(answer_fn answer, const struct tt_comm *comm, const char *rest, struct tt_text *a)
{
    *a = (struct tt_text){ 0 };
    while (tt_text_begin(a))
        if (!answer(comm, rest, a))
            return false;
    if (a->bytes == NULL)
        tt_fail(TUTTI_OUT_OF_MEMORY, "query: no memory for the answer");
    return true;
}

static size_t give(const char *answer, size_t length, char *text, size_t bytes)
{
    if (bytes > 0) {
        size_t given = length < bytes ? length : bytes - 1;
        memcpy(text, answer, given);
        text[given] = '\0';
    }
    return length;
}

static size_t answer_by(int row, const struct tt_comm *comm, const char *what, char *text, size_t bytes)
{
    struct kept *k = find_kept();
    struct tt_text a;
    const char *rest = what + strcspn(what, " ");
    if (k != NULL && k->comm == name_of(comm) && k->length < bytes && strcmp(k->question, what) == 0) {
        size_t length = give(k->text, k->length, text, bytes);
        forget(k);
        return length;
    }
    forget(k);
    if (!answer_whole(questions[row].answer, comm, rest + strspn(rest, " "), &a)) {
        a.length = 0;
        tt_fail(TUTTI_INVALID_ARGUMENT, "query: '%s' cannot be answered; the form is: %s", what,
            questions[row].form);
    }
    if (a.length > 0)
        give(a.bytes, a.length, text, bytes);
    if (a.length > 0 && a.length >= bytes)
        keep(comm, what, a.bytes, a.length);
    free(a.bytes);
    return a.length;
}

size_t tutti_query(const tutti_comm *comm, const char *what, char *text, size_t bytes)
{
    const struct tt_comm *c = comm != NULL ? tt_comm_find(comm) : NULL;
    bytes = text != NULL ? bytes : 0;
    if (bytes > 0)
        text[0] = '\0';
    if (what == NULL || (comm != NULL && c == NULL)) {
        if (what == NULL)
            tt_fail(TUTTI_INVALID_ARGUMENT, "query: what is NULL");
        return 0;
    }
    size_t word = strcspn(what, " ");
    for (int i = 0; i < QUESTIONS; i++)
        if (strlen(questions[i].question) == word && strncmp(questions[i].question, what, word) == 0)
            return answer_by(i, c, what, text, bytes);
    char known[800] = "";
    for (int i = 0; i < QUESTIONS; i++)
        snprintf(known + strlen(known), sizeof known - strlen(known), "%s%s", i > 0 ? "; " : "",
            questions[i].form);
    tt_fail(TUTTI_INVALID_ARGUMENT, "query: '%s' is not a question; there are (*: of a communicator): %s",
        what, known);
    return 0;
}
