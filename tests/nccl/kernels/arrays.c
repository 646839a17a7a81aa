/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/arrays.h"

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

float value_of(enum kind kind)
{
    static const uint32_t rare[] = {0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x80000000,
                                    1,          0x7f7fffff, 0x00800000, 0x7f800001, 0xff7fffff};
    const double uniform = (double)(next_random() >> 11) * 0x1p-53;
    const double normal = uniform + (double)(next_random() >> 11) * 0x1p-53 +
                          (double)(next_random() >> 11) * 0x1p-53 - 1.5;
    switch (kind) {
    case NORMAL:
        return (float)normal;
    case ANY_BITS:
        return cshim_bits_float((uint32_t)next_random());
    case SPARSE_RARE:
        return next_random() % 97 == 0 ? cshim_bits_float(rare[next_random() % 10]) : (float)normal;
    case ZEROS:
        return next_random() % 2 ? 0.0f : -0.0f;
    case HUGE_VALUES:
        return (float)(normal * 0x1p127);
    default:
        return (float)(normal * 0x1p-140);
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

void fill(enum cshim_dtype dtype, enum kind kind, void *buffer, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_element(dtype, buffer, i, value_of(kind));
    if (kind != ANY_BITS)
        return;
    unsigned char *bytes = buffer;
    for (size_t i = 0; i < count * cshim_dtype_bytes(dtype); i++)
        bytes[i] = (unsigned char)next_random();
}

struct array make_array(size_t bytes, size_t shift)
{
    struct array array = {.bytes = bytes, .shift = shift};
    array.host = room_for(bytes + ROOM);
    memset(array.host, PAINT, bytes + ROOM);
    array.base = machine_allocate(bytes + shift + 2 * ROOM);
    array.device = array.base + ROOM + shift;
    machine_bounds(array.base, array.device, bytes);
    return array;
}

void give_array(const struct array *array)
{
    unsigned char *paint = room_for(array->bytes + array->shift + 2 * ROOM);
    memset(paint, PAINT, array->bytes + array->shift + 2 * ROOM);
    memcpy(paint + ROOM + array->shift, array->host, array->bytes);
    machine_write(array->base, paint, array->bytes + array->shift + 2 * ROOM);
    free(paint);
}

bool is_as_expected(const struct array *array)
{
    const size_t bytes = array->bytes + array->shift + 2 * ROOM;
    unsigned char *got = room_for(bytes);
    machine_read(got, array->base, bytes);
    bool good = memcmp(got + ROOM + array->shift, array->host, array->bytes) == 0;
    for (size_t i = 0; i < ROOM + array->shift; i++)
        good = good && got[i] == PAINT;
    for (size_t i = ROOM + array->shift + array->bytes; i < bytes; i++)
        good = good && got[i] == PAINT;
    free(got);
    return good;
}

void drop_array(struct array *array)
{
    free(array->host);
    machine_free(array->base);
}
