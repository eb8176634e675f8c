/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts.c: puts the ranks of a trial on several hosts, by turns: those that tests/net/hosts.sh has made, if
 * that runs the campaign; else ranks of this one take each other for other hosts (TUTTI_HOSTID).
 *
 * A process that enters a namespace of processes stays outside: its child is inside. So each rank has a
 * process outside, which ends as the rank does. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/campaign/campaign.h"

/* The number of the first process of a host. */
static pid_t first_of(const char *directory, int host)
{
    char path[256];
    int pid = 0;
    snprintf(path, sizeof path, "%s/h%d", directory, host);
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%d", &pid) != 1) {
        fprintf(stderr, "campaign: %s: there is no such host\n", path);
        _exit(2);
    }
    fclose(file);
    return pid;
}

static void enter(pid_t first)
{
    static const char *const kinds[] = { "net", "uts", "ipc", "pid", "mnt" };
    enum { KINDS = sizeof kinds / sizeof kinds[0] };
    int fds[KINDS]; /* opened before the last changes /proc */
    for (int i = 0; i < KINDS; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/ns/%s", first, kinds[i]);
        fds[i] = open(path, O_RDONLY | O_CLOEXEC);
    }
    for (int i = 0; i < KINDS; i++) {
        if (setns(fds[i], 0) != 0) {
            fprintf(stderr, "campaign: namespace %s of process %d: %s\n", kinds[i], first, strerror(errno));
            _exit(2);
        }
        close(fds[i]);
    }
}

/* Waits for the rank, and ends as it did. */
static _Noreturn void stay_outside(pid_t rank)
{
    int status = 0;
    while (waitpid(rank, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFSIGNALED(status))
        raise(WTERMSIG(status));
    _exit(WEXITSTATUS(status));
}

void campaign_go_to_host(struct scene *scene, int rank, int hosts)
{
    const char *directory = getenv("NET_HOSTS");
    char name[32];
    if (directory == NULL) {
        snprintf(name, sizeof name, "host %d", rank % hosts);
        setenv("TUTTI_HOSTID", name, 1);
        setenv("TUTTI_INTERFACE", "127.0.0.1", 1);
        return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    enter(first_of(directory, rank % hosts));
    pid_t pid = fork();
    if (pid < 0)
        _exit(2);
    if (pid > 0) {
        atomic_store(&scene->pids[rank], pid);
        stay_outside(pid);
    }
}
