/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target once on each file given, without libFuzzer: the seeds, or a finding.
 *
 *   fuzz_TARGET FILE... */
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/fuzz.h"

/* Far above any seed. */
#define SIZE_LIMIT ((size_t)1 << 20)

static bool replay(const char *path)
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
    /* Of its exact size, for the address sanitizer. */
    uint8_t *exact = realloc(bytes, size > 0 ? size : 1);
    FUZZ_CHECK(exact != NULL);
    if (is_whole)
        LLVMFuzzerTestOneInput(exact, size);
    else
        fprintf(stderr, "%s: cannot be read, or is larger than %zu bytes\n", path, SIZE_LIMIT - 1);
    free(exact);
    return is_whole;
}

int main(int argc, char **argv)
{
    bool all_good = argc > 1;
    for (int i = 1; i < argc; i++) {
        /* An abort is to leave the name of its input behind. */
        fprintf(stderr, "%s\n", argv[i]);
        all_good = replay(argv[i]) && all_good;
    }
    return all_good ? 0 : 1;
}
