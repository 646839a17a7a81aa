/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the bytes per second that the kernels encode, decode and reduce read and write, and the
 * ratio to a copy within the device, which is measured before each kernel. Elements are float32,
 * and each kernel works on one piece. Prints a JSON array.
 *   kernels_bandwidth [MAXIMUM_MIB] (1024) */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/times.h"
#include "tests/nccl/kernels/gpu.h"
#include "tests/nccl/kernels/machine.h"

enum { HEADER = 4 * CSHIM_KERNEL_HEADER_WORDS, RANKS_MAX = 8, REPEATS = 9, MIB = 1 << 20 };

struct kernel_setting {
    enum cshim_codec_id codec;
    uint64_t count;
    size_t message;
    unsigned ranks; /* number of contributions to add */
    void *values, *other, *parts, *sum;
    void *output; /* buffer for sums that are not encoded, or NULL */
    uint32_t *fault;
};

static bool is_first = true;
static const uint32_t header[CSHIM_KERNEL_HEADER_WORDS];

static void encode(const struct kernel_setting *setting)
{
    struct cshim_kernel_encode parameters = {.dtype = CSHIM_FLOAT32,
                                             .input = setting->values,
                                             .input_stride = setting->count,
                                             .count = setting->count,
                                             .chunk = setting->count,
                                             .pieces = 1,
                                             .encoded = setting->parts,
                                             .stride = setting->message,
                                             .factor = 1};
    machine_launch(CSHIM_KERNEL_ENCODE, setting->codec, setting->count, &parameters);
}

static void decode(const struct kernel_setting *setting)
{
    struct cshim_kernel_decode parameters = {.dtype = CSHIM_FLOAT32,
                                             .encoded = setting->parts,
                                             .stride = setting->message,
                                             .count = setting->count,
                                             .chunk = setting->count,
                                             .pieces = 1,
                                             .output = setting->other,
                                             .output_stride = setting->count,
                                             .fault = setting->fault};
    memcpy(parameters.header, header, sizeof header);
    machine_launch(CSHIM_KERNEL_DECODE, setting->codec, setting->count, &parameters);
}

static void reduce(const struct kernel_setting *setting)
{
    struct cshim_kernel_reduce parameters = {.dtype = CSHIM_FLOAT32,
                                             .parts = setting->parts,
                                             .stride = setting->message,
                                             .count = setting->count,
                                             .ranks = setting->ranks,
                                             .output = setting->output,
                                             .reencoded = setting->output ? NULL : setting->sum,
                                             .factor = 1,
                                             .fault = setting->fault};
    machine_launch(CSHIM_KERNEL_REDUCE, setting->codec, setting->count, &parameters);
}

static void copy_on_device(const struct kernel_setting *setting)
{
    gpu_check(gpu_cuda()->MemcpyDtoDAsync((CUdeviceptr)(uintptr_t)setting->other,
                                          (CUdeviceptr)(uintptr_t)setting->values,
                                          setting->count * sizeof(float), NULL),
              "copying");
}

/* Returns the median seconds of REPEATS runs. */
static double seconds_of(void (*run)(const struct kernel_setting *),
                         const struct kernel_setting *setting)
{
    const struct cshim_cuda *cuda = gpu_cuda();
    CUevent begin, end;
    float milliseconds;
    double seconds[REPEATS];
    gpu_check(cuda->EventCreate(&begin, CU_EVENT_DEFAULT), "an event");
    gpu_check(cuda->EventCreate(&end, CU_EVENT_DEFAULT), "an event");
    run(setting);
    for (int i = 0; i < REPEATS; i++) {
        gpu_check(cuda->EventRecord(begin, NULL), "an event");
        run(setting);
        gpu_check(cuda->EventRecord(end, NULL), "an event");
        gpu_check(cuda->EventSynchronize(end), "a kernel");
        gpu_check(cuda->EventElapsedTime(&milliseconds, begin, end), "an event");
        seconds[i] = (double)milliseconds * 1e-3;
    }
    cuda->EventDestroy(begin);
    cuda->EventDestroy(end);
    return median_of(seconds, REPEATS);
}

