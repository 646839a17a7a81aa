/* SPDX-License-Identifier: Apache-2.0 */
/* Checks gloo's data-movement collectives: every element arrives within the codec's bound; in
 * place, with unequal and empty blocks, from every root. Prints a digest of each all-gather and
 * broadcast, which must be the same on all ranks.
 *
 *   gloo_moves allgather|allgatherv|alltoall|alltoallv|broadcast TYPE COUNT RELATIVE
 *   gloo_moves mismatch TYPE COUNT 0     an all-gather in which rank 1 has fewer elements
 *
 * TYPE is float32, float64 or int32; elements of int32 must arrive exactly. COUNT is the number of
 * elements of the longest block, RELATIVE the largest error allowed of floats, relative to the
 * largest magnitude (5). */
#include <math.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "codecs/hash.h"
#include "tests/gloo/job.h"

#define BLOCKS_MAX 8

static int rank, ranks, failures;
static struct context *world;
static enum element_type type;
static size_t count;
static double relative;
static unsigned char *in, *out;

static double value(int from, int to, size_t i)
{
    const double number = sin((double)from * 7919 + to * 104729 + (double)i) * (double)(1 + i % 5);
    return type == INT32 ? floor(1000 * number) : number;
}

static void put(void *buffer, size_t i, double number)
{
    double *doubles = buffer;
    float *floats = buffer;
    int32_t *integers = buffer;
    if (type == FLOAT64)
        doubles[i] = number;
    else if (type == FLOAT32)
        floats[i] = (float)number;
    else
        integers[i] = (int32_t)number;
}

static double get(const void *buffer, size_t i)
{
    const double *doubles = buffer;
    const float *floats = buffer;
    const int32_t *integers = buffer;
    return type == FLOAT64 ? doubles[i] : type == FLOAT32 ? (double)floats[i] : (double)integers[i];
}

/* Returns the length of the block from a rank to another, or to all (`to` is ALLGATHERV, which
 * equals 2). With uneven blocks, rank 1's block to rank 0, to rank 2 or to all is empty. */
static size_t length(int from, int to, bool is_uneven)
{
    if (!is_uneven)
        return count;
    return from == 1 && (to == 0 || to == ALLGATHERV) ? 0 : count - (size_t)from % count;
}

static void report(const char *what, size_t wrong, char *text)
{
    if (wrong == 0 && text == NULL)
        return;
    failures++;
    fprintf(stderr, "rank %d: %s: %zu elements wrong%s%s\n", rank, what, wrong,
            text != NULL ? ", " : "", text != NULL ? text : "");
    free(text);
}

/* Writes the elements of a block. Returns the offset after it. */
static size_t fill_block(unsigned char *buffer, size_t begin, int from, int to, size_t elements)
{
    for (size_t i = 0; i < elements; i++)
        put(buffer, begin + i, value(from, to, i));
    return begin + elements;
}

static size_t count_wrong(size_t begin, int from, int to, size_t elements)
{
    const double allowed = type == INT32 ? 0 : relative * 5;
    size_t wrong = 0;
    for (size_t i = 0; i < elements; i++) {
        double want = value(from, to, i);
        if (type == FLOAT32)
            want = (double)(float)want;
        wrong += !(fabs(get(out, begin + i) - want) <= allowed);
    }
    return wrong;
}

static void gather(bool is_uneven, bool in_place)
{
    size_t lengths[BLOCKS_MAX], begin = 0, wrong = 0, all = 0;
    for (int i = 0; i < ranks; i++) {
        lengths[i] = length(i, ALLGATHERV, is_uneven);
        begin += i < rank ? lengths[i] : 0;
        all += lengths[i];
    }
    fill_block(in_place ? out : in, in_place ? begin : 0, rank, 0, lengths[rank]);
    const struct other_call call = {.other = is_uneven ? ALLGATHERV : ALLGATHER,
                                    .type = type,
                                    .input = in_place ? NULL : in,
                                    .output = out,
                                    .count = count,
                                    .received = lengths};
    char *text = other_collective(world, &call);
    begin = 0;
    for (int i = 0; i < ranks; begin += lengths[i++])
        wrong += count_wrong(begin, i, 0, lengths[i]);
    report(in_place ? "an all-gather in place" : "an all-gather", wrong, text);
    printf("digest %llx\n",
           (unsigned long long)cshim_hash_bytes(CSHIM_HASH_EMPTY, out, all * element_bytes(type)));
}

