/* SPDX-License-Identifier: BSD-3-Clause */
/* heap.h: events in virtual time, for the simulator and the cost model. The earliest comes first; of equal
 * times, the one that was pushed first, so that equal times are no ambiguity.
 *
 * An event is a struct of the caller's that begins with two uint64_t: its time, and its order, which the heap
 * sets. Inline, so that the compiler knows how long an event is. */
#ifndef TT_BASE_HEAP_H
#define TT_BASE_HEAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct tt_heap { /* begins as zeros; `events` is to be freed */
    void *events;
    size_t count, capacity;
    uint64_t pushed; /* so far */
};

#define TT_HEAP_HOLDS(type)                                                                                  \
    _Static_assert(offsetof(type, time) == 0 && offsetof(type, order) == sizeof(uint64_t), "see heap.h")

static inline void *tt_heap_at(const struct tt_heap *heap, size_t index, size_t bytes)
{
    return (uint8_t *)heap->events + index * bytes;
}

static inline bool tt_is_earlier(const uint64_t *a, const uint64_t *b)
{
    return a[0] != b[0] ? a[0] < b[0] : a[1] < b[1];
}

/* Copies an event of so many bytes into the heap; false if there is no memory. */
static inline bool tt_heap_push(struct tt_heap *heap, void *event, size_t bytes)
{
    if (heap->count == heap->capacity) {
        size_t wanted = heap->capacity == 0 ? 256 : 2 * heap->capacity;
        void *bigger = realloc(heap->events, wanted * bytes);
        if (bigger == NULL)
            return false;
        heap->events = bigger;
        heap->capacity = wanted;
    }
    ((uint64_t *)event)[1] = heap->pushed++;
    size_t at = heap->count++;
    for (; at > 0 && tt_is_earlier(event, tt_heap_at(heap, (at - 1) / 2, bytes)); at = (at - 1) / 2)
        memcpy(tt_heap_at(heap, at, bytes), tt_heap_at(heap, (at - 1) / 2, bytes), bytes);
    memcpy(tt_heap_at(heap, at, bytes), event, bytes);
    return true;
}

/* Moves the earliest event of a heap that is not empty to *event. */
static inline void tt_heap_pop(struct tt_heap *heap, void *event, size_t bytes)
{
    memcpy(event, heap->events, bytes);
    const void *last = tt_heap_at(heap, --heap->count, bytes);
    size_t at = 0;
    for (size_t child = 1; child < heap->count; child = 2 * at + 1) {
        if (child + 1 < heap->count &&
            tt_is_earlier(tt_heap_at(heap, child + 1, bytes), tt_heap_at(heap, child, bytes)))
            child++;
        if (!tt_is_earlier(tt_heap_at(heap, child, bytes), last))
            break;
        memcpy(tt_heap_at(heap, at, bytes), tt_heap_at(heap, child, bytes), bytes);
        at = child;
    }
    memmove(tt_heap_at(heap, at, bytes), last, bytes);
}

#endif
