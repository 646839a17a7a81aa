/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes, decodes and reduces with every codec and element type. The formats' loops process
 * float32 only: this file converts other types, in tiles that fit the cache. */
#include "codecs/arithmetic.h"
#include "codecs/loops.h"
#include "codecs/scalar.h"

enum {
    TILE = 2048, /* elements of a tile: a multiple of every block */
    LINE = 64    /* bytes of a cache line, to which tiles are aligned */
};

/* The public functions set the default floating-point environment around a call of encode(),
 * decode() or reduce(). These are not inlined, so that the compiler cannot move an operation out of
 * that section. */

/* Layout of an encoded array, and the loops that process it. */
struct view {
    enum cshim_dtype dtype;
    size_t count;
    const struct cshim_level *level;
    const struct cshim_loops *loops;
    const struct cshim_codec_info *info;
    unsigned bits;  /* bits of a code */
    size_t scales;  /* offset of the scales in bytes */
    bool is_exact;  /* elements are the caller's bytes (raw; packed codecs: after unpacking) */
    bool is_packed; /* grains have different lengths */
};

/* float16 data are fp16 payloads whose scales are all 2^0. */
enum { UNIT = 125, TILE_SCALES = TILE / CSHIM_GRAIN };
static const uint8_t unit_scales[] = {UNIT, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT};
_Static_assert(sizeof unit_scales == TILE_SCALES, "one scale for each block of a tile");

/* Returns the loops that read elements of a type as floats and, except for float16, write them.
 * float64 has those of float32, to which it is converted first. */
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

/* Returns the layout of an encoded array of `count` elements. */
static struct view view_of(enum cshim_codec_id id, enum cshim_dtype dtype, size_t count)
{
    const struct cshim_codec_info *info = cshim_codec_info(id);
    const struct cshim_level *level = cshim_level();
    const bool is_exact = cshim_codec_is_exact(id) || cshim_codec_is_packed(id);
    const unsigned bits = is_exact ? 8 * (unsigned)cshim_dtype_bytes(dtype) : info->element_bits;
    return (struct view){
        .dtype = dtype,
        .count = count,
        .level = level,
        .loops = is_exact ? own_loops(level, dtype) : &level->codecs[id],
        .info = info,
        .bits = bits,
        .scales = cshim_align(cshim_payload_bytes(bits, count)),
        .is_exact = is_exact,
        .is_packed = cshim_codec_is_packed(id),
    };
}

/* Returns the offset of the scale of the block that contains element `begin`. */
static size_t scale_offset(const struct view *view, size_t begin)
{
    return view->scales + begin / view->info->block * view->info->scale_bytes;
}

/* Writes zeros after the payload and after the scales. */
static void pad(const struct view *view, uint8_t *encoded)
{
    const size_t codes_end = cshim_payload_bytes(view->bits, view->count);
    const size_t scales_end = scale_offset(view, view->count + view->info->block - 1);
    const size_t end = cshim_encoded_bytes(view->info->id, view->dtype, view->count);
    memset(encoded + codes_end, 0, view->scales - codes_end);
    memset(encoded + scales_end, 0, end - scales_end);
}

/* Number of elements that are checked together before they are converted from or to float64. */
enum { DOUBLES = 64 };

/* Smallest upper half of a double's magnitude that may become infinity as a float, or is not
 * finite.
 */
#define NARROW_EXCEPTIONAL 0x47efffff

/* Converts float64 to float32 by cshim_narrow_double(), or by a cast if the results are equal. */
static void narrow_doubles(const double *input, size_t length, float *output)
{
    for (size_t begin = 0; begin < length; begin += DOUBLES) {
        const size_t end = length - begin < DOUBLES ? length : begin + DOUBLES;
        int32_t largest = 0;
        for (size_t i = begin; i < end; i++) {
            const int32_t upper = (int32_t)(cshim_double_bits(input[i]) >> 32 & 0x7fffffff);
            largest = upper > largest ? upper : largest;
        }
        for (size_t i = begin; i < end && largest < NARROW_EXCEPTIONAL; i++)
            output[i] = (float)input[i];
        for (size_t i = begin; i < end && largest >= NARROW_EXCEPTIONAL; i++)
            output[i] = cshim_narrow_double(input[i]);
    }
}

