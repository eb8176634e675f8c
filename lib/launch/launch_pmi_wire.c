/* SPDX-License-Identifier: BSD-3-Clause */
/* launch_pmi_wire.c: questions and answers of PMI 1.1, one at a time, each with the deadline.
 *
 * The launcher says nothing unasked, so bytes behind the end of an answer are nonsense. After a failure the
 * two sides may be out of step; such a connection is not used again. */
#include "launch/launch_pmi_wire.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "bootstrap/bootstrap_wire.h"
#include "bootstrap/init_progress.h"

enum { LEAVE_MS = 2000 };

static tutti_status lose(struct tt_pmi *pmi, const char *what, const char *why)
{
    pmi->lost = true;
    return tt_fail(TUTTI_SYSTEM_ERROR, "the launcher's PMI failed to %s: %s", what, why);
}

static tutti_status lose_by_errno(struct tt_pmi *pmi, const char *what)
{
    char why[128];
    if (errno != ETIMEDOUT)
        return lose(pmi, what, strerror_r(errno, why, sizeof why));
    pmi->lost = true;
    return tt_fail(
        TUTTI_TIMEOUT, "the launcher's PMI did not %s within %lld ms", what, (long long)pmi->timeout_ms);
}

static bool wait_for(const struct tt_pmi *pmi, short events)
{
    struct pollfd p = { pmi->socket, events, 0 };
    for (;;) {
        int64_t look_ns = tt_init_progress_look();
        int ready = poll(&p, 1, tt_wire_poll_ms(look_ns < pmi->deadline_ns ? look_ns : pmi->deadline_ns));
        if (ready > 0 && (p.revents & POLLNVAL) == 0)
            return true;
        if (ready > 0)
            errno = EBADF;
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return false;
        if (tt_now_ns() >= pmi->deadline_ns) {
            errno = ETIMEDOUT;
            return false;
        }
    }
}

static tutti_status say(struct tt_pmi *pmi, const char *what, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t sent = tt_wire_send(pmi->socket, pmi->line + at, bytes - at, NULL, 0);
        if (sent < 0 && (errno != EAGAIN || !wait_for(pmi, POLLOUT)))
            return lose_by_errno(pmi, what);
        at += sent > 0 ? (size_t)sent : 0;
    }
    return TUTTI_OK;
}

/* Receives one line, whose end becomes the end of the text. */
static tutti_status hear(struct tt_pmi *pmi, const char *what)
{
    size_t have = 0;
    while (have == 0 || pmi->line[have - 1] != '\n') {
        if (have == TT_PMI_LINE)
            return lose(pmi, what, "its answer is too long");
        ssize_t got = tt_wire_receive(pmi->socket, pmi->line + have, TT_PMI_LINE - have, NULL, 0, NULL);
        if (got == 0)
            return lose(pmi, what, "it closed the connection");
        if (got < 0 && (errno != EAGAIN || !wait_for(pmi, POLLIN)))
            return lose_by_errno(pmi, what);
        have += got > 0 ? (size_t)got : 0;
    }
    pmi->line[have - 1] = 0;
    if (strlen(pmi->line) != have - 1 || strchr(pmi->line, '\n'))
        return lose(pmi, what, "its answer makes no sense");
    return TUTTI_OK;
}

/* Returns the text behind "name=" in an answer, which goes on to the next blank or the end; NULL if there
 * is no such word. take_word ends the text there, so its words are asked for in the order of the line. */
static char *find_word(char *line, const char *name)
{
    size_t length = strlen(name);
    for (char *at = line; at; at = strchr(at, ' ')) {
        at += strspn(at, " ");
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    }
    return NULL;
}

static bool word_is(char *line, const char *name, const char *value)
{
    const char *word = find_word(line, name);
    size_t length = strlen(value);
    return word && strncmp(word, value, length) == 0 && (word[length] == 0 || word[length] == ' ');
}

/* Sends one question and receives its answer of this name in pmi->line. `refused`: an answer that is a
 * refusal is no failure here. */
static tutti_status ask(struct tt_pmi *pmi, const char *what, const char *answer, bool *refused,
    const char *format, ...) __attribute__((format(printf, 5, 6)));
