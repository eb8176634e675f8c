/* SPDX-License-Identifier: BSD-3-Clause */
/* versions.h: what an asynchronous pipeline of P stages computes, on one rank.
 *
 * It stands behind a golden program, whose pieces it calls: a step of that is an update here. Update u of a
 * window reads version u of all weights and writes version u + 1. Its gradient comes from older versions,
 * another one for each stage s:
 *
 *   keep=stash    forward and backward u - (P - 1 - s)
 *   keep=two      forward and backward u - 1
 *   keep=newest   forward u - (P - 1 - s), backward u
 *
 * and never from one before version 0, with which the window begins. No order of parts, no buffer and no
 * message is in here: those are what the trainer adds, and must not change a bit.
 *
 * Who includes this behind a golden program defines, of that: */
static int set_up(void);
static long stage_of(long t);
/* A step's loss, and its gradient in grad; `parameter` is `forward` or `backward`, as the part. */
static double loss_of(long step);

static long stages = 1, window = 1;
static int same_lag, newest; /* keep=two; keep=newest */
static real *forward, *backward;

/* The weights that a part of update u reads: of each tensor the version that its stage has. */
static void mix(real *to, real *const *version, long u, int is_backward)
{
    for (long t = 0; t < n_tensors; t++) {
        long lag = same_lag ? 1 : is_backward && newest ? 0 : stages - 1 - stage_of(t);
        long count = tensors[t].rows * tensors[t].columns;
        memcpy(to + tensors[t].offset, version[(u > lag ? u - lag : 0) % (stages + 1)] + tensors[t].offset,
            sizeof(real) * (size_t)count);
    }
}

static int is_ours(const char *word)
{
    if (!strncmp(word, "keep=", 5)) {
        newest = !strcmp(word + 5, "newest"), same_lag = !strcmp(word + 5, "two");
        return 1;
    }
    return sscanf(word, "stages=%ld", &stages) == 1 || sscanf(word, "window=%ld", &window) == 1;
}

/* The words are those of the golden program, and stages, keep, and window: updates without a drain. */
int SIMULATOR(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!is_ours(argv[i]))
            parse(argv[i]);
    if (set_up())
        return 2;
    size_t bytes = sizeof(real) * (size_t)n_elements;
    long kept = stages + 1; /* version v is version[v % kept] */
    real **version = calloc((size_t)kept, sizeof *version);
    for (long v = 0; v < kept; v++)
        version[v] = room(n_elements);
    forward = room(n_elements), backward = room(n_elements);
    memcpy(version[0], parameter, bytes);
    for (long step = 0; step < steps; step++) {
        long u = step % window;
        mix(forward, version, u, 0);
        mix(backward, version, u, 1);
        double loss = loss_of(step), length = gradient_norm();
        if (step == 0)
            save(grads_path, grad);
        parameter = version[(u + 1) % kept];
        memcpy(parameter, version[u % kept], bytes);
        update(step, length);
        printf("step %ld loss %.6f %a norm %.6f %a\n", step, loss, loss, length, length);
        if (u + 1 == window)
            memmove(version[0], parameter, bytes);
    }
    save(params_path, parameter);
    return 0;
}
