/* SPDX-License-Identifier: BSD-3-Clause */
/* table_segments.c: words in memory that two processes have, and memory that a process hands to another one
 * whoever allocated it. Side 0 owns the memory, side 1 maps it. */
#include "table_segments.h"

#include <string.h>
#include <unistd.h>

enum { BYTES = 300007, OFFSET = 777, BEFORE = 3, AFTER = 5 };

/* Words in the segment: each process's stream waits for the other's. */
void table_segment_words(struct gpu_me *me)
{
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    uint32_t *seen;
    gpu_fine(me, me->dev->use(me->device), "use");
    gpu_words(me, &seen);
    void *stream = gpu_stream(me);
    if (me->side == 0) {
        gpu_fine(me, me->dev->segment.alloc(4096, &segment), "segment_alloc");
        gpu_fine(me, me->dev->fill(segment.base, 0, 4096, stream), "fill");
        gpu_sync(me, stream);
        gpu_fine(me, me->dev->segment.export(&segment, &export), "segment_export");
        gpu_send(me, &export);
    } else {
        gpu_receive(me, &export);
        gpu_fine(me, me->dev->segment.import(&export, &segment), "segment_import");
    }
    uint32_t *words = segment.base;
    for (uint32_t i = 1; i <= 20; i++) {
        if (me->side == 1)
            gpu_fine(me, me->dev->wait_word(stream, words, i), "wait_word");
        gpu_fine(me, me->dev->write_word(stream, words + me->side * 32, i), "write_word");
        if (me->side == 0)
            gpu_fine(me, me->dev->wait_word(stream, words + 32, i), "wait_word");
    }
    gpu_sync(me, stream);
    gpu_meet(me);
}

/* --- Memory that is handed over */

/* Both ends of [memory, memory + BYTES) have this byte, by this process's stream. */
static void expect_ends(struct gpu_me *me, const uint8_t *memory, int byte, void *stream)
{
    uint8_t *back = gpu_alloc(me, TT_DEV_PINNED, 2);
    memset(back, 0, 2);
    gpu_fine(me, me->dev->copy(back, memory, 1, stream), "copy");
    gpu_fine(me, me->dev->copy(back + 1, memory + BYTES - 1, 1, stream), "copy");
    gpu_sync(me, stream);
    gpu_expect(me, back[0] == byte && back[1] == byte, "the ends of the memory have %d and %d and not %d",
        back[0], back[1], byte);
}

/* The owner's part; an export must not wait for what the device does, which here is until it was made. */
static void hand_over(struct gpu_me *me, uint8_t *memory, struct tt_dev_export *export)
{
    struct tt_dev_pointer what;
    uintptr_t base = 0;
    uint32_t *seen, *words = gpu_words(me, &seen);
    void *stream = gpu_stream(me);
    gpu_fine(me, me->dev->fill(memory, BEFORE, BYTES, stream), "fill");
    gpu_sync(me, stream);
    gpu_fine(me, me->dev->wait_word(stream, seen, 1), "wait_word");
    gpu_fine(me, me->dev->segment.export_of(memory + OFFSET, export, &base), "segment_export_of");
    gpu_fine(me, me->dev->memory.classify(memory + OFFSET, &what), "classify");
    gpu_expect(me, base == what.base && export->bytes == what.bytes,
        "%llu bytes at %p are exported, and %llu at %p are there", (unsigned long long)export->bytes,
        (void *)base, (unsigned long long)what.bytes, (void *)what.base);
    gpu_expect(me, me->dev->stream.query(stream) == TT_DEV_NOT_READY, "the stream did not wait");
    gpu_store(words, 1);
    gpu_sync(me, stream);
    gpu_number(me, "by_descriptor", export->fd >= 0);
    gpu_send(me, export);
    if (export->fd >= 0)
        close(export->fd);
}

static void take_over(struct gpu_me *me, struct tt_dev_segment *segment)
{
    struct tt_dev_export export;
    gpu_receive(me, &export);
    gpu_fine(me, me->dev->segment.import(&export, segment), "segment_import");
    gpu_expect(me, segment->imported && segment->bytes == export.bytes, "%llu bytes are imported, of %llu",
        (unsigned long long)segment->bytes, (unsigned long long)export.bytes);
    if (export.fd >= 0)
        close(export.fd);
}

/* What is small shares a block of the driver's with others: what is mapped begins with the memory itself. */
void table_exports_of_memory(struct gpu_me *me)
{
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    gpu_fine(me, me->dev->use(me->device), "use");
    void *stream = gpu_stream(me);
    if (me->side == 0) {
        gpu_alloc(me, TT_DEV_DEVICE, 1000);
        uint8_t *memory = gpu_alloc(me, TT_DEV_DEVICE, BYTES);
        hand_over(me, memory, &export);
        gpu_meet(me);
        expect_ends(me, memory, AFTER, stream);
        gpu_meet(me);
        gpu_fine(me, me->dev->memory.free(memory), "free");
        return;
    }
    take_over(me, &segment);
    expect_ends(me, segment.base, BEFORE, stream);
    gpu_fine(me, me->dev->fill(segment.base, AFTER, BYTES, stream), "fill");
    gpu_sync(me, stream);
    gpu_meet(me);
    gpu_fine(me, me->dev->segment.free(&segment), "segment_free of an import");
    gpu_meet(me);
}

