/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the speed of the codecs on one core, compared with memcpy of the same floats in the same
 * run.
 *
 * Repetitions of the codecs are interleaved and medians printed, so that changes of the machine's
 * speed affect all alike. GB/s are 10^9 bytes of float32 per second, whatever the length of the
 * encoded data; for reduce, bytes of the result. "with feedback" and "at random" are encodings with
 * error feedback and with stochastic rounding. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/codec.h"
#include "shim/core/clock.h"
#include "tests/bench/times.h"

enum { PARTS = 4, MAX_REPEATS = 101 };
enum work { ENCODE, FEEDBACK, STOCHASTIC, DECODE, REDUCE, WORK_COUNT };

struct options {
    size_t mebibytes;
    int repeats;
    const char *json;
};

struct bench {
    size_t count;
    float *input;
    float *output;
    float *residual;
    void *parts[PARTS];
    double memcpy_seconds[MAX_REPEATS];
    double seconds[CSHIM_CODEC_COUNT][WORK_COUNT][MAX_REPEATS];
};

static const char *const work_names[WORK_COUNT] = {"encode", "feedback", "stochastic", "decode",
                                                   "reduce"};

/* Allocates memory and touches its pages, so that page faults are not timed. */
static void *touched_memory(size_t bytes)
{
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    if (memory == NULL) {
        fprintf(stderr, "codec_bench: no memory for %zu bytes: use a smaller --size\n", bytes);
        exit(3);
    }
    memset(memory, 1, bytes);
    return memory;
}

/* Fills in numbers with a bell-shaped distribution, like gradients. */
static void fill_normal(float *values, size_t count)
{
    unsigned random = 1;
    for (size_t i = 0; i < count; i++) {
        int sum = 0;
        for (int k = 0; k < 4; k++) {
            random = random * 1664525u + 1013904223u;
            sum += (int)(random >> 16) - 32768;
        }
        values[i] = (float)sum * 1e-6f;
    }
}

static double measure(struct bench *bench, enum cshim_codec_id id, enum work work)
{
    const struct cshim_encoding encoding = {.residual = work == FEEDBACK ? bench->residual : NULL,
                                            .stochastic = work == STOCHASTIC};
    double begin = cshim_seconds();
    if (work == ENCODE) {
        cshim_encode(id, CSHIM_FLOAT32, bench->input, bench->count, bench->parts[0]);
    } else if (work == FEEDBACK || work == STOCHASTIC) {
        cshim_encode_with(id, CSHIM_FLOAT32, bench->input, bench->count, &encoding,
                          bench->parts[0]);
    } else if (work == DECODE) {
        cshim_decode(id, CSHIM_FLOAT32, bench->parts[0], bench->count, bench->output);
    } else {
        const void *parts[PARTS] = {bench->parts[0], bench->parts[1], bench->parts[2],
                                    bench->parts[3]};
        cshim_reduce(id, CSHIM_FLOAT32, parts, PARTS, bench->count, bench->output, NULL);
    }
    return cshim_seconds() - begin;
}

/* Returns the next codec. Leaves out bounded, which is lossless without a bound and has its own
 * benchmark, and topk, which sends all elements without error feedback. */
static int next_of(int id)
{
    do
        id++;
    while (id == CSHIM_CODEC_BOUNDED || id == CSHIM_CODEC_TOPK);
    return id;
}

static void run_codecs(struct bench *bench, int repeats)
{
    for (int repeat = 0; repeat < repeats; repeat++) {
        for (int id = CSHIM_CODEC_FP32; id < CSHIM_CODEC_COUNT; id = next_of(id)) {
            enum cshim_codec_id codec = (enum cshim_codec_id)id;
            for (int part = 1; part < PARTS; part++)
                cshim_encode(codec, CSHIM_FLOAT32, bench->input, bench->count, bench->parts[part]);
            memset(bench->residual, 0, bench->count * sizeof *bench->residual);
            for (int work = 0; work < WORK_COUNT; work++)
                bench->seconds[id][work][repeat] = measure(bench, codec, (enum work)work);
        }
        double begin = cshim_seconds();
        memcpy(bench->output, bench->input, bench->count * sizeof *bench->input);
        bench->memcpy_seconds[repeat] = cshim_seconds() - begin;
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\rrepetition %d of %d", repeat + 1, repeats);
    }
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%*s\r", 40, "");
}

static double gigabytes_per_second(const struct bench *bench, double *seconds, int repeats)
{
    return (double)bench->count * 4e-9 / median_of(seconds, (size_t)repeats);
}

