/* SPDX-License-Identifier: BSD-3-Clause */
/* recorder_file.h: the layout of the recorder's memory, which other processes read.
 *
 * A header, then one part for each communicator. All that changes while somebody may read is in words of 64
 * bits, each written at once. The names of collectives and algorithms are in the file, since their numbers
 * belong to a build. Who reads believes nothing: version and sizes must be those of this release, every
 * number is checked against its table, every text is cut and cleaned. */
#ifndef TT_RECORDER_FILE_H
#define TT_RECORDER_FILE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#define TT_RECORDER_MAGIC UINT64_C(0x7264726f63657274) /* "trecordr" */
#define TT_RECORDER_NAME "tutti-recorder"
enum {
    TT_RECORDER_VERSION = 5,
    TT_RECORDER_RING = 256,
    TT_RECORDER_COLLECTIVES = 32,
    TT_RECORDER_ALGORITHMS = 128,
    TT_RECORDER_NAME_BYTES = 32,
    TT_RECORDER_WAIT_WORDS = 32,
};

enum tt_entry_state { TT_ENTRY_NONE, TT_ENTRY_QUEUED, TT_ENTRY_RUNNING, TT_ENTRY_DONE, TT_ENTRY_FAILED };

/* The words of an entry. A call writes to its first cache line only. */
enum tt_entry_word {
    TT_ENTRY_STATE, /* 1 + the number of the call, from bit 8 up; enum tt_entry_state. Written last */
    TT_ENTRY_SEQUENCE, /* of the operation: of the communicator, or of the pair */
    TT_ENTRY_COUNT,
    TT_ENTRY_CALLED, /* ticks */
    TT_ENTRY_STARTED,
    TT_ENTRY_ENDED, /* 0: at once, and nobody looked */
    TT_ENTRY_WHAT, /* collective: 6 bits; algorithm: 8; type: 4; enum tt_served: 3; all elements: the rest */
    TT_ENTRY_WHO, /* root or peer: 32 bits; op: the rest */
    TT_ENTRY_LOOKED, /* ticks of the last look around; of this call if not before its start */
    TT_ENTRY_STALLED, /* milliseconds that nothing had moved by then */
    TT_ENTRY_WAITS_FOR, /* 1 + the peer; 0: nobody */
    TT_ENTRY_OPERATOR, /* of a created op: what it is (op.h) */
    TT_ENTRY_WORDS = 16 /* the rest is zero */
};

static inline uint64_t tt_entry_what(unsigned collective, unsigned algorithm, unsigned type, uint64_t total)
{
    return collective | algorithm << 6 | type << 14 | total << 21;
}
static inline unsigned tt_entry_collective(uint64_t what)
{
    return what & 0x3f;
}
static inline unsigned tt_entry_algorithm(uint64_t what)
{
    return what >> 6 & 0xff;
}
static inline unsigned tt_entry_type(uint64_t what)
{
    return what >> 14 & 0xf;
}
static inline unsigned tt_entry_served_by(uint64_t what)
{
    return what >> 18 & 0x7;
}
static inline uint64_t tt_entry_served_set(uint64_t what, unsigned served)
{
    return (what & ~(UINT64_C(0x7) << 18)) | (uint64_t)served << 18;
}
static inline uint64_t tt_entry_total(uint64_t what)
{
    return what >> 21;
}

struct tt_entry {
    _Alignas(64) _Atomic uint64_t words[TT_ENTRY_WORDS];
};

struct tt_recorder_part { /* one communicator */
    _Alignas(64) _Atomic uint64_t life; /* odd while there is one; a new one has another */
    _Atomic uint64_t calls; /* made so far */
    _Atomic uint64_t failed; /* 1: `status` and `error` stand */
    uint64_t id;
    int32_t n, rank;
    int32_t status, reserved;
    char name[64];
    char error[480];
    /* For a communicator that is being made: the ticks at which that began (0 once it is made), and a text
     * that says what it waits for. The text is whole if wait_number was even, and the same before and
     * after the text was read. */
    _Atomic uint64_t init_began, wait_number, wait[TT_RECORDER_WAIT_WORDS];
    struct tt_entry ring[TT_RECORDER_RING + 1]; /* and the spare one */
};

struct tt_recorder_header {
    uint64_t magic;
    uint32_t version, header_bytes, part_bytes, tutti_version;
    int64_t pid;
    struct tt_moment begun;
    char collectives[TT_RECORDER_COLLECTIVES][TT_RECORDER_NAME_BYTES];
    char algorithms[TT_RECORDER_ALGORITHMS][TT_RECORDER_NAME_BYTES];
};

enum { /* whole pages, where a page has 4 KiB */
    TT_RECORDER_HEADER_BYTES = (sizeof(struct tt_recorder_header) + 4095) / 4096 * 4096,
    TT_RECORDER_PART_BYTES = (sizeof(struct tt_recorder_part) + 4095) / 4096 * 4096,
};

/* True if this is a recorder's memory that this release can read; else *why says why not. `file` is
 * aligned to 64 bytes. */
bool tt_recorder_check(const void *file, uint64_t bytes, const char **why);

enum tt_recorder_form { TT_RECORDER_TEXT, TT_RECORDER_JSON };
/* Writes one communicator; false, and nothing is written, if the part is free. */
bool tt_recorder_put_part(struct tt_text *t, const struct tt_recorder_header *header,
    const struct tt_recorder_part *part, enum tt_recorder_form form);
/* Writes all communicators of a file that was checked; returns their number. */
int tt_recorder_put_file(struct tt_text *t, const void *file, uint64_t bytes, enum tt_recorder_form form);
/* Writes the last calls of a communicator to the log, line by line. */
void tt_recorder_log(enum tt_log_level level, const struct tt_recorder_header *header,
    const struct tt_recorder_part *part, int last);

#endif
