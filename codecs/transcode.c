/* SPDX-License-Identifier: Apache-2.0 */
/* Encode, decode and reduce for every codec and element type: the formats' loops know float32 only;
 * here other types are widened and narrowed in tiles that stay in the first-level cache. */
#include "codecs/loops.h"
#include "codecs/scalar.h"

#if CSHIM_X86
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif

/* Elements worked on at a time, a multiple of every block. */
enum { TILE = 2048 };

/* The caller's floating-point environment, set aside while ours is in force. The functions that
 * compute are not inlined into those that switch, so that no operation can move out of between. */
#if CSHIM_X86
typedef unsigned environment;

static environment enter_environment(void)
{
    const unsigned defaults = 0x1f80; /* nearest, no flush or denormals-are-zero, all masked */
    environment saved = _mm_getcsr();
    _mm_setcsr(defaults);
    return saved;
}

static void leave_environment(const environment *saved)
{
    _mm_setcsr(*saved);
}
#else
typedef fenv_t environment;

static environment enter_environment(void)
{
    environment saved;
    fegetenv(&saved);
    fesetenv(FE_DFL_ENV);
    return saved;
}

static void leave_environment(const environment *saved)
{
    fesetenv(saved);
}
#endif

/* An encoded array, taken apart. */
struct view {
    const struct cshim_level *level;
    const struct cshim_loops *loops;
    unsigned bits; /* of a code */
    size_t block;
    size_t scale_bytes;
    size_t scales_offset;
    bool is_raw;
};

/* float16 data are fp16 payloads whose scales are all 2^0. */
enum { UNIT = 125, TILE_SCALES = TILE / CSHIM_GRAIN };
static const uint8_t unit_scales[] = {UNIT, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT};
_Static_assert(sizeof unit_scales == TILE_SCALES, "one scale for each block of a tile");

/* The loops that read an element type's own bytes as floats; of float64, once it is narrowed. */
static const struct cshim_loops *own_loops(const struct cshim_level *level, enum cshim_dtype dtype)
{
    static const enum cshim_codec_id own[CSHIM_DTYPE_COUNT] = {
        [CSHIM_FLOAT32] = CSHIM_CODEC_FP32,
        [CSHIM_FLOAT64] = CSHIM_CODEC_FP32,
        [CSHIM_FLOAT16] = CSHIM_CODEC_FP16,
        [CSHIM_BFLOAT16] = CSHIM_CODEC_BF16,
    };
    return &level->codecs[own[dtype]];
}

static struct view view_of(enum cshim_codec_id id, enum cshim_dtype dtype, size_t count)
{
    const struct cshim_codec_info *info = cshim_codec_info(id);
    const struct cshim_level *level = cshim_level();
    bool is_raw = id == CSHIM_CODEC_RAW;
    unsigned bits = is_raw ? 8 * (unsigned)cshim_dtype_bytes(dtype) : info->element_bits;
    size_t payload = cshim_payload_bytes(bits, count);
    return (struct view){
        .level = level,
        .loops = is_raw ? own_loops(level, dtype) : &level->codecs[id],
        .bits = bits,
        .block = info->block,
        .scale_bytes = info->scale_bytes,
        .scales_offset = (payload + CSHIM_WIRE_ALIGN - 1) / CSHIM_WIRE_ALIGN * CSHIM_WIRE_ALIGN,
        .is_raw = is_raw,
    };
}

static const uint8_t *payload_at(const struct view *view, const void *encoded, size_t begin)
{
    return (const uint8_t *)encoded + cshim_payload_bytes(view->bits, begin);
}

static const uint8_t *scales_at(const struct view *view, const void *encoded, size_t begin)
{
    if (view->is_raw) {
        return unit_scales;
    }
    return (const uint8_t *)encoded + view->scales_offset + begin / view->block * view->scale_bytes;
}

static size_t tile_length(size_t begin, size_t count)
{
    return count - begin < TILE ? count - begin : TILE;
}

static void narrow_doubles(const double *input, size_t length, float *output)
{
    for (size_t i = 0; i < length; i++) {
        output[i] = cshim_narrow_double(input[i]);
    }
}

static void widen(enum cshim_dtype dtype, const void *input, size_t length, float *output)
{
    if (dtype == CSHIM_FLOAT64) {
        narrow_doubles(input, length, output);
    } else {
        own_loops(cshim_level(), dtype)->decode(input, unit_scales, length, output);
    }
}

static void narrow(enum cshim_dtype dtype, const float *input, size_t length, void *output)
{
    if (dtype == CSHIM_FLOAT16) {
        cshim_level()->narrow_half(input, length, output);
        return;
    }
    if (dtype != CSHIM_FLOAT64) {
        /* bfloat16 has no scales: nothing is written at the last argument. */
        own_loops(cshim_level(), dtype)->encode(input, length, output, output);
        return;
    }
    double *wide = output;
    for (size_t i = 0; i < length; i++) {
        wide[i] = cshim_widen_float(input[i]);
    }
}