static void report(struct bench *bench, const struct options *options, FILE *json)
{
    double copy = gigabytes_per_second(bench, bench->memcpy_seconds, options->repeats);
    const char *level = cshim_simd_name(cshim_simd_level());
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
    printf("SIMD %s, last-level cache %ld MiB, %zu MiB of float32, median of %d\n", level,
           cache > 0 ? cache >> 20 : 0, options->mebibytes, options->repeats);
    printf("memcpy %.2f GB/s; each cell: GB/s of float32, ratio to memcpy\n", copy);
    printf("%-9s %15s %15s %15s %15s %15s\n", "codec", "encode", "  with feedback", "at random",
           "decode", "reduce of 4");
    fprintf(json, "{\"simd\": \"%s\", \"mebibytes\": %zu, \"repeats\": %d, \"memcpy\": %.3f", level,
            options->mebibytes, options->repeats, copy);
    for (int id = CSHIM_CODEC_FP32; id < CSHIM_CODEC_COUNT; id = next_of(id)) {
        const char *name = cshim_codec_name((enum cshim_codec_id)id);
        printf("%-9s", name);
        fprintf(json, ", \"%s\": {", name);
        for (int work = 0; work < WORK_COUNT; work++) {
            double speed = gigabytes_per_second(bench, bench->seconds[id][work], options->repeats);
            printf(" %8.2f %6.2f", speed, speed / copy);
            fprintf(json, "%s\"%s\": %.3f", work > 0 ? ", " : "", work_names[work], speed);
        }
        printf("\n");
        fprintf(json, "}");
    }
    fprintf(json, "}\n");
}

static int usage(const char *problem, const char *value)
{
    fprintf(stderr,
            "codec_bench: %s '%s'\n"
            "usage: codec_bench [--size MiB] [--repeats N] [--level scalar|avx2|avx512] "
            "[--json FILE]\n",
            problem, value);
    return 2;
}

static int set_level(const char *name)
{
    for (int level = CSHIM_SIMD_SCALAR; level <= CSHIM_SIMD_AVX512; level++) {
        if (strcmp(name, cshim_simd_name((enum cshim_simd)level)) == 0) {
            return cshim_simd_limit((enum cshim_simd)level) == (enum cshim_simd)level
                       ? 0
                       : usage("this processor does not have", name);
        }
    }
    return usage("unknown level", name);
}

/* Reads an integer from 1 to limit. */
static int set_number(const char *text, long limit, long *number)
{
    char *end;
    *number = strtol(text, &end, 10);
    return end != text && *end == '\0' && *number >= 1 && *number <= limit
               ? 0
               : usage("not a number in range", text);
}

static int parse(int argc, char **argv, struct options *options)
{
    for (int i = 1; i < argc; i += 2) {
        long number = 0;
        int status = 0;
        if (i + 1 == argc)
            return usage("unknown option, or one without its value", argv[i]);
        if (strcmp(argv[i], "--size") == 0) {
            status = set_number(argv[i + 1], 1L << 20, &number);
            options->mebibytes = (size_t)number;
        } else if (strcmp(argv[i], "--repeats") == 0) {
            status = set_number(argv[i + 1], MAX_REPEATS, &number);
            options->repeats = (int)number;
        } else if (strcmp(argv[i], "--level") == 0) {
            status = set_level(argv[i + 1]);
        } else if (strcmp(argv[i], "--json") == 0) {
            options->json = argv[i + 1];
        } else {
            status = usage("unknown option", argv[i]);
        }
        if (status != 0)
            return status;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    struct options options = {.mebibytes = 256, .repeats = 9, .json = "/dev/null"};
    int status = parse(argc, argv, &options);
    if (status != 0)
        return status;
    FILE *json = fopen(options.json, "w");
    if (json == NULL) {
        fprintf(stderr, "codec_bench: cannot write %s: %s\n", options.json, strerror(errno));
        return 3;
    }
    bench.count = options.mebibytes << 18;
    size_t bytes = bench.count * sizeof *bench.input;
    bench.input = touched_memory(bytes);
    bench.output = touched_memory(bytes);
    bench.residual = touched_memory(bytes);
    size_t longest = 0;
    for (int id = CSHIM_CODEC_FP32; id < CSHIM_CODEC_COUNT; id++) {
        size_t encoded = cshim_encoded_bytes((enum cshim_codec_id)id, CSHIM_FLOAT32, bench.count);
        longest = encoded > longest ? encoded : longest;
    }
    for (int part = 0; part < PARTS; part++)
        bench.parts[part] = touched_memory(longest);
    fill_normal(bench.input, bench.count);
    run_codecs(&bench, options.repeats);
    report(&bench, &options, json);
    for (int part = 0; part < PARTS; part++)
        free(bench.parts[part]);
    free(bench.input);
    free(bench.output);
    free(bench.residual);
    return fclose(json) == 0 ? 0 : 3;
}
