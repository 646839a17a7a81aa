/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/compiler.h"

#include <stdlib.h>
#include <string.h>

bool cshim_compile(struct cshim_operations *operations, const struct cshim_segment *segment)
{
    const struct cshim_plan *plan = segment->role->plan;
    struct cshim_compiler compiler = {
        .operations = operations, .segment = segment, .role = segment->role, .plan = plan};
    operations->count = 0;
    if (plan->schedule->compile != NULL)
        plan->schedule->compile(&compiler);
    return !compiler.failed;
}

const struct cshim_operations *cshim_lists_find(struct cshim_lists *lists,
                                                const struct cshim_segment *segment)
{
    const struct cshim_plan *plan = segment->role->plan;
    const struct cshim_list_key key = {
        .schedule = plan->schedule->division != CSHIM_BLOCKS ? plan->schedule : NULL,
        .elements = segment->whole.length,
        .piece_bytes = plan->piece_bytes,
        .column_bytes = plan->column_bytes,
        .grid = plan->grid,
        .shares = plan->shares,
        .root = plan->root,
        .codec = plan->codec,
        .gather_codec = plan->gather_codec,
    };
    unsigned oldest = 0;
    for (unsigned i = 0; i < CSHIM_LISTS; i++) {
        if (lists->entries[i].key.schedule == key.schedule && key.schedule != NULL &&
            memcmp(&lists->entries[i].key, &key, sizeof key) == 0) {
            lists->entries[i].used = ++lists->finds;
            return &lists->entries[i].operations;
        }
        if (lists->entries[i].used < lists->entries[oldest].used)
            oldest = i;
    }
    lists->entries[oldest].key.schedule = NULL;
    if (!cshim_compile(&lists->entries[oldest].operations, segment))
        return NULL;
    lists->entries[oldest].key = key;
    lists->entries[oldest].used = ++lists->finds;
    return &lists->entries[oldest].operations;
}

void cshim_lists_free(struct cshim_lists *lists)
{
    for (unsigned i = 0; i < CSHIM_LISTS; i++)
        cshim_operations_free(&lists->entries[i].operations);
}

static enum cshim_dimension dimension_of(enum cshim_message message)
{
    return message < CSHIM_ROW_MESSAGES ? CSHIM_ROW : CSHIM_COLUMN;
}

uint64_t cshim_slot(const struct cshim_compiler *compiler, enum cshim_dimension dimension,
                    enum cshim_area area, int index)
{
    const struct cshim_plan *plan = compiler->plan;
    const uint64_t longest_row = plan->grid.columns + (plan->peers % plan->grid.rows != 0);
    if (dimension == CSHIM_ROW)
        return (area * longest_row + (uint64_t)index) * plan->piece_bytes;
    return (CSHIM_OUTGOING + 1) * longest_row * plan->piece_bytes +
           (area * (uint64_t)cshim_grid_depth(&plan->grid) + (uint64_t)index) * plan->column_bytes;
}

int cshim_neighbour(const struct cshim_compiler *compiler, enum cshim_dimension dimension, int step)
{
    const struct cshim_peer_group *group = &compiler->role->groups[dimension];
    return (group->rank + step + group->ranks) % group->ranks;
}

/* Appends an operation, and returns it for the caller to fill. If there is no memory, returns an
 * operation outside the list, which nobody executes. */
static struct cshim_operation *append(struct cshim_compiler *compiler,
                                      enum cshim_operation_kind kind, enum cshim_message message)
{
    struct cshim_operations *operations = compiler->operations;
    if (operations->count == operations->capacity && !compiler->failed) {
        const unsigned capacity = operations->capacity > 0 ? 2 * operations->capacity : 32;
        struct cshim_operation *list = realloc(operations->list, capacity * sizeof *list);
        compiler->failed = list == NULL;
        if (list != NULL) {
            operations->list = list;
            operations->capacity = capacity;
        }
    }
    if (compiler->failed)
        return &compiler->unused;
    struct cshim_operation *operation = &operations->list[operations->count++];
    *operation = (struct cshim_operation){
        .kind = (uint8_t)kind, .depth = compiler->depth, .message = (uint8_t)message};
    return operation;
}

