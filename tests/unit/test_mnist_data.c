/* SPDX-License-Identifier: Apache-2.0 */
/* Tests the reader of IDX files on good and damaged files, and the generator of digits. */
#include <unistd.h>
#include <zlib.h>

#include "examples/mnist/images.h"
#include "tests/unit/unit.h"

enum { COUNT = 3, IMAGE_HEADER = 16, LABEL_HEADER = 8 };
enum { IMAGE_BYTES = IMAGE_HEADER + COUNT * IMAGE_PIXELS, LABEL_BYTES = LABEL_HEADER + COUNT };

/* A folder with a good pair of files, which are also in memory so that tests can damage them. */
struct fixture {
    char folder[64], image_path[96], label_path[96];
    uint8_t images[IMAGE_BYTES + 1], labels[LABEL_BYTES + 1];
    struct image_set set;
    char error[256];
};

static void write_plain(const char *path, const uint8_t *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

static void write_gzipped(const char *path, const uint8_t *bytes, size_t count)
{
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)count), count);
    assert_int_equal(gzclose(file), Z_OK);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    snprintf(fixture->folder, sizeof fixture->folder, "/tmp/test_mnist_data.XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    snprintf(fixture->image_path, sizeof fixture->image_path, "%s/images", fixture->folder);
    snprintf(fixture->label_path, sizeof fixture->label_path, "%s/labels", fixture->folder);
    const uint8_t image_header[IMAGE_HEADER] = {0, 0, 8, 3,  0, 0, 0, COUNT,
                                                0, 0, 0, 28, 0, 0, 0, 28};
    const uint8_t label_header[LABEL_HEADER] = {0, 0, 8, 1, 0, 0, 0, COUNT};
    memcpy(fixture->images, image_header, IMAGE_HEADER);
    memcpy(fixture->labels, label_header, LABEL_HEADER);
    for (int i = 0; i < COUNT * IMAGE_PIXELS; i++)
        fixture->images[IMAGE_HEADER + i] = (uint8_t)(i * 7);
    for (int i = 0; i < COUNT; i++)
        fixture->labels[LABEL_HEADER + i] = (uint8_t)(9 - i);
    write_plain(fixture->image_path, fixture->images, IMAGE_BYTES);
    write_plain(fixture->label_path, fixture->labels, LABEL_BYTES);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    unlink(fixture->image_path);
    unlink(fixture->label_path);
    rmdir(fixture->folder);
    free(fixture->set.pixels);
    free(fixture->set.labels);
    free(fixture);
    return 0;
}

static bool read_set(struct fixture *fixture)
{
    return idx_read_set(fixture->image_path, fixture->label_path, &fixture->set, fixture->error,
                        sizeof fixture->error);
}

static void assert_good(struct fixture *fixture)
{
    bool good = read_set(fixture);
    if (!good)
        print_error("%s\n", fixture->error);
    assert_true(good);
    assert_int_equal(fixture->set.count, COUNT);
    assert_memory_equal(fixture->set.pixels, fixture->images + IMAGE_HEADER, COUNT * IMAGE_PIXELS);
    assert_memory_equal(fixture->set.labels, fixture->labels + LABEL_HEADER, COUNT);
}

/* Checks that reading fails with a message that begins with the file's path, followed by `text`. */
static void assert_refused(struct fixture *fixture, const char *path, const char *text)
{
    char wanted[256];
    snprintf(wanted, sizeof wanted, "%s: %s", path, text);
    assert_false(read_set(fixture));
    assert_null(fixture->set.pixels);
    assert_null(fixture->set.labels);
    assert_int_equal(fixture->set.count, 0);
    fixture->error[strlen(wanted) < sizeof fixture->error ? strlen(wanted) : 0] = '\0';
    assert_string_equal(fixture->error, wanted);
}

TEST(reads_plain_files, .setup_func = set_up, .teardown_func = tear_down)
{
    assert_good(*state);
}

TEST(reads_gzipped_files, .setup_func = set_up, .teardown_func = tear_down)
{
    struct fixture *fixture = *state;
    write_gzipped(fixture->image_path, fixture->images, IMAGE_BYTES);
    write_gzipped(fixture->label_path, fixture->labels, LABEL_BYTES);
    assert_good(fixture);
}

TEST(refuses_missing_file, .setup_func = set_up, .teardown_func = tear_down)
{
    struct fixture *fixture = *state;
    unlink(fixture->label_path);
    assert_refused(fixture, fixture->label_path, "cannot be opened: No such file or directory");
}

TEST(refuses_folder, .setup_func = set_up, .teardown_func = tear_down)
{
    struct fixture *fixture = *state;
    snprintf(fixture->label_path, sizeof fixture->label_path, "%s", fixture->folder);
    assert_refused(fixture, fixture->folder, "cannot be");
}

