/* SPDX-License-Identifier: Apache-2.0 */
/* Reads two arbitrary IDX files: plain, compressed, or compressed and damaged. A second,
 * independent reading of the format checks what the reader accepts and rejects (not of damaged
 * files, nor of plain ones that look compressed). Rejected files must come with an explanation.
 *
 * An input is: a byte with the form of the image file, a byte with that of the label file, four
 * bytes that choose the damage if one is damaged, a byte with the length of the label file, the
 * label file, and the image file. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "examples/mnist/images.h"
#include "tests/fuzz/fuzz.h"

enum { ERROR_BYTES = 512, COMPRESSED_MAX = 1 << 16, GZIP_WINDOW = 15 + 16 };

enum form { FORM_PLAIN, FORM_COMPRESSED, FORM_DAMAGED, FORM_COUNT };

/* The uncompressed contents of a file, and how they are stored in it. */
struct content {
    const uint8_t *bytes;
    size_t size;
    enum form form;
};

static uint32_t big_endian(const uint8_t *bytes)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++)
        value = value << 8 | bytes[i];
    return value;
}

/* Returns true if the file has this magic number, and after its header *count items (one or more)
 * of item_bytes bytes. Sets *count if the header is complete and its magic number right. */
static bool is_idx(const struct content *content, uint32_t magic, size_t header, size_t item_bytes,
                   size_t *count)
{
    if (content->size < header || big_endian(content->bytes) != magic)
        return false;
    *count = big_endian(content->bytes + 4);
    return *count > 0 && content->size - header == *count * item_bytes;
}

/* Returns true if the two files are a set of images, by this independent reading of the format. */
static bool is_set(const struct content *images, const struct content *labels, size_t *count)
{
    size_t label_count;
    if (!is_idx(images, 0x803, 16, IMAGE_PIXELS, count) ||
        !is_idx(labels, 0x801, 8, 1, &label_count) || label_count != *count)
        return false;
    for (size_t i = 0; i < label_count; i++)
        if (labels->bytes[8 + i] >= IMAGE_CLASSES)
            return false;
    return big_endian(images->bytes + 8) == IMAGE_SIDE &&
           big_endian(images->bytes + 12) == IMAGE_SIDE;
}

/* Returns true if zlib takes the file for compressed, by its first bytes. */
static bool looks_compressed(const struct content *content)
{
    return content->size >= 2 && content->bytes[0] == 0x1f && content->bytes[1] == 0x8b;
}

/* Writes the contents to the file. Damage changes one byte or cuts the end off. */
static void write_file(const struct fuzz_file *file, const struct content *content, uint32_t damage)
{
    static uint8_t compressed[COMPRESSED_MAX];
    static z_stream stream;
    static bool is_ready;
    if (content->form == FORM_PLAIN) {
        fuzz_file_write(file, content->bytes, content->size);
        return;
    }
    /* All inputs share one stream, because creating one takes longer than using it. */
    if (!is_ready)
        FUZZ_CHECK(deflateInit2(&stream, 1, Z_DEFLATED, GZIP_WINDOW, 1, Z_FIXED) == Z_OK);
    is_ready = true;
    FUZZ_CHECK(deflateReset(&stream) == Z_OK);
    stream.next_in = (z_const Bytef *)content->bytes;
    stream.avail_in = (uInt)content->size;
    stream.next_out = compressed;
    stream.avail_out = sizeof compressed;
    FUZZ_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    size_t size = sizeof compressed - stream.avail_out;
    if (content->form == FORM_DAMAGED && (damage & 1) != 0)
        size = (damage >> 1) % size;
    else if (content->form == FORM_DAMAGED)
        compressed[(damage >> 9) % size] ^= (uint8_t)(damage >> 1 | 1);
    fuzz_file_write(file, compressed, size);
}

/* Checks what must hold for any files. */
static void check_outcome(bool is_good, const struct image_set *set, const char *error)
{
    if (is_good) {
        FUZZ_CHECK(set->count > 0 && set->count <= IMAGE_COUNT_LIMIT);
        for (int i = 0; i < set->count; i++)
            FUZZ_CHECK(set->labels[i] < IMAGE_CLASSES);
        return;
    }
    FUZZ_CHECK(set->count == 0 && set->pixels == NULL && set->labels == NULL);
    fuzz_check_line(error, ERROR_BYTES, "/proc/self/fd/");
}

static void check_reading(const struct content *images, const struct content *labels, bool is_good,
                          const struct image_set *set)
{
    size_t count;
    if (images->form == FORM_DAMAGED || labels->form == FORM_DAMAGED ||
        (images->form == FORM_PLAIN && looks_compressed(images)) ||
        (labels->form == FORM_PLAIN && looks_compressed(labels)))
        return;
    FUZZ_CHECK(is_good == is_set(images, labels, &count));
    if (!is_good)
        return;
    FUZZ_CHECK((size_t)set->count == count);
    FUZZ_CHECK(memcmp(set->pixels, images->bytes + 16, count * IMAGE_PIXELS) == 0);
    FUZZ_CHECK(memcmp(set->labels, labels->bytes + 8, count) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_file image_file, label_file;
    if (image_file.path[0] == '\0') {
        image_file = fuzz_file_make();
        label_file = fuzz_file_make();
    }
    struct fuzz_input input = {data, size};
    struct content images = {.form = (enum form)(fuzz_take(&input, 1) % FORM_COUNT)};
    struct content labels = {.form = (enum form)(fuzz_take(&input, 1) % FORM_COUNT)};
    uint32_t damage = 0;
    if (images.form == FORM_DAMAGED || labels.form == FORM_DAMAGED)
        damage = (uint32_t)fuzz_take(&input, 4);
    labels.size = (size_t)fuzz_take(&input, 1);
    labels.size = labels.size < input.left ? labels.size : input.left;
    labels.bytes = input.next;
    images.bytes = input.next + labels.size;
    images.size = input.left - labels.size;
    if (images.size > COMPRESSED_MAX / 2)
        images.size = COMPRESSED_MAX / 2;
    write_file(&image_file, &images, damage);
    write_file(&label_file, &labels, damage);

    char error[ERROR_BYTES];
    struct image_set set;
    memset(error, 'x', sizeof error);
    bool is_good = idx_read_set(image_file.path, label_file.path, &set, error, sizeof error);
    check_outcome(is_good, &set, error);
    check_reading(&images, &labels, is_good, &set);
    free(set.pixels);
    free(set.labels);
    return 0;
}
