/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the functions of the CUDA driver in the libcuda that the process has already loaded, and
 * launches the kernels (kernels.h), which are embedded in this library. Nothing here links to CUDA.
 * No function here may be called from a constructor or a destructor, nor in a child of a process
 * that had initialised CUDA before the fork. */
#ifndef CSHIM_DRIVER_H
#define CSHIM_DRIVER_H

#include <cudaTypedefs.h>

#include "kernels/kernels.h"

/* Size of a buffer for the reason of a failure, in bytes. */
#define CSHIM_CUDA_WHY_MAX 256

/* One entry per function: its name without "cu", and the CUDA version of its prototype. The driver
 * is asked for this version, even if the driver is newer. */
#define CSHIM_CUDA_REQUIRED(FUNCTION)                                                              \
    FUNCTION(Init, 2000)                                                                           \
    FUNCTION(GetErrorName, 6000)                                                                   \
    FUNCTION(GetErrorString, 6000)                                                                 \
    FUNCTION(DeviceGet, 2000)                                                                      \
    FUNCTION(DeviceGetAttribute, 2000)                                                             \
    FUNCTION(DevicePrimaryCtxRetain, 7000)                                                         \
    FUNCTION(DevicePrimaryCtxRelease, 11000)                                                       \
    FUNCTION(CtxPushCurrent, 4000)                                                                 \
    FUNCTION(CtxPopCurrent, 4000)                                                                  \
    FUNCTION(StreamGetCaptureInfo, 11030)                                                          \
    FUNCTION(StreamWaitEvent, 3020)                                                                \
    FUNCTION(StreamCreate, 2000)                                                                   \
    FUNCTION(StreamCreateWithPriority, 5050)                                                       \
    FUNCTION(StreamGetPriority, 5050)                                                              \
    FUNCTION(StreamDestroy, 4000)                                                                  \
    FUNCTION(StreamQuery, 2000)                                                                    \
    FUNCTION(StreamSynchronize, 2000)                                                              \
    FUNCTION(ThreadExchangeStreamCaptureMode, 10010)                                               \
    FUNCTION(EventCreate, 2000)                                                                    \
    FUNCTION(EventRecord, 2000)                                                                    \
    FUNCTION(EventQuery, 2000)                                                                     \
    FUNCTION(EventSynchronize, 2000)                                                               \
    FUNCTION(EventElapsedTime, 2000)                                                               \
    FUNCTION(EventDestroy, 4000)                                                                   \
    FUNCTION(MemPoolCreate, 11020)                                                                 \
    FUNCTION(MemPoolDestroy, 11020)                                                                \
    FUNCTION(MemAllocFromPoolAsync, 11020)                                                         \
    FUNCTION(MemFreeAsync, 11020)                                                                  \
    FUNCTION(MemAlloc, 3020)                                                                       \
    FUNCTION(MemFree, 3020)                                                                        \
    FUNCTION(MemGetInfo, 3020)                                                                     \
    FUNCTION(MemHostAlloc, 2020)                                                                   \
    FUNCTION(MemFreeHost, 2000)                                                                    \
    FUNCTION(MemHostGetDevicePointer, 3020)                                                        \
    FUNCTION(MemsetD32Async, 3020)                                                                 \
    FUNCTION(MemcpyAsync, 4000)                                                                    \
    FUNCTION(MemcpyDtoDAsync, 3020)                                                                \
    FUNCTION(LibraryLoadData, 12000)                                                               \
    FUNCTION(LibraryGetKernel, 12000)                                                              \
    FUNCTION(KernelGetFunction, 12000)                                                             \
    FUNCTION(LaunchKernel, 4000)                                                                   \
    FUNCTION(UserObjectCreate, 11030)                                                              \
    FUNCTION(UserObjectRelease, 11030)                                                             \
    FUNCTION(GraphRetainUserObject, 11030)

/* Functions newer than the oldest supported driver, 12.0. Their members of struct cshim_cuda may be
 * NULL. */
#define CSHIM_CUDA_OPTIONAL(FUNCTION) FUNCTION(FuncLoad, 12040)

/* The driver's functions: cshim_cuda.LaunchKernel(...) calls cuLaunchKernel. All are NULL until
 * cshim_cuda_open succeeds. */
extern struct cshim_cuda {
#define CSHIM_CUDA_MEMBER(name, version) PFN_cu##name##_v##version name;
    CSHIM_CUDA_REQUIRED(CSHIM_CUDA_MEMBER)
    CSHIM_CUDA_OPTIONAL(CSHIM_CUDA_MEMBER)
#undef CSHIM_CUDA_MEMBER
} cshim_cuda;

/* Fills the table from the libcuda.so.1 that the process has loaded. Never loads one, and calls
 * only its cuGetProcAddress. Returns false, with the reason in `why`, if the process has no CUDA or
 * one older than 12.0. In all functions stream 0 is the legacy stream. Thread-safe. The table stays
 * valid as long as libcuda stays loaded. */
bool cshim_cuda_open(char why[CSHIM_CUDA_WHY_MAX]);

/* Writes "WHAT: NAME (DESCRIPTION)" into `why`, with the driver's name and description of `error`.
 */
void cshim_cuda_explain(const char *what, CUresult error, char why[CSHIM_CUDA_WHY_MAX]);

/* Loads all kernels onto the device of the current context. With drivers from CUDA 12.4 on
 * (cuFuncLoad), no launch loads anything after that. The first call in the process also loads the
 * binary. Call it before the first launch in each context; repeated calls cost little. While
 * another stream may be under capture, the calling thread has to be in relaxed capture mode.
 * Returns false, with the reason in `why`, if the driver or the device rejects the kernels.
 * cshim_cuda_open must have succeeded before. Thread-safe. */
bool cshim_kernels_load(char why[CSHIM_CUDA_WHY_MAX]);

/* Launches `blocks` blocks (cshim_kernel_blocks) of a kernel on a stream, in the stream's context;
 * for stream 0 in the current context. `parameters` is the kernel's structure; this function sets
 * its codec and format. Returns CUDA_ERROR_NOT_FOUND for a kernel that does not exist, or before
 * cshim_kernels_load, otherwise the driver's result. Thread-safe. */
CUresult cshim_kernel_launch(enum cshim_kernel_operation operation, enum cshim_codec_id codec,
                             CUstream stream, uint32_t blocks, void *parameters);

#endif