/* Appends an operation on a message to or from the peer at `index` of its row or column. */
static struct cshim_operation *append_with(struct cshim_compiler *compiler,
                                           enum cshim_operation_kind kind,
                                           enum cshim_message message, int index, uint64_t elements,
                                           uint64_t offset)
{
    struct cshim_operation *operation = append(compiler, kind, message);
    operation->index = (uint32_t)index;
    operation->peer = (uint32_t)cshim_role_peer(compiler->role, dimension_of(message), index);
    operation->elements = elements;
    operation->offset = offset;
    return operation;
}

static struct cshim_operation *append_range(struct cshim_compiler *compiler,
                                            enum cshim_operation_kind kind,
                                            enum cshim_message message,
                                            const struct cshim_range *range)
{
    struct cshim_operation *operation = append(compiler, kind, message);
    operation->begin = range->begin;
    operation->elements = range->length;
    return operation;
}

void cshim_emit_receive(struct cshim_compiler *compiler, enum cshim_message message, int from,
                        uint64_t elements, uint64_t offset)
{
    if (elements > 0)
        append_with(compiler, CSHIM_OPERATION_RECEIVE, message, from, elements, offset);
}

void cshim_emit_message(struct cshim_compiler *compiler, enum cshim_message message, int to,
                        uint64_t elements, uint64_t offset)
{
    append_with(compiler, CSHIM_OPERATION_MESSAGE, message, to >= 0 ? to : 0, elements, offset)
        ->options = to >= 0 ? 0 : CSHIM_FOR_ALL;
}

void cshim_emit_encode(struct cshim_compiler *compiler, enum cshim_message message,
                       const struct cshim_range *range, uint8_t options)
{
    append_range(compiler, CSHIM_OPERATION_ENCODE, message, range)->options = options;
}

void cshim_emit_send(struct cshim_compiler *compiler, enum cshim_message message, int to,
                     uint64_t offset)
{
    append_with(compiler, CSHIM_OPERATION_SEND, message, to, 0, offset);
}

/* Appends a wait for the messages of the whole row or column. */
static void append_wait(struct cshim_compiler *compiler, enum cshim_operation_kind kind,
                        enum cshim_message message)
{
    append(compiler, kind, message)->parts =
        (uint32_t)compiler->role->groups[dimension_of(message)].ranks;
}

void cshim_emit_wait_received(struct cshim_compiler *compiler, enum cshim_message message,
                              uint8_t depth)
{
    compiler->depth = depth;
    append_wait(compiler, CSHIM_OPERATION_WAIT_RECEIVED, message);
}

void cshim_emit_wait_sent(struct cshim_compiler *compiler, enum cshim_message message)
{
    compiler->depth = CSHIM_PIPELINE_DEPTH;
    append_wait(compiler, CSHIM_OPERATION_WAIT_SENT, message);
}

void cshim_emit_read(struct cshim_compiler *compiler, enum cshim_message message, int from,
                     uint64_t elements, uint64_t offset, uint64_t sender_offset, unsigned input)
{
    struct cshim_operation *operation =
        append_with(compiler, CSHIM_OPERATION_READ, message, from, elements, offset);
    operation->sender_offset = sender_offset;
    operation->parts = input;
}

void cshim_emit_read_own(struct cshim_compiler *compiler, const struct cshim_range *range,
                         unsigned input)
{
    append_range(compiler, CSHIM_OPERATION_READ_OWN, CSHIM_MESSAGE_PARTS, range)->parts = input;
}

void cshim_emit_reduce(struct cshim_compiler *compiler, enum cshim_message message, unsigned inputs,
                       const struct cshim_range *range, uint8_t options)
{
    struct cshim_operation *operation =
        append_range(compiler, CSHIM_OPERATION_REDUCE, message, range);
    operation->parts = inputs;
    operation->options = options;
}

void cshim_emit_reduce_to_message(struct cshim_compiler *compiler, enum cshim_message message,
                                  unsigned inputs, const struct cshim_range *range, bool keeps)
{
    if (cshim_message_codec(compiler->plan, message) == compiler->plan->codec) {
        cshim_emit_reduce(compiler, message, inputs, range,
                          CSHIM_TO_MESSAGE | (keeps ? CSHIM_TO_RESULT : 0));
        return;
    }
    cshim_emit_reduce(compiler, message, inputs, range, CSHIM_TO_RESULT);
    cshim_emit_encode(compiler, message, range, CSHIM_FROM_RESULT);
}

