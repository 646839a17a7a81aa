/* SPDX-License-Identifier: Apache-2.0 */
/* Calls gloo::allreduce in many shapes. Rank 0 compares each result element by element with a
 * float64 sum, within the codec's published bound. All ranks must have the same bits. Each rank
 * prints one digest of all results. tests/sums.h has what this program shares with
 * tests/mpi/allreduce.c.
 *
 *   gloo_allreduce CODEC STEPS [DTYPE]
 *   gloo_allreduce all ALGORITHM      the codecs of takes() (tests/sums.h), under the policy that
 *                                     --policy ALGORITHM prints
 *   gloo_allreduce repeat CALLS       prints the relative distance of CALLS sums' mean from the sum
 */
#include "tests/gloo/job.h"
#include "tests/sums.h"

static struct context *world;
static int rank, ranks;
static unsigned calls;

static void check_call(struct context *context, const struct sum_call *call)
{
    char *wrong = allreduce(context, call);
    if (wrong != NULL) {
        fprintf(stderr, "rank %d: %s\n", rank, wrong);
        exit(3);
    }
}

/* Checks that all ranks have the same bits. */
static void compare_ranks(const void *result, size_t bytes)
{
    const int64_t own = (int64_t)cshim_hash_bytes(CSHIM_HASH_EMPTY, result, bytes);
    int64_t both[2] = {own, ~own};
    struct sum_call call = {.type = INT64, .operation = LARGEST, .outputs = 1, .count = 2};
    call.output[0] = both;
    check_call(world, &call);
    if (both[0] != ~both[1] && failures++ < 10)
        fprintf(stderr, "ranks hold different results (%zu bytes)\n", bytes);
}

/* APART: one input and one output. IN_PLACE: an output without input. SAME_BUFFER: one buffer as
 * both. SEVERAL: several inputs and outputs. OUTPUTS_ONLY: several outputs, which are also the
 * inputs. */
enum shape { APART, IN_PLACE, SAME_BUFFER, SEVERAL, OUTPUTS_ONLY, SHAPES };

/* Fills one of several input buffers. Each element is in one of them and 0 in the others, so that
 * their sum is exact. */
static void fill_input(unsigned char *buffer, enum data data, size_t count, unsigned own,
                       unsigned inputs)
{
    for (size_t i = 0; i < count; i++)
        store(buffer, i, i % inputs == own ? element(data, rank, ranks, i) : 0);
}

static unsigned char *guarded(size_t bytes, size_t shift)
{
    unsigned char *memory = malloc(shift + bytes + 64);
    memset(memory, 0xa5, shift + bytes + 64);
    return memory + shift;
}

static void check_result(enum data data, const struct sum_call *call)
{
    const size_t bytes = call->count * element_bytes(call->type);
    for (unsigned b = 0; b < call->outputs; b++) {
        const unsigned char *result = call->output[b];
        for (size_t i = 0; i < 64; i++)
            if (result[bytes + i] != 0xa5)
                fail("written behind the buffer", data, call->count, i, result[bytes + i], 0xa5, 0);
        if (memcmp(result, call->output[0], bytes) != 0)
            fail("the outputs differ", data, call->count, b, 0, 0, 0);
    }
    if (rank == 0) { /* compare_ranks() compares the others with it */
        struct reference reference = sums_reference(data, ranks, call->count);
        compare(&reference, data, call->count, call->output[0]);
        sums_free(&reference);
    }
    compare_ranks(call->output[0], bytes);
    digest_bytes(call->output[0], bytes);
}