/* Converts float32 to float64 by cshim_widen_float(), or by a cast if the results are equal. */
static void widen_floats(const float *input, size_t length, double *output)
{
    for (size_t begin = 0; begin < length; begin += DOUBLES) {
        const size_t end = length - begin < DOUBLES ? length : begin + DOUBLES;
        int32_t largest = 0;
        for (size_t i = begin; i < end; i++) {
            const int32_t magnitude = (int32_t)(cshim_float_bits(input[i]) & ~CSHIM_SIGN_BIT);
            largest = magnitude > largest ? magnitude : largest;
        }
        const bool has_nan = largest > (int32_t)CSHIM_INFINITY_BITS;
        for (size_t i = begin; i < end && !has_nan; i++)
            output[i] = (double)input[i];
        for (size_t i = begin; i < end && has_nan; i++)
            output[i] = cshim_widen_float(input[i]);
    }
}

/* Reads a tile of elements as floats. */
static void read_elements(enum cshim_dtype dtype, const void *input, size_t length, float *output)
{
    if (dtype == CSHIM_FLOAT64)
        narrow_doubles(input, length, output);
    else
        own_loops(cshim_level(), dtype)->decode(input, unit_scales, length, output);
}

/* Writes a tile of floats as elements. */
static void write_elements(enum cshim_dtype dtype, const float *input, size_t length, void *output)
{
    if (dtype == CSHIM_FLOAT64) {
        widen_floats(input, length, output);
    } else if (dtype == CSHIM_FLOAT16) {
        cshim_level()->narrow_half(input, length, output);
    } else {
        /* These formats have no scales, so nothing is written to the last argument. */
        own_loops(cshim_level(), dtype)->encode(input, length, output, output);
    }
}

/* Encodes a tile of floats, the elements from `begin` on, with stochastic rounding. */
static CSHIM_APART void encode_at_random(const struct view *view,
                                         const struct cshim_encoding *encoding, const float *input,
                                         size_t length, size_t begin, uint8_t *payload,
                                         uint8_t *scales)
{
    _Alignas(LINE) uint32_t random[TILE + 2];
    const uint32_t *numbers =
        view->level->fill_random(encoding->key, encoding->first + begin, length, random);
    view->loops->encode_random(input, numbers, length, payload, scales);
}

/* Encodes a tile of floats, the elements from `begin` on. `encoding` has the options, or is NULL.
 */
static void encode_tile(const struct view *view, const struct cshim_encoding *encoding,
                        const float *input, size_t length, size_t begin, uint8_t *encoded)
{
    uint8_t *payload = encoded + cshim_payload_bytes(view->bits, begin);
    uint8_t *scales = encoded + scale_offset(view, begin);
    float *residual = encoding != NULL ? encoding->residual : NULL;
    if (residual != NULL) {
        const struct cshim_format format = cshim_format(view->info->id);
        residual += begin;
        view->level->add_residual(input, length, (size_t)cshim_feedback_block(format),
                                  cshim_feedback_share(format, encoding->stochastic), residual);
        input = residual;
    }
    if (encoding != NULL && encoding->stochastic && view->bits < 32)
        encode_at_random(view, encoding, input, length, begin, payload, scales);
    else
        view->loops->encode(input, length, payload, scales);
    if (residual != NULL)
        view->loops->rest(payload, scales, length, residual);
}

/* Encodes an array tile by tile, for element types other than float32, or with options. */
static CSHIM_APART void encode_tiles(const struct view *view, const uint8_t *input,
                                     const struct cshim_encoding *encoding, uint8_t *encoded)
{
    const size_t element = cshim_dtype_bytes(view->dtype);
    _Alignas(LINE) float tile[TILE];
    for (size_t begin = 0; begin < view->count; begin += TILE) {
        const size_t length = view->count - begin < TILE ? view->count - begin : TILE;
        const void *elements = input + begin * element;
        if (view->dtype != CSHIM_FLOAT32)
            read_elements(view->dtype, elements, length, tile);
        encode_tile(view, encoding, view->dtype == CSHIM_FLOAT32 ? elements : tile, length, begin,
                    encoded);
    }
}

