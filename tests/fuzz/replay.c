/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target without libFuzzer, on each file given (a seed or a finding), and on inputs
 * derived from it. The derived inputs depend only on the file, not on the tested code or the
 * compiler, so a failure is due to the change under test.
 *
 *   fuzz_TARGET [-m COUNT] [-k NUMBER] FILE...
 *
 * -m: also runs COUNT inputs derived from each file. -k: runs only derived input NUMBER. Prints the
 * number of inputs and a digest of all. A line before each input names it, so that the last of
 * these lines names an input that fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"

/* Limit of the files, far above every seed's size. */
#define SIZE_LIMIT ((size_t)1 << 20)
/* Limit of derived inputs, the same as -max_len in tests/fuzz/run.sh. */
#define DERIVED_LIMIT ((size_t)4096)

static uint64_t digest = 0xcbf29ce484222325u;
static unsigned long inputs;

static uint64_t fnv1a(uint64_t hash, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

/* splitmix64 */
static uint64_t next_random(uint64_t *state)
{
    uint64_t value = *state += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static size_t below(uint64_t *state, size_t bound)
{
    return (size_t)(next_random(state) % bound);
}

/* Changes an input of at least one byte at a random offset, in a buffer of DERIVED_LIMIT bytes. */
static void change(uint8_t *bytes, size_t *size, uint64_t *state)
{
    static const uint8_t rare[] = {0, 1, 0x20, 0x7f, 0x80, 0xff};
    const size_t at = below(state, *size), rest = *size - at;
    const size_t length = 1 + below(state, rest < 16 ? rest : 16);
    switch (below(state, 6)) {
    case 0:
        bytes[at] ^= (uint8_t)(1u << below(state, 8));
        break;
    case 1:
        bytes[at] = (uint8_t)next_random(state);
        break;
    case 2: /* a run of one value, such as an extreme length or offset */
        memset(bytes + at, rare[below(state, sizeof rare)], length);
        break;
    case 3: /* remove bytes */
        if (*size > length) {
            memmove(bytes + at, bytes + at + length, rest - length);
            *size -= length;
        }
        break;
    case 4: /* repeat bytes */
        if (*size + length <= DERIVED_LIMIT) {
            memmove(bytes + at + length, bytes + at, rest);
            *size += length;
        }
        break;
    default: /* cut off */
        *size = 1 + below(state, *size);
    }
}

/* Calls the target with a copy of exactly this size, for the address sanitizer. */
static void try_input(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size > 0 ? size : 1);
    FUZZ_CHECK(exact != NULL);
    memcpy(exact, bytes, size);
    digest = fnv1a(fnv1a(digest, (const uint8_t *)&size, sizeof size), bytes, size);
    inputs++;
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static void try_derived(const char *path, const uint8_t *bytes, size_t size, long number)
{
    uint8_t derived[DERIVED_LIMIT];
    size_t length = size < DERIVED_LIMIT ? size : DERIVED_LIMIT;
    uint64_t state = fnv1a((uint64_t)number, bytes, size);
    memcpy(derived, bytes, length);
    for (size_t changes = 1 + below(&state, 4); changes > 0 && length > 0; changes--)
        change(derived, &length, &state);
    fprintf(stderr, "-k %ld %s\n", number, path);
    try_input(derived, length);
}

static bool replay(const char *path, long count, long only)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return false;
    }
    uint8_t *bytes = malloc(SIZE_LIMIT);
    FUZZ_CHECK(bytes != NULL);
    size_t size = fread(bytes, 1, SIZE_LIMIT, file);
    bool is_whole = ferror(file) == 0 && size < SIZE_LIMIT;
    fclose(file);
    if (!is_whole) {
        fprintf(stderr, "%s: cannot be read, or is larger than %zu bytes\n", path, SIZE_LIMIT - 1);
    } else if (only >= 0) {
        try_derived(path, bytes, size, only);
    } else {
        fprintf(stderr, "%s\n", path);
        try_input(bytes, size);
        for (long number = 0; number < count; number++)
            try_derived(path, bytes, size, number);
    }
    free(bytes);
    return is_whole;
}

int main(int argc, char **argv)
{
    long count = 0, only = -1;
    for (int option; (option = getopt(argc, argv, "m:k:")) != -1;)
        if (option == 'm')
            count = strtol(optarg, NULL, 10);
        else if (option == 'k')
            only = strtol(optarg, NULL, 10);
        else
            return 2;
    bool all_good = optind < argc;
    for (int i = optind; i < argc; i++)
        all_good = replay(argv[i], count, only) && all_good;
    fprintf(stderr, "%lu inputs, digest %016llx\n", inputs, (unsigned long long)digest);
    return all_good ? 0 : 1;
}
