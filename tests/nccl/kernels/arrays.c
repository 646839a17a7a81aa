/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/arrays.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codecs/scalar.h"
#include "tests/nccl/kernels/machine.h"

enum { PAINT = 0xa5, ROOM = 256 };

static uint64_t random_state = 1;

uint64_t next_random(void)
{
    random_state += CSHIM_GOLDEN;
    return cshim_mix(random_state);
}

void *room_for(size_t bytes)
{
    void *memory = malloc(bytes + 1);
    if (memory == NULL) {
        fprintf(stderr, "kernel_cases: no memory for %zu bytes\n", bytes);
        exit(1);
    }
    return memory;
}

static float rare_value(void)
{
    static const uint32_t rare[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x80000000,
                                    1,          0x7f7fffff, 0x00800000, 0x7f800001, 0xff7fffff};
    return cshim_bits_float(rare[next_random() % 10]);
}

/* Returns a value with up to 12 significant bits, one more than fp16 has. */
static float graded_value(void)
{
    const int largest = 2 << next_random() % 12, exponent = -(int)(next_random() % 28);
    return ldexpf((float)(int)(next_random() % (2 * (unsigned)largest + 1)) - (float)largest,
                  exponent);
}

float value_of(enum distribution kind)
{
    const double uniform = (double)(next_random() >> 11) * 0x1p-53;
    const double normal = uniform + (double)(next_random() >> 11) * 0x1p-53 +
                          (double)(next_random() >> 11) * 0x1p-53 - 1.5;
    switch (kind) {
    case ANY_BITS:
        return cshim_bits_float((uint32_t)next_random());
    case SPARSE_RARE:
        return next_random() % 97 == 0 ? rare_value() : (float)normal;
    case ZEROS:
        return next_random() % 2 ? 0.0f : -0.0f;
    case GRADED:
        return graded_value();
    case HUGE_VALUES:
        return (float)(normal * 0x1p127);
    default:
        return (float)normal;
    }
}

static void put_element(enum cshim_dtype dtype, void *buffer, size_t i, float value)
{
    if (dtype == CSHIM_FLOAT64)
        ((double *)buffer)[i] = (double)value * (i % 5 == 0 ? 1e30 : 1.0 + 1e-9);
    else if (dtype == CSHIM_FLOAT32)
        memcpy((float *)buffer + i, &value, sizeof value);
    else
        ((uint16_t *)buffer)[i] =
            dtype == CSHIM_FLOAT16 ? cshim_half_from_float(value) : cshim_bf16_encode(value);
}

/* Fills a buffer with values that are subnormal in float32; in float64 every fifth one is larger by
 * a factor of 1e30. */
static void fill_tiny(enum cshim_dtype dtype, void *buffer, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_element(dtype, buffer, i, ldexpf(value_of(NORMAL), -138 - (int)(i / CSHIM_GRAIN % 12)));
}

static void fill_mixed(enum cshim_dtype dtype, void *buffer, size_t count)
{
    static const int exponents[] = {-140, -20, -8, 0, 0, 8, 14, 100};
    int exponent = 0;
    size_t rare = 0;
    for (size_t i = 0; i < count; i++) {
        if (i % 8 == 0) {
            exponent = exponents[cshim_mix(i / 8) % 8];
            rare = i + next_random() % 12;
        }
        put_element(dtype, buffer, i,
                    i == rare ? rare_value() : ldexpf(value_of(NORMAL), exponent));
    }
}

/* Puts one special value among the eight elements that a lane loads at once, at each index in turn.
 */
static void fill_lone(enum cshim_dtype dtype, uint32_t magnitude, void *buffer, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const bool is_special = i % 8 == i / 8 % 8;
        const float special = cshim_bits_float(magnitude | (uint32_t)next_random() << 31);
        put_element(dtype, buffer, i, is_special ? special : value_of(NORMAL));
    }
}

void fill(enum cshim_dtype dtype, enum distribution kind, void *buffer, size_t count)
{
    if (kind == LONE_NANS || kind == LONE_LARGEST) {
        fill_lone(dtype, kind == LONE_NANS ? 0x7fc12345u : 0x7f7f0000u, buffer, count);
        return;
    }
    if (kind == MIXED)
        fill_mixed(dtype, buffer, count);
    else if (kind == TINY_VALUES)
        fill_tiny(dtype, buffer, count);
    for (size_t i = 0; i < count && kind != MIXED && kind != TINY_VALUES; i++)
        put_element(dtype, buffer, i, value_of(kind));
    if (kind != ANY_BITS)
        return;
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < count * cshim_dtype_bytes(dtype); i++)
        bytes[i] = (unsigned char)next_random();
}

void damage(unsigned char *bytes, size_t count)
{
    for (size_t i = next_random() % 31; i < count; i += 1 + next_random() % 31)
        bytes[i] = (unsigned char)next_random();
}

/* Allocates the array on the host, for the parts added before, and the machine's array of `bytes`
 * bytes. */