static CSHIM_APART void encode(enum cshim_codec_id id, enum cshim_dtype dtype, const uint8_t *input,
                               size_t count, const struct cshim_encoding *encoding,
                               uint8_t *encoded)
{
    const struct view view = view_of(id, dtype, count);
    if (view.is_packed) {
        cshim_pack_tile(id, dtype, encoding, input, 0, count, count, encoded);
        return;
    }
    if (view.is_exact) {
        memcpy(encoded, input, count * cshim_dtype_bytes(dtype));
    } else if (dtype == CSHIM_FLOAT32 && encoding == NULL) {
        view.loops->encode((const float *)(const void *)input, count, encoded,
                           encoded + view.scales);
    } else {
        encode_tiles(&view, input, encoding, encoded);
    }
    pad(&view, encoded);
}

/* Returns the scales of a tile. */
static const uint8_t *scales_at(const struct view *view, const uint8_t *encoded, size_t begin)
{
    return view->is_exact ? unit_scales : encoded + scale_offset(view, begin);
}

typedef void decoding_loop(const uint8_t *, const uint8_t *, size_t, float *);

/* Decodes length elements of an encoded array from `begin` on by one of the view's loops. */
static void decode_floats(const struct view *view, decoding_loop *loop, const uint8_t *encoded,
                          size_t begin, size_t length, float *output)
{
    loop(encoded + cshim_payload_bytes(view->bits, begin), scales_at(view, encoded, begin), length,
         output);
}

/* The encoded arrays that are reduced. */
struct parts {
    const void *const *encoded; /* array of each rank */
    unsigned ranks;             /* number of arrays */
    /* Offsets of the next tile in the first 64 arrays, if these are packed. They are cached,
     * because adding up the lengths of all earlier grains may take longer than unpacking a tile. */
    size_t offsets[64];
};

/* Unpacks a tile of a rank's array. The tiles of an array come in order. */
static void unpack_part(const struct view *view, struct parts *parts, unsigned rank, size_t begin,
                        size_t length, void *output)
{
    const uint8_t *const packed = parts->encoded[rank];
    const bool is_known = begin > 0 && rank < sizeof parts->offsets / sizeof *parts->offsets;
    const size_t offset =
        is_known ? parts->offsets[rank] : cshim_packed_offset(packed, begin, view->count);
    const size_t next = cshim_unpack_tile(view->info->id, view->dtype, packed, offset, begin,
                                          length, view->count, output);
    if (rank < sizeof parts->offsets / sizeof *parts->offsets)
        parts->offsets[rank] = next;
}

/* Sums a tile of packed elements other than float64. Unpacks float32 of the first rank directly
 * into `sum`. */
static CSHIM_APART void sum_packed(const struct view *view, struct parts *parts, size_t begin,
                                   size_t length, float *sum)
{
    _Alignas(LINE) float unpacked[TILE];
    const bool is_float = view->dtype == CSHIM_FLOAT32;
    unpack_part(view, parts, 0, begin, length, is_float ? sum : unpacked);
    if (!is_float)
        view->loops->decode((const uint8_t *)unpacked, unit_scales, length, sum);
    for (unsigned rank = 1; rank < parts->ranks; rank++) {
        unpack_part(view, parts, rank, begin, length, unpacked);
        view->loops->add((const uint8_t *)unpacked, unit_scales, length, sum);
    }
}

/* Decodes an array to another type than float32, tile by tile. */
static CSHIM_APART void decode_tiles(const struct view *view, const uint8_t *encoded,
                                     uint8_t *output)
{
    const size_t element = cshim_dtype_bytes(view->dtype);
    _Alignas(LINE) float tile[TILE];
    for (size_t begin = 0; begin < view->count; begin += TILE) {
        const size_t length = view->count - begin < TILE ? view->count - begin : TILE;
        decode_floats(view, view->loops->decode, encoded, begin, length, tile);
        write_elements(view->dtype, tile, length, output + begin * element);
    }
}

static CSHIM_APART void decode(enum cshim_codec_id id, enum cshim_dtype dtype,
                               const uint8_t *encoded, size_t count, uint8_t *output)
{
    const struct view view = view_of(id, dtype, count);
    if (view.is_packed)
        cshim_unpack_tile(id, dtype, encoded, cshim_packed_table(count), 0, count, count, output);
    else if (view.is_exact)
        memcpy(output, encoded, count * cshim_dtype_bytes(dtype));
    else if (dtype == CSHIM_FLOAT32)
        view.loops->decode(encoded, encoded + view.scales, count, (float *)(void *)output);
    else
        decode_tiles(&view, encoded, output);
}