/* Zeroes what follows the payload and the scales. */
static void pad(const struct view *view, size_t count, void *encoded, size_t encoded_bytes)
{
    uint8_t *bytes = encoded;
    size_t payload_end = cshim_payload_bytes(view->bits, count);
    size_t blocks = count / view->block + (count % view->block != 0);
    size_t scales_end = view->scales_offset + blocks * view->scale_bytes;
    memset(bytes + payload_end, 0, view->scales_offset - payload_end);
    memset(bytes + scales_end, 0, encoded_bytes - scales_end);
}

/* Encodes length floats as the elements from begin on. */
static void encode_floats(const struct view *view, const float *input, size_t length, size_t begin,
                          void *encoded)
{
    uint8_t *bytes = encoded;
    view->loops->encode(input, length, bytes + cshim_payload_bytes(view->bits, begin),
                        bytes + view->scales_offset + begin / view->block * view->scale_bytes);
}

/* The same, rounded at random, for a tile. */
static void encode_randomly(const struct view *view, const struct cshim_encoding *encoding,
                            const float *input, size_t length, size_t begin, void *encoded)
{
    uint8_t *bytes = encoded;
    uint32_t random[TILE + 2];
    const uint32_t *numbers =
        view->level->fill_random(encoding->key, encoding->first + begin, length, random);
    view->loops->encode_random(
        input, numbers, length, bytes + cshim_payload_bytes(view->bits, begin),
        bytes + view->scales_offset + begin / view->block * view->scale_bytes);
}

/* Encodes a tile with the options given, if any. */
static void encode_tile(const struct view *view, const struct cshim_encoding *encoding,
                        const float *input, size_t length, size_t begin, void *encoded)
{
    if (encoding == NULL) {
        encode_floats(view, input, length, begin, encoded);
        return;
    }
    float sum[TILE], decoded[TILE];
    const float *values = input;
    if (encoding->residual != NULL) {
        view->level->add_residual(input, encoding->residual + begin, length, sum);
        values = sum;
    }
    if (encoding->stochastic && view->bits < 32) {
        encode_randomly(view, encoding, values, length, begin, encoded);
    } else {
        encode_floats(view, values, length, begin, encoded);
    }
    if (encoding->residual != NULL) {
        view->loops->decode(payload_at(view, encoded, begin), scales_at(view, encoded, begin),
                            length, decoded);
        view->level->keep_residual(values, decoded, length, encoding->residual + begin);
    }
}

__attribute__((noinline)) static void encode(enum cshim_codec_id id, enum cshim_dtype dtype,
                                             const void *input, size_t count,
                                             const struct cshim_encoding *encoding, void *encoded)
{
    struct view view = view_of(id, dtype, count);
    size_t element = cshim_dtype_bytes(dtype);
    if (view.is_raw) {
        memcpy(encoded, input, count * element);
    } else if (dtype == CSHIM_FLOAT32 && encoding == NULL) {
        encode_floats(&view, input, count, 0, encoded);
    } else {
        float tile[TILE];
        for (size_t begin = 0; begin < count; begin += TILE) {
            size_t length = tile_length(begin, count);
            const uint8_t *place = (const uint8_t *)input + begin * element;
            const float *values = (const float *)(const void *)place;
            if (dtype != CSHIM_FLOAT32) {
                widen(dtype, place, length, tile);
                values = tile;
            }
            encode_tile(&view, encoding, values, length, begin, encoded);
        }
    }
    pad(&view, count, encoded, cshim_encoded_bytes(id, dtype, count));
}

__attribute__((noinline)) static void decode(enum cshim_codec_id id, enum cshim_dtype dtype,
                                             const void *encoded, size_t count, void *output)
{
    struct view view = view_of(id, dtype, count);
    size_t element = cshim_dtype_bytes(dtype);
    if (view.is_raw) {
        memcpy(output, encoded, count * element);
        return;
    }
    if (dtype == CSHIM_FLOAT32) {
        view.loops->decode(encoded, scales_at(&view, encoded, 0), count, output);
        return;
    }
    float tile[TILE];
    for (size_t begin = 0; begin < count; begin += TILE) {
        size_t length = tile_length(begin, count);
        view.loops->decode(payload_at(&view, encoded, begin), scales_at(&view, encoded, begin),
                           length, tile);
        narrow(dtype, tile, length, (uint8_t *)output + begin * element);
    }
}

/* Sums length elements from begin on over all parts. */
static void sum_floats(const struct view *view, const void *const *parts, unsigned ranks,
                       size_t begin, size_t length, float *sum)
{
    for (unsigned rank = 0; rank < ranks; rank++) {
        const uint8_t *payload = payload_at(view, parts[rank], begin);
        const uint8_t *scales = scales_at(view, parts[rank], begin);
        if (rank == 0) {
            view->loops->decode(payload, scales, length, sum);
        } else {
            view->loops->add(payload, scales, length, sum);
        }
    }
}

