/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share: an input that is taken apart, checks that end the run, and files in
 * memory for what reads files.
 *
 * A target defines LLVMFuzzerTestOneInput. libFuzzer calls it millions of times (`make fuzz`);
 * replay.c calls it once for each seed (`make test`). A false FUZZ_CHECK aborts: that is a finding.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The target, given one input. Returns 0 always. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : fuzz_failed(#condition, __FILE__, __LINE__))

/* Says which check was false, and aborts. */
void fuzz_failed(const char *condition, const char *file, int line) __attribute__((noreturn));

/* What is left of an input. */
struct fuzz_input {
    const uint8_t *next;
    size_t left;
};

/* The next bytes (8 at most) as a little-endian number; what is missing is zero. */
uint64_t fuzz_take(struct fuzz_input *input, size_t bytes);

/* A number of up to `bits` bits (1 to 64) whose length is as likely to be one as another. */
uint64_t fuzz_take_any_length(struct fuzz_input *input, unsigned bits);

/* Fills bytes[0..count) with what is left of the input, over and over, from byte `skip` on of it.
 * Takes nothing away. */
void fuzz_fill(const struct fuzz_input *input, size_t skip, void *bytes, size_t count);

/* count bytes of which the address sanitizer knows both ends, at an address that is `offset` beyond
 * a multiple of 16 (offset 0 to 15), filled with `fill`. Freed by fuzz_free with the same offset.
 */
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
/* Replaces what the file holds. */
void fuzz_file_write(const struct fuzz_file *file, const void *bytes, size_t count);

#endif