static void measure(const char *name, void (*run)(const struct kernel_setting *), double bytes,
                    const struct kernel_setting *setting)
{
    const double copied = 2.0 * (double)setting->count * sizeof(float);
    const double copying = copied / seconds_of(copy_on_device, setting);
    const double seconds = seconds_of(run, setting);
    printf("%s\n  {\"kernel\": \"%s\", \"codec\": \"%s\", \"parts\": %u, \"bytes\": %llu, "
           "\"seconds\": %.3g, "
           "\"bytes_per_second\": %.4g, \"copy_bytes_per_second\": %.4g, \"of_copy\": %.3f}",
           is_first ? "[" : ",", name, cshim_codec_name(setting->codec), setting->ranks,
           (unsigned long long)setting->count * sizeof(float), seconds, bytes / seconds, copying,
           bytes / seconds / copying);
    is_first = false;
}

/* Fills a buffer with random numbers between -1 and 1, which repeat after 2^20 elements. */
static void fill(void *values, size_t count)
{
    enum { TILE = 1 << 20 };
    float *tile = malloc(TILE * sizeof *tile);
    uint32_t state = 1;
    if (tile == NULL)
        exit(1);
    for (size_t i = 0; i < TILE; i++) {
        state = state * 1664525u + 1013904223u;
        tile[i] = (float)(int32_t)state * 0x1p-31f;
    }
    for (size_t i = 0; i < count; i += TILE)
        machine_write((float *)values + i, tile,
                      (count - i < TILE ? count - i : TILE) * sizeof *tile);
    free(tile);
}

int main(int argc, char **argv)
{
    const size_t maximum = argc > 1 ? strtoul(argv[1], NULL, 10) : 1024;
    machine_open();
    struct kernel_setting setting = {.values = machine_allocate(maximum * MIB),
                                     .other = machine_allocate(maximum * MIB),
                                     .parts = machine_allocate(RANKS_MAX * (maximum * MIB + 4096)),
                                     .sum = machine_allocate(maximum * MIB + 4096),
                                     .fault = machine_allocate(4 * CSHIM_KERNEL_FAULT_WORDS)};
    fill(setting.values, maximum * MIB / sizeof(float));
    gpu_check(gpu_cuda()->MemsetD32Async((CUdeviceptr)(uintptr_t)setting.fault, 0,
                                         CSHIM_KERNEL_FAULT_WORDS, NULL),
              "clearing");
    for (enum cshim_codec_id codec = CSHIM_CODEC_RAW; codec < CSHIM_CODEC_COUNT; codec++) {
        if (cshim_codec_is_packed(codec)) /* codecs without kernels */
            continue;
        for (size_t size = 1; size <= maximum; size *= 4) {
            setting.codec = codec;
            setting.count = size * MIB / sizeof(float);
            const size_t encoded = cshim_encoded_bytes(codec, CSHIM_FLOAT32, setting.count);
            setting.message = HEADER + encoded;
            const double plain = (double)(setting.count * sizeof(float));
            setting.ranks = 1;
            measure("encode", encode, plain + (double)encoded, &setting);
            const size_t message = setting.message; /* bytes, equal for all ranks */
            for (int rank = 1; rank < RANKS_MAX; rank++)
                gpu_check(gpu_cuda()->MemcpyDtoDAsync(
                              (CUdeviceptr)(uintptr_t)setting.parts + rank * message,
                              (CUdeviceptr)(uintptr_t)setting.parts, message, NULL),
                          "copying");
            measure("decode", decode, plain + (double)encoded, &setting);
            for (setting.ranks = 4; setting.ranks <= RANKS_MAX; setting.ranks *= 2) {
                setting.output = NULL;
                measure("reduce", reduce, (setting.ranks + 1) * (double)encoded, &setting);
                setting.output = setting.other;
                measure("reduce to elements", reduce, setting.ranks * (double)encoded + plain,
                        &setting);
            }
        }
    }
    printf("\n]\n");
    return 0;
}