/* Sums length elements from `begin` on over all parts. */
static void sum_floats(const struct view *view, const struct parts *parts, size_t begin,
                       size_t length, float *sum)
{
    unsigned rank = 0;
    if (parts->ranks > 1) {
        const size_t codes = cshim_payload_bytes(view->bits, begin);
        const uint8_t *a = parts->encoded[0], *b = parts->encoded[1];
        view->loops->add_two(a + codes, scales_at(view, a, begin), b + codes,
                             scales_at(view, b, begin), length, sum);
        rank = 2;
    }
    for (; rank < parts->ranks; rank++)
        decode_floats(view, rank == 0 ? view->loops->decode : view->loops->add,
                      parts->encoded[rank], begin, length, sum);
}

/* Decodes a tile of a rank's elements of float64. */
static void load_doubles(const struct view *view, struct parts *parts, unsigned rank, size_t begin,
                         size_t length, double *values)
{
    _Alignas(LINE) float tile[TILE];
    const uint8_t *const part = parts->encoded[rank];
    if (view->is_packed) {
        unpack_part(view, parts, rank, begin, length, values);
    } else if (view->is_exact) {
        memcpy(values, part + begin * sizeof *values, length * sizeof *values);
    } else {
        decode_floats(view, view->loops->decode, part, begin, length, tile);
        widen_floats(tile, length, values);
    }
}

/* Sums a tile of elements of float64. */
static void sum_doubles(const struct view *view, struct parts *parts, size_t begin, size_t length,
                        double *sum)
{
    _Alignas(LINE) double values[TILE];
    load_doubles(view, parts, 0, begin, length, sum);
    for (unsigned rank = 1; rank < parts->ranks; rank++) {
        load_doubles(view, parts, rank, begin, length, values);
        for (size_t i = 0; i < length; i++)
            sum[i] = cshim_sum_double(sum[i], values[i]);
    }
}

/* Writes a tile of sums as elements: float64 from `wide`, other types from `sum`. */
static void write_sums(enum cshim_dtype dtype, const double *wide, const float *sum, size_t length,
                       void *output)
{
    if (dtype == CSHIM_FLOAT64)
        memcpy(output, wide, length * sizeof *wide);
    else
        write_elements(dtype, sum, length, output);
}

/* Sums elements other than float64, of codecs that are not packed. */
static CSHIM_APART void reduce_floats(const struct view *view, const struct parts *parts,
                                      uint8_t *output, uint8_t *reencoded,
                                      const struct cshim_encoding *encoding)
{
    const size_t element = cshim_dtype_bytes(view->dtype);
    float *const direct =
        view->dtype == CSHIM_FLOAT32 && reencoded == NULL ? (float *)(void *)output : NULL;
    _Alignas(LINE) float tile[TILE];
    for (size_t begin = 0; begin < view->count; begin += TILE) {
        const size_t length = view->count - begin < TILE ? view->count - begin : TILE;
        float *sum = direct != NULL ? direct + begin : tile;
        sum_floats(view, parts, begin, length, sum);
        if (output != NULL && direct == NULL)
            write_elements(view->dtype, sum, length, output + begin * element);
        if (reencoded != NULL && view->is_exact)
            write_elements(view->dtype, sum, length, reencoded + begin * element);
        else if (reencoded != NULL)
            encode_tile(view, encoding, sum, length, begin, reencoded);
    }
}