static void run_shape(enum data data, size_t count, enum shape shape)
{
    const size_t bytes = count * cshim_dtype_bytes(sums_dtype);
    const size_t shift = calls % 4 * cshim_dtype_bytes(sums_dtype); /* varies the alignment */
    struct sum_call call = {.type = (enum element_type)sums_dtype,
                            .operation = calls % 2 ? SUM : USER,
                            .ring = (enum ring)(calls % 3),
                            .inputs = shape == SEVERAL                             ? 2
                                      : shape == IN_PLACE || shape == OUTPUTS_ONLY ? 0
                                                                                   : 1,
                            .outputs = shape == SEVERAL        ? 3
                                       : shape == OUTPUTS_ONLY ? 2
                                                               : 1,
                            .count = count,
                            .segment = calls % 5 == 4 ? 4096 : 0};
    unsigned char *kept = malloc(bytes + 1);
    for (unsigned b = 0; b < call.outputs; b++)
        call.output[b] = guarded(bytes, shift);
    for (unsigned b = 0; b < call.inputs; b++)
        call.input[b] = shape == SAME_BUFFER ? call.output[b] : guarded(bytes, shift);
    void **filled = call.inputs != 0 ? call.input : call.output;
    const unsigned inputs = call.inputs != 0 ? call.inputs : call.outputs;
    for (unsigned b = 0; b < inputs; b++)
        fill_input(filled[b], data, count, b, inputs);
    memcpy(kept, filled[0], bytes);
    calls++;
    check_call(world, &call);
    check_result(data, &call);
    if (filled[0] != call.output[0] && memcmp(kept, filled[0], bytes) != 0)
        fail("the input was changed", data, count, 0, 0, 0, 0);
    for (unsigned b = 0; b < call.inputs && shape != SAME_BUFFER; b++)
        free((unsigned char *)call.input[b] - shift);
    for (unsigned b = 0; b < call.outputs; b++)
        free((unsigned char *)call.output[b] - shift);
    free(kept);
}

static void run_call(enum data data, size_t count, int in_place)
{
    run_shape(data, count, in_place ? IN_PLACE : APART);
}

static void run_one_codec(void)
{
    static const size_t counts[] = {0, 1, 127, 255, 256, 257, 4099, 100003};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (int shape = 0; shape < SHAPES; shape++)
            run_shape(NORMAL, counts[c], (enum shape)shape);
    for (int data = 0; data < DATA_COUNT; data++) {
        const int needs_range = data == TINY || data == HUGE_VALUES;
        if (sums_dtype != CSHIM_FLOAT16 || !needs_range)
            run_call((enum data)data, 20011, data % 2);
    }
    run_call(INTEGERS, (size_t)1 << (ranks == 2 ? 22 : 18), 0);
}

/* Sums the same buffer repeatedly. Prints the relative distance of the mean from the exact sum. */
static void repeat(int times)
{
    const size_t count = 50000;
    float *input = malloc(count * sizeof *input), *result = malloc(count * sizeof *result);
    double *total = calloc(count, sizeof *total), errors = 0, squares = 0;
    struct sum_call call = {.type = FLOAT32, .inputs = 1, .outputs = 1, .count = count};
    call.input[0] = input;
    call.output[0] = result;
    for (size_t i = 0; i < count; i++)
        store(input, i, element(NORMAL, rank, ranks, i));
    for (int time = 0; time < times; time++) {
        check_call(world, &call);
        for (size_t i = 0; i < count; i++)
            total[i] += (double)result[i];
        digest_bytes(result, count * sizeof *result);
    }
    struct reference reference = sums_reference(NORMAL, ranks, count);
    for (size_t i = 0; i < count; i++) {
        const double error = total[i] / times - reference.sum[i];
        errors += error * error;
        squares += reference.sum[i] * reference.sum[i];
    }
    if (rank == 0)
        printf("distance %.3e\n", sqrt(errors / squares));
    sums_free(&reference);
    free(total), free(result), free(input);
}

int main(int argc, char **argv)
{
    enum cshim_codec_id id = CSHIM_CODEC_NONE;
    if (argc == 3 && strcmp(argv[1], "--policy") == 0)
        return print_policy(argv[2]);
    const bool all = argc == 3 && strcmp(argv[1], "all") == 0;
    const bool repeated = argc == 3 && strcmp(argv[1], "repeat") == 0;
    if (argc < 3 || !(all || repeated || codec_by_name(argv[1], &id))) {
        fprintf(stderr,
                "usage: gloo_allreduce CODEC STEPS [DTYPE] | all ALGORITHM | repeat CALLS\n");
        return 2;
    }
    rank = job_rank();
    ranks = job_ranks();
    world = context_make("world", rank, ranks, 60000, ANYWHERE);
    sums_codec = cshim_codec_info(id);
    sums_steps = all || repeated ? 0 : atoi(argv[2]);
    if (argc > 3)
        dtype_by_name(argv[3], &sums_dtype);
    if (all)
        try_all_codecs(argv[2], rank, ranks, run_call);
    else if (repeated)
        repeat(atoi(argv[2]));
    else
        run_one_codec();
    printf("rank %d: digest %016llx, %d failures\n", rank, (unsigned long long)digest, failures);
    context_free(world);
    return failures != 0;
}
