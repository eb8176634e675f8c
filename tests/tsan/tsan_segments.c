/* SPDX-License-Identifier: BSD-3-Clause */
/* tsan_segments.c: a leader whose rounds look for memory while its importer maps and unmaps it, as fast as
 * a follower hands it over and takes it back. Both are children of this process, which has no stub. What the
 * leader found it uses until the round is over. */
#include "tests/tsan/tsan_segments.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "segment/exporter.h"
#include "tests/stub/stub.h"

enum { TURNS = 400, BYTES = 5000, TIMEOUT_MS = 600000, MARK = 9 };

static struct shared { /* of both */
    _Atomic uint32_t key; /* of what was handed over last */
    _Atomic uint32_t found; /* rounds that had it */
    _Atomic bool ends;
} * shared;

static bool use_device(const struct tt_dev **dev)
{
    *dev = tutti_device_table(TT_DEV_VERSION);
    return (*dev)->use(0) == TT_DEV_OK;
}

static bool lead(int channel)
{
    const struct tt_dev *dev;
    struct tt_importer *importer;
    struct tt_import_address address;
    bool right = use_device(&dev) && tt_importer_open(dev, 0, 2, &importer, &address) == TUTTI_OK &&
                 write(channel, &address, sizeof address) == sizeof address;
    for (uint64_t round = 1; right && !atomic_load(&shared->ends); round++) {
        tt_importer_begin(importer, round);
        void *at = tt_importer_find(importer, 1, atomic_load(&shared->key), BYTES - 1, 1);
        const uint8_t *byte = at != NULL ? tt_stub()->look(at) : NULL;
        right = at == NULL || (byte != NULL && *byte == MARK);
        atomic_fetch_add(&shared->found, at != NULL);
        if (at == NULL)
            sched_yield();
        tt_importer_over(importer, round);
    }
    if (right)
        tt_importer_close(importer);
    return right;
}

static bool hand_over(
    struct tt_exporter *exporter, const struct tt_dev *dev, _Atomic uint64_t *over, uint64_t call)
{
    struct tt_dev_pointer what;
    char why[TT_EXPORT_WHY];
    void *memory;
    uint32_t key, before = atomic_load(&shared->found);
    uint64_t offset;
    bool right = dev->memory.alloc(BYTES, &memory) == TT_DEV_OK;
    if (!right)
        return false;
    *(uint8_t *)tt_stub()->look((uint8_t *)memory + BYTES - 1) = MARK;
    right = dev->memory.classify(memory, &what) == TT_DEV_OK &&
            tt_exporter_add(exporter, &what, TIMEOUT_MS, why) &&
            tt_exporter_find(exporter, memory, BYTES, &what, call, &key, &offset);
    if (!right)
        return false;
    atomic_store(&shared->key, key);
    while (call % 4 == 0 && atomic_load(&shared->found) == before && !atomic_load(&shared->ends))
        sched_yield();
    atomic_store(over, call);
    return tt_exporter_remove(exporter, what.base, what.id, TIMEOUT_MS) &&
           dev->memory.free(memory) == TT_DEV_OK;
}

static bool follow(int channel)
{
    const struct tt_dev *dev;
    struct tt_exporter *exporter;
    struct tt_import_address address;
    static _Atomic uint64_t over;
    bool right = read(channel, &address, sizeof address) == sizeof address && use_device(&dev) &&
                 tt_exporter_open(dev, 0, &address, 1, &over, TIMEOUT_MS, &exporter) == TUTTI_OK;
    for (uint64_t call = 1; call <= TURNS && right; call++)
        right = hand_over(exporter, dev, &over, call);
    if (right)
        tt_exporter_close(exporter);
    atomic_store(&shared->ends, true);
    return right;
}

bool tsan_segments(void)
{
    int channel[2], status, wrong = 0;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, channel) != 0)
        return false;
    for (int side = 0; side < 2; side++)
        if (fork() == 0)
            _exit((side == 0 ? lead(channel[0]) : follow(channel[1])) ? 0 : 1);
    close(channel[0]);
    close(channel[1]);
    for (int side = 0; side < 2; side++) {
        wrong += wait(&status) < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
        atomic_store(&shared->ends, atomic_load(&shared->ends) || wrong > 0);
    }
    munmap(shared, sizeof *shared);
    return wrong == 0;
}
