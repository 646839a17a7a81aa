/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the CUDA driver, from the libcuda that the process has already loaded, and by
 * them the kernels (kernels.h), which are embedded in this library. Nothing here links to CUDA, and
 * no function here may be called from a constructor, a destructor or a child after fork.
 */
#ifndef CSHIM_DRIVER_H
#define CSHIM_DRIVER_H

#include <cudaTypedefs.h>

#include "kernels/kernels.h"

/* Bytes that the reason why something is not possible may take. */
#define CSHIM_CUDA_WHY_MAX 256

/* One entry per function: its name without "cu", and the CUDA version whose prototype is meant. The
 * driver is asked for this version, whatever its own is. */
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
    FUNCTION(LaunchKernel, 4000)

/* These may be NULL in struct cshim_cuda. */
#define CSHIM_CUDA_OPTIONAL(FUNCTION)                                                              \
    FUNCTION(FuncLoad, 12040)                                                                      \
    FUNCTION(UserObjectCreate, 11030)                                                              \
    FUNCTION(UserObjectRelease, 11030)                                                             \
    FUNCTION(GraphRetainUserObject, 11030)

/* The driver's functions: cshim_cuda.LaunchKernel(...) is cuLaunchKernel. NULL before they are
 * opened. */
extern struct cshim_cuda {
#define CSHIM_CUDA_MEMBER(name, version) PFN_cu##name##_v##version name;
    CSHIM_CUDA_REQUIRED(CSHIM_CUDA_MEMBER)
    CSHIM_CUDA_OPTIONAL(CSHIM_CUDA_MEMBER)
#undef CSHIM_CUDA_MEMBER
} cshim_cuda;

/* Fills the table from the libcuda.so.1 that is in the process; never loads one, and calls none of
 * its functions but cuGetProcAddress. Returns false, and in `why` the reason, if there is no CUDA
 * in the process or it is older than 12.0. Stream 0 means the legacy stream in all functions.
 * Thread-safe. The table stays valid as long as libcuda stays loaded. */
bool cshim_cuda_open(char why[CSHIM_CUDA_WHY_MAX]);

/* Writes "WHAT: NAME (DESCRIPTION)" of an error into `why`. */
void cshim_cuda_explain(const char *what, CUresult error, char why[CSHIM_CUDA_WHY_MAX]);

/* Makes every kernel ready in the current context: loads the binary if this is the first call in
 * the process, and forces each kernel onto the context's device, so that no launch has to load
 * anything. Call it before the first launch in each context; calling it again costs little. While
 * streams may be being captured the thread has to be in relaxed mode. Returns false, and in `why`
 * the reason, if the driver or the device cannot take the kernels. Thread-safe. */
bool cshim_kernels_load(char why[CSHIM_CUDA_WHY_MAX]);

/* Launches `blocks` blocks (cshim_kernel_blocks) of a kernel on a stream, in the stream's context;
 * on stream 0 in the current one. `parameters` is the kernel's structure, whose codec is set here.
 * Returns CUDA_ERROR_NOT_FOUND for a kernel that does not exist or before cshim_kernels_load.
 * Thread-safe. */
CUresult cshim_kernel_launch(enum cshim_kernel_operation operation, enum cshim_codec_id codec,
                             CUstream stream, uint32_t blocks, void *parameters);

#endif
