/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"

static const struct {
    const char *name;
    uint32_t parameter_bytes;
} kernels[CSHIM_KERNEL_OPERATION_COUNT] = {
    [CSHIM_KERNEL_ENCODE] = {"cshim_encode", sizeof(struct cshim_kernel_encode)},
    [CSHIM_KERNEL_ENCODE_OPTIONS] = {"cshim_encode", sizeof(struct cshim_kernel_encode)},
    [CSHIM_KERNEL_DECODE] = {"cshim_decode", sizeof(struct cshim_kernel_decode)},
    [CSHIM_KERNEL_REDUCE] = {"cshim_reduce", sizeof(struct cshim_kernel_reduce)},
    [CSHIM_KERNEL_REDUCE_OPTIONS] = {"cshim_reduce", sizeof(struct cshim_kernel_reduce)},
    [CSHIM_KERNEL_REDUCE_DOUBLE] = {"cshim_reduce", sizeof(struct cshim_kernel_reduce)},
    [CSHIM_KERNEL_NARROW] = {"cshim_narrow", sizeof(struct cshim_kernel_cast)},
    [CSHIM_KERNEL_WIDEN] = {"cshim_widen", sizeof(struct cshim_kernel_cast)},
    [CSHIM_KERNEL_LARGEST] = {"cshim_largest", sizeof(struct cshim_kernel_largest)},
};

static bool is_for(enum cshim_kernel_operation operation, enum cshim_codec_id codec)
{
    switch (operation) {
    case CSHIM_KERNEL_LARGEST:
        return codec == CSHIM_CODEC_NONE;
    case CSHIM_KERNEL_NARROW:
    case CSHIM_KERNEL_WIDEN:
        return codec == CSHIM_CODEC_FP32 || codec == CSHIM_CODEC_FP16 || codec == CSHIM_CODEC_BF16;
    default:
        return codec > CSHIM_CODEC_NONE && codec < CSHIM_CODEC_COUNT;
    }
}

const char *cshim_kernel_name(enum cshim_kernel_operation operation, enum cshim_codec_id codec)
{
    if ((unsigned)operation >= CSHIM_KERNEL_OPERATION_COUNT || !is_for(operation, codec))
        return NULL;
    return kernels[operation].name;
}

uint32_t cshim_kernel_parameter_bytes(enum cshim_kernel_operation operation)
{
    return (unsigned)operation < CSHIM_KERNEL_OPERATION_COUNT ? kernels[operation].parameter_bytes
                                                              : 0;
}

/* Kernels stride over their grains, so that a few blocks per multiprocessor fill the device: twice
 * as many as it holds at once (device.cu). There are fewer where there is no grain for each warp.
 */
uint32_t cshim_kernel_blocks(enum cshim_kernel_operation operation, uint64_t count,
                             uint32_t processors)
{
    enum { ELEMENTS_PER_BLOCK = CSHIM_KERNEL_THREADS * 8 };
    const bool reduces =
        operation >= CSHIM_KERNEL_REDUCE && operation <= CSHIM_KERNEL_REDUCE_DOUBLE;
    const uint64_t wanted = count / ELEMENTS_PER_BLOCK + (count % ELEMENTS_PER_BLOCK != 0);
    const uint64_t most = (uint64_t)processors * (reduces ? 6 : 8);
    const uint64_t blocks = wanted < most ? wanted : most;
    return blocks > 0 ? (uint32_t)blocks : 1;
}