/* Changes a byte of the file, its length, or both. */
TEST(refuses_damaged_files, .setup_func = set_up, .teardown_func = tear_down)
{
    static const struct {
        bool labels; /* damages the label file instead of the images */
        uint8_t byte;
        size_t at;
        size_t length;
        const char *text;
    } cases[] = {
        {false, 0x0d, 2, IMAGE_BYTES, "bad magic 0x00000d03, not 0x00000803"},
        {false, 32, 11, IMAGE_BYTES, "wrong dimensions: images of 32x28, not 28x28"},
        {false, 0, 0, IMAGE_BYTES + 1, "has more than the 2368 bytes"},
        {false, 0, 7, IMAGE_HEADER, "declares 0 items"},
        {true, COUNT - 1, 7, LABEL_BYTES - 1, "holds 2 labels for 3 images"},
        {true, 10, LABEL_HEADER + 1, LABEL_BYTES, "label 10 of item 1 is greater than 9"},
        {true, 0, 0, LABEL_BYTES - 1, "truncated at byte 10 of 11"},
        {false, 0, 0, 0, "truncated at byte 0 of 16"},
        {false, 0, 0, 3, "truncated at byte 3 of 16"},
        {false, 0, 0, 15, "truncated at byte 15 of 16"},
        {false, 0, 0, IMAGE_HEADER, "truncated at byte 16 of 2368"},
        {false, 0, 0, 17, "truncated at byte 17 of 2368"},
        {false, 0, 0, IMAGE_HEADER + IMAGE_PIXELS, "truncated at byte 800 of 2368"},
        {false, 0, 0, IMAGE_BYTES - 1, "truncated at byte 2367 of 2368"},
    };
    struct fixture *fixture = *state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const bool labels = cases[i].labels;
        uint8_t *bytes = labels ? fixture->labels : fixture->images;
        const char *path = labels ? fixture->label_path : fixture->image_path;
        const uint8_t kept = bytes[cases[i].at];
        bytes[cases[i].at] = cases[i].byte;
        write_plain(path, bytes, cases[i].length);
        assert_refused(fixture, path, cases[i].text);
        bytes[cases[i].at] = kept;
        write_plain(path, bytes, labels ? LABEL_BYTES : IMAGE_BYTES);
    }
}

static size_t read_whole(const char *path, uint8_t *bytes, size_t capacity)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t count = fread(bytes, 1, capacity, file);
    fclose(file);
    return count;
}

TEST(refuses_truncated_gzip, .setup_func = set_up, .teardown_func = tear_down)
{
    struct fixture *fixture = *state;
    uint8_t packed[2 * IMAGE_BYTES];
    write_gzipped(fixture->image_path, fixture->images, IMAGE_BYTES);
    size_t count = read_whole(fixture->image_path, packed, sizeof packed);
    write_plain(fixture->image_path, packed, count / 2);
    assert_refused(fixture, fixture->image_path, "truncated at byte ");
    write_plain(fixture->image_path, packed, count - 4);
    assert_refused(fixture, fixture->image_path, "damaged after byte 2368");
}

TEST(refuses_wrong_checksum, .setup_func = set_up, .teardown_func = tear_down)
{
    struct fixture *fixture = *state;
    uint8_t packed[2 * IMAGE_BYTES];
    write_gzipped(fixture->image_path, fixture->images, IMAGE_BYTES);
    size_t count = read_whole(fixture->image_path, packed, sizeof packed);
    packed[count - 8] ^= 1; /* the checksum is the second to last word */
    write_plain(fixture->image_path, packed, count);
    assert_refused(fixture, fixture->image_path, "damaged after byte ");
}

TEST(refuses_labels_for_images, .setup_func = set_up, .teardown_func = tear_down)
{
    struct fixture *fixture = *state;
    write_plain(fixture->image_path, fixture->labels, LABEL_BYTES);
    assert_refused(fixture, fixture->image_path, "bad magic 0x00000801, not 0x00000803");
}

/* Sets the count to the largest 32-bit number, then to the largest count accepted, for which the
 * file is too short. */
TEST(refuses_huge_count, .setup_func = set_up, .teardown_func = tear_down)
{
    struct fixture *fixture = *state;
    char text[96];
    memset(fixture->images + 4, 0xff, 4);
    write_plain(fixture->image_path, fixture->images, IMAGE_BYTES);
    assert_refused(fixture, fixture->image_path, "declares 4294967295 items");
    for (int i = 0; i < 4; i++)
        fixture->images[4 + i] = (uint8_t)(IMAGE_COUNT_LIMIT >> (24 - 8 * i));
    write_plain(fixture->image_path, fixture->images, IMAGE_BYTES);
    snprintf(text, sizeof text, "truncated at byte %d of %ld", IMAGE_BYTES,
             IMAGE_HEADER + (long)IMAGE_COUNT_LIMIT * IMAGE_PIXELS);
    assert_refused(fixture, fixture->image_path, text);
}

/* Digit i is always the same, in whatever order and number digits are drawn. */
TEST(draws_the_same_digits)
{
    struct image_set whole, part;
    assert_true(digits_draw(0, 50, &whole));
    assert_true(digits_draw(20, 30, &part));
    assert_memory_equal(whole.pixels + (size_t)20 * IMAGE_PIXELS, part.pixels,
                        (size_t)30 * IMAGE_PIXELS);
    assert_memory_equal(whole.labels + 20, part.labels, 30);
    free(whole.pixels);
    free(whole.labels);
    free(part.pixels);
    free(part.labels);
}

/* Checks that all ten digits occur, all images differ, and each has ink and background. */
TEST(draws_different_digits)
{
    struct image_set set;
    int seen[IMAGE_CLASSES] = {0};
    assert_true(digits_draw(0, 300, &set));
    for (int i = 0; i < set.count; i++) {
        const uint8_t *image = set.pixels + (size_t)i * IMAGE_PIXELS;
        int inked = 0;
        assert_in_range(set.labels[i], 0, IMAGE_CLASSES - 1);
        seen[set.labels[i]]++;
        for (int p = 0; p < IMAGE_PIXELS; p++)
            inked += image[p] > 128;
        assert_in_range(inked, 15, IMAGE_PIXELS / 2);
        for (int other = 0; other < i; other++)
            assert_int_not_equal(
                memcmp(image, set.pixels + (size_t)other * IMAGE_PIXELS, IMAGE_PIXELS), 0);
    }
    for (int digit = 0; digit < IMAGE_CLASSES; digit++)
        assert_in_range(seen[digit], 10, 60);
    free(set.pixels);
    free(set.labels);
}
