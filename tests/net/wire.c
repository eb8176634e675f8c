/* SPDX-License-Identifier: BSD-3-Clause */
/* wire.c: a link with a delay and a rate between two hosts of hosts.sh, since not every kernel has netem.
 *
 * usage: wire PID_A PID_B DELAY_US GBIT_PER_S
 *
 * The network namespaces of the two processes get an interface wire0 each, 10.78.0.1 and 10.78.0.2. Behind
 * each is a TAP device; a thread for each way reads frames from one and writes them to the other when their
 * time has come. Frames are whole segments (TSO), so that a gigabyte a second passes. It says "up", and runs
 * until it is killed. */
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum { FRAMES = 1024, FRAME_BYTES = 66 << 10 };

struct frame {
    int64_t due_ns;
    ssize_t bytes;
    uint8_t *data;
};

struct way {
    int from, to;
    int64_t delay_ns, free_ns; /* free_ns: when the wire has sent all that came so far */
    double ns_per_byte;
    unsigned head, tail; /* of frames under way */
    struct frame frames[FRAMES];
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* Makes a TAP, and hands its other end to a namespace. */
static int make_end(const char *name, const char *pid, const char *address)
{
    struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
    char command[400];
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (fd < 0 || ioctl(fd, TUNSETIFF, &request) < 0 ||
        ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) < 0)
        die("/dev/net/tun");
    snprintf(command, sizeof command,
        "ip link set %s netns %s name wire0 && nsenter -t %s -n sh -c "
        "'ip addr add %s/24 dev wire0 && ip link set wire0 up'",
        name, pid, pid, address);
    if (system(command) != 0)
        die(command);
    return fd;
}

static bool take_frames(struct way *w)
{
    bool moved = false;
    for (; w->head - w->tail < FRAMES; w->head++) {
        struct frame *f = &w->frames[w->head % FRAMES];
        f->bytes = read(w->from, f->data, FRAME_BYTES);
        if (f->bytes <= 0)
            break;
        int64_t now_ns = tt_now_ns();
        w->free_ns =
            (w->free_ns > now_ns ? w->free_ns : now_ns) + (int64_t)((double)f->bytes * w->ns_per_byte);
        f->due_ns = w->free_ns + w->delay_ns;
        moved = true;
    }
    return moved;
}

static bool give_frames(struct way *w)
{
    bool moved = false;
    for (; w->head != w->tail && w->frames[w->tail % FRAMES].due_ns <= tt_now_ns(); w->tail++) {
        const struct frame *f = &w->frames[w->tail % FRAMES];
        moved = write(w->to, f->data, (size_t)f->bytes) == f->bytes || moved; /* a full queue drops it */
    }
    return moved;
}

static void *carry(void *way)
{
    struct way *w = way;
    for (;;) {
        bool given = give_frames(w), taken = take_frames(w);
        if (given || taken)
            continue;
        bool full = w->head - w->tail == FRAMES;
        struct pollfd news = { .fd = full ? -1 : w->from, .events = POLLIN };
        int64_t left_ns = w->head != w->tail ? w->frames[w->tail % FRAMES].due_ns - tt_now_ns() : 0;
        struct timespec until = { .tv_sec = left_ns / 1000000000, .tv_nsec = left_ns % 1000000000 };
        if (left_ns >= 0)
            ppoll(&news, 1, w->head != w->tail ? &until : NULL, NULL);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct way ways[2];
    pthread_t thread;
    if (argc != 5) {
        fputs("usage: wire PID_A PID_B DELAY_US GBIT_PER_S\n", stderr);
        return 2;
    }
    int ends[] = { make_end("ttwire0", argv[1], "10.78.0.1"), make_end("ttwire1", argv[2], "10.78.0.2") };
    for (int i = 0; i < 2; i++) {
        ways[i].from = ends[i];
        ways[i].to = ends[1 - i];
        ways[i].delay_ns = (int64_t)(atof(argv[3]) * 1000);
        ways[i].ns_per_byte = 8 / atof(argv[4]);
        for (int k = 0; k < FRAMES; k++)
            if ((ways[i].frames[k].data = malloc(FRAME_BYTES)) == NULL)
                die("malloc");
    }
    if (pthread_create(&thread, NULL, carry, &ways[0]) != 0)
        die("pthread_create");
    puts("up");
    fflush(stdout);
    carry(&ways[1]);
}
