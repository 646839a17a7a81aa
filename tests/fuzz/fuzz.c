/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void fuzz_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "%s:%d: this is not so: %s\n", file, line, condition);
    abort();
}

uint64_t fuzz_take(struct fuzz_input *input, size_t bytes)
{
    uint64_t value = 0;
    size_t count = bytes < input->left ? bytes : input->left;
    for (size_t i = 0; i < count; i++)
        value |= (uint64_t)input->next[i] << (8 * i);
    input->next += count;
    input->left -= count;
    return value;
}

uint64_t fuzz_take_any_length(struct fuzz_input *input, unsigned bits)
{
    unsigned length = 1 + (unsigned)fuzz_take(input, 1) % bits;
    uint64_t value = fuzz_take(input, (length + 7) / 8);
    return value & (UINT64_MAX >> (64 - length));
}

void fuzz_fill(const struct fuzz_input *input, size_t skip, void *bytes, size_t count)
{
    uint8_t *filled = bytes;
    if (input->left == 0) {
        memset(bytes, 0, count);
        return;
    }
    size_t from = skip % input->left;
    for (size_t done = 0; done < count;) {
        size_t rest = input->left - from;
        size_t length = count - done < rest ? count - done : rest;
        memcpy(filled + done, input->next + from, length);
        done += length;
        from = 0;
    }
}

void *fuzz_allocate(size_t count, size_t offset, int fill)
{
    uint8_t *memory = malloc(count + offset > 0 ? count + offset : 1);
    FUZZ_CHECK(memory != NULL);
    memset(memory + offset, fill, count);
    return memory + offset;
}

void fuzz_free(void *bytes, size_t offset)
{
    free((uint8_t *)bytes - offset);
}

void fuzz_check_line(const char *text, size_t size, const char *prefix)
{
    size_t length = strnlen(text, size);
    FUZZ_CHECK(length < size);
    FUZZ_CHECK(strncmp(text, prefix, strlen(prefix)) == 0);
    FUZZ_CHECK(length > strlen(prefix));
    FUZZ_CHECK(memchr(text, '\n', length) == NULL);
}

struct fuzz_file fuzz_file_make(void)
{
    struct fuzz_file file = {.descriptor = memfd_create("fuzz", MFD_CLOEXEC)};
    FUZZ_CHECK(file.descriptor >= 0);
    snprintf(file.path, sizeof file.path, "/proc/self/fd/%d", file.descriptor);
    return file;
}

void fuzz_file_write(const struct fuzz_file *file, const void *bytes, size_t count)
{
    FUZZ_CHECK(ftruncate(file->descriptor, 0) == 0);
    FUZZ_CHECK(pwrite(file->descriptor, bytes, count, 0) == (ssize_t)count);
}