static void exchange(bool is_uneven)
{
    size_t sent[BLOCKS_MAX], received[BLOCKS_MAX], begin = 0, wrong = 0;
    for (int i = 0; i < ranks; i++) {
        sent[i] = length(rank, i, is_uneven);
        received[i] = length(i, rank, is_uneven);
        begin = fill_block(in, begin, rank, i, sent[i]);
    }
    const struct other_call call = {.other = is_uneven ? ALLTOALLV : ALLTOALL,
                                    .type = type,
                                    .input = in,
                                    .output = out,
                                    .count = count,
                                    .sent = sent,
                                    .received = received};
    char *text = other_collective(world, &call);
    begin = 0;
    for (int i = 0; i < ranks; begin += received[i++])
        wrong += count_wrong(begin, i, rank, received[i]);
    report("an all-to-all", wrong, text);
}

/* The root passes `out` alone, `in` and `out`, or `out` in read-only memory. */
enum buffers { ONE_BUFFER, TWO_BUFFERS, READ_ONLY, BUFFERS };

static void broadcast(int root, enum buffers buffers)
{
    const bool is_root = rank == root;
    struct other_call call = {
        .other = BROADCAST, .type = type, .output = out, .count = count, .root = root};
    if (is_root && buffers == TWO_BUFFERS)
        call.input = in;
    if (is_root)
        fill_block(call.input != NULL ? in : out, 0, root, 0, count);
    if (is_root && buffers == READ_ONLY)
        mprotect(out, count * element_bytes(type), PROT_READ);
    char *text = other_collective(world, &call);
    if (is_root && buffers == READ_ONLY)
        mprotect(out, count * element_bytes(type), PROT_READ | PROT_WRITE);
    report("a broadcast", count_wrong(0, root, 0, count), text);
    printf("digest %llx\n", (unsigned long long)cshim_hash_bytes(CSHIM_HASH_EMPTY, out,
                                                                 count * element_bytes(type)));
}

/* Makes an all-gather in which rank 1 has fewer elements. Each rank must get an exception. */
static void mismatch(void)
{
    const struct other_call call = {.other = ALLGATHER,
                                    .type = type,
                                    .input = in,
                                    .output = out,
                                    .count = rank == 1 ? count / 2 : count};
    fill_block(in, 0, rank, 0, count);
    char *text = other_collective(world, &call);
    printf("rank %d: %s\n", rank, text != NULL ? text : "none");
    failures += text == NULL;
    free(text);
}

static enum element_type type_named(const char *name)
{
    return strcmp(name, "float64") == 0 ? FLOAT64 : strcmp(name, "int32") == 0 ? INT32 : FLOAT32;
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    const char *name = argv[1];
    type = type_named(argv[2]);
    count = strtoul(argv[3], NULL, 10);
    relative = strtod(argv[4], NULL);
    rank = job_rank();
    ranks = job_ranks();
    world = context_make("world", rank, ranks, 20000, ANYWHERE);
    const size_t bytes = BLOCKS_MAX * count * element_bytes(type);
    in = malloc(bytes);
    out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (in == NULL || out == MAP_FAILED || ranks > BLOCKS_MAX)
        return 3;
    for (int repeat = 0; repeat < 2; repeat++) {
        if (strcmp(name, "mismatch") == 0 && repeat == 0)
            mismatch();
        else if (strncmp(name, "allgather", 9) == 0)
            gather(name[9] == 'v', repeat == 1);
        else if (strncmp(name, "alltoall", 8) == 0)
            exchange(name[8] == 'v');
        else if (strcmp(name, "broadcast") == 0)
            for (unsigned i = repeat == 0 ? BUFFERS * (unsigned)ranks : 0; i-- > 0;)
                broadcast((int)(i / BUFFERS), (enum buffers)(i % BUFFERS));
    }
    context_free(world);
    return failures != 0;
}
