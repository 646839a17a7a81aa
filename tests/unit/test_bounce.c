/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that a message encoded in a bounce buffer and copied equals one encoded in place. */
#include "shim/host/bounce.h"
#include "tests/unit/unit.h"

#define MESSAGES 200
#define LONG 100000

static uint8_t memory[LONG + 256];

/* Encodes a message. Returns true if it used the bounce buffer. */
static bool takes_bounce_buffer(enum cshim_writing what, size_t offset, size_t bytes, uint8_t value)
{
    memset(memory, 0xaa, sizeof memory);
    const struct cshim_bounce bounce = cshim_bounce_begin(what, memory + offset, bytes);
    memset(bounce.encoded, value, bytes);
    cshim_bounce_end(&bounce, bytes);
    for (size_t i = 0; i < sizeof memory; i++)
        assert_int_equal(memory[i], i >= offset && i < offset + bytes ? value : 0xaa);
    return bounce.encoded != memory + offset;
}

TEST(both_ways_are_tried)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < MESSAGES; i++)
        taken += takes_bounce_buffer(CSHIM_WRITING_PART, 64 + i % 64, 20000 + i, (uint8_t)i);
    assert_in_range(taken, 1, MESSAGES - 1);
}

TEST(what_nobody_reads_is_encoded_in_its_place)
{
    for (unsigned i = 0; i < MESSAGES; i++) {
        assert_false(takes_bounce_buffer(CSHIM_WRITING_UNREAD, 64, 20000, (uint8_t)i));
        assert_false(takes_bounce_buffer(CSHIM_WRITING_PART, 64, LONG, (uint8_t)i));
    }
}

TEST(short_messages_come_to_their_place)
{
    for (size_t bytes = 0; bytes < MESSAGES; bytes++)
        takes_bounce_buffer(bytes % 2 ? CSHIM_WRITING_PART : CSHIM_WRITING_SUM, bytes % 64, bytes,
                            7);
}