/* Every element type but float64. */
static void reduce_floats(enum cshim_codec_id id, enum cshim_dtype dtype, const void *const *parts,
                          unsigned ranks, size_t count, uint8_t *output, uint8_t *reencoded,
                          const struct cshim_encoding *encoding)
{
    struct view view = view_of(id, dtype, count);
    size_t element = cshim_dtype_bytes(dtype);
    float tile[TILE];
    for (size_t begin = 0; begin < count; begin += TILE) {
        size_t length = tile_length(begin, count);
        uint8_t *place = output != NULL ? output + begin * element : NULL;
        float *sum = dtype == CSHIM_FLOAT32 && place != NULL ? (float *)(void *)place : tile;
        sum_floats(&view, parts, ranks, begin, length, sum);
        if (place != NULL && sum == tile) {
            narrow(dtype, sum, length, place);
        }
        if (reencoded != NULL && view.is_raw) {
            narrow(dtype, sum, length, reencoded + begin * element);
        } else if (reencoded != NULL) {
            encode_tile(&view, encoding, sum, length, begin, reencoded);
        }
    }
}

/* The values of length elements from begin on, as doubles. */
static void load_doubles(const struct view *view, const void *part, size_t begin, size_t length,
                         double *values)
{
    const uint8_t *payload = payload_at(view, part, begin);
    if (view->is_raw) {
        memcpy(values, payload, length * sizeof *values);
        return;
    }
    float tile[TILE];
    view->loops->decode(payload, scales_at(view, part, begin), length, tile);
    for (size_t i = 0; i < length; i++) {
        values[i] = cshim_widen_float(tile[i]);
    }
}

static void sum_doubles(const struct view *view, const void *const *parts, unsigned ranks,
                        size_t begin, size_t length, double *sum)
{
    load_doubles(view, parts[0], begin, length, sum);
    double values[TILE];
    for (unsigned rank = 1; rank < ranks; rank++) {
        load_doubles(view, parts[rank], begin, length, values);
        for (size_t i = 0; i < length; i++) {
            sum[i] = cshim_sum_double(sum[i], values[i]);
        }
    }
}

static void reduce_doubles(enum cshim_codec_id id, const void *const *parts, unsigned ranks,
                           size_t count, uint8_t *output, uint8_t *reencoded,
                           const struct cshim_encoding *encoding)
{
    struct view view = view_of(id, CSHIM_FLOAT64, count);
    double sum[TILE];
    float tile[TILE];
    for (size_t begin = 0; begin < count; begin += TILE) {
        size_t length = tile_length(begin, count);
        sum_doubles(&view, parts, ranks, begin, length, sum);
        if (output != NULL) {
            memcpy(output + begin * sizeof *sum, sum, length * sizeof *sum);
        }
        if (reencoded != NULL && view.is_raw) {
            memcpy(reencoded + begin * sizeof *sum, sum, length * sizeof *sum);
        } else if (reencoded != NULL) {
            narrow_doubles(sum, length, tile);
            encode_tile(&view, encoding, tile, length, begin, reencoded);
        }
    }
}

__attribute__((noinline)) static void reduce(enum cshim_codec_id id, enum cshim_dtype dtype,
                                             const void *const *parts, unsigned ranks, size_t count,
                                             void *output, void *reencoded,
                                             const struct cshim_encoding *encoding)
{
    if (dtype == CSHIM_FLOAT64) {
        reduce_doubles(id, parts, ranks, count, output, reencoded, encoding);
    } else {
        reduce_floats(id, dtype, parts, ranks, count, output, reencoded, encoding);
    }
    if (reencoded != NULL) {
        struct view view = view_of(id, dtype, count);
        pad(&view, count, reencoded, cshim_encoded_bytes(id, dtype, count));
    }
}

void cshim_encode_with(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input,
                       size_t count, const struct cshim_encoding *encoding, void *encoded)
{
    if (count == 0) {
        return;
    }
    environment saved = enter_environment();
    encode(id, dtype, input, count, encoding, encoded);
    leave_environment(&saved);
}

void cshim_encode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input, size_t count,
                  void *encoded)
{
    cshim_encode_with(id, dtype, input, count, NULL, encoded);
}

void cshim_decode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *encoded, size_t count,
                  void *output)
{
    if (count == 0) {
        return;
    }
    environment saved = enter_environment();
    decode(id, dtype, encoded, count, output);
    leave_environment(&saved);
}

void cshim_reduce_with(enum cshim_codec_id id, enum cshim_dtype dtype, const void *const *parts,
                       unsigned ranks, size_t count, void *output, void *reencoded,
                       const struct cshim_encoding *encoding)
{
    if (count == 0) {
        return;
    }
    environment saved = enter_environment();
    reduce(id, dtype, parts, ranks, count, output, reencoded, encoding);
    leave_environment(&saved);
}

void cshim_reduce(enum cshim_codec_id id, enum cshim_dtype dtype, const void *const *parts,
                  unsigned ranks, size_t count, void *output, void *reencoded)
{
    cshim_reduce_with(id, dtype, parts, ranks, count, output, reencoded, NULL);
}
