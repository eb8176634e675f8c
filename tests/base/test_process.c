/* SPDX-License-Identifier: BSD-3-Clause */
/* test_process.c: when another process is taken to be wholly gone. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"

enum { LONG_MS = 20000 };

struct child {
    pid_t pid;
    int channel[2];
    struct tt_process is; /* as it says */
};

/* It lives until it is killed, or executes a program that does when it is told to. */
static struct child start(void)
{
    struct child c;
    int say[2];
    char byte;
    cr_assert(pipe(c.channel) == 0 && pipe(say) == 0);
    c.pid = fork();
    if (c.pid == 0) {
        struct tt_process self = tt_process_self();
        if (write(say[1], &self, sizeof self) == sizeof self && read(c.channel[0], &byte, 1) == 1)
            execlp("sleep", "sleep", "60", (char *)NULL);
        _exit(1);
    }
    cr_assert(read(say[0], &c.is, sizeof c.is) == sizeof c.is);
    close(say[0]);
    close(say[1]);
    return c;
}

static void end(struct child *c)
{
    kill(c->pid, SIGKILL);
    waitpid(c->pid, NULL, 0);
    close(c->channel[0]);
    close(c->channel[1]);
}

static bool comes_to_be_gone(struct tt_process_watch *watch, bool memory_is_gone)
{
    int64_t until = tt_deadline_ns(LONG_MS);
    bool gone;
    while (!(gone = tt_process_is_gone(watch, memory_is_gone)) && tt_now_ns() < until)
        usleep(1000);
    return gone;
}

Test(process, one_that_dies)
{
    struct child c = start();
    struct tt_process_watch watch;
    tt_process_watch(&watch, &c.is);
    cr_expect(watch.fd > 0 && c.is.number == c.pid && c.is.space != 0 && c.is.start != 0);
    for (int i = 0; i < 20; i++, usleep(1000))
        cr_expect(!tt_process_is_gone(&watch, false));
    kill(c.pid, SIGKILL);
    cr_expect(comes_to_be_gone(&watch, false), "its end is not seen");
    tt_process_unwatch(&watch);
    end(&c);
}

/* It has no memory that it shared, but lives, and has what it executes. */
Test(process, one_that_executes_another_program)
{
    struct child c = start();
    struct tt_process_watch watch;
    tt_process_watch(&watch, &c.is);
    cr_assert(write(c.channel[1], "x", 1) == 1);
    cr_expect(!tt_process_is_gone(&watch, false));
    int64_t begin = tt_now_ns();
    cr_expect(comes_to_be_gone(&watch, true), "it is waited for in vain");
    cr_expect(tt_now_ns() - begin > 500 * 1000000ll, "it is given no time to close its descriptors");
    cr_expect(kill(c.pid, 0) == 0 && waitpid(c.pid, NULL, WNOHANG) == 0, "it has ended");
    tt_process_unwatch(&watch);
    end(&c);
}

/* The number is another process's, in the namespace of this one, or since: nothing is learned from that. */
Test(process, numbers_of_others)
{
    struct child c = start();
    for (int how = 0; how < 2; how++) {
        struct tt_process other = c.is;
        struct tt_process_watch watch;
        *(how == 0 ? &other.space : &other.start) += 1;
        tt_process_watch(&watch, &other);
        cr_expect_eq(watch.fd, 0);
        cr_expect(!tt_process_is_gone(&watch, false));
        cr_expect(!tt_process_is_gone(&watch, true), "it has no time to end");
        cr_expect(comes_to_be_gone(&watch, true));
    }
    end(&c);
}

/* What nobody knows of it is not compared. */
Test(process, one_that_says_its_number_only)
{
    struct child c = start();
    struct tt_process_watch watch;
    tt_process_watch(&watch, &(struct tt_process){ .number = c.pid });
    cr_expect_gt(watch.fd, 0);
    tt_process_unwatch(&watch);
    end(&c);
}
