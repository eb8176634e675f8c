/* SPDX-License-Identifier: BSD-3-Clause */
/* test_schedule_command.c: what `tutti-train schedule` prints, and how it ends. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "training/commands/commands.h"

/* What a stream gets while it is a file; `kept` is where it goes otherwise. */
struct caught {
    FILE *stream, *file;
    int kept;
    char text[8192];
};

static void begin(struct caught *c, FILE *stream)
{
    fflush(stream);
    c->stream = stream;
    c->kept = dup(fileno(stream));
    c->file = tmpfile();
    cr_assert(c->file && c->kept >= 0 && dup2(fileno(c->file), fileno(stream)) >= 0);
}

static void end(struct caught *c)
{
    fflush(c->stream);
    dup2(c->kept, fileno(c->stream));
    close(c->kept);
    rewind(c->file);
    c->text[fread(c->text, 1, sizeof c->text - 1, c->file)] = '\0';
    fclose(c->file);
}

static struct caught out, err;

/* Runs `schedule` with the words of the line, which blanks part. */
static int run(const char *line)
{
    char words[512], *argv[32] = { "schedule" }, *rest = words;
    int argc = 1;
    snprintf(words, sizeof words, "%s", line);
    for (char *word; (word = strtok_r(rest, " ", &rest)) && argc < 31;)
        argv[argc++] = word;
    begin(&out, stdout);
    begin(&err, stderr);
    int status = tr_command_schedule(argc, argv);
    end(&err);
    end(&out);
    return status;
}

Test(schedule_command, report)
{
    cr_assert_eq(run("zb-h1"), 0, "%s", err.text);
    cr_expect_str_eq(out.text, "zb-h1: ranks 4, chunks 1, micro-batches 8; F 1, I 1, W 1, B 2, message 0\n"
                               "r0|0123...aw4bw5cw6dw7ewfwgwhw|\n"
                               "r1|.012..a3bw4cw5dw6ew7fwgwhww|\n"
                               "r2|..01.a2b3cw4dw5ew6fw7gwhwww|\n"
                               "r3|...0a1b2c3dw4ew5fw6gw7hwwww|\n"
                               "total 27, bubble 3: 11.11 % of the total simulated, 11.11 % by the formula\n"
                               "in-flight 4,4,4,4\n");
    cr_assert_eq(run("--pp 2 --f 2 1f1b --i 1.5 --w 0.5 --micro 3 --hop 1"), 0, "%s", err.text);
    cr_expect_str_eq(out.text, "1f1b: ranks 2, chunks 1, micro-batches 3; F 2, I 1.5, W 0.5, B 2, message 1\n"
                               "r0|00001111........aaaa2222bbbb........cccc|\n"
                               "r1|......0000aaaa1111bbbb....2222cccc      |\n"
                               "total 20, bubble 8: 40.00 % of the total simulated, 25.00 % by the formula\n"
                               "in-flight 2,1\n");
}

/* All wait for the stage with most layers; a cut by price makes its ranks wait less than one by number. */
Test(schedule_command, uneven_stages)
{
    cr_assert_eq(run("1f1b --pp 2 --micro 2 --stage-layers 1,3"), 0, "%s", err.text);
    cr_expect_str_eq(out.text, "1f1b: ranks 2, chunks 1, micro-batches 2; layers 1,3, message 0\n"
                               "F of the stages 1,3; B 2,6\n"
                               "r0|01........aa.......bb|\n"
                               "r1|.000aaaaaa111bbbbbb  |\n"
                               "total 21, bubble 9: 42.86 % of the total simulated, no formula\n"
                               "in-flight 2,1\n");
    const char *const cuts[] = { "even", "auto" };
    double bubble[2];
    for (int i = 0; i < 2; i++) {
        char line[128];
        snprintf(line, sizeof line, "1f1b --model gpt:nano8 --vocabulary 2048 --balance %s", cuts[i]);
        cr_assert_eq(run(line), 0, "%s", err.text);
        cr_assert_eq(sscanf(strstr(out.text, "bubble "), "bubble %*f: %lf", &bubble[i]), 1);
    }
    cr_expect_lt(bubble[1], bubble[0]);
}