void cshim_emit_forward(struct cshim_compiler *compiler, enum cshim_message message,
                        uint64_t elements)
{
    append_range(compiler, CSHIM_OPERATION_FORWARD, message, &(struct cshim_range){0, elements});
}

void cshim_emit_decode(struct cshim_compiler *compiler, enum cshim_message message,
                       const struct cshim_range *range)
{
    append_range(compiler, CSHIM_OPERATION_DECODE, message, range)->parts = 1;
}

void cshim_emit_node(struct cshim_compiler *compiler, enum cshim_operation_kind kind)
{
    append(compiler, kind, CSHIM_MESSAGE_PARTS);
}

bool cshim_is_receiver(const struct cshim_compiler *compiler, int peer)
{
    const enum cshim_collective collective = compiler->plan->collective;
    return collective == CSHIM_REDUCE ? (uint32_t)peer == compiler->role->root
                                      : collective != CSHIM_REDUCE_SCATTER;
}

void cshim_emit_receives(struct cshim_compiler *compiler, bool with_sums)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    const uint64_t own = cshim_segment_owned(compiler->segment, row->rank).length;
    for (int i = 1; i < row->ranks; i++) {
        const int from = cshim_neighbour(compiler, CSHIM_ROW, -i);
        cshim_emit_receive(compiler, CSHIM_MESSAGE_PARTS, from, own,
                           cshim_contributions(compiler, from));
        if (with_sums)
            cshim_emit_receive(compiler, CSHIM_MESSAGE_SUMS, from,
                               cshim_segment_owned(compiler->segment, from).length,
                               cshim_slot(compiler, CSHIM_ROW, CSHIM_REDUCED, from));
    }
}

/* Emits a message with the contribution to a chunk, piece by piece. Returns false if the chunk is
 * empty. */
static bool emit_contribution(struct cshim_compiler *compiler, int to, uint64_t offset)
{
    const uint64_t elements = cshim_segment_owned(compiler->segment, to).length;
    if (elements == 0)
        return false;
    cshim_emit_message(compiler, CSHIM_MESSAGE_PARTS, to, elements, offset);
    for (uint32_t i = 0; i < cshim_grid_depth(&compiler->plan->grid); i++) {
        const struct cshim_range piece = cshim_segment_piece(compiler->segment, to, i);
        if (piece.length > 0)
            cshim_emit_encode(compiler, CSHIM_MESSAGE_PARTS, &piece, 0);
    }
    return true;
}

void cshim_emit_contributions(struct cshim_compiler *compiler, bool with_own)
{
    const struct cshim_peer_group *row = &compiler->role->groups[CSHIM_ROW];
    for (int i = 1; i < row->ranks; i++) {
        const int to = cshim_neighbour(compiler, CSHIM_ROW, i);
        const uint64_t offset = cshim_slot(compiler, CSHIM_ROW, CSHIM_OUTGOING, to);
        if (emit_contribution(compiler, to, offset))
            cshim_emit_send(compiler, CSHIM_MESSAGE_PARTS, to, offset);
    }
    if (with_own)
        emit_contribution(compiler, row->rank, cshim_contributions(compiler, row->rank));
}

void cshim_emit_sends(struct cshim_compiler *compiler, enum cshim_message message, uint64_t offset)
{
    for (int i = 1; i < compiler->role->groups[CSHIM_ROW].ranks; i++) {
        const int to = cshim_neighbour(compiler, CSHIM_ROW, i);
        if (cshim_is_receiver(compiler, to))
            cshim_emit_send(compiler, message, to, offset);
    }
}

void cshim_emit_decodes(struct cshim_compiler *compiler, enum cshim_message message,
                        enum cshim_area area, int but)
{
    for (int from = 0; from < compiler->role->groups[CSHIM_ROW].ranks; from++) {
        const uint64_t elements = cshim_segment_owned(compiler->segment, from).length;
        const uint64_t offset = cshim_slot(compiler, CSHIM_ROW, area, from);
        if (elements == 0 || from == but)
            continue;
        cshim_emit_read(compiler, message, from, elements, offset, offset, 0);
        for (uint32_t i = 0; i < cshim_grid_depth(&compiler->plan->grid); i++) {
            const struct cshim_range piece = cshim_segment_piece(compiler->segment, from, i);
            if (piece.length > 0)
                cshim_emit_decode(compiler, message, &piece);
        }
    }
}
