/* SPDX-License-Identifier: BSD-3-Clause */
/* help.c: what `collperf --help` says.
 *
 * It is meant to be enough to work with: what to type first, what a column means, what an exit code says. The
 * names of collectives, types and operations are those of the tables, so that a row added there is taught
 * here. */
#include <stdio.h>
#include <string.h>

#include "options.h"

enum { COLUMNS = 100 };

static const char usage[] = "collperf: how fast and how right Tutti's collectives are on this machine\n"
                            "\n"
                            "usage: collperf [COLLECTIVE|all] [flags]\n";

static const char flags_before_names[] =
    "              or reduce+broadcast, reduce_scatter+all_gather: an all_reduce of two calls, to compare;\n"
    "              also by its name elsewhere, as all_reduce_perf, osu_bcast, MPI_Allreduce\n"
    "\n"
    "Examples\n"
    "  collperf                              all_reduce of floats from 8 B to 64 MiB, one rank per core\n"
    "  collperf -g 8 -b 1M -e 64M -f 4       eight rank processes, 1 4 16 64 MiB\n"
    "  collperf all -t 4 -e 1M               every collective, the ranks are threads of one process\n"
    "  collperf reduce -d all -o all -r all  every type, operation and root\n"
    "  collperf --algo all --plot algo.svg   one table for each algorithm, and a picture of all\n"
    "  collperf all --tune my.rules          then TUTTI_RULES=my.rules ./program\n"
    "  collperf --memory registered          buffers from tutti_mem_alloc, which peers can map\n"
    "  collperf --memory device --device 0   on the streams of a GPU that all ranks share\n"
    "  collperf --dirty -b 64K               input rewritten before each call, as programs do\n"
    "  collperf --json --output out.jsonl    one JSON object per measured point, for a script\n"
    "  mpirun -n 2 collperf                  one rank per process that mpirun starts\n"
    "\n"
    "Ranks\n"
    "  -g, --ranks N          rank processes, forked from this one (default: one per core, at least 2)\n"
    "  -t, --threads N        rank threads in each process (default 1; with -t alone: one process)\n"
    "      --bind             each rank keeps to one core, by turns, as those of mpirun do\n"
    "  If TUTTI_ID, TUTTI_ROOT or a variable of mpirun, srun or torchrun is set, this process is one of\n"
    "  a launcher's job instead: one rank, or with -t N the ranks N i .. N i + N - 1 if it is process i.\n"
    "\n"
    "Sizes (as 8, 64K, 1.5M or 1MiB; K, M, G and T are powers of 1024)\n"
    "  -b, --minbytes SIZE    smallest size (default 8)\n"
    "  -e, --maxbytes SIZE    largest size (default 64M)\n"
    "  -f, --stepfactor N     multiply by N from size to size (default 2)\n"
    "  -i, --stepbytes SIZE   add SIZE from size to size instead\n"
    "  A size is the larger of what a rank sends and receives: of all_gather the gathered vector, of\n"
    "  reduce_scatter the vector before it is scattered. A size that n ranks cannot share evenly is\n"
    "  rounded; the table shows which.\n"
    "\n"
    "What to do\n";