static tutti_status ask(
    struct tt_pmi *pmi, const char *what, const char *answer, bool *refused, const char *format, ...)
{
    va_list args;
    if (pmi->lost)
        return lose(pmi, what, "an earlier call failed");
    va_start(args, format);
    int length = vsnprintf(pmi->line, sizeof pmi->line, format, args);
    va_end(args);
    if (length < 0 || (size_t)length >= sizeof pmi->line)
        return tt_fail(
            TUTTI_INTERNAL_ERROR, "a question of PMI has %d bytes; legal: %d", length, TT_PMI_LINE);
    tutti_status status = say(pmi, what, (size_t)length);
    if (status == TUTTI_OK)
        status = hear(pmi, what);
    if (status != TUTTI_OK)
        return status;
    if (!word_is(pmi->line, "cmd", answer))
        return lose(pmi, what, "its answer makes no sense");
    bool good = !find_word(pmi->line, "rc") || word_is(pmi->line, "rc", "0");
    if (refused)
        *refused = !good;
    return good || refused ? TUTTI_OK : lose(pmi, what, "it refused");
}

static tutti_status take_word(struct tt_pmi *pmi, const char *what, const char *name, char **word)
{
    *word = find_word(pmi->line, name);
    if (!*word)
        return lose(pmi, what, "its answer makes no sense");
    (*word)[strcspn(*word, " ")] = 0;
    return TUTTI_OK;
}

tutti_status tt_pmi_open(struct tt_pmi *pmi)
{
    static const char what[] = "join the job";
    char *job;
    tutti_status status =
        ask(pmi, what, "response_to_init", NULL, "cmd=init pmi_version=1 pmi_subversion=1\n");
    if (status == TUTTI_OK && !word_is(pmi->line, "pmi_version", "1"))
        status = lose(pmi, what, "it does not speak version 1.1");
    if (status == TUTTI_OK)
        status = ask(pmi, what, "my_kvsname", NULL, "cmd=get_my_kvsname\n");
    if (status == TUTTI_OK)
        status = take_word(pmi, what, "kvsname", &job);
    if (status == TUTTI_OK && (*job == 0 || strlen(job) >= sizeof pmi->job))
        status = lose(pmi, what, "its answer makes no sense");
    if (status == TUTTI_OK)
        strcpy(pmi->job, job);
    return status;
}

tutti_status tt_pmi_put(struct tt_pmi *pmi, const char *key, const char *value)
{
    return ask(pmi, "publish the id", "put_result", NULL, "cmd=put kvsname=%s key=%s value=%s\n", pmi->job,
        key, value);
}

tutti_status tt_pmi_get(struct tt_pmi *pmi, const char *key, bool needed, const char **value)
{
    static const char what[] = "tell what rank 0 published";
    bool refused = false;
    char *word = NULL;
    tutti_status status =
        ask(pmi, what, "get_result", needed ? NULL : &refused, "cmd=get kvsname=%s key=%s\n", pmi->job, key);
    if (status == TUTTI_OK && !refused)
        status = take_word(pmi, what, "value", &word);
    if (status == TUTTI_OK)
        *value = word;
    return status;
}

tutti_status tt_pmi_barrier(struct tt_pmi *pmi)
{
    tt_init_progress_wait("not all ranks have asked the launcher (PMI) for the id");
    return ask(pmi, "bring all ranks together", "barrier_out", NULL, "cmd=barrier_in\n");
}

void tt_pmi_close(struct tt_pmi *pmi)
{
    pmi->deadline_ns = tt_deadline_ns(LEAVE_MS);
    if (!pmi->lost)
        ask(pmi, "end", "finalize_ack", NULL, "cmd=finalize\n");
    pmi->lost = true;
}

static bool take_number(const char **at, char before, long *number)
{
    char *end;
    if (**at != before || !isdigit((unsigned char)(*at)[1]))
        return false;
    *number = strtol(*at + 1, &end, 10);
    *at = end;
    return true;
}

bool tt_pmi_one_machine(const char *mapping)
{
    static const char head[] = "(vector";
    long machine = -1;
    if (strncmp(mapping, head, sizeof head - 1) != 0)
        return false;
    for (const char *at = mapping + sizeof head - 1; *at == ',';) {
        long first, machines, ranks;
        at++;
        if (!take_number(&at, '(', &first) || !take_number(&at, ',', &machines) ||
            !take_number(&at, ',', &ranks) || *at++ != ')')
            return false;
        if (machines != 1 || (machine >= 0 && first != machine))
            return false;
        machine = first;
        if (strcmp(at, ")") == 0)
            return true;
    }
    return false;
}
