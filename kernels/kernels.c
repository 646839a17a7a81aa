/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/kernels.h"

const char *cshim_kernel_name(enum cshim_kernel_operation operation, enum cshim_codec_id codec)
{
    static const char *const names[CSHIM_KERNEL_OPERATION_COUNT] = {
        [CSHIM_KERNEL_ENCODE] = "cshim_encode", [CSHIM_KERNEL_DECODE] = "cshim_decode",
        [CSHIM_KERNEL_REDUCE] = "cshim_reduce", [CSHIM_KERNEL_NARROW] = "cshim_narrow",
        [CSHIM_KERNEL_WIDEN] = "cshim_widen",   [CSHIM_KERNEL_LARGEST] = "cshim_largest",
    };
    const bool narrows =
        codec == CSHIM_CODEC_FP32 || codec == CSHIM_CODEC_FP16 || codec == CSHIM_CODEC_BF16;
    if ((unsigned)operation >= CSHIM_KERNEL_OPERATION_COUNT || codec <= CSHIM_CODEC_NONE ||
        codec >= CSHIM_CODEC_COUNT || (operation >= CSHIM_KERNEL_NARROW && !narrows))
        return NULL;
    return names[operation];
}

/* All parameter structures begin with codec, dtype and format, as struct cshim_kernel_cast does. */
void cshim_kernel_set_codec(void *parameters, enum cshim_codec_id codec)
{
    struct cshim_kernel_cast *const begin = parameters;
    begin->codec = (uint32_t)codec;
    begin->format = cshim_format(codec);
    if (codec != CSHIM_CODEC_RAW)
        return;
    begin->format = cshim_format(begin->dtype == CSHIM_FLOAT16    ? CSHIM_CODEC_FP16
                                 : begin->dtype == CSHIM_BFLOAT16 ? CSHIM_CODEC_BF16
                                                                  : CSHIM_CODEC_FP32);
    begin->format.scale_bytes = 0;
}

/* Kernels stride over their grains. A launch has eight to ten times as many blocks as a device can
 * hold at once by the launch bounds (device.cu), so that blocks that end early make room for
 * others. A launch for few elements has about one warp per grain. */
uint32_t cshim_kernel_blocks(enum cshim_kernel_operation operation, uint64_t count,
                             uint32_t processors)
{
    enum { ELEMENTS_PER_BLOCK = CSHIM_KERNEL_THREADS * 8 };
    const uint64_t wanted = count / ELEMENTS_PER_BLOCK + (count % ELEMENTS_PER_BLOCK != 0);
    const uint64_t most = (uint64_t)processors * (operation == CSHIM_KERNEL_REDUCE ? 32 : 40);
    const uint64_t blocks = wanted < most ? wanted : most;
    return blocks > 0 ? (uint32_t)blocks : 1;
}
