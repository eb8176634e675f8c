/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_llmc.c: steps of llm.c's train_gpt2.c, for bench_train.sh to time. That file is not in this tree:
 * LLMC names it when this one is compiled.
 *
 * usage: bench_llmc LAYERS CHANNELS HEADS CONTEXT VOCABULARY BATCH STEPS */
#define TESTING
#include LLMC

/* llm.c reads its sizes and values from a checkpoint: one with small numbers in it. */
static void write_checkpoint(const char *path, const int *size)
{
    int padded = (size[4] + 127) / 128 * 128;
    int header[256] = { 20240326, 3, size[3], size[4], size[0], size[2], size[1], padded };
    size_t count[NUM_PARAMETER_TENSORS], all = 0;
    GPT2Config config = { size[3], size[4], header[7], size[0], size[2], size[1] };
    FILE *f = fopen(path, "wb");
    fill_in_parameter_sizes(count, config);
    for (int i = 0; i < NUM_PARAMETER_TENSORS; i++)
        all += count[i];
    fwrite(header, sizeof header, 1, f);
    for (size_t i = 0; i < all; i++) {
        float x = 0.02f * ((float)(i * 2654435761u % 1000) / 500 - 1);
        fwrite(&x, sizeof x, 1, f);
    }
    fclose(f);
}

int main(int argc, char **argv)
{
    int size[7];
    GPT2 model;
    if (argc != 8)
        return 2;
    for (int i = 0; i < 7; i++)
        size[i] = atoi(argv[i + 1]);
    char path[] = "/tmp/bench_llmc.XXXXXX";
    int fd = mkstemp(path), tokens = size[5] * size[3];
    write_checkpoint(path, size);
    gpt2_build_from_checkpoint(&model, path);
    close(fd);
    unlink(path);
    int *in = malloc((size_t)(tokens + 1) * sizeof *in);
    for (int i = 0; i <= tokens; i++)
        in[i] = (int)((unsigned)i * 2654435761u % (unsigned)size[4]);
    for (int step = 0; step < size[6]; step++) {
        gpt2_forward(&model, in, in + 1, (size_t)size[5], (size_t)size[3]);
        gpt2_zero_grad(&model);
        gpt2_backward(&model);
        gpt2_update(&model, 1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, step + 1);
    }
    return 0;
}
