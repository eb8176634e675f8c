/* SPDX-License-Identifier: BSD-3-Clause */
/* table_segments.h: checks of table.c on memory that two processes have. */
#ifndef TT_TESTS_GPU_TABLE_SEGMENTS_H
#define TT_TESTS_GPU_TABLE_SEGMENTS_H
#include "gpu.h"

/* Of one process with several devices. */
void table_reaches(struct gpu_me *me);
void table_segment_of_another_device(struct gpu_me *me);

void table_segment_words(struct gpu_me *me);
void table_exports_of_memory(struct gpu_me *me);
void table_exports_of_segment(struct gpu_me *me);
void table_exports_refused(struct gpu_me *me);

#endif
