/* SPDX-License-Identifier: Apache-2.0 */
/* Implements machine.h on the host: runs the kernels' own source, each lane as a fiber. */
extern "C" {
#include "kernels/kernels.h"
}
#include <map>

#include "tests/nccl/kernels/machine.h"
#include "tests/nccl/kernels/sparse.h"
#include "tests/nccl/kernels/warp.h"

/* Renames three kernels, because the CPU's functions have the same names and C linkage, too. */
#define cshim_encode kernel_encode
#define cshim_decode kernel_decode
#define cshim_reduce kernel_reduce
#include "kernels/device.cu"
#undef KERNEL

void machine_open()
{
}

const char *machine_name()
{
    return "the host";
}

bool machine_is_simulated()
{
    return true;
}

static std::map<void *, size_t> large;

void *machine_allocate(size_t bytes)
{
    if (bytes >= SPARSE_FROM) {
        void *memory = sparse_allocate(bytes);
        large[memory] = bytes;
        return memory;
    }
    return aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
}

void machine_bounds(void *, void *, size_t)
{
}

void machine_free(void *memory)
{
    const auto found = large.find(memory);
    if (found == large.end()) {
        free(memory);
    } else {
        munmap(memory, found->second);
        large.erase(found);
    }
}

void machine_write(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void machine_read(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

template <typename PARAMETERS, void FUNCTION(PARAMETERS)> static void run(const void *parameters)
{
    FUNCTION(*(const PARAMETERS *)parameters);
}

/* Launches three blocks, so that warps have several grains, one or none; for 2^32 elements or more
 * see machine.h. */
template <typename PARAMETERS, void FUNCTION(PARAMETERS)>
static void launch_kernel(enum cshim_codec_id codec, uint64_t count, const void *parameters)
{
    PARAMETERS copy = *(const PARAMETERS *)parameters;
    const bool is_large = count >> 32 != 0;
    cshim_kernel_set_codec(&copy, codec);
    warp_launch(run<PARAMETERS, FUNCTION>, &copy, is_large ? LARGE_BLOCKS : 3,
                is_large ? LARGE_RUN : 3);
}

void machine_launch(enum cshim_kernel_operation operation, enum cshim_codec_id codec,
                    uint64_t count, void *parameters)
{
    switch (operation) {
    case CSHIM_KERNEL_ENCODE:
        launch_kernel<struct cshim_kernel_encode, kernel_encode>(codec, count, parameters);
        break;
    case CSHIM_KERNEL_DECODE:
        launch_kernel<struct cshim_kernel_decode, kernel_decode>(codec, count, parameters);
        break;
    case CSHIM_KERNEL_NARROW:
        launch_kernel<struct cshim_kernel_cast, cshim_narrow>(codec, count, parameters);
        break;
    case CSHIM_KERNEL_WIDEN:
        launch_kernel<struct cshim_kernel_cast, cshim_widen>(codec, count, parameters);
        break;
    case CSHIM_KERNEL_LARGEST:
        launch_kernel<struct cshim_kernel_cast, cshim_largest>(codec, count, parameters);
        break;
    default:
        launch_kernel<struct cshim_kernel_reduce, kernel_reduce>(codec, count, parameters);
    }
}
