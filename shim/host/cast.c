/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithm `cast`: the library's own all-reduce adds the encoded elements. MPI or gloo adds
 * raw in the call's type, and fp32 in float32. It adds fp16 and bf16 in float32, and rounds after
 * each addition. fp16 has one power-of-two scale per segment. It follows from the largest finite
 * magnitude on any rank and the number of ranks: no partial sum overflows. */
#include "shim/host/cast.h"
#include "shim/host/message.h"

#include "codecs/scalar.h"

#define TILE 1024

/* Converts elements [first, first + length) of a segment to float32, which is codec fp32's payload.
 */
static void widen_tile(const struct cshim_exchange *exchange, const uint8_t *data, uint64_t first,
                       size_t length, float *tile)
{
    cshim_encode(CSHIM_CODEC_FP32, exchange->plan->dtype, data + first * exchange->element_bytes,
                 length, tile);
}

static size_t tile_length(uint64_t count, uint64_t first)
{
    return count - first < TILE ? (size_t)(count - first) : TILE;
}

/* Sets the exponent of a scale with which no sum overflows binary16: with which the largest finite
 * magnitude on any rank, times the number of ranks, is below its largest number. Collective.
 * Returns 0 or a transport error. */
static int agree_exponent(struct cshim_exchange *exchange, const uint8_t *input, uint64_t count,
                          int *exponent)
{
    uint64_t local = 0, largest = 0;
    float tile[TILE];
    for (uint64_t first = 0; first < count; first += TILE) {
        const size_t length = tile_length(count, first);
        widen_tile(exchange, input, first, length, tile);
        for (size_t i = 0; i < length; i++) {
            const uint32_t magnitude = cshim_finite_magnitude(tile[i]);
            local = magnitude > local ? magnitude : local;
        }
    }
    const int status = exchange->communicator->transport->maximum(exchange, &local, &largest, 1);
    *exponent =
        cshim_cast_exponent((uint32_t)largest, (int)cshim_cast_headroom(exchange->plan->ranks));
    return status;
}

/* All-reduces one segment in fp16. */
static int cast_half(struct cshim_exchange *exchange, const uint8_t *input, uint8_t *output,
                     uint64_t count)
{
    uint16_t *codes = (uint16_t *)exchange->communicator->scratch;
    float tile[TILE];
    int exponent = 0;
    int status = agree_exponent(exchange, input, count, &exponent);
    for (uint64_t first = 0; first < count; first += TILE) {
        const size_t length = tile_length(count, first);
        widen_tile(exchange, input, first, length, tile);
        for (size_t i = 0; i < length; i++)
            codes[first + i] = cshim_fp16_encode(tile[i], exponent);
    }
    if (status == 0)
        status =
            exchange->communicator->transport->sum_narrowed(exchange, codes, count, CSHIM_FLOAT16);
    for (uint64_t first = 0; first < count && status == 0; first += TILE) {
        const size_t length = tile_length(count, first);
        for (size_t i = 0; i < length; i++)
            tile[i] = cshim_fp16_decode(codes[first + i], exponent);
        cshim_decode(CSHIM_CODEC_FP32, exchange->plan->dtype, tile, length,
                     output + first * exchange->element_bytes);
    }
    return status;
}

/* All-reduces one segment in a format without a scale: the library adds the codec's payload. */
static int cast_plain(struct cshim_exchange *exchange, const uint8_t *input, uint8_t *output,
                      uint64_t count)
{
    const struct cshim_plan *plan = exchange->plan;
    uint8_t *codes = exchange->communicator->scratch;
    cshim_encode(plan->codec, plan->dtype, input, count, codes);
    const int status = exchange->communicator->transport->sum_narrowed(
        exchange, codes, count, cshim_cast_dtype(plan->codec));
    if (status == 0)
        cshim_decode(plan->codec, plan->dtype, codes, count, output);
    return status;
}

/* Returns this rank's part of the bytes that all ranks send. */
static uint64_t share_of_rank(const struct cshim_exchange *exchange, uint64_t bytes)
{
    const uint32_t ranks = exchange->plan->ranks;
    return bytes / ranks + (exchange->communicator->rank == 0 ? bytes % ranks : 0);
}

int cshim_cast_run(struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    int status = 0;
    for (uint64_t first = 0; first < plan->count && status == 0; first += plan->segment) {
        const uint64_t left = plan->count - first;
        const uint64_t count = left < plan->segment ? left : plan->segment;
        const uint8_t *input = exchange->input + first * exchange->element_bytes;
        uint8_t *output = exchange->output + first * exchange->element_bytes;
        if (plan->codec == CSHIM_CODEC_RAW)
            status = exchange->communicator->transport->sum(exchange, input, output, count);
        else if (plan->codec == CSHIM_CODEC_FP16)
            status = cast_half(exchange, input, output, count);
        else
            status = cast_plain(exchange, input, output, count);
    }
    exchange->figures.bytes_wire += share_of_rank(exchange, plan->bytes_wire);
    exchange->figures.bytes_network += share_of_rank(exchange, plan->bytes_network);
    cshim_phase_end(exchange, CSHIM_PHASE_EXCHANGE);
    return status;
}
