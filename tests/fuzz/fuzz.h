/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the fuzz targets: consuming an input, checks that abort, and files in memory for
 * readers of files.
 *
 * A target defines LLVMFuzzerTestOneInput. libFuzzer calls it millions of times (`make fuzz`);
 * replay.c calls it for the seeds and inputs derived from them (`make test`). A failed FUZZ_CHECK
 * aborts: a finding. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runs the target on one input. Always returns 0. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_failed(#condition, __FILE__, __LINE__))

/* Prints the failed check, and aborts. */
void fuzz_failed(const char *condition, const char *file, int line) __attribute__((noreturn));

/* The rest of an input. */
struct fuzz_input {
    const uint8_t *next;
    size_t left;
};

/* Takes the next `bytes` bytes (at most 8) as a little-endian number. Missing bytes are zero. */
uint64_t fuzz_take(struct fuzz_input *input, size_t bytes);

/* Takes a number of up to `bits` bits (1 to 64). Short and long numbers are about equally
 * likely. */
uint64_t fuzz_take_any_length(struct fuzz_input *input, unsigned bits);

/* Fills bytes[0..count) with the rest of the input, repeated, from its byte `skip` on; with zeros
 * if nothing is left. Takes nothing. */
void fuzz_fill(const struct fuzz_input *input, size_t skip, void *bytes, size_t count);

/* Allocates count bytes, filled with `fill`, at an address `offset` bytes (0 to 15) after a
 * multiple of 16. The address sanitizer guards the end, and the beginning if `offset` is 0. Freed
 * by fuzz_free with the same offset. */
void *fuzz_allocate(size_t count, size_t offset, int fill);
void fuzz_free(void *bytes, size_t offset);

/* Checks that text is one line that begins with prefix and fits into size bytes. */
void fuzz_check_line(const char *text, size_t size, const char *prefix);

/* A file in memory that can be opened by its path. */
struct fuzz_file {
    int descriptor;
    char path[32];
};

struct fuzz_file fuzz_file_make(void);
/* Replaces the contents of the file. */
void fuzz_file_write(const struct fuzz_file *file, const void *bytes, size_t count);

#endif
