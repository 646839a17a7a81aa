/* SPDX-License-Identifier: Apache-2.0 */
/* Operations: what this rank does for one segment of a compressed call, as a list. An algorithm
 * compiles the list (shim/core/compiler.h), a runner executes it (shim/host/exchange.c,
 * shim/nccl/steps.c), and `compshim explain --ops` prints it:
 *
 *     struct cshim_operations operations = {0};
 *     if (cshim_compile(&operations, &segment))
 *         for (unsigned i = 0; i < operations.count; i++)
 *             puts(cshim_operation_text(&operations.list[i], text));
 *     cshim_operations_free(&operations);
 *
 * In host memory a list is executed in order. Several segments are in flight at once, each with a
 * cursor into its list: an operation of pipeline depth d is executed d iterations after its segment
 * has started, so that messages travel while other segments are encoded, reduced and decoded. Only
 * waits and node operations may block. On a device the runner groups operations by enum cshim_step,
 * and ignores their depths.
 *
 * A *contribution* is a message with one rank's own elements, encoded: of its buffer or, if the
 * schedule is staged, of its stage. A *reduced chunk* is a message with what the chunk's owner has
 * added up, encoded again (in a broadcast, what it forwards). The *result* is the caller's output;
 * in a staged schedule without blocks it is the stage, from which NODE_GATHER fills the output.
 * Pure: calls neither MPI nor CUDA. */
#ifndef CSHIM_OPERATION_H
#define CSHIM_OPERATION_H

#include "shim/core/header.h"
#include "shim/core/segment.h"

enum cshim_operation_kind {
    /* The ranks of the node reduce the segment; each rank that has a share gets the share's sum in
     * its stage. */
    CSHIM_OPERATION_NODE_REDUCE,
    /* Starts to receive the message of `elements` elements from `peer`, into the segment's scratch
     * at `offset`. */
    CSHIM_OPERATION_RECEIVE,
    /* Begins a message of `elements` elements at `offset` with its header. */
    CSHIM_OPERATION_MESSAGE,
    /* Encodes a range of this rank's elements (CSHIM_FROM_RESULT: of the result), and appends it to
     * the message. */
    CSHIM_OPERATION_ENCODE,
    /* Starts to send the message to `peer`. */
    CSHIM_OPERATION_SEND,
    /* Waits until all messages of this type that this rank has started to receive for the segment
     * have arrived. `parts` is the number of ranks in the row or column. */
    CSHIM_OPERATION_WAIT_RECEIVED,
    /* Waits until all messages of this type that this rank has started to send for the segment have
     * been sent. `parts` is the number of ranks in the row or column. */
    CSHIM_OPERATION_WAIT_SENT,
    /* Makes the message from `peer` at `offset` input number `parts`, after checking its header; a
     * message of this rank itself need not be checked. In a grid, each REDUCE or DECODE of the
     * input continues where the previous one has stopped. */
    CSHIM_OPERATION_READ,
    /* Makes a range of this rank's own elements input number `parts`. */
    CSHIM_OPERATION_READ_OWN,
    /* Adds a range of the inputs 0 to `parts` - 1. */
    CSHIM_OPERATION_REDUCE,
    /* Appends a range of input 0 to the message without decoding it. */
    CSHIM_OPERATION_FORWARD,
    /* Decodes a range of input 0 into the result. */
    CSHIM_OPERATION_DECODE,
    /* The ranks of the node gather their reduced shares in the output of each rank; in a reduce, of
     * the root only. */
    CSHIM_OPERATION_NODE_GATHER,
    CSHIM_OPERATION_KINDS
};

/* Options of an operation. */
enum {
    CSHIM_TO_MESSAGE = 1,  /* REDUCE: encodes the sum, and appends it to the message */
    CSHIM_TO_RESULT = 2,   /* REDUCE: writes the sum to the result */
    CSHIM_FROM_RESULT = 4, /* ENCODE: reads what REDUCE has written to the result */
    CSHIM_FOR_ALL = 8,     /* MESSAGE: the message is the same for all receivers */
};

/* An operation in a list. */
struct cshim_operation {
    uint8_t kind;    /* enum cshim_operation_kind */
    uint8_t depth;   /* pipeline iterations after the start of the segment */
    uint8_t message; /* enum cshim_message: type of the message, or of the inputs */
    uint8_t options;
    uint32_t index; /* index of the peer in the row or column */
    uint32_t peer;  /* index among the plan's peers */
    uint32_t parts;
    uint64_t offset; /* offset of the message in the segment's scratch, in bytes */
    /* READ of another rank's message in an all-reduce by one_shot or two_shot: offset of the
     * message in the scratch that its sender has for the segment. */
    uint64_t sender_offset;
    /* First element of the range (FORWARD: 0). In an ENCODE of an all-to-all it counts from the
     * start of the send buffer, otherwise as in cshim_segment_owned(). */
    uint64_t begin;
    uint64_t elements;
};

struct cshim_operations {
    struct cshim_operation *list;
    unsigned count;
    unsigned capacity;
};

/* Depth of the operations in the last pipeline iteration of a segment. */
#define CSHIM_PIPELINE_DEPTH (CSHIM_SEGMENTS_IN_FLIGHT - 1)

void cshim_operations_free(struct cshim_operations *operations);

#define CSHIM_OPERATION_TEXT_MAX 128
/* Writes an operation as a line, without a line end, and returns `text`. */
const char *cshim_operation_text(const struct cshim_operation *operation,
                                 char text[CSHIM_OPERATION_TEXT_MAX]);

#endif
