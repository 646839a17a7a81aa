/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles the operations of a segment, and caches the lists of a communicator.
 *
 * The rest of this header is for the compilers of algorithms (shim/core/algorithms), each in a file
 * that describes the algorithm and its buffers: functions that append operations, alone or in
 * loops, and the buffers of a segment's scratch. A loop of sends begins with the next peer, except
 * for a grid's row sums, and a loop of receives with the previous peer. So the peers do not all
 * send to one peer first. */
#ifndef CSHIM_COMPILER_H
#define CSHIM_COMPILER_H

#include "shim/core/operation.h"

/* Replaces `operations` by the list of a segment, for the rank of its role. The list is empty for
 * the algorithm cast, which the library's own all-reduce executes. Returns false if there is no
 * memory. */
bool cshim_compile(struct cshim_operations *operations, const struct cshim_segment *segment);

/* Key of a compiled list: the properties of a segment that the list depends on, besides the rank
 * and its layout. */
struct cshim_list_key {
    const struct cshim_schedule *schedule; /* NULL: unused, or not reusable (with blocks) */
    uint64_t elements, piece_bytes, column_bytes;
    struct cshim_grid grid;
    uint32_t shares, root, codec, gather_codec;
};
/* Cache of the lists that one rank of a communicator has used most recently. A segment whose key is
 * in the cache is not compiled again. */
#define CSHIM_LISTS (2 * CSHIM_SEGMENTS_IN_FLIGHT)
struct cshim_lists {
    struct {
        struct cshim_list_key key;
        uint64_t used; /* value of `finds` at the latest use */
        struct cshim_operations operations;
    } entries[CSHIM_LISTS];
    uint64_t finds; /* number of lists found or compiled */
};

/* Returns the list of a segment; NULL if there is no memory. The list is valid for the next
 * CSHIM_LISTS - 1 calls of this function. */
const struct cshim_operations *cshim_lists_find(struct cshim_lists *lists,
                                                const struct cshim_segment *segment);
void cshim_lists_free(struct cshim_lists *lists);

struct cshim_compiler {
    struct cshim_operations *operations;
    const struct cshim_segment *segment;
    const struct cshim_role *role;
    const struct cshim_plan *plan;
    uint8_t depth;                 /* depth of the next operations */
    bool failed;                   /* no memory */
    struct cshim_operation unused; /* written instead of a list entry if there is no memory */
};

/* Areas of a segment's scratch, each with room for a message of every peer of the row:
 * contributions received, reduced chunks, and contributions sent. In a grid the same areas for the
 * column follow. An algorithm need not use all areas. */
enum cshim_area { CSHIM_CONTRIBUTIONS, CSHIM_REDUCED, CSHIM_OUTGOING };

/* Returns the byte offset, in the segment's scratch, of the message that an area of the row or
 * column has for peer `index`. */
uint64_t cshim_slot(const struct cshim_compiler *compiler, enum cshim_dimension dimension,
                    enum cshim_area area, int index);

/* Returns the offset of the contribution of peer `index` of the row. */
static inline uint64_t cshim_contributions(const struct cshim_compiler *compiler, int index)
{
    return cshim_slot(compiler, CSHIM_ROW, CSHIM_CONTRIBUTIONS, index);
}

/* Returns the index of the peer `step` places after this rank in its row or column, cyclically; a
 * negative step goes back. */
int cshim_neighbour(const struct cshim_compiler *compiler, enum cshim_dimension dimension,
                    int step);

void cshim_emit_receive(struct cshim_compiler *compiler, enum cshim_message message, int from,
                        uint64_t elements, uint64_t offset);
/* Emits a MESSAGE. `to` is the index of its receiver, which may be this rank, or -1 if the message
 * is the same for all receivers. */
void cshim_emit_message(struct cshim_compiler *compiler, enum cshim_message message, int to,
                        uint64_t elements, uint64_t offset);
