/* SPDX-License-Identifier: BSD-3-Clause */
/* sha256.h: SHA-256 and HMAC-SHA256 (FIPS 180-4, RFC 2104), for the proof that a rank knows its id's secret.
 *
 * Written here rather than taken from a library: a proof per connection needs no speed, and 100 lines that
 * are tested against the published vectors cost less than a dependency in every program that links Tutti. */
#ifndef TT_SHA256_H
#define TT_SHA256_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TT_SHA256_BYTES = 32, TT_SHA256_BLOCK = 64 };

struct tt_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* hashed so far */
    uint8_t block[TT_SHA256_BLOCK];
};

void tt_sha256_begin(struct tt_sha256 *hash);
void tt_sha256_add(struct tt_sha256 *hash, const void *data, size_t bytes);
void tt_sha256_end(struct tt_sha256 *hash, uint8_t *digest);

void tt_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes, uint8_t *mac);
/* True if two codes are equal. It takes the same time wherever they differ, so that none can be guessed
 * byte by byte. */
bool tt_hmac_equal(const uint8_t *a, const uint8_t *b);

#endif
