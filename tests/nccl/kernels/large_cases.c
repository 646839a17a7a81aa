/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "tests/nccl/kernels/cases.h"
#include "tests/nccl/kernels/machine.h"

/* Checks counts of 2^32 or more, whose offsets do not fit into 32 bits: encodes and decodes in
 * pieces of `chunk` elements, and adds whole contributions. */
void test_large(enum cshim_codec_id codec, enum cshim_dtype dtype, uint64_t count, uint64_t chunk)
{
    enum { RANKS = 5 };
    const uint64_t kept = large_kept(count);
    const uint64_t stride =
        HEADER + cshim_encoded_bytes(codec, dtype, count) + ((uint64_t)1 << 32) + 16;
    const uint64_t pieces = (count + chunk - 1) / chunk;
    const size_t element = cshim_dtype_bytes(dtype);
    const size_t message = HEADER + cshim_encoded_bytes(codec, dtype, kept);
    uint64_t all[RANKS], of_pieces[RANKS];
    for (unsigned i = 0; i < RANKS; i++) {
        all[i] = count;
        of_pieces[i] = elements_of(&(struct shape){.count = count, .chunk = chunk}, i);
    }
    struct array input = make_large_elements(element, count);
    struct array output = make_large_elements(element, count);
    struct array sum = make_large_elements(element, count);
    struct array parts = make_large_messages(codec, dtype, all, RANKS, HEADER, stride);
    struct array messages =
        make_large_messages(codec, dtype, of_pieces, (unsigned)pieces, HEADER, stride);
    struct array reencoded = make_large_messages(codec, dtype, all, 1, HEADER, stride);
    struct array fault = make_array(4 * CSHIM_KERNEL_FAULT_WORDS, 0);
    const void *payloads[RANKS];
    for (unsigned rank = 0; rank < RANKS; rank++) {
        fill(dtype, MIXED, input.host, kept);
        put_header(parts.host + rank * message, count);
        cshim_encode(codec, dtype, input.host, kept, parts.host + rank * message + HEADER);
        payloads[rank] = parts.host + rank * message + HEADER;
    }
    memset(fault.host, 0, fault.bytes);
    give_array(&input);
    give_array(&output);
    give_array(&sum);
    give_array(&parts);
    give_array(&messages);
    give_array(&reencoded);
    give_array(&fault);
    struct cshim_kernel_encode encode = {.dtype = dtype,
                                         .input = input.device,
                                         .input_stride = chunk,
                                         .count = count,
                                         .chunk = chunk,
                                         .pieces = (uint32_t)pieces,
                                         .encoded = messages.device,
                                         .stride = stride,
                                         .factor = 1};
    struct cshim_kernel_decode decode = {.dtype = dtype,
                                         .encoded = messages.device,
                                         .stride = stride,
                                         .count = count,
                                         .chunk = chunk,
                                         .pieces = (uint32_t)pieces,
                                         .output = output.device,
                                         .output_stride = chunk,
                                         .fault = (uint32_t *)(void *)fault.device};
    struct cshim_kernel_reduce reduce = {.dtype = dtype,
                                         .parts = parts.device,
                                         .stride = stride,
                                         .count = count,
                                         .ranks = RANKS,
                                         .output = sum.device,
                                         .factor = 1,
                                         .fault = (uint32_t *)(void *)fault.device};
    memcpy(encode.header, header, sizeof header);
    memcpy(decode.header, header, sizeof header);
    memcpy(reduce.header, header, sizeof header);
    memcpy(reduce.reencoded_header, header, sizeof header);
    machine_launch(CSHIM_KERNEL_ENCODE, codec, count, &encode);
    machine_launch(CSHIM_KERNEL_DECODE, codec, count, &decode);
    machine_launch(CSHIM_KERNEL_REDUCE, codec, count, &reduce);
    reduce.output = NULL;
    reduce.reencoded = reencoded.device;
    machine_launch(CSHIM_KERNEL_REDUCE, codec, count, &reduce);
    unsigned char *to = messages.host;
    for (uint64_t piece = 0, first = 0; piece < pieces; piece++) {
        const uint64_t elements = large_kept(of_pieces[piece]);
        put_header(to, of_pieces[piece]);
        cshim_encode(codec, dtype, input.host + first * element, elements, to + HEADER);
        cshim_decode(codec, dtype, to + HEADER, elements, output.host + first * element);
        to += HEADER + cshim_encoded_bytes(codec, dtype, elements);
        first += elements;
    }
    put_header(reencoded.host, count);
    cshim_reduce(codec, dtype, payloads, RANKS, kept, sum.host, reencoded.host + HEADER);
    judge(is_as_expected(&messages), "encode", codec, dtype, count, (unsigned)pieces);
    judge(is_as_expected(&output), "decode", codec, dtype, count, (unsigned)pieces);
    judge(is_as_expected(&sum), "sum of", codec, dtype, count, RANKS);
    judge(is_as_expected(&reencoded), "reencoded sum of", codec, dtype, count, RANKS);
    judge(is_as_expected(&fault), "no fault of", codec, dtype, count, 0);
    drop_array(&input);
    drop_array(&output);
    drop_array(&sum);
    drop_array(&parts);
    drop_array(&messages);
    drop_array(&reencoded);
    drop_array(&fault);
}