void cshim_emit_encode(struct cshim_compiler *compiler, enum cshim_message message,
                       const struct cshim_range *range, uint8_t options);
void cshim_emit_send(struct cshim_compiler *compiler, enum cshim_message message, int to,
                     uint64_t offset);
/* Emits a wait for the messages of the whole row or column. The wait and the operations after it
 * have pipeline depth `depth`. */
void cshim_emit_wait_received(struct cshim_compiler *compiler, enum cshim_message message,
                              uint8_t depth);
/* Emits a wait for this rank's messages to the whole row or column. The wait and the operations
 * after it have pipeline depth CSHIM_PIPELINE_DEPTH. */
void cshim_emit_wait_sent(struct cshim_compiler *compiler, enum cshim_message message);
void cshim_emit_read(struct cshim_compiler *compiler, enum cshim_message message, int from,
                     uint64_t elements, uint64_t offset, uint64_t sender_offset, unsigned input);
void cshim_emit_read_own(struct cshim_compiler *compiler, const struct cshim_range *range,
                         unsigned input);
/* Emits a REDUCE. `message` is the type of the message that the sum is for, directly or by an
 * ENCODE from the result; CSHIM_MESSAGE_PARTS if the sum is for no message. */
void cshim_emit_reduce(struct cshim_compiler *compiler, enum cshim_message message, unsigned inputs,
                       const struct cshim_range *range, uint8_t options);
void cshim_emit_forward(struct cshim_compiler *compiler, enum cshim_message message,
                        uint64_t elements);
void cshim_emit_decode(struct cshim_compiler *compiler, enum cshim_message message,
                       const struct cshim_range *range);
void cshim_emit_node(struct cshim_compiler *compiler, enum cshim_operation_kind kind);

/* Emits the reduction of `inputs` inputs over `range` into the elements of `message`. If `keeps`,
 * or if the message has another codec than the inputs, the sum is written to the result, too. */
void cshim_emit_reduce_to_message(struct cshim_compiler *compiler, enum cshim_message message,
                                  unsigned inputs, const struct cshim_range *range, bool keeps);

/* Loops over the peers of the row, which several algorithms need. An empty chunk has no
 * messages. */

/* Returns true if a peer of the row gets the whole result: in a reduce only the root, in a
 * reduce-scatter none, otherwise all. */
bool cshim_is_receiver(const struct cshim_compiler *compiler, int peer);
/* Emits receives of the other peers' contributions to this peer's chunk and, if `with_sums`, of
 * their reduced chunks. */
void cshim_emit_receives(struct cshim_compiler *compiler, bool with_sums);
/* Emits messages with this peer's contributions to the other peers' chunks, in CSHIM_OUTGOING, and
 * sends them to these peers. If `with_own`, emits one with the contribution to its own chunk, too,
 * in CSHIM_CONTRIBUTIONS. */
void cshim_emit_contributions(struct cshim_compiler *compiler, bool with_own);
/* Emits sends of a message to all other peers that are receivers (cshim_is_receiver). */
void cshim_emit_sends(struct cshim_compiler *compiler, enum cshim_message message, uint64_t offset);
/* Emits the decoding of the chunks of all peers, this one included, except peer `but` (-1: none).
 * `area` has a message with each chunk. */
void cshim_emit_decodes(struct cshim_compiler *compiler, enum cshim_message message,
                        enum cshim_area area, int but);

/* Append the operations of a segment by an algorithm (shim/core/algorithms). The table in
 * schedule.c names the collectives that each of these functions compiles. */
#define UNCOMPILED(...)
#define ALGORITHM(NAME, name, ...) void cshim_compile_##name(struct cshim_compiler *compiler);
#include "policy/algorithms.def"
void cshim_compile_broadcast(struct cshim_compiler *compiler);
void cshim_compile_scattered_broadcast(struct cshim_compiler *compiler);
void cshim_compile_allgather(struct cshim_compiler *compiler);
void cshim_compile_alltoall(struct cshim_compiler *compiler);

#endif