static void place_array(struct array *array, uint64_t bytes)
{
    for (unsigned i = 0; i < array->part_count; i++)
        array->bytes += array->parts[i].bytes;
    array->host = room_for(array->bytes + ROOM);
    memset(array->host, PAINT, array->bytes + ROOM);
    array->base = machine_allocate(bytes + array->shift + 2 * ROOM);
    array->device = array->base + ROOM + array->shift;
    machine_bounds(array->base, array->device, bytes);
}

struct array make_array(size_t bytes, size_t shift)
{
    struct array array = {.shift = shift, .parts = {{0, bytes}}, .part_count = 1};
    place_array(&array, bytes);
    return array;
}

void give_array(const struct array *array)
{
    const unsigned char *from = array->host;
    for (const struct part *part = array->parts; part < array->parts + array->part_count; part++) {
        unsigned char *paint = room_for(part->bytes + 2 * ROOM);
        memset(paint, PAINT, part->bytes + 2 * ROOM);
        memcpy(paint + ROOM, from, part->bytes);
        machine_write(array->device + part->at - ROOM, paint, part->bytes + 2 * ROOM);
        free(paint);
        from += part->bytes;
    }
}

bool is_as_expected(const struct array *array)
{
    const unsigned char *want = array->host;
    bool good = true;
    for (const struct part *part = array->parts; part < array->parts + array->part_count; part++) {
        const size_t bytes = part->bytes + 2 * ROOM;
        unsigned char *got = room_for(bytes);
        machine_read(got, array->device + part->at - ROOM, bytes);
        good = good && memcmp(got + ROOM, want, part->bytes) == 0;
        for (size_t i = 0; i < ROOM; i++)
            good = good && got[i] == PAINT && got[bytes - 1 - i] == PAINT;
        free(got);
        want += part->bytes;
    }
    return good;
}

void drop_array(struct array *array)
{
    free(array->host);
    machine_free(array->base);
}

/* Adds a part: the host's next bytes are those at offset `at` in the machine's array. Extends the
 * previous part if they follow it. */
static void add_part(struct array *array, uint64_t at, size_t bytes)
{
    struct part *part = &array->parts[array->part_count];
    if (array->part_count > 0 && part[-1].at + part[-1].bytes == at)
        part[-1].bytes += bytes;
    else if (bytes > 0)
        array->parts[array->part_count++] = (struct part){at, bytes};
}

static const uint64_t large_begins[] = {0, (uint64_t)1 << 31, (uint64_t)1 << 32};
enum { LARGE_BEGINS = 3 };

/* Returns the number of elements that the host keeps from index `begin` on. */
static uint64_t kept_from(uint64_t begin, uint64_t count)
{
    const uint64_t left = count > begin ? count - begin : 0;
    return left < LARGE_EACH ? left : LARGE_EACH;
}

uint64_t large_kept(uint64_t count)
{
    uint64_t kept = 0;
    for (int i = 0; i < LARGE_BEGINS; i++)
        kept += kept_from(large_begins[i], count);
    return kept;
}

struct array make_large_elements(size_t element, uint64_t count)
{
    struct array array = {0};
    for (int i = 0; i < LARGE_BEGINS; i++)
        add_part(&array, element * large_begins[i], element * kept_from(large_begins[i], count));
    place_array(&array, element * count);
    return array;
}

/* Adds the parts that the host has of an array of codes or scales, with `per_grain` bytes for each
 * grain and padding at the end. */
static void add_row(struct array *array, uint64_t at, uint64_t per_grain, uint64_t count,
                    uint64_t bytes)
{
    for (int i = 0; i < LARGE_BEGINS && large_begins[i] < count; i++) {
        const uint64_t begin = large_begins[i] / CSHIM_GRAIN * per_grain;
        const uint64_t each = LARGE_EACH / CSHIM_GRAIN * per_grain;
        add_part(array, at + begin, begin + each < bytes ? each : bytes - begin);
    }
}

struct array make_large_messages(enum cshim_codec_id codec, enum cshim_dtype dtype,
                                 const uint64_t *elements, unsigned messages, size_t header,
                                 uint64_t stride)
{
    const struct cshim_format format = cshim_format(codec);
    const bool is_raw = codec == CSHIM_CODEC_RAW;
    const unsigned bits = is_raw ? 8 * (unsigned)cshim_dtype_bytes(dtype) : (unsigned)format.bits;
    const unsigned scales = is_raw ? 0 : CSHIM_GRAIN / format.block * format.scale_bytes;
    struct array array = {0};
    for (unsigned message = 0; message < messages; message++) {
        const uint64_t count = elements[message], at = message * stride + header;
        const uint64_t padded = cshim_payload_bytes(bits, count) + CSHIM_WIRE_ALIGN - 1;
        const uint64_t payload = padded / CSHIM_WIRE_ALIGN * CSHIM_WIRE_ALIGN;
        add_part(&array, at - header, header);
        add_row(&array, at, bits * CSHIM_GRAIN / 8, count, payload);
        if (scales > 0)
            add_row(&array, at + payload, scales, count,
                    cshim_encoded_bytes(codec, dtype, count) - payload);
    }
    place_array(&array, messages * stride);
    return array;
}
