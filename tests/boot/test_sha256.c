/* SPDX-License-Identifier: BSD-3-Clause */
/* test_sha256.c: the vectors that NIST (FIPS 180-4 examples) and RFC 4231 publish, and every way to cut the
 * input. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap/sha256.h"

static const char *hex_of(const uint8_t *digest)
{
    static char text[2 * TT_SHA256_BYTES + 1];
    for (int i = 0; i < TT_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

static const char *hash_of(const void *data, size_t bytes)
{
    uint8_t digest[TT_SHA256_BYTES];
    struct tt_sha256 hash;
    tt_sha256_begin(&hash);
    tt_sha256_add(&hash, data, bytes);
    tt_sha256_end(&hash, digest);
    return hex_of(digest);
}

Test(sha256, published_hashes)
{
    cr_expect_str_eq(hash_of("", 0), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    cr_expect_str_eq(hash_of("abc", 3), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    const char *two_blocks = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    cr_expect_str_eq(hash_of(two_blocks, strlen(two_blocks)),
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    static char million[1000000];
    memset(million, 'a', sizeof million);
    cr_expect_str_eq(
        hash_of(million, sizeof million), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Lengths round the edges of a block, each cut at every place. */
Test(sha256, pieces_make_the_same_hash)
{
    uint8_t data[130], whole[TT_SHA256_BYTES], pieces[TT_SHA256_BYTES];
    struct tt_sha256 hash;
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 37 + 11);
    for (size_t bytes = 50; bytes <= sizeof data; bytes++) {
        tt_sha256_begin(&hash);
        tt_sha256_add(&hash, data, bytes);
        tt_sha256_end(&hash, whole);
        for (size_t cut = 0; cut <= bytes; cut++) {
            tt_sha256_begin(&hash);
            tt_sha256_add(&hash, data, cut);
            tt_sha256_add(&hash, data + cut, bytes - cut);
            tt_sha256_end(&hash, pieces);
            cr_assert_arr_eq(whole, pieces, sizeof whole, "%zu bytes cut at %zu", bytes, cut);
        }
    }
}

struct vector {
    size_t key_bytes;
    int key_byte; /* repeated; -1: `key` is the key, -2: 1, 2, 3 .. */
    const char *key, *data;
    size_t data_bytes; /* of `data_byte` repeated, if data is NULL */
    int data_byte;
    const char *mac;
};

Test(sha256, published_macs)
{
    static const struct vector vectors[] = {
        { 20, 0x0b, NULL, "Hi There", 0, 0,
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
        { 4, -1, "Jefe", "what do ya want for nothing?", 0, 0,
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
        { 20, 0xaa, NULL, NULL, 50, 0xdd,
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe" },
        { 25, -2, NULL, NULL, 50, 0xcd, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b" },
        { 131, 0xaa, NULL, "Test Using Larger Than Block-Size Key - Hash Key First", 0, 0,
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
        { 131, 0xaa, NULL,
            "This is a test using a larger than block-size key and a larger than block-size data. The key "
            "needs to be hashed before being used by the HMAC algorithm.",
            0, 0, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2" },
    };
    for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
        const struct vector *v = &vectors[i];
        uint8_t key[131], data[200], mac[TT_SHA256_BYTES];
        size_t bytes = v->data ? strlen(v->data) : v->data_bytes;
        for (size_t k = 0; k < v->key_bytes; k++)
            key[k] = v->key_byte >= 0 ? (uint8_t)v->key_byte : (uint8_t)(k + 1);
        if (v->key)
            memcpy(key, v->key, v->key_bytes);
        if (v->data)
            memcpy(data, v->data, bytes);
        else
            memset(data, v->data_byte, bytes);
        tt_hmac_sha256(key, v->key_bytes, data, bytes, mac);
        cr_expect_str_eq(hex_of(mac), v->mac, "vector %zu", i + 1);
    }
}

Test(sha256, comparison_sees_every_bit)
{
    uint8_t a[TT_SHA256_BYTES], b[TT_SHA256_BYTES];
    memset(a, 0x5a, sizeof a);
    memset(b, 0x5a, sizeof b);
    cr_expect(tt_hmac_equal(a, b));
    for (int i = 0; i < 8 * TT_SHA256_BYTES; i++) {
        b[i / 8] ^= (uint8_t)(1 << i % 8);
        cr_expect_not(tt_hmac_equal(a, b), "bit %d", i);
        b[i / 8] ^= (uint8_t)(1 << i % 8);
    }
}
