/* SPDX-License-Identifier: BSD-3-Clause */
/* machine.h: what this process may use of the machine it runs on, and what it does use.
 *
 * Asked before any rank exists, so it cannot come from the library, which the parent of the ranks never
 * touches. */
#ifndef PERF_MACHINE_H
#define PERF_MACHINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int perf_machine_cores(void); /* granted by affinity and the cgroup's quota; at least 1 */
/* The calling thread, and those that it starts from now on, keep to one core: of those that it may use the
 * one at this place, which is counted round and round. False, with errno, if the system refuses. */
bool perf_machine_bind(int place);
uint64_t perf_machine_memory(void); /* bytes of memory, or of the cgroup's limit */
int64_t perf_machine_held(
    void); /* bytes that this process holds, of shared ones its part; negative: unknown */
void perf_machine_cpu(char *text, size_t bytes); /* the model's name */
/* The cores that the calling thread may run on, as the system writes them: 0-3; "unknown" if it does not. */
void perf_machine_places(char *text, size_t bytes);

#endif
