/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_suite.h: one suite for every transport.
 *
 * Cases are driven by one thread that holds all endpoints, so that they run on a transport over virtual
 * time as well. The exchange is for transports that wait for real: every rank runs it, in a thread or a
 * process of its own. Nothing here needs Criterion, because a runner under ThreadSanitizer uses it too: a
 * suite remembers what was wrong first. */
#ifndef TT_TESTS_TRANSPORT_SUITE_H
#define TT_TESTS_TRANSPORT_SUITE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link.h"

enum {
    SUITE_SLOT_BYTES = 200000,
    SUITE_MEMORY_BYTES = 1 << 20,
    SUITE_EXCHANGE_BYTES = 2 * TT_CLASSES * TT_SLOTS * SUITE_MEMORY_BYTES, /* each memory of an exchange */
};
enum suite_grants { SUITE_GRANTS_BY_CHANCE, SUITE_GRANTS, SUITE_NO_GRANTS };

struct transport_suite {
    const struct tt_transport *transport;
    /* All endpoints of a new communicator, connected. */
    void (*make)(const struct tt_endpoint_params *params, struct tt_endpoint **endpoints);
    void (*advance)(void); /* lets time pass; NULL: it passes by itself */
    uint8_t *memory[2]; /* to send from: private, and such as peers can map (NULL: there is none) */
    enum suite_grants grants; /* of long messages */
    uint64_t lines; /* messages of one class and pair in flight, if they need no slot: at least TT_SLOTS */
    unsigned paths; /* a bit for each that the sizes must take, and no other may be; 0: by chance */
    int hosts; /* ranks are by turns on so many, and those of one have words in common; 0: none have */
    bool carried; /* what was copied may be read where it lies until it has gone, and is sent when it has */
    char wrong[256];
};

struct transport_case {
    const char *name;
    void (*run)(struct transport_suite *s);
};
extern const struct transport_case transport_cases[];
extern const int transport_case_count;

/* Remember it if it is the first. Returns `right`. */
bool suite_expect(struct transport_suite *s, bool right, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The byte at `at` of the message with this key. */
static inline uint8_t suite_byte(uint64_t key, uint64_t at)
{
    uint64_t x = (key + (at >> 3)) * 0x9e3779b97f4a7c15u;
    return (uint8_t)((x ^ x >> 29) >> (8 * (at & 7)));
}

/* A message of every kind, made from a key, the same at sender and receiver. */
struct suite_spec {
    uint64_t key, bytes; /* 0: the number is skipped */
    int memory;
    struct tt_layout layout;
    struct tt_view source, like;
    size_t displs[8];
};
void suite_spec_make(struct suite_spec *spec, uint64_t key, bool mapped_memory);
/* Write the message into `memory` (SUITE_MEMORY_BYTES long) and point the view there. */
void suite_spec_fill(struct suite_spec *spec, uint8_t *memory);
/* Overwrite what suite_spec_fill wrote. */
void suite_spec_spoil(const struct suite_spec *spec);

/* Read an arrival to its end as an executor does, and compare. */
bool suite_read(struct transport_suite *s, const struct tt_arrival *a, uint64_t key, uint64_t bytes);

/* Put a message where its receiver granted. */
void suite_place(const struct tt_message *message, const struct tt_view *place);

/* Run by every rank: `batches` times 8 messages of each class to the next rank, and as many from the one
 * before. Sources are spoilt as soon as they are sent, releases come late and out of order, some messages are
 * granted, early or late. */
void suite_exchange(
    struct transport_suite *s, struct tt_endpoint *e, uint64_t first_number, int batches, uint64_t seed);

#endif
