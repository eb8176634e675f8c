/* SPDX-License-Identifier: BSD-3-Clause */
/* sha256.c: SHA-256 and HMAC-SHA256, as the standards write them.
 *
 * No table but the round constants and no branch on data, so nothing about a key shows in the time taken. */
#include "bootstrap/sha256.h"

#include <string.h>

static const uint32_t round_constants[64] = { 0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b,
    0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74,
    0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3,
    0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354,
    0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3,
    0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa,
    0xa4506ceb, 0xbef9a3f7, 0xc67178f2 };

static uint32_t rotate(uint32_t x, int bits)
{
    return x >> bits | x << (32 - bits);
}

static uint32_t load_big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static void store_big_endian(uint8_t *bytes, uint32_t x)
{
    for (int i = 0; i < 4; i++)
        bytes[i] = (uint8_t)(x >> (24 - 8 * i));
}

static void compress(uint32_t *state, const uint8_t *block)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = load_big_endian(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t small0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
        uint32_t small1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + small0 + w[i - 7] + small1;
    }
    memcpy(s, state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t big1 = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t t1 = s[7] + big1 + choice + round_constants[i] + w[i];
        uint32_t big0 = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += t1;
        s[0] = t1 + big0 + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void tt_sha256_begin(struct tt_sha256 *hash)
{
    *hash = (struct tt_sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                    0x9b05688c, 0x1f83d9ab, 0x5be0cd19 } };
}

void tt_sha256_add(struct tt_sha256 *hash, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        size_t at = hash->bytes % TT_SHA256_BLOCK;
        size_t part = TT_SHA256_BLOCK - at < bytes ? TT_SHA256_BLOCK - at : bytes;
        memcpy(hash->block + at, from, part);
        hash->bytes += part;
        from += part;
        bytes -= part;
        if (hash->bytes % TT_SHA256_BLOCK == 0)
            compress(hash->state, hash->block);
    }
}

void tt_sha256_end(struct tt_sha256 *hash, uint8_t *digest)
{
    static const uint8_t padding[TT_SHA256_BLOCK] = { 0x80 };
    uint64_t bits = hash->bytes * 8;
    uint8_t length[8];
    store_big_endian(length, (uint32_t)(bits >> 32));
    store_big_endian(length + 4, (uint32_t)bits);
    /* One byte 0x80, then zeros up to 8 bytes before the end of a block. */
    size_t at = hash->bytes % TT_SHA256_BLOCK;
    tt_sha256_add(hash, padding, at < 56 ? 56 - at : 120 - at);
    tt_sha256_add(hash, length, sizeof length);
    for (int i = 0; i < 8; i++)
        store_big_endian(digest + 4 * i, hash->state[i]);
}

void tt_hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes, uint8_t *mac)
{
    struct tt_sha256 hash;
    uint8_t inner[TT_SHA256_BLOCK], outer[TT_SHA256_BLOCK], pad[TT_SHA256_BLOCK] = { 0 };
    if (key_bytes > sizeof pad) {
        tt_sha256_begin(&hash);
        tt_sha256_add(&hash, key, key_bytes);
        tt_sha256_end(&hash, pad);
    } else if (key_bytes > 0) {
        memcpy(pad, key, key_bytes);
    }
    for (size_t i = 0; i < sizeof pad; i++) {
        inner[i] = pad[i] ^ 0x36;
        outer[i] = pad[i] ^ 0x5c;
    }
    tt_sha256_begin(&hash);
    tt_sha256_add(&hash, inner, sizeof inner);
    tt_sha256_add(&hash, data, bytes);
    tt_sha256_end(&hash, mac);
    tt_sha256_begin(&hash);
    tt_sha256_add(&hash, outer, sizeof outer);
    tt_sha256_add(&hash, mac, TT_SHA256_BYTES);
    tt_sha256_end(&hash, mac);
}

bool tt_hmac_equal(const uint8_t *a, const uint8_t *b)
{
    volatile uint8_t differ = 0;
    for (int i = 0; i < TT_SHA256_BYTES; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}
