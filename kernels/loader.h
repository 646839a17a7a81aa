/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the kernels (kernels.h) that are embedded in this library, and launches them. */
#ifndef CSHIM_KERNEL_LOADER_H
#define CSHIM_KERNEL_LOADER_H

#include "kernels/driver.h"
#include "kernels/kernels.h"

/* Makes every kernel ready in the current context: loads the binary if this is the first call in
 * the process, and forces each kernel onto the context's device, so that no launch has to load
 * anything. Call it before the first launch in each context; calling it again costs little. While
 * streams may be being captured the thread has to be in relaxed mode. Returns false, and in `why`
 * the reason, if the driver or the device cannot take the kernels. Thread-safe; all calls of a
 * process must come with the same driver. */
bool cshim_kernels_load(const struct cshim_cuda *cuda, char *why, size_t size);

/* Launches `blocks` blocks (cshim_kernel_blocks) of a kernel on a stream, in the stream's context;
 * on stream 0 in the current one. `parameters` is the kernel's structure, whose codec is set here.
 * Returns CUDA_ERROR_NOT_FOUND for a kernel that does not exist or before cshim_kernels_load.
 * Thread-safe. */
CUresult cshim_kernel_launch(const struct cshim_cuda *cuda, enum cshim_kernel_operation operation,
                             enum cshim_codec_id codec, CUstream stream, uint32_t blocks,
                             void *parameters);

#endif
