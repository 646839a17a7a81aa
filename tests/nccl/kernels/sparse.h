/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of simulated machines for large arrays: zeros, allocated only where they are touched. */
#ifndef TESTS_NCCL_KERNELS_SPARSE_H
#define TESTS_NCCL_KERNELS_SPARSE_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static const size_t SPARSE_FROM = (size_t)1 << 30; /* size from which arrays are sparse, in bytes */

/* Returns sparse memory, which the caller frees by munmap. If there is none, ends the program with
 * a message. */
static inline void *sparse_allocate(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory != MAP_FAILED)
        return memory;
    perror("memory for a large array, of which little is touched");
    exit(1);
}

#endif
