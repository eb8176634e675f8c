/* tsan_main.c: the cases that ThreadSanitizer watches, in a runner of their own because Criterion aborts
 * under it. Each case starts threads and returns whether what they did is right; a race ends the program. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/log.h"
#include "base/status.h"

enum { THREADS = 4 };

static bool run_threads(void *(*run)(void *))
{
    pthread_t threads[THREADS];
    int numbers[THREADS];
    bool right = true;
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        if (pthread_create(&threads[i], NULL, run, &numbers[i]) != 0)
            abort();
    }
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        right &= wrong == NULL;
    }
    return right;
}

/* The first use of the log, of the settings and of the last error, by all threads at once. */
static void *first_use(void *number)
{
    char text[64];
    struct tt_settings settings;
    snprintf(text, sizeof text, "of thread %d", *(int *)number);
    tt_log(TT_LOG_TRACE, "%s", text);
    bool right = tt_settings_read(&settings, "slice=64K") == TUTTI_OK && settings.slice_bytes == 65536;
    tt_set_last_error(text);
    right &= strcmp(tt_last_error(), text) == 0;
    return right ? NULL : number;
}

static bool once_only_state(void)
{
    return run_threads(first_use);
}

static const struct {
    const char *name;
    bool (*run)(void);
} cases[] = {
    { "once_only_state", once_only_state },
};

int main(void)
{
    int failures = 0;
    int n = sizeof cases / sizeof cases[0];
    for (int i = 0; i < n; i++) {
        bool right = cases[i].run();
        failures += !right;
        printf("tsan: %s %s\n", cases[i].name, right ? "ok" : "FAILED");
        fflush(stdout);
    }
    printf("tsan: %d cases, %d failed\n", n, failures);
    return failures != 0;
}
