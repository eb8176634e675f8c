/* SPDX-License-Identifier: BSD-3-Clause */
/* demo.c: the command `tutti-train demo`: small computations on real ranks, with every number shown. */
#include "training/demo/demo.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "training/commands/commands.h"

static const char help[] =
    "usage: tutti-train demo matmul [--x 4x5] [--w 5x8] [-n 2] [--split x0|w1|w0]\n"
    "       tutti-train demo ring [-n 4] [--count 8]\n"
    "       tutti-train demo paradigms\n"
    "       tutti-train demo sequence|server|zero|pipeline [-n 4]\n"
    "\n"
    "Runs a small computation on n processes that Tutti joins, and shows every number that a rank has.\n"
    "\n"
    "  matmul    Y = X W, of which each rank makes a part. The split says what is cut:\n"
    "              x0   rows of X: data parallelism. Each rank makes rows of Y\n"
    "              w1   columns of W: tensor parallelism by columns. Each rank makes columns of Y\n"
    "              w0   rows of W, and columns of X: tensor parallelism by rows. Each rank makes a part of "
    "each\n"
    "                   sum\n"
    "  ring      the all-reduce that has no centre: each rank sends to its right neighbour only. After n - 1 "
    "steps\n"
    "            each rank has one chunk of the sum, after n - 1 more all of it\n"
    "  paradigms a net of two layers on two devices by model, data and tensor parallelism\n"
    "  sequence  tokens of a sequence over ranks: keys and values go round\n"
    "  server    a parameter server and n - 1 workers: push, update, pull\n"
    "  zero      what each rank keeps by the stages of ZeRO, and an update in parts\n"
    "  pipeline  layers in a row, without and with micro-batches (drawn, no rank runs)\n"
    "\n"
    "--svg FILE, with any of them, draws it as textbooks do; a unit of time is drawn as a second.\n"
    "\n"
    "What does not divide evenly is cut by Tutti's rule: the first chunks have one element more.\n";

static const struct {
    const char *name;
    int (*run)(int argc, char **argv, struct tr_demo_sizes *s);
} demos[] = { { "matmul", tr_demo_matmul }, { "ring", tr_demo_ring }, { "paradigms", tr_demo_paradigms },
    { "sequence", tr_demo_sequence }, { "server", tr_demo_server }, { "zero", tr_demo_zero },
    { "pipeline", tr_demo_pipeline } };

/* The file of --svg, which every demonstration has, and its two words taken out; NULL: it is not there. */
static const char *take_picture(int *argc, char **argv)
{
    const char *path = NULL;
    int left = 0;
    for (int i = 0; i < *argc; i++)
        if (i + 1 < *argc && strcmp(argv[i], "--svg") == 0)
            path = argv[++i];
        else
            argv[left++] = argv[i];
    *argc = left;
    return path;
}

int tr_command_demo(int argc, char **argv)
{
    const char *path = take_picture(&argc, argv), *name = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof demos / sizeof *demos; i++) {
        struct tr_demo_sizes s = { 0 };
        struct tr_error e;
        if (strcmp(name, demos[i].name) != 0)
            continue;
        int status = demos[i].run(argc - 1, argv + 1, &s);
        return status || !path || tr_demo_picture(path, name, &s, &e) ? status : tr_demo_failed(&e);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return fputs(help, stdout) < 0;
    fprintf(stderr, "tutti-train demo: %s%s; legal are", name,
        *name ? " is not known" : "which demonstration is not said");
    for (size_t i = 0; i < sizeof demos / sizeof *demos; i++)
        fprintf(stderr, " %s,", demos[i].name);
    fprintf(stderr, " and --help\n");
    return 2;
}