/* What travels as a descriptor outlives its owner's free. */
void table_exports_of_segment(struct gpu_me *me)
{
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    struct tt_dev_facts facts;
    gpu_fine(me, me->dev->use(me->device), "use");
    gpu_fine(me, me->dev->facts(me->device, &facts), "facts");
    if (!facts.fds)
        gpu_skip(me, "segments of this device do not travel as descriptors");
    void *stream = gpu_stream(me);
    if (me->side == 0) {
        gpu_fine(me, me->dev->segment.alloc(2 * BYTES, &segment), "segment_alloc");
        hand_over(me, segment.base, &export);
        gpu_expect(me, export.fd >= 0, "a segment of a device with descriptors has none");
        gpu_meet(me);
        gpu_fine(me, me->dev->segment.free(&segment), "segment_free");
        gpu_meet(me);
        return;
    }
    take_over(me, &segment);
    gpu_meet(me);
    gpu_meet(me);
    expect_ends(me, segment.base, BEFORE, stream);
    gpu_fine(me, me->dev->segment.free(&segment), "segment_free of an import");
}

void table_exports_refused(struct gpu_me *me)
{
    struct tt_dev_export export;
    uintptr_t base;
    gpu_fine(me, me->dev->use(me->device), "use");
    const void *refused[] = { gpu_alloc(me, TT_DEV_MANAGED, BYTES), gpu_alloc(me, TT_DEV_PINNED, BYTES),
        &export };
    for (int i = 0; i < 3; i++) {
        gpu_expect(me, me->dev->segment.export_of(refused[i], &export, &base) == TT_DEV_UNSUPPORTED,
            "memory that is no device's alone is exported, number %d", i);
        gpu_expect(me, strstr(me->dev->why(), "no memory of a device alone") != NULL, "%s", me->dev->why());
    }
}

void table_reaches(struct gpu_me *me)
{
    struct tt_dev_facts facts;
    bool reaches = true;
    int n = 0, reached = 0;
    gpu_fine(me, me->dev->count(&n), "count");
    for (int i = 0; i < n; i++) {
        gpu_fine(me, me->dev->facts(i, &facts), "facts");
        gpu_fine(me, me->dev->reaches(me->device, facts.address, &reaches), "reaches");
        gpu_expect(me, i != me->device || !reaches, "a device is another one than itself");
        reached += reaches;
    }
    gpu_number(me, "reached", reached);
    reaches = true;
    gpu_expect(me, me->dev->reaches(me->device, "nowhere", &reaches) == TT_DEV_ABSENT && reaches,
        "a device that is not there is found");
}

/* Another device that this one reaches, and that reaches it; ends the check if there is none. */
static int find_peer(struct gpu_me *me)
{
    struct tt_dev_facts own, other;
    bool to = false, from = false;
    int n = 0;
    gpu_fine(me, me->dev->count(&n), "count");
    gpu_fine(me, me->dev->facts(me->device, &own), "facts");
    for (int i = 0; i < n; i++) {
        gpu_fine(me, me->dev->facts(i, &other), "facts");
        gpu_fine(me, me->dev->reaches(me->device, other.address, &to), "reaches");
        gpu_fine(me, me->dev->reaches(i, own.address, &from), "reaches");
        if (to && from)
            return i;
    }
    gpu_skip(me, "there is no other device that this one reaches");
}

/* A kernel of one device copies from another one's segment to its own, and back. */
void table_segment_of_another_device(struct gpu_me *me)
{
    struct tt_dev_segment segments[2];
    int peer = find_peer(me), devices[2] = { me->device, peer };
    for (int i = 0; i < 2; i++) {
        gpu_fine(me, me->dev->use(devices[i]), "use");
        gpu_fine(me, me->dev->segment.alloc(BYTES, &segments[i]), "segment_alloc");
        void *stream = gpu_stream(me);
        gpu_fine(me, me->dev->fill(segments[i].base, i == 0 ? BEFORE : AFTER, BYTES, stream), "fill");
        gpu_sync(me, stream);
    }
    gpu_fine(me, me->dev->use(me->device), "use");
    void *stream = gpu_stream(me);
    if (me->dev->preload() == TT_DEV_UNSUPPORTED)
        gpu_skip(me, "%s", me->dev->why());
    gpu_fine(me, gpu_launch_copy(me, segments[0].base, segments[1].base, BYTES / 2, 4, stream), "launch");
    gpu_fine(me,
        gpu_launch_copy(me, (uint8_t *)segments[1].base + BYTES / 2, segments[0].base, BYTES / 2, 4, stream),
        "launch");
    gpu_sync(me, stream);
    uint8_t *back = gpu_alloc(me, TT_DEV_PINNED, 2 * BYTES);
    for (int i = 0; i < 2; i++)
        gpu_fine(me, me->dev->copy(back + i * BYTES, segments[i].base, BYTES, stream), "copy");
    gpu_sync(me, stream);
    for (int i = 0; i < 2 * BYTES; i++)
        gpu_expect(
            me, back[i] == (i >= BYTES / 2 && i < BYTES ? BEFORE : AFTER), "byte %d is %d", i, back[i]);
    for (int i = 0; i < 2; i++)
        gpu_fine(me, me->dev->segment.free(&segments[i]), "segment_free");
}
