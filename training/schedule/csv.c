/* SPDX-License-Identifier: BSD-3-Clause */
/* csv.c: schedules as text, for those that people write themselves. The sizes are not in the file: its lines
 * are the ranks, the largest stage and micro-batch tell the rest; so whoever leaves one out hears from the
 * check that a part is missing. */
#include "training/schedule/walk.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = TR_CELLS_MAX - 1, NO_STAGE = -1 };

struct reader {
    struct tr_schedule *s;
    struct tr_error *e;
    int line, field;
    int short_line, short_field; /* the first part whose stage was left out; 0: none */
    int ranks_room, slots_room;
    int stage_max, micro_max;
};

static void *grown(void *old, size_t count, size_t room, size_t bytes)
{
    void *p = tr_new(room, bytes);
    if (count)
        memcpy(p, old, count * bytes);
    free(old);
    return p;
}

static void add_rank(struct reader *r)
{
    struct tr_schedule *s = r->s;
    if (s->ranks == r->ranks_room) {
        r->ranks_room = 2 * s->ranks + 8;
        s->count = grown(s->count, (size_t)s->ranks, (size_t)r->ranks_room, sizeof *s->count);
        s->slots = grown(s->slots, (size_t)s->ranks, (size_t)r->ranks_room, sizeof *s->slots);
    }
    r->slots_room = 0;
    s->ranks++;
}

static void add_slot(struct reader *r, struct tr_slot slot)
{
    int rank = r->s->ranks - 1, count = r->s->count[rank];
    if (count == r->slots_room) {
        r->slots_room = 2 * count + 32;
        r->s->slots[rank] =
            grown(r->s->slots[rank], (size_t)count, (size_t)r->slots_room, sizeof *r->s->slots[rank]);
    }
    r->s->slots[rank][r->s->count[rank]++] = slot;
}

/* A number without sign or blank, from 0 to NUMBER_MAX. */
static bool take_number(const char **text, int *number)
{
    if (!isdigit((unsigned char)**text))
        return false;
    long long value = 0;
    for (; isdigit((unsigned char)**text); ++*text)
        if ((value = 10 * value + (**text - '0')) > NUMBER_MAX)
            return false;
    *number = (int)value;
    return true;
}

static bool parse_slot(const char *text, struct tr_slot *slot)
{
    const char *part = strchr("FBIW", *text);
    if (!*text || !part)
        return false;
    slot->part = (int)(part - "FBIW");
    slot->stage = NO_STAGE;
    text++;
    if (!take_number(&text, &slot->micro))
        return false;
    if (*text == '.') {
        text++;
        slot->stage = slot->micro;
        if (!take_number(&text, &slot->micro))
            return false;
    }
    return *text == '\0';
}

static bool read_field(struct reader *r, const char *text)
{
    struct tr_slot slot;
    if (!parse_slot(text, &slot))
        return tr_fail(r->e,
            "line %d, field %d: '%.40s' is no part; legal are F, B, I or W, then STAGE.MICRO or "
            "MICRO, numbers from 0 to %d",
            r->line, r->field, text, NUMBER_MAX);
    if (slot.stage == NO_STAGE) {
        slot.stage = r->s->ranks - 1;
        if (!r->short_line) {
            r->short_line = r->line;
            r->short_field = r->field;
        }
    }
    r->s->split = r->s->split || slot.part == TR_I || slot.part == TR_W;
    r->stage_max = slot.stage > r->stage_max ? slot.stage : r->stage_max;
    r->micro_max = slot.micro > r->micro_max ? slot.micro : r->micro_max;
    add_slot(r, slot);
    return true;
}

static char *without_blanks(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    return text;
}

/* Cuts the line in place, and gives it to the next rank if there is anything in it. */
static bool read_line(struct reader *r, char *line)
{
    char *comment = strchr(line, '#');
    if (comment)
        *comment = '\0';
    if (!line[strspn(line, ", \t\r\n")])
        return true;
    add_rank(r);
    r->field = 0;
    for (char *end; line; line = end ? end + 1 : NULL) {
        end = strchr(line, ',');
        if (end)
            *end = '\0';
        r->field++;
        char *text = without_blanks(line);
        if (*text && !read_field(r, text))
            return false;
    }
    return true;
}

static bool read_all(struct reader *r, FILE *file)
{
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    while (good && getline(&line, &room, file) >= 0) {
        r->line++;
        good = read_line(r, line);
    }
    free(line);
    if (good && ferror(file))
        good = tr_fail(r->e, "line %d: the file cannot be read on", r->line + 1);
    return good;
}

static bool set_sizes(struct reader *r)
{
    struct tr_schedule *s = r->s;
    if (s->ranks == 0)
        return tr_fail(r->e,
            "line %d: the file ends, and has no part; legal is one line of parts for each rank", r->line);
    s->chunks = r->stage_max / s->ranks + 1;
    s->micros = r->micro_max + 1;
    if (s->chunks > 1 && r->short_line)
        return tr_fail(r->e,
            "line %d, field %d: the stage is left out, but there are %d ranks and a stage %d, "
            "so ranks have more than one; legal is STAGE.MICRO",
            r->short_line, r->short_field, s->ranks, r->stage_max);
    return tr_schedule_sizes(s->ranks, s->chunks, s->micros, r->e);
}

/* Where the stages of the second chunk lie tells whether there is a V; that of most parts counts, so that one
 * part on the wrong rank is found as that. */
static bool is_vee(const struct tr_schedule *s)
{
    int64_t vee = 0, ring = 0;
    for (int r = 0; r < s->ranks && s->chunks == 2; r++)
        for (int k = 0; k < s->count[r]; k++) {
            int stage = s->slots[r][k].stage;
            vee += stage >= s->ranks && tr_stage_rank(stage, s->ranks, true) == r;
            ring += stage >= s->ranks && tr_stage_rank(stage, s->ranks, false) == r;
        }
    return vee > ring;
}

bool tr_schedule_read(struct tr_schedule *s, FILE *file, const char *name, struct tr_error *e)
{
    struct tr_schedule made = { 0 };
    struct reader r = { .s = &made, .e = e };
    snprintf(made.name, sizeof made.name, "%s", name);
    if (!read_all(&r, file) || !set_sizes(&r)) {
        tr_schedule_free(&made);
        return false;
    }
    made.vee = is_vee(&made);
    *s = made;
    return true;
}

void tr_schedule_write(const struct tr_schedule *s, FILE *file)
{
    fprintf(file, "# %s: ranks %d, chunks %d, micro-batches %d\n", s->name, s->ranks, s->chunks, s->micros);
    for (int r = 0; r < s->ranks; r++) {
        for (int k = 0; k < s->count[r]; k++) {
            struct tr_slot slot = s->slots[r][k];
            fprintf(file, "%s%c%d.%d", k ? "," : "", "FBIW"[slot.part], slot.stage, slot.micro);
        }
        fputc('\n', file);
    }
}
