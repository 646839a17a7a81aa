/* SPDX-License-Identifier: Apache-2.0 */
/* The plan's `allreduce`: narrow, the library's own all-reduce, widen. float32 is added by the
 * library; MPI 3 has no 16-bit floats, so these are added by an operation of ours, in float32 and
 * rounded at every hop.
 *
 * fp16 carries one power-of-two scale per segment, agreed by a maximum over the ranks, such that no
 * partial sum can overflow.
 */
#include <fenv.h>

#include "codecs/scalar.h"
#include "shim/mpi/internal.h"

#define TILE 1024

static MPI_Op half_sum = MPI_OP_NULL, bfloat16_sum = MPI_OP_NULL;

static void add_narrow(enum cshim_dtype dtype, void *in, void *inout, int count)
{
    uint16_t tile[TILE];
    for (int done = 0; done < count; done += TILE) {
        const size_t length = count - done < TILE ? (size_t)(count - done) : TILE;
        const void *parts[2] = {(uint16_t *)in + done, (uint16_t *)inout + done};
        cshim_reduce(CSHIM_CODEC_RAW, dtype, parts, 2, length, tile, NULL);
        memcpy((uint16_t *)inout + done, tile, length * sizeof *tile);
    }
}

static void add_half(void *in, void *inout, int *count, MPI_Datatype *datatype)
{
    (void)datatype;
    add_narrow(CSHIM_FLOAT16, in, inout, *count);
}

static void add_bfloat16(void *in, void *inout, int *count, MPI_Datatype *datatype)
{
    (void)datatype;
    add_narrow(CSHIM_BFLOAT16, in, inout, *count);
}

int cshim_cast_setup(void)
{
    const int status = PMPI_Op_create(add_half, 1, &half_sum);
    return status == MPI_SUCCESS ? PMPI_Op_create(add_bfloat16, 1, &bfloat16_sum) : status;
}

void cshim_cast_teardown(void)
{
    PMPI_Op_free(&half_sum);
    PMPI_Op_free(&bfloat16_sum);
}

/* Elements [first, first + length) of a segment as float32: what codec fp32's payload is. */
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

/* The exponent to narrow with: ranks times the largest finite magnitude on any rank stays below the
 * top of binary16. */
static int agree_exponent(struct cshim_exchange *exchange, const uint8_t *input, uint64_t count,
                          int *exponent)
{
    uint32_t local = 0, largest = 0;
    float tile[TILE];
    for (uint64_t first = 0; first < count; first += TILE) {
        const size_t length = tile_length(count, first);
        widen_tile(exchange, input, first, length, tile);
        for (size_t i = 0; i < length; i++) {
            const uint32_t magnitude = cshim_finite_magnitude(tile[i]);
            local = magnitude > local ? magnitude : local;
        }
    }
    const int status = cshim_job.real->MPI_Allreduce(&local, &largest, 1, MPI_UINT32_T, MPI_MAX,
                                                     exchange->comm->comm);
    int headroom = 1; /* 2^headroom >= ranks, and one for the rounding at each hop */
    while (headroom < 31 && (1u << (headroom - 1)) < exchange->plan->ranks)
        headroom++;
    *exponent = cshim_cast_exponent(largest, headroom);
    return status;
}

static int cast_half(struct cshim_exchange *exchange, const uint8_t *input, uint8_t *output,
                     uint64_t count)
{
    uint16_t *codes = (uint16_t *)exchange->comm->scratch;
    float tile[TILE];
    int exponent = 0;
    int status = agree_exponent(exchange, input, count, &exponent);
    for (uint64_t first = 0; first < count; first += TILE) {
        const size_t length = tile_length(count, first);
        widen_tile(exchange, input, first, length, tile);
        for (size_t i = 0; i < length; i++)
            codes[first + i] = cshim_fp16_encode(tile[i], exponent);
    }
    if (status == MPI_SUCCESS)
        status = cshim_job.real->MPI_Allreduce(MPI_IN_PLACE, codes, (int)count, MPI_UINT16_T,
                                               half_sum, exchange->comm->comm);
    for (uint64_t first = 0; first < count && status == MPI_SUCCESS; first += TILE) {
        const size_t length = tile_length(count, first);
        for (size_t i = 0; i < length; i++)
            tile[i] = cshim_fp16_decode(codes[first + i], exponent);
        cshim_decode(CSHIM_CODEC_FP32, exchange->plan->dtype, tile, length,
                     output + first * exchange->element_bytes);
    }
    return status;
}

/* Formats without a scale: the codec's payload is what the library adds. */
static int cast_plain(struct cshim_exchange *exchange, const uint8_t *input, uint8_t *output,
                      uint64_t count)
{
    const struct cshim_plan *plan = exchange->plan;
    const bool wide = plan->codec == CSHIM_CODEC_FP32;
    cshim_encode(plan->codec, plan->dtype, input, count, exchange->comm->scratch);
    const int status = cshim_job.real->MPI_Allreduce(
        MPI_IN_PLACE, exchange->comm->scratch, (int)count, wide ? MPI_FLOAT : MPI_UINT16_T,
        wide ? MPI_SUM : bfloat16_sum, exchange->comm->comm);
    if (status == MPI_SUCCESS)
        cshim_decode(plan->codec, plan->dtype, exchange->comm->scratch, count, output);
    return status;
}

int cshim_cast_run(struct cshim_exchange *exchange)
{
    const struct cshim_plan *plan = exchange->plan;
    const double began = cshim_seconds();
    int status = MPI_SUCCESS;
    fenv_t callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV); /* what the scalar conversions expect */
    for (uint64_t first = 0; first < plan->count && status == MPI_SUCCESS; first += plan->segment) {
        const uint64_t left = plan->count - first;
        const uint64_t count = left < plan->segment ? left : plan->segment;
        const uint8_t *input = exchange->input + first * exchange->element_bytes;
        uint8_t *output = exchange->output + first * exchange->element_bytes;
        if (plan->codec == CSHIM_CODEC_RAW)
            status = cshim_job.real->MPI_Allreduce(input == output ? MPI_IN_PLACE : input, output,
                                                   (int)count, cshim_mpi_datatype(plan->dtype),
                                                   MPI_SUM, exchange->comm->comm);
        else if (plan->codec == CSHIM_CODEC_FP16)
            status = cast_half(exchange, input, output, count);
        else
            status = cast_plain(exchange, input, output, count);
    }
    fesetenv(&callers);
    exchange->figures.bytes_wire += plan->bytes_wire / plan->ranks;
    cshim_phase_end(exchange, CSHIM_TRACE_EXCHANGE, began);
    return status;
}
