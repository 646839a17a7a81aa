/* SPDX-License-Identifier: Apache-2.0 */
/* Checks arbitrary message headers against arbitrary expectations, at any alignment. */
#include <math.h>
#include <string.h>

#include "shim/core/header.h"
#include "tests/fuzz/fuzz.h"

static struct cshim_header take_expected(struct fuzz_input *input)
{
    struct cshim_plan plan = {
        .count = fuzz_take(input, 8),
        .codec = (enum cshim_codec_id)fuzz_take(input, 1),
        .dtype = (enum cshim_dtype)fuzz_take(input, 1),
        .algorithm = (enum cshim_algorithm)fuzz_take(input, 1),
    };
    plan.gather_codec = plan.codec;
    uint32_t sequence = (uint32_t)fuzz_take(input, 4);
    uint32_t segment = (uint32_t)fuzz_take(input, 4);
    enum cshim_message step = (enum cshim_message)(fuzz_take(input, 1) % CSHIM_MESSAGES);
    uint32_t elements = (uint32_t)fuzz_take(input, 4);
    struct cshim_header header = cshim_header_make(&plan, sequence, segment, step, elements, 0.0f);
    FUZZ_CHECK(header.magic == CSHIM_HEADER_MAGIC && header.sequence == sequence);
    FUZZ_CHECK(header.count == plan.count && header.segment == segment);
    FUZZ_CHECK(header.elements == elements && header.step == step);
    FUZZ_CHECK(header.codec == plan.codec && header.dtype == plan.dtype);
    FUZZ_CHECK(header.algorithm == plan.algorithm);
    return header;
}

/* Writes a header that differs from `want` in the bits that are set in `difference`. */
static void write_message(const struct cshim_header *want, const uint8_t *difference,
                          uint8_t *message)
{
    memcpy(message, want, sizeof *want);
    for (size_t i = 0; i < sizeof *want; i++)
        message[i] ^= difference[i];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    size_t offset = fuzz_take(&input, 1) % 16;
    struct cshim_header want = take_expected(&input);
    uint8_t difference[CSHIM_HEADER_BYTES] = {0};
    for (size_t i = 0; i < sizeof difference; i++)
        difference[i] = (uint8_t)fuzz_take(&input, 1);
    uint8_t *message = fuzz_allocate(CSHIM_HEADER_BYTES, offset, 0);
    write_message(&want, difference, message);

    bool is_same = true;
    for (size_t i = 0; i < offsetof(struct cshim_header, error); i++)
        is_same = is_same && difference[i] == 0;
    float error = NAN, sent;
    memcpy(&sent, message + offsetof(struct cshim_header, error), sizeof sent);
    char text[CSHIM_MISMATCH_MAX];
    memset(text, 'x', sizeof text);
    FUZZ_CHECK(cshim_header_check(&want, message, &error, text) == is_same);
    FUZZ_CHECK(isfinite(error) && error >= 0);
    FUZZ_CHECK(error == (isfinite(sent) && sent > 0 ? sent : 0));
    if (!is_same) {
        fuzz_check_line(text, sizeof text, "here: call ");
        FUZZ_CHECK(strstr(text, "; there: ") != NULL);
        /* One of these is at the end of the text, so the text was not cut off. */
        FUZZ_CHECK(strstr(strstr(text, "; there: "), "step ") != NULL ||
                   strstr(text, "no message of this version") != NULL);
    }
    fuzz_free(message, offset);
    return 0;
}
