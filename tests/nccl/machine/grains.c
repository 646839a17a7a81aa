/* SPDX-License-Identifier: Apache-2.0 */
/* Runs one kernel on 64 grains of ordinary float32 values; `reduce` adds those of 8 ranks. roof.py
 * counts the issued instructions.
 *   grains encode|decode|reduce CODEC
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/kernels/arrays.h"
#include "tests/nccl/kernels/machine.h"

enum { COUNT = 64 * CSHIM_GRAIN, RANKS = 8, HEADER = 4 * CSHIM_KERNEL_HEADER_WORDS };

int main(int argc, char **argv)
{
    enum cshim_codec_id codec = CSHIM_CODEC_RAW;
    while (argc == 3 && codec < CSHIM_CODEC_COUNT && strcmp(cshim_codec_name(codec), argv[2]) != 0)
        codec++;
    if (argc != 3 || codec == CSHIM_CODEC_COUNT)
        return 2;
    const size_t stride = HEADER + cshim_encoded_bytes(codec, CSHIM_FLOAT32, COUNT);
    struct array values = make_array(4 * COUNT, 0), messages = make_array(RANKS * stride, 0);
    struct array output = make_array(4 * COUNT, 0), sum = make_array(stride, 0);
    struct array fault = make_array(4 * CSHIM_KERNEL_FAULT_WORDS, 0);
    const uint32_t header[CSHIM_KERNEL_HEADER_WORDS] = {[CSHIM_KERNEL_HEADER_ELEMENTS] = COUNT};
    memset(fault.host, 0, fault.bytes);
    for (int rank = 0; rank < RANKS; rank++) {
        fill(CSHIM_FLOAT32, NORMAL, values.host, COUNT);
        memcpy(messages.host + rank * stride, header, HEADER);
        cshim_encode(codec, CSHIM_FLOAT32, values.host, COUNT,
                     messages.host + rank * stride + HEADER);
    }
    machine_open();
    give_array(&values);
    give_array(&messages);
    give_array(&fault);
    struct cshim_kernel_encode encode = {.input = values.device,
                                         .count = COUNT,
                                         .chunk = COUNT,
                                         .pieces = 1,
                                         .encoded = sum.device,
                                         .factor = 1};
    struct cshim_kernel_decode decode = {.encoded = messages.device,
                                         .count = COUNT,
                                         .chunk = COUNT,
                                         .pieces = 1,
                                         .output = output.device,
                                         .fault = (uint32_t *)(void *)fault.device};
    struct cshim_kernel_reduce reduce = {.parts = messages.device,
                                         .stride = stride,
                                         .count = COUNT,
                                         .ranks = RANKS,
                                         .reencoded = sum.device,
                                         .factor = 1,
                                         .fault = (uint32_t *)(void *)fault.device};
    if (argv[1][0] == 'e')
        machine_launch(CSHIM_KERNEL_ENCODE, codec, COUNT, &encode);
    else if (argv[1][0] == 'd')
        machine_launch(CSHIM_KERNEL_DECODE, codec, COUNT, &decode);
    else
        machine_launch(CSHIM_KERNEL_REDUCE, codec, COUNT, &reduce);
    /* Prints the bytes that the kernel reads and writes for each grain. */
    const double payload = (double)(stride - HEADER) / 64;
    printf("%g\n", argv[1][0] == 'r' ? (RANKS + 1) * payload : payload + 4.0 * CSHIM_GRAIN);
    return 0;
}