/* Sums elements of float64, or of packed codecs. */
static CSHIM_APART void reduce_any(const struct view *view, struct parts *parts, uint8_t *output,
                                   uint8_t *reencoded, const struct cshim_encoding *encoding)
{
    const size_t element = cshim_dtype_bytes(view->dtype);
    _Alignas(LINE) double wide[TILE], sums[TILE];
    _Alignas(LINE) float tile[TILE];
    for (size_t begin = 0; begin < view->count; begin += TILE) {
        const size_t length = view->count - begin < TILE ? view->count - begin : TILE;
        if (view->dtype == CSHIM_FLOAT64)
            sum_doubles(view, parts, begin, length, wide);
        else
            sum_packed(view, parts, begin, length, tile);
        if (output != NULL)
            write_sums(view->dtype, wide, tile, length, output + begin * element);
        if (reencoded != NULL && view->is_packed) {
            write_sums(view->dtype, wide, tile, length, sums);
            cshim_pack_tile(view->info->id, view->dtype, encoding, (const uint8_t *)sums, begin,
                            length, view->count, reencoded);
        } else if (reencoded != NULL && view->is_exact) {
            write_sums(view->dtype, wide, tile, length, reencoded + begin * element);
        } else if (reencoded != NULL) {
            narrow_doubles(wide, length, tile);
            encode_tile(view, encoding, tile, length, begin, reencoded);
        }
    }
}

/* Implements cshim_reduce_with(). Each tile of all parts is read before that tile of `output` is
 * written, so in raw `output` may be one of the parts, except for float32 with `reencoded` NULL:
 * then sums are accumulated in `output`, one part after the other. */
static CSHIM_APART void reduce(enum cshim_codec_id id, enum cshim_dtype dtype,
                               const void *const *encoded, unsigned ranks, size_t count,
                               uint8_t *output, uint8_t *reencoded,
                               const struct cshim_encoding *encoding)
{
    const struct view view = view_of(id, dtype, count);
    struct parts parts;
    parts.encoded = encoded;
    parts.ranks = ranks;
    if (dtype == CSHIM_FLOAT64 || view.is_packed)
        reduce_any(&view, &parts, output, reencoded, encoding);
    else
        reduce_floats(&view, &parts, output, reencoded, encoding);
    if (reencoded != NULL && !view.is_packed)
        pad(&view, reencoded);
}

void cshim_encode_with(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input,
                       size_t count, const struct cshim_encoding *encoding, void *encoded)
{
    if (count == 0)
        return;
    const cshim_arithmetic programs = cshim_arithmetic_begin();
    encode(id, dtype, input, count, encoding, encoded);
    cshim_arithmetic_end(&programs);
}

void cshim_encode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *input, size_t count,
                  void *encoded)
{
    cshim_encode_with(id, dtype, input, count, NULL, encoded);
}

void cshim_decode(enum cshim_codec_id id, enum cshim_dtype dtype, const void *encoded, size_t count,
                  void *output)
{
    if (count == 0)
        return;
    const cshim_arithmetic programs = cshim_arithmetic_begin();
    decode(id, dtype, encoded, count, output);
    cshim_arithmetic_end(&programs);
}

void cshim_reduce_with(enum cshim_codec_id id, enum cshim_dtype dtype, const void *const *parts,
                       unsigned ranks, size_t count, void *output, void *reencoded,
                       const struct cshim_encoding *encoding)
{
    if (count == 0)
        return;
    const cshim_arithmetic programs = cshim_arithmetic_begin();
    reduce(id, dtype, parts, ranks, count, output, reencoded, encoding);
    cshim_arithmetic_end(&programs);
}

/* Sums float32 in a tile of its own, because `output` may be an input, but cshim_reduce() writes
 * float32 sums directly. cshim_reduce() of other types reads a tile of both inputs before it writes
 * that tile of the output. */
void cshim_add(enum cshim_dtype dtype, void *output, const void *a, const void *b, size_t count)
{
    _Alignas(LINE) float tile[TILE];
    if (dtype != CSHIM_FLOAT32) {
        cshim_reduce(CSHIM_CODEC_RAW, dtype, (const void *[]){a, b}, 2, count, output, NULL);
        return;
    }
    for (size_t first = 0; first < count; first += TILE) {
        const size_t length = count - first < TILE ? count - first : TILE;
        const void *const parts[] = {(const float *)a + first, (const float *)b + first};
        cshim_reduce(CSHIM_CODEC_RAW, dtype, parts, 2, length, tile, NULL);
        memcpy((float *)output + first, tile, length * sizeof *tile);
    }
}

void cshim_reduce(enum cshim_codec_id id, enum cshim_dtype dtype, const void *const *parts,
                  unsigned ranks, size_t count, void *output, void *reencoded)
{
    cshim_reduce_with(id, dtype, parts, ranks, count, output, reencoded, NULL);
}