static const char flags_after_names[] =
    "                         mulsum: each rank multiplies by a factor of its own first; user: a sum by a\n"
    "                         function of collperf's\n"
    "  -r, --root RANK        root of a rooted collective, or all (default 0)\n"
    "      --memory KIND      malloc (default), registered, or huge: on huge pages, which the system may\n"
    "                         refuse; host, pinned, managed or device: calls on the stream of a\n"
    "                         GPU, with buffers in ordinary memory, pinned memory, managed memory or\n"
    "                         memory of the device\n"
    "      --device N         of all ranks (default: the rank's number modulo the number of devices)\n"
    "      --algo NAME        force an algorithm by name, or all: one table for each that is eligible\n"
    "      --tune FILE        measure every algorithm, and write the fastest at each size as rules for\n"
    "                         TUTTI_RULES=FILE: a rule a line, to be read and edited; and what messages\n"
    "                         cost, and the ways of a collective where processes share a GPU\n"
    "  -z, --blocking 0|1     1 (default): a call returns when its result is there. 0: calls are queued\n"
    "                         on a host stream, and the clock waits for it (default of nccl-tests)\n"
    "  -G, --program N        bind N calls once (tutti_group_keep) and start them again and again, where\n"
    "                         nccl-tests launches a graph; -n then counts starts, times are of one call.\n"
    "                         0 (default): each call by itself. On a device: capture them, replay the graph\n"
    "                         (ranks that are threads need a device each)\n"
    "      --dirty            app mode: each rank rewrites its input before each call, as programs do; only\n"
    "                         the call counts, from when the last rank makes it until the last is done.\n"
    "                         Without it the same buffers again and again, as nccl-tests\n"
    "      --exact            ask for sums in one fixed order (TUTTI_COMM_EXACT); check every bit of "
    "arbitrary\n"
    "                         floats\n"
    "      --timeout MS       an operation that takes longer fails (default: the library's)\n"
    "\n"
    "How often\n"
    "  -n, --iters N          calls in the timed loop (default: what fills about 0.1 s, fewer for\n"
    "                         long calls)\n"
    "  -w, --warmup_iters N   calls before it (default 5; more if 5 do not tell how long one takes, and\n"
    "                         before the first row, for the system may begin all ranks on one core)\n"
    "\n"
    "Checking\n"
    "  -c, --check N          check N calls of each row, after the timed loop (default 1; 0: none).\n"
    "                         Every element is compared with a value computed here from a seed. Also\n"
    "                         watched are 64 bytes around each buffer, the send buffer out of place,\n"
    "                         and the recv buffer of a rank without result.\n"
    "                         Contributions repeat after 65521 elements, a prime.\n"
    "      --self-test        corrupt, one at a time, an element, all elements, the input and the bytes\n"
    "                         around each buffer, and demand that the check counts exactly that: exit\n"
    "                         code 1 if it does, as for any wrong result, and 4 if it is blind\n"
    "\n"
    "Output\n"
    "      --json             JSON lines: collective algorithm type op root in_place bytes count ranks\n"
    "                         time_us algbw busbw wrong path limit iterations memory exact flag_us\n"
    "                         class median_us p99_us blocking program mode limit_us flag_after_us\n"
    "                         class_after startup_ms rest_kib rewritten_bytes line_bytes mapped_bytes\n"
    "                         placed_bytes copied_bytes device device_name executor\n"
    "                         bound version host cpu kernel date pulled_bytes\n"
    "      --csv              the same fields, separated by commas, their names in the first line\n"
    "      --plot FILE        draw time and bus bandwidth over size as well: FILE.svg or FILE.png; needs "
    "gnuplot\n"
    "      --output FILE      write the report there instead of to stdout\n"
    "      --list WHAT        names only, one a line: collectives, types, ops or options\n"
    "  -h, --help             this text\n"
    "      --version          the library's version\n"
    "\n"
    "Columns\n"
    "  time    of one call on the slowest rank, mean of the timed loop\n"
    "  algbw   size / time. busbw: algbw times a factor that makes it comparable with what a link or\n"
    "          memory carries, whatever the number of ranks: all_reduce 2(n-1)/n; broadcast, reduce,\n"
    "          barrier, sendrecv 1; others (n-1)/n\n"
    "  #wrong  wrong elements and touched guard bytes of all ranks together; N/A if not checked or not\n"
    "          measured\n"
    "  median  half of the samples of the slowest rank took no longer; p99: 99 of 100, and of fewer\n"
    "          than 100 the longest. Out of place; --json and --csv have both. A call of 20 us or more\n"
    "          is a sample. Of shorter ones so many that they take 20 us (on a stream 500 us) are one,\n"
    "          by their mean, so that reading the clock costs nothing; one slow call hardly shows then\n"
    "  %limit  how close the call comes to the least time that this machine could need: at 100 it is as\n"
    "          fast as can be, at 50 it takes twice as long. The least time is the longer of two that\n"
    "          this run measures: the round trip of a flag between two ranks, and a loop in which all\n"
    "          ranks at once stream through memory of their own as many bytes as a call must read and\n"
    "          write (each input read once, each result written once, the work shared evenly). Small\n"
    "          sizes may be above 100: one way of a flag can be enough. Out of place. On a device the\n"
    "          loop copies within the memory of the device\n"
    "  algorithm  what served the call; - with one rank, which needs none\n"
    "  path    how the bytes travelled: line (a small message, in the cache line of its flag), mapped\n"
    "          (read in place), placed (stored at their destination), copied (through shared\n"
    "          slots), pulled (read by the kernel, between private buffers on huge pages), with percent\n"
    "          if several; out-of-place / in-place where the two differ\n"
    "  The round trip of a flag between ranks 0 and 1 is measured around each row of 20 ms or more, and\n"
    "  printed before all, after all, and where its class changes. Compare only what is of one class:\n"
    "  NEAR is below 0.18 us, FAR above; ONE CORE says that the two took turns, on one core or on a busy\n"
    "  machine.\n"
    "  The first lines name the day, the machine, and of each rank its process and the cores that it may\n"
    "  run on. They also say how long it took until all ranks could begin, and what a rank at rest\n"
    "  holds beyond the bare process; the last lines what it still holds when all is done. That is of\n"
    "  the greediest rank; the mean of all is what they hold together, by their number.\n"
    "\n"
    "Exit codes: 0 good, 1 wrong results, 2 bad usage, 3 a rank failed or died, 4 --self-test found the\n"
    "check blind\n";

const char *perf_name(enum perf_names which, int i)
{
    static const int counts[] = { PERF_COLLECTIVES, PERF_TYPES, PERF_TYPES, PERF_OPS };
    if (i >= counts[which])
        return NULL;
    switch (which) {
    case PERF_NAMES_COLLECTIVES:
        return perf_collectives[i].name;
    case PERF_NAMES_TYPES:
        return perf_types[i].name;
    case PERF_NAMES_ALIASES:
        return perf_types[i].alias;
    default:
        return perf_ops[i].name;
    }
}

/* The names between `head` and `tail`, folded at COLUMNS; further lines begin below the first name. */
static void print_folded(const char *head, enum perf_names which, const char *tail)
{
    int indent = printf("%s", head), column = indent;
    const char *name;
    for (int i = 0; (name = perf_name(which, i)) != NULL; i++) {
        bool fold = column + (int)strlen(name) > COLUMNS;
        if (fold)
            printf("\n%*s", indent, "");
        column = (fold ? indent : column) + printf("%s ", name);
    }
    printf("%s\n", tail);
}

void perf_help_print(void)
{
    fputs(usage, stdout);
    print_folded("  COLLECTIVE: ", PERF_NAMES_COLLECTIVES, "(default all_reduce)");
    fputs(flags_before_names, stdout);
    print_folded("  -d, --datatype TYPE    ", PERF_NAMES_TYPES, "all (default float)");
    print_folded(
        "                         by other names: ", PERF_NAMES_ALIASES, "and as fp32, ncclFloat, MPI_INT");
    print_folded("  -o, --op OP            ", PERF_NAMES_OPS, "all (default sum)");
    fputs(flags_after_names, stdout);
}