Test(schedule_command, csv_can_be_read_again)
{
    char path[] = "/tmp/test_schedule_XXXXXX", line[64];
    int descriptor = mkstemp(path);
    cr_assert_geq(descriptor, 0);
    cr_assert_eq(run("interleaved --csv --pp 2 --micro 2"), 0, "%s", err.text);
    cr_expect_str_eq(out.text, "# interleaved: ranks 2, chunks 2, micro-batches 2\n"
                               "F0.0,F0.1,F2.0,F2.1,B2.0,B2.1,B0.0,B0.1\n"
                               "F1.0,F1.1,F3.0,B3.0,F3.1,B3.1,B1.0,B1.1\n");
    cr_assert_eq(write(descriptor, out.text, strlen(out.text)), (ssize_t)strlen(out.text));
    snprintf(line, sizeof line, "--file %s", path);
    cr_assert_eq(run(line), 0, "%s", err.text);
    cr_expect_not_null(strstr(out.text, ": ranks 2, chunks 2, micro-batches 2; F 1,"), "%s", out.text);
    cr_expect_not_null(strstr(out.text, "simulated, no formula\n"), "%s", out.text);
    cr_assert_eq(ftruncate(descriptor, 60), 0);
    cr_expect_eq(run(line), 1);
    cr_expect_not_null(strstr(err.text, "is missing, and must run once"), "%s", err.text);
    cr_expect_str_empty(out.text);
    cr_assert_eq(pwrite(descriptor, "oops", 4, 50), 4);
    cr_expect_eq(run(line), 1);
    char said[128];
    snprintf(said, sizeof said, "tutti-train schedule: %s: line 2, field 1: 'oops' is no part", path);
    cr_expect_eq(strncmp(err.text, said, strlen(said)), 0, "%s", err.text);
    close(descriptor);
    unlink(path);
}

Test(schedule_command, wrong_lines_say_what_is_legal)
{
    const struct {
        const char *line;
        int status;
        const char *said;
    } wrong[] = {
        { "", 2,
            "legal is either a name (naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, dualpipev) or --file "
            "F.csv" },
        { "gpipe --ranks 3", 2,
            "there is no option --ranks; legal are --pp, --chunks, --micro, --file, --f, --i, "
            "--w, --hop, "
            "--stage-layers, --model, --layers, --vocabulary, --balance, --async, --csv, --help" },
        { "gpipe --async stash", 2, "--async stash has the order of 1F1B; legal is it with the name 1f1b" },
        { "1f1b --async new", 1, "--async new: legal are stash, two and newest" },
        { "gpipe 1f1b", 2, "'1f1b' comes after 'gpipe'; legal is one name" },
        { "gpipe --pp", 2, "--pp: a value must follow" },
        { "gpipe --pp 0", 2, "--pp 0: legal is a whole number from 1 to 4194304" },
        { "gpipe --pp 4x", 2, "--pp 4x: legal is a whole number from 1 to 4194304" },
        { "gpipe --hop -1", 2, "--hop -1: legal is a number from 0 to 1e100" },
        { "gpipe --f nan", 2, "--f nan: legal is a number from 0 to 1e100" },
        { "gpipe --file x.csv", 2,
            "legal is either a name (naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, dualpipev) or --file "
            "F.csv" },
        { "--file x.csv --pp 2", 2,
            "--file x.csv: the file has the sizes; --pp, --chunks and --micro are legal without it" },
        { "--file /nowhere/x.csv", 1,
            "/nowhere/x.csv: No such file or directory; legal is a file that can be read" },
        { "1f1b --pp 2 --stage-layers 1,2,3", 1,
            "--stage-layers 1,2,3: 6 layers in 3 stages; legal are 6 in 2" },
        { "1f1b --stage-layers 4294967297,1,1,1", 1,
            "--stage-layers 4294967297,1,1,1: legal is a number from 1 to 4096 for each stage, as 1,1,2" },
        { "1f1b --stage-layers 9999999999999999999,1", 1,
            "--stage-layers 9999999999999999999,1: legal is a number from 1 to 4096 for each stage, as "
            "1,1,2" },
        { "1f1b --pp 2 --stage-layers ,", 1,
            "--stage-layers ,: legal is a number from 1 to 4096 for each stage, as 1,1,2" },
        { "1f1b --balance auto", 2,
            "--balance auto: the price of a layer is that of a model; legal with --model" },
        { "1f1b --layers 3", 2, "--layers and --vocabulary are sizes of a model; legal with --model" },
        { "1f1b --model gpt:nano --f 2", 2,
            "--model gpt:nano says how long F, I and W take; --f, --i and --w are legal without it" },
        { "1f1b --pp 3 --model gpt:nano", 1,
            "4 layers of gpt:nano in 3 stages: legal are what divides, --stage-layers or --balance auto" },
        { "zb-v", 1,
            "there is no schedule named 'zb-v'; legal are naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, "
            "dualpipev" },
        { "1f1b --chunks 2", 1,
            "schedule 1f1b has 2 chunks; legal is 1, and more for interleaved and dualpipev only" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char said[256];
        snprintf(said, sizeof said, "tutti-train schedule: %s\n", wrong[i].said);
        cr_expect_eq(run(wrong[i].line), wrong[i].status, "%s", wrong[i].line);
        cr_expect_str_eq(err.text, said, "%s: %s", wrong[i].line, err.text);
        cr_expect_str_empty(out.text);
    }
    cr_expect_eq(run("--help"), 0);
    cr_expect_eq(strncmp(out.text, "usage: tutti-train schedule ", 28), 0);
}
