/* SPDX-License-Identifier: Apache-2.0 */
#ifndef KERNEL_SIZES_H
#define KERNEL_SIZES_H

#include "kernels/kernels.h"

/* Returns the size of a kernel's parameter in bytes. */
static inline uint32_t kernel_parameter_bytes(enum cshim_kernel_operation operation)
{
    static const uint32_t bytes[CSHIM_KERNEL_OPERATION_COUNT] = {
        [CSHIM_KERNEL_ENCODE] = sizeof(struct cshim_kernel_encode),
        [CSHIM_KERNEL_DECODE] = sizeof(struct cshim_kernel_decode),
        [CSHIM_KERNEL_REDUCE] = sizeof(struct cshim_kernel_reduce),
        [CSHIM_KERNEL_NARROW] = sizeof(struct cshim_kernel_cast),
        [CSHIM_KERNEL_WIDEN] = sizeof(struct cshim_kernel_cast),
        [CSHIM_KERNEL_LARGEST] = sizeof(struct cshim_kernel_cast),
    };
    return bytes[operation];
}

#endif
