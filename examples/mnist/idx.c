/* SPDX-License-Identifier: Apache-2.0 */
/* Reads IDX files: two zero bytes, a type byte (8: unsigned bytes), the number of dimensions, each
 * dimension as a big-endian 32-bit integer, then the bytes, last dimension fastest. */
#include "examples/mnist/images.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { HEADER_BYTES = 4, EXTENT_BYTES = 4, MOST_DIMENSIONS = 3 };
enum { MAGIC_UNSIGNED_BYTES = 0x00000800 };

/* State of a file being read. */
struct source {
    gzFile file;
    const char *path;
    size_t position; /* bytes read so far, after decompression */
    char *error;
    size_t error_size;
};

/* Writes an error message that begins with the file's path. Returns false. */
__attribute__((format(printf, 2, 3))) static bool complain(struct source *source,
                                                           const char *format, ...)
{
    int used = snprintf(source->error, source->error_size, "%s: ", source->path);
    if (used < 0 || (size_t)used >= source->error_size)
        return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(source->error + used, source->error_size - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}

/* Reads exactly `count` bytes. If the file has fewer, writes a message and returns false. `whole`:
 * size of the file up to the last of these bytes. */
static bool read_exactly(struct source *source, void *bytes, size_t count, size_t whole)
{
    int code = Z_OK, got = gzread(source->file, bytes, (unsigned)count);
    source->position += got > 0 ? (size_t)got : 0;
    if (got >= 0 && (size_t)got == count)
        return true;
    gzerror(source->file, &code);
    if (code == Z_ERRNO)
        return complain(source, "cannot be read: %s", strerror(errno));
    if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
        return complain(source, "damaged after byte %zu of %zu: %s", source->position, whole,
                        zError(code));
    return complain(source, "truncated at byte %zu of %zu", source->position, whole);
}

static uint32_t big_endian(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Reads the header, and checks the magic number, the number of items and, with 3 dimensions, the
 * size of an image. */
static bool read_header(struct source *source, int dimensions, size_t *count)
{
    uint8_t bytes[HEADER_BYTES + MOST_DIMENSIONS * EXTENT_BYTES];
    size_t header = HEADER_BYTES + (size_t)dimensions * EXTENT_BYTES;
    if (!read_exactly(source, bytes, HEADER_BYTES, header))
        return false;
    uint32_t magic = big_endian(bytes), wanted = MAGIC_UNSIGNED_BYTES + (uint32_t)dimensions;
    if (magic != wanted)
        return complain(source,
                        "bad magic 0x%08x, not 0x%08x (IDX, unsigned bytes, dimensions: %d)", magic,
                        wanted, dimensions);
    if (!read_exactly(source, bytes + HEADER_BYTES, header - HEADER_BYTES, header))
        return false;
    const uint8_t *extent = bytes + HEADER_BYTES;
    *count = big_endian(extent);
    if (*count == 0 || *count > IMAGE_COUNT_LIMIT) {
        complain(source, "declares %zu items; this program takes 1 to %d", *count,
                 IMAGE_COUNT_LIMIT);
        return false;
    }
    if (dimensions == MOST_DIMENSIONS) {
        uint32_t rows = big_endian(extent + EXTENT_BYTES);
        uint32_t columns = big_endian(extent + 2 * EXTENT_BYTES);
        if (rows != IMAGE_SIDE || columns != IMAGE_SIDE)
            return complain(source, "wrong dimensions: images of %ux%u, not %dx%d", rows, columns,
                            IMAGE_SIDE, IMAGE_SIDE);
    }
    return true;
}

static uint8_t *read_body(struct source *source, size_t size)
{
    uint8_t *body = size > 0 ? malloc(size) : NULL; /* pages are allocated only as bytes arrive */
    if (body == NULL)
        complain(source, "no memory for %zu bytes", size);
    if (body != NULL && read_exactly(source, body, size, source->position + size))
        return body;
    free(body);
    return NULL;
}

/* Checks that the file ends here. zlib checks the checksum at the end. */
static bool at_end(struct source *source)
{
    uint8_t beyond;
    int code = Z_OK;
    if (gzread(source->file, &beyond, 1) > 0)
        return complain(source, "has more than the %zu bytes that its header declares",
                        source->position);
    gzerror(source->file, &code);
    return code == Z_OK || code == Z_STREAM_END ||
           complain(source, "damaged after byte %zu: %s", source->position, zError(code));
}

/* Returns the items of a file with 1 or 3 dimensions, and their number; or NULL with a message. */
static uint8_t *read_file(struct source *source, int dimensions, size_t *count)
{
    source->file = gzopen(source->path, "rb");
    if (source->file == NULL) {
        complain(source, "cannot be opened: %s", strerror(errno));
        return NULL;
    }
    uint8_t *body = NULL;
    if (read_header(source, dimensions, count))
        body = read_body(source, *count * (dimensions == MOST_DIMENSIONS ? IMAGE_PIXELS : 1));
    if (body != NULL && !at_end(source)) {
        free(body);
        body = NULL;
    }
    gzclose(source->file);
    return body;
}

static bool labels_fit(struct source *source, const struct image_set *set, size_t label_count)
{
    if (label_count != (size_t)set->count)
        return complain(source, "holds %zu labels for %d images", label_count, set->count);
    for (int i = 0; i < set->count; i++)
        if (set->labels[i] >= IMAGE_CLASSES)
            return complain(source, "label %d of item %d is greater than %d", set->labels[i], i,
                            IMAGE_CLASSES - 1);
    return true;
}

bool idx_read_set(const char *image_path, const char *label_path, struct image_set *set,
                  char *error, size_t error_size)
{
    struct source images = {.path = image_path, .error = error, .error_size = error_size};
    struct source labels = {.path = label_path, .error = error, .error_size = error_size};
    size_t image_count = 0, label_count = 0;
    memset(set, 0, sizeof *set);
    set->pixels = read_file(&images, MOST_DIMENSIONS, &image_count);
    if (set->pixels != NULL)
        set->labels = read_file(&labels, 1, &label_count);
    set->count = (int)image_count;
    if (set->labels != NULL && labels_fit(&labels, set, label_count))
        return true;
    free(set->pixels);
    free(set->labels);
    memset(set, 0, sizeof *set);
    return false;
}
