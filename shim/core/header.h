/* SPDX-License-Identifier: Apache-2.0 */
/* The header at the beginning of each message of elements between peers: its sender's view of the
 * call. docs/wire-format.md gives every byte. Pure: reads only its arguments. */
#ifndef CSHIM_HEADER_H
#define CSHIM_HEADER_H

#include "shim/core/plan.h"

#define CSHIM_HEADER_MAGIC 0x31535343u /* "CSS1" in little-endian bytes */

enum cshim_message {
    CSHIM_MESSAGE_PARTS = 0, /* a rank's own elements; staged: its share of the node's sum */
    CSHIM_MESSAGE_SUMS = 1,  /* the sum of a chunk; in a broadcast, a forwarded chunk */
    CSHIM_ROW_MESSAGES = 2,  /* number of the types above, which stay within rows */
    /* In the columns of a grid: */
    CSHIM_MESSAGE_COLUMN_PARTS = 2, /* a row's sum of a piece */
    CSHIM_MESSAGE_COLUMN_SUMS = 3,  /* the sum of a piece over all rows */
    CSHIM_MESSAGES
};

/* Returns the codec of a message's elements. */
static inline enum cshim_codec_id cshim_message_codec(const struct cshim_plan *plan,
                                                      enum cshim_message message)
{
    return message == CSHIM_MESSAGE_PARTS || message == CSHIM_MESSAGE_COLUMN_PARTS
               ? plan->codec
               : plan->gather_codec;
}

/* Bit of `step`: the sender's scratch is shared, and ranks of its node that can read the scratch
 * are sent only the header. */
#define CSHIM_HEADER_SHARED 8u

struct cshim_header {
    uint32_t magic;
    /* MPI, NCCL: number of the compressed call on its communicator, from 1. gloo: the call's tag
     * plus the number of compressed calls of this function with this tag; for tags from 4096 on,
     * the tag plus 1. */
    uint32_t sequence;
    uint64_t count;    /* elements of the whole call */
    uint32_t segment;  /* index of the segment in the call */
    uint32_t elements; /* number of elements in this message */
    uint8_t codec;
    uint8_t dtype;
    uint8_t algorithm;
    uint8_t step; /* enum cshim_message, CSHIM_HEADER_SHARED and, times 16, the collective */
    float error;  /* largest relative L2 error known to the sender, or 0; not compared */
};
_Static_assert(sizeof(struct cshim_header) == CSHIM_HEADER_BYTES, "the wire format is fixed");

#define CSHIM_MISMATCH_MAX 320

/* Returns the key of the random numbers that round the elements of a type of messages. The key
 * differs between values of `number` (communicators), ranks, sequence numbers and types of
 * messages. */
uint64_t cshim_message_key(uint64_t seed, uint64_t number, uint32_t rank, uint32_t sequence,
                           enum cshim_message message);

/* Returns the header of a message of a call. */
struct cshim_header cshim_header_make(const struct cshim_plan *plan, uint32_t sequence,
                                      uint64_t segment, enum cshim_message step, uint64_t elements,
                                      float error);

/* Returns true if a message's header has CSHIM_HEADER_SHARED. */
bool cshim_header_is_shared(const void *message);

/* Compares a message of at least CSHIM_HEADER_BYTES, at any alignment, with the header that the
 * receiver would have written. If they agree, returns true and sets the sender's error (0 unless it
 * is finite and positive); otherwise returns false and describes both views of the call in `text`.
 */
bool cshim_header_check(const struct cshim_header *want, const void *message, float *error,
                        char text[CSHIM_MISMATCH_MAX]);

/* Writes to `text` which call a message's header names. The message may have any alignment. */
void cshim_header_describe(const void *message, char text[CSHIM_MISMATCH_MAX]);

#endif
