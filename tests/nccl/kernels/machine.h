/* SPDX-License-Identifier: Apache-2.0 */
/* A machine on which a test runs the kernels: a GPU (gpu.c), warps of fibers on the host (host.cc),
 * or compiled code translated for the host (machine/machine.cc). Pointers to the machine's memory
 * must not be accessed by the host. An error of the GPU or of a kernel that the machine finds ends
 * the program with a message. */
#ifndef TESTS_NCCL_KERNELS_MACHINE_H
#define TESTS_NCCL_KERNELS_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/kernels.h"

enum { LARGE_BLOCKS = 1 << 20, LARGE_RUN = 2 };

#ifdef __cplusplus
extern "C" {
#endif

void machine_open(void);
const char *machine_name(void);
void *machine_allocate(size_t bytes);
/* Lets kernels access only `bytes` bytes of an allocation, beginning at `from`. Only
 * machine/machine.cc checks accesses. */
void machine_bounds(void *memory, void *from, size_t bytes);
void machine_free(void *memory);
void machine_write(void *to, const void *from, size_t bytes);
/* Waits for all launched kernels, then copies bytes to the host. */
void machine_read(void *to, const void *from, size_t bytes);
/* Returns true if memory is allocated only where it is touched, and blocks can be left out, so that
 * large arrays are possible (arrays.h). */
bool machine_is_simulated(void);
/* Launches a kernel for `count` elements, with the parameters of cshim_kernel_launch. A simulated
 * machine launches a few blocks; for 2^32 elements or more it launches LARGE_BLOCKS, and runs only
 * the first LARGE_RUN. */
void machine_launch(enum cshim_kernel_operation operation, enum cshim_codec_id codec,
                    uint64_t count, void *parameters);

#ifdef __cplusplus
}
#endif

#endif
