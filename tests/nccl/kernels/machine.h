/* SPDX-License-Identifier: Apache-2.0 */
/* Where the kernels run in a test: a GPU, warps of fibers on the host, or the compiled code
 * translated for it. Memory is the machine's; every function ends the program with a message if
 * something fails. */
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
/* Only these bytes of the memory are the kernels': a machine that watches them forbids the others.
 */
void machine_bounds(void *memory, void *from, size_t bytes);
void machine_free(void *memory);
void machine_write(void *to, const void *from, size_t bytes);
/* Waits for all that was launched. */
void machine_read(void *to, const void *from, size_t bytes);
/* Whether memory is taken only where it is touched, and blocks can be left out: then large arrays
 * are possible (arrays.h). */
bool machine_is_simulated(void);
/* Launches a kernel for count elements; parameters as of cshim_kernel_launch. A simulated machine
 * launches a few blocks; for 2^32 elements or more LARGE_BLOCKS, and runs the first LARGE_RUN. */
void machine_launch(enum cshim_kernel_operation operation, enum cshim_codec_id codec,
                    uint64_t count, void *parameters);

#ifdef __cplusplus
}
#endif

#endif