int tr_demo_unknown(const char *command, const char *word, bool last, const char *legal)
{
    char options[128];
    snprintf(options, sizeof options, " %s ", legal);
    char sought[64];
    snprintf(sought, sizeof sought, " %s ", word);
    bool known = last && strstr(options, sought) != NULL;
    if (strcmp(legal, "none") == 0)
        fprintf(stderr, "tutti-train demo %s: %s is not known; it takes no option\n", command, word);
    else
        fprintf(stderr, "tutti-train demo %s: %s %s; legal are %s, each with a value\n", command, word,
            known ? "needs a value" : "is not known", legal);
    return 2;
}

int tr_demo_ranks(const char *command, int argc, char **argv, int n, int most)
{
    for (int i = 1; i < argc; i += 2) {
        if (i + 1 == argc || strcmp(argv[i], "-n") != 0)
            return tr_demo_unknown(command, argv[i], i + 1 == argc, "-n"), -1;
        n = tr_demo_number(argv[i + 1]);
        if (n >= 2 && n <= most)
            continue;
        fprintf(stderr, "tutti-train demo %s: -n %s; legal is 2 to %d\n", command, argv[i + 1], most);
        return -1;
    }
    return n;
}

int tr_demo_failed(const struct tr_error *e)
{
    fprintf(stderr, "tutti-train demo: %s\n", e->text);
    return 1;
}

int tr_demo_no_memory(void)
{
    fprintf(stderr, "tutti-train demo: there is no memory\n");
    return 1;
}

int tr_demo_number(const char *text)
{
    char *end;
    if (*text < '0' || *text > '9')
        return -1;
    errno = 0;
    long number = strtol(text, &end, 10);
    return *end != 0 || errno != 0 || number > 9999 ? -1 : (int)number;
}

int tr_demo_start(int c, int n, int count)
{
    int rest = count % n;
    return c * (count / n) + (c < rest ? c : rest);
}

/* ---- ranks ---- */

void *tr_demo_shared(size_t bytes)
{
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? NULL : shared;
}

static int run_rank(int n, int rank, const tutti_id *id, tr_demo_rank rank_main, void *shared)
{
    tutti_comm *comm = NULL;
    tutti_status status = tutti_comm_init_rank(n, rank, id, NULL, &comm);
    if (status >= 0)
        status = rank_main(rank, comm, shared);
    if (status >= 0)
        status = tutti_comm_finalize(comm);
    if (status < 0)
        fprintf(stderr, "tutti-train demo: rank %d: %s\n", rank, tutti_get_last_error(NULL));
    return status < 0;
}

/* A rank that fails ends; the library tells the others, and each says what it saw. */
static bool wait_for(int n, const pid_t *pids, struct tr_error *e)
{
    bool ok = true;
    for (int i = 0; i < n; i++) {
        int status = 0;
        while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
            ;
        if (!ok || (WIFEXITED(status) && WEXITSTATUS(status) == 0))
            continue;
        ok = WIFSIGNALED(status) ? tr_fail(e, "rank %d died of signal %d (%s)", i, WTERMSIG(status),
                                       strsignal(WTERMSIG(status)))
                                 : tr_fail(e, "rank %d failed", i);
    }
    return ok;
}

bool tr_demo_run(int n, tr_demo_rank rank_main, void *shared, struct tr_error *e)
{
    tutti_id id;
    if (tutti_get_id(&id) < 0)
        return tr_fail(e, "no ranks: %s", tutti_get_last_error(NULL));
    pid_t *pids = tr_new((size_t)n, sizeof *pids), parent = getpid();
    int begun = 0;
    fflush(NULL);
    for (; begun < n; begun++) {
        pids[begun] = fork();
        if (pids[begun] < 0)
            break;
        if (pids[begun] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(getppid() != parent || run_rank(n, begun, &id, rank_main, shared) != 0);
        }
    }
    int error = errno;
    for (int i = 0; begun < n && i < begun; i++)
        kill(pids[i], SIGKILL);
    bool ok = wait_for(begun, pids, e);
    free(pids);
    return begun < n ? tr_fail(e, "rank %d cannot be started: %s", begun, strerror(error)) : ok;
}
