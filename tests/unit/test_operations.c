/* SPDX-License-Identifier: Apache-2.0 */
/* Executes the operations of all ranks on a simulated machine: every collective by every algorithm
 * but cast that can make it, 2 to 64 ranks, even and uneven nodes, odd counts, any root, equal and
 * unequal blocks. The ranks progress in random order, and a message is delivered at a random time
 * between its send and the wait for it. The machine checks that
 *   - each send has its receive, and nothing is left over; a receive that is posted after its send
 *     has the same size;
 *   - the ranks' progress does not end in a deadlock;
 *   - each result is right: the elements moved, or the sum with each contribution added once;
 *   - no message lies outside its segment's scratch, or is overwritten while it is sent or before
 *     it is read, also where the receiver reads it in the sender's memory;
 *   - no element is read from a message that has not been waited for;
 *   - each message is waited for before its scratch is used again;
 *   - the bytes are those of the plan, except with blocks or stages.
 * Elements are float64 in raw, integers whose sums are exact. In calls of NCCL all blocks are
 * equal, and elements beyond equal shares of a node are left out. */
#include "shim/core/compiler.h"

#include "codecs/floats.h"
#include "codecs/hash.h"
#include "tests/unit/unit.h"

#define RANKS_MAX 64

/* A message, from its send or the posting of its receive on. */
struct parcel {
    int from, to;
    uint8_t type; /* messages match by sender, receiver and type, in order */
    uint64_t order;
    uint64_t bytes;
    uint8_t *sent_at, *received_at; /* NULL: not posted yet */
    uint64_t room;
    uint64_t digest; /* digest of the bytes when they were sent */
    bool delivered;
    unsigned sender_slot, receiver_slot;
    struct parcel *next;
};

/* A rank's state of a segment in flight. */
struct flight {
    struct cshim_segment segment;
    struct cshim_operations operations;
    unsigned next;
    uint8_t *scratch;
    uint64_t arrived[CSHIM_MESSAGES][RANKS_MAX]; /* digest of each message received; 0: none */
};

struct rank {
    struct cshim_layout layout;
    struct cshim_role role;
    double *input, *output;
    uint64_t first_input, first_output; /* index in the call of each buffer's first element */
    uint8_t *scratch;
    struct flight flights[CSHIM_SEGMENTS_IN_FLIGHT];
    uint64_t iteration;
    unsigned age;
    /* Begin and end of the message being written, and the inputs of a reduction. */
    uint8_t *begun, *end;
    const uint8_t *inputs[RANKS_MAX];
    uint64_t sends[CSHIM_MESSAGES][RANKS_MAX], receives[CSHIM_MESSAGES][RANKS_MAX];
    uint64_t node_operations; /* number of NODE_REDUCE and NODE_GATHER operations so far */
    bool waits_for_node;
};

struct machine {
    struct cshim_plan plan;
    int ranks;
    int nodes[RANKS_MAX];
    uint64_t block_begins[RANKS_MAX + 1], sent_begins[RANKS_MAX][RANKS_MAX + 1],
        received_begins[RANKS_MAX][RANKS_MAX + 1];
    struct rank rank[RANKS_MAX];
    struct parcel *parcels;
    uint64_t bytes, random;
    const char *failure;
};

static uint64_t draw(struct machine *machine, uint64_t below)
{
    machine->random = machine->random * 6364136223846793005u + 1442695040888963407u;
    return below > 0 ? (machine->random >> 33) % below : 0;
}

static void fault(struct machine *machine, const char *what)
{
    if (machine->failure == NULL)
        machine->failure = what;
}

/* Returns element `element` of a rank's contribution; in an all-to-all, of the block for rank `to`.
 */
static double value(int rank, int to, uint64_t element)
{
    return (double)(cshim_mix((uint64_t)rank << 48 ^ (uint64_t)to << 40 ^ element) % (1u << 30));
}

static uint64_t digest(const uint8_t *bytes, uint64_t length)
{
    uint64_t hash = CSHIM_HASH_EMPTY;
    for (uint64_t i = 0; i + 8 <= length; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        hash = cshim_hash_step(hash, word);
    }
    return hash | 1;
}

static uint64_t encoded_bytes(uint64_t elements)
{
    return cshim_encoded_bytes(CSHIM_CODEC_RAW, CSHIM_FLOAT64, elements);
}

/* Messages ------------------------------------------------------------------------------------- */

static struct parcel *find_parcel(struct machine *machine, int from, int to, uint8_t type,
                                  uint64_t order)
{
    for (struct parcel *p = machine->parcels; p != NULL; p = p->next)
        if (p->from == from && p->to == to && p->type == type && p->order == order)
            return p;
    struct parcel *parcel = calloc(1, sizeof *parcel);
    *parcel = (struct parcel){
        .from = from, .to = to, .type = type, .order = order, .next = machine->parcels};
    machine->parcels = parcel;
    return parcel;
}

/* Delivers a message that has been sent and for which a receive is posted. */
static void deliver(struct machine *machine, struct parcel *parcel)
{
    if (parcel->delivered || parcel->sent_at == NULL || parcel->received_at == NULL)
        return;
    if (parcel->bytes > parcel->room)
        fault(machine, "a message is longer than its buffer");
    else if (digest(parcel->sent_at, parcel->bytes) != parcel->digest)
        fault(machine, "a message was overwritten while it was sent");
    else
        memcpy(parcel->received_at, parcel->sent_at, parcel->bytes);
    parcel->delivered = true;
}

/* Returns the rank that is peer `peer` of a rank. If the schedule is staged, a peer is the rank
 * with the same local index on node `peer`. */
static int rank_of_peer(const struct machine *machine, const struct rank *rank, uint32_t peer)
{
    if (!machine->plan.schedule->staged)
        return (int)peer;
    for (int r = 0; r < machine->ranks; r++)
        if (machine->rank[r].layout.node == (int)peer &&
            machine->rank[r].layout.local_rank == rank->layout.local_rank)
            return r;
    return -1;
}

static uint64_t message_room(const struct machine *machine, uint8_t type)
{
    return type < CSHIM_ROW_MESSAGES ? machine->plan.piece_bytes : machine->plan.column_bytes;
}

/* Checks that a message ends before the segment's stage. */
static void check_bounds(struct machine *machine, const struct cshim_operation *operation)
{
    if (operation->offset + CSHIM_HEADER_BYTES + encoded_bytes(operation->elements) >
        machine->plan.slot_bytes - machine->plan.stage_bytes)
        fault(machine, "a message lies outside the scratch");
}

static void start_receive(struct machine *machine, struct rank *rank, struct flight *flight,
                          const struct cshim_operation *operation)
{
    const int from = rank_of_peer(machine, rank, operation->peer);
    struct parcel *parcel = find_parcel(machine, from, rank->role.rank, operation->message,
                                        rank->receives[operation->message][from]++);
    check_bounds(machine, operation);
    parcel->received_at = flight->scratch + operation->offset;
    parcel->room = message_room(machine, operation->message);
    parcel->receiver_slot = (unsigned)(flight - rank->flights);
    flight->arrived[operation->message][operation->index] = 0;
    if (parcel->sent_at != NULL &&
        parcel->bytes != CSHIM_HEADER_BYTES + encoded_bytes(operation->elements))
        fault(machine, "a message has another size than its receive");
    memset(parcel->received_at, 0, CSHIM_HEADER_BYTES);
}

static void start_send(struct machine *machine, struct rank *rank, struct flight *flight,
                       const struct cshim_operation *operation)
{
    const int to = rank_of_peer(machine, rank, operation->peer);
    struct parcel *parcel = find_parcel(machine, rank->role.rank, to, operation->message,
                                        rank->sends[operation->message][to]++);
    if (rank->begun != flight->scratch + operation->offset)
        fault(machine, "another message is sent than was made");
    parcel->sent_at = rank->begun;
    parcel->bytes = (uint64_t)(rank->end - rank->begun);
    parcel->digest = digest(parcel->sent_at, parcel->bytes);
    parcel->sender_slot = (unsigned)(flight - rank->flights);
    machine->bytes += parcel->bytes;
}

/* Delivers the messages that a WAIT waits for, up to the first that is missing. Returns true if
 * none is missing. */
static bool wait_is_over(struct machine *machine, struct rank *rank, struct flight *flight,
                         const struct cshim_operation *wait)
{
    const unsigned slot = (unsigned)(flight - rank->flights);
    const bool receives = wait->kind == CSHIM_OPERATION_WAIT_RECEIVED;
    for (struct parcel *p = machine->parcels; p != NULL; p = p->next) {
        if (p->type != wait->message)
            continue;
        if (receives
                ? p->to != rank->role.rank || p->received_at == NULL || p->receiver_slot != slot
                : p->from != rank->role.rank || p->sent_at == NULL || p->sender_slot != slot)
            continue;
        deliver(machine, p);
        if (!p->delivered)
            return false;
    }
    return true;
}

/* Forgets a segment's completed messages; keeps the digests of those that arrived. */
static void end_wait(struct machine *machine, struct rank *rank, struct flight *flight,
                     const struct cshim_operation *wait)
{
    const unsigned slot = (unsigned)(flight - rank->flights);
    for (unsigned i = 0; i < flight->operations.count; i++) {
        const struct cshim_operation *receive = &flight->operations.list[i];
        if (wait->kind == CSHIM_OPERATION_WAIT_RECEIVED &&
            receive->kind == CSHIM_OPERATION_RECEIVE && receive->message == wait->message)
            flight->arrived[receive->message][receive->index] =
                digest(flight->scratch + receive->offset,
                       CSHIM_HEADER_BYTES + encoded_bytes(receive->elements));
    }
    for (struct parcel *p = machine->parcels; p != NULL; p = p->next) {
        if (p->type != wait->message || !p->delivered)
            continue;
        if (wait->kind == CSHIM_OPERATION_WAIT_RECEIVED && p->to == rank->role.rank &&
            p->receiver_slot == slot)
            p->receiver_slot = CSHIM_SEGMENTS_IN_FLIGHT;
        if (wait->kind == CSHIM_OPERATION_WAIT_SENT && p->from == rank->role.rank &&
            p->sender_slot == slot)
            p->sender_slot = CSHIM_SEGMENTS_IN_FLIGHT;
    }
}

/* Operations ----------------------------------------------------------------------------------- */

static double *stage_of(const struct machine *machine, const struct flight *flight)
{
    return (double *)(void *)(flight->scratch + machine->plan.slot_bytes -
                              machine->plan.stage_bytes);
}

/* Returns the index in the stage of the first element for a node, in collectives with blocks. */
static uint64_t staged_block(const struct rank *rank, const struct flight *flight, uint32_t node)
{
    uint64_t begin = 0;
    for (uint32_t i = 0; i < node; i++)
        begin += cshim_segment_block(&flight->segment, (int)i, rank->layout.local_rank).length;
    return begin;
}

static const double *source_of(const struct machine *machine, const struct rank *rank,
                               const struct flight *flight, const struct cshim_operation *operation,
                               uint32_t peer)
{
    const struct cshim_plan *plan = &machine->plan;
    if (!plan->schedule->staged)
        return rank->input + flight->segment.share.begin + operation->begin - rank->first_input;
    return stage_of(machine, flight) + (plan->schedule->division == CSHIM_BLOCKS
                                            ? staged_block(rank, flight, peer)
                                            : operation->begin);
}

static double *target_of(const struct machine *machine, const struct rank *rank,
                         const struct flight *flight, const struct cshim_operation *operation)
{
    return machine->plan.schedule->staged && machine->plan.schedule->division != CSHIM_BLOCKS
               ? stage_of(machine, flight) + operation->begin
               : rank->output + flight->segment.share.begin + operation->begin - rank->first_output;
}

static void append(struct rank *rank, const void *elements, uint64_t count)
{
    memset(rank->end, 0, encoded_bytes(count));
    memmove(rank->end, elements, count * sizeof(double));
    rank->end += encoded_bytes(count);
}

/* Checks that a message can be read: it has arrived and is unchanged, here and, if the receiver may
 * read it there, in the sender's scratch. */
static void read_message(struct machine *machine, struct rank *rank, struct flight *flight,
                         const struct cshim_operation *operation)
{
    const uint8_t *message = flight->scratch + operation->offset;
    const uint64_t bytes = CSHIM_HEADER_BYTES + encoded_bytes(operation->elements);
    const int from = rank_of_peer(machine, rank, operation->peer);
    rank->inputs[operation->parts] = message + CSHIM_HEADER_BYTES;
    if (from == rank->role.rank)
        return;
    const uint64_t arrived = flight->arrived[operation->message][operation->index];
    if (arrived == 0)
        fault(machine, "a message is read before it has arrived");
    else if (arrived != digest(message, bytes))
        fault(machine, "a message was overwritten before it was read");
    if (machine->plan.collective == CSHIM_ALLREDUCE && machine->plan.grid.rows == 1 &&
        !machine->plan.schedule->staged &&
        digest(machine->rank[from].scratch + (flight->scratch - rank->scratch) +
                   operation->sender_offset,
               bytes) != arrived)
        fault(machine, "a message was overwritten in its sender's scratch");
}

static void reduce(struct machine *machine, struct rank *rank, struct flight *flight,
                   const struct cshim_operation *operation)
{
    double *sums = malloc((operation->elements + 1) * sizeof *sums);
    for (uint64_t i = 0; i < operation->elements; i++) {
        sums[i] = 0;
        for (unsigned part = 0; part < operation->parts; part++) {
            double element;
            memcpy(&element, rank->inputs[part] + i * sizeof element, sizeof element);
            sums[i] += element;
        }
    }
    for (unsigned part = 0; part < operation->parts; part++)
        rank->inputs[part] += encoded_bytes(operation->elements);
    if ((operation->options & CSHIM_TO_MESSAGE) != 0)
        append(rank, sums, operation->elements);
    if ((operation->options & CSHIM_TO_RESULT) != 0)
        memcpy(target_of(machine, rank, flight, operation), sums,
               operation->elements * sizeof(double));
    free(sums);
}

/* Adds the inputs of the node's ranks over this rank's share (or blocks) into its stage. Reads the
 * inputs in place, without messages. */
static void reduce_node(const struct machine *machine, const struct rank *rank,
                        const struct flight *flight)
{
    const struct cshim_segment *segment = &flight->segment;
    const bool has_blocks = machine->plan.schedule->division == CSHIM_BLOCKS;
    double *stage = stage_of(machine, flight);
    for (int node = 0; node < (has_blocks ? (int)machine->plan.peers : 1); node++) {
        const struct cshim_range range =
            has_blocks ? cshim_segment_block(segment, node, rank->layout.local_rank)
                       : segment->share;
        for (uint64_t i = 0; i < range.length; i++, stage++) {
            *stage = 0;
            for (int other = 0; other < machine->ranks; other++)
                if (machine->nodes[other] == machine->nodes[rank->role.rank])
                    *stage += machine->rank[other].input[range.begin + i];
        }
    }
}

/* Copies the shares of the node's ranks, all of which have reached their NODE_GATHER, from their
 * stages to this rank's output; in a reduce only at the root. */
static void gather_node(const struct machine *machine, const struct rank *rank,
                        const struct flight *flight)
{
    if (machine->plan.collective == CSHIM_REDUCE && rank->role.rank != (int)machine->plan.root)
        return;
    for (int other = 0; other < machine->ranks; other++) {
        const struct rank *from = &machine->rank[other];
        if (machine->nodes[other] != machine->nodes[rank->role.rank])
            continue;
        const struct flight *their = &from->flights[flight - rank->flights];
        const struct cshim_range share =
            cshim_segment_share(&flight->segment, from->layout.local_rank);
        memcpy(rank->output + share.begin, stage_of(machine, their), share.length * sizeof(double));
    }
}

/* Returns true if every rank of the node has begun at least as many node operations as this rank. A
 * rank leaves a node operation only after all have begun it, so no stage changes while others read
 * it. */
static bool meets_node(struct machine *machine, struct rank *rank)
{
    if (!rank->waits_for_node) {
        rank->waits_for_node = true;
        rank->node_operations++;
    }
    for (int other = 0; other < machine->ranks; other++)
        if (machine->nodes[other] == machine->nodes[rank->role.rank] &&
            machine->rank[other].node_operations < rank->node_operations)
            return false;
    return true;
}

/* Executes an operation. Returns false if the rank has to wait. */
static bool execute(struct machine *machine, struct rank *rank, struct flight *flight)
{
    const struct cshim_operation *operation = &flight->operations.list[flight->next];
    const uint64_t header = 0x1111111111111111u * (uint64_t)(operation->message + 1);
    switch ((enum cshim_operation_kind)operation->kind) {
    case CSHIM_OPERATION_NODE_REDUCE:
    case CSHIM_OPERATION_NODE_GATHER:
        if (!meets_node(machine, rank))
            return false;
        if (operation->kind == CSHIM_OPERATION_NODE_REDUCE)
            reduce_node(machine, rank, flight);
        else
            gather_node(machine, rank, flight);
        rank->waits_for_node = false;
        break;
    case CSHIM_OPERATION_RECEIVE:
        start_receive(machine, rank, flight, operation);
        break;
    case CSHIM_OPERATION_MESSAGE:
        check_bounds(machine, operation);
        rank->begun = flight->scratch + operation->offset;
        rank->end = rank->begun + CSHIM_HEADER_BYTES;
        for (unsigned i = 0; i < CSHIM_HEADER_BYTES; i += 8)
            memcpy(rank->begun + i, &header, 8);
        break;
    case CSHIM_OPERATION_ENCODE:
        append(rank,
               (operation->options & CSHIM_FROM_RESULT) != 0
                   ? target_of(machine, rank, flight, operation)
                   : source_of(machine, rank, flight, operation,
                               flight->operations.list[flight->next - 1].peer),
               operation->elements);
        break;
    case CSHIM_OPERATION_SEND:
        start_send(machine, rank, flight, operation);
        break;
    case CSHIM_OPERATION_WAIT_RECEIVED:
    case CSHIM_OPERATION_WAIT_SENT:
        if (!wait_is_over(machine, rank, flight, operation))
            return false;
        end_wait(machine, rank, flight, operation);
        break;
    case CSHIM_OPERATION_READ:
        read_message(machine, rank, flight, operation);
        break;
    case CSHIM_OPERATION_READ_OWN:
        rank->inputs[operation->parts] =
            (const uint8_t *)source_of(machine, rank, flight, operation, (uint32_t)rank->role.peer);
        break;
    case CSHIM_OPERATION_REDUCE:
        reduce(machine, rank, flight, operation);
        break;
    case CSHIM_OPERATION_FORWARD:
        append(rank, rank->inputs[0], operation->elements);
        break;
    case CSHIM_OPERATION_DECODE:
        memcpy(target_of(machine, rank, flight, operation), rank->inputs[0],
               operation->elements * sizeof(double));
        rank->inputs[0] += encoded_bytes(operation->elements);
        break;
    case CSHIM_OPERATION_KINDS:
        fault(machine, "an unknown operation");
    }
    flight->next++;
    return true;
}

/* Checks that no message of an ended segment is in flight. */
static void check_end(struct machine *machine, const struct rank *rank, unsigned slot)
{
    for (struct parcel *p = machine->parcels; p != NULL; p = p->next)
        if ((p->from == rank->role.rank && p->sent_at != NULL && p->sender_slot == slot) ||
            (p->to == rank->role.rank && p->received_at != NULL && p->receiver_slot == slot))
            fault(machine, "a message was not waited for");
}

/* Executes the next operation of a rank, as the runner of shim/host/exchange.c orders them. Returns
 * false if it has to wait, or is done. */
static bool step(struct machine *machine, struct rank *rank)
{
    const uint64_t segments = machine->plan.segments;
    while (rank->iteration < segments + CSHIM_PIPELINE_DEPTH) {
        const uint64_t index = rank->iteration - rank->age;
        if (rank->age <= rank->iteration && index < segments) {
            const unsigned slot = (unsigned)(index % CSHIM_SEGMENTS_IN_FLIGHT);
            struct flight *flight = &rank->flights[slot];
            if (rank->age == 0 &&
                (flight->segment.role == NULL || flight->segment.index != index)) {
                flight->segment = cshim_segment_at(&rank->role, index);
                flight->next = 0;
                flight->scratch = rank->scratch + slot * machine->plan.slot_bytes;
                assert_true(cshim_compile(&flight->operations, &flight->segment));
            }
            if (flight->next < flight->operations.count &&
                flight->operations.list[flight->next].depth <= rank->age)
                return execute(machine, rank, flight);
            if (rank->age == CSHIM_PIPELINE_DEPTH)
                check_end(machine, rank, slot);
        }
        if (++rank->age > CSHIM_PIPELINE_DEPTH) {
            rank->age = 0;
            rank->iteration++;
        }
    }
    return false;
}

static bool is_done(const struct machine *machine, const struct rank *rank)
{
    return rank->iteration >= machine->plan.segments + CSHIM_PIPELINE_DEPTH;
}

/* Runs all ranks in random order until none can continue. */
static void run(struct machine *machine)
{
    bool any = true;
    while (any && machine->failure == NULL) {
        any = false;
        const int first = (int)draw(machine, (uint64_t)machine->ranks);
        for (int i = 0; i < machine->ranks && machine->failure == NULL; i++) {
            struct rank *rank = &machine->rank[(first + i) % machine->ranks];
            for (uint64_t steps = 1 + draw(machine, 12); steps > 0 && step(machine, rank); steps--)
                any = true;
        }
        for (struct parcel *p = machine->parcels; p != NULL; p = p->next)
            if (draw(machine, 3) == 0)
                deliver(machine, p);
    }
    for (int i = 0; i < machine->ranks; i++)
        if (!is_done(machine, &machine->rank[i]))
            fault(machine, "a deadlock");
    for (struct parcel *p = machine->parcels; p != NULL; p = p->next)
        if (!p->delivered)
            fault(machine, "a message without a receive, or a receive without a message");
}

/* Calls ---------------------------------------------------------------------------------------- */

/* Returns the result that a rank must have at an element of the call. */
static double expected(const struct machine *machine, int rank, uint64_t element)
{
    const struct cshim_plan *plan = &machine->plan;
    double sum = 0;
    if (plan->collective == CSHIM_BROADCAST)
        return value((int)plan->root, 0, element);
    if (plan->collective == CSHIM_ALLGATHER || plan->collective == CSHIM_ALLTOALL) {
        const bool is_alltoall = plan->collective == CSHIM_ALLTOALL;
        const uint64_t *begins =
            is_alltoall ? machine->received_begins[rank] : machine->block_begins;
        int from = 0;
        while (element >= begins[from + 1])
            from++;
        return is_alltoall ? value(from, rank, element - begins[from]) : value(from, 0, element);
    }
    for (int i = 0; i < machine->ranks; i++)
        sum += value(i, 0, element);
    return sum;
}

/* Returns true if an element is beyond the equal shares of its segment. NCCL itself adds these. */
static bool is_rest(const struct rank *rank, uint64_t element)
{
    const struct cshim_plan *plan = rank->role.plan;
    if (!plan->schedule->staged || plan->schedule->division == CSHIM_BLOCKS)
        return false;
    const struct cshim_segment segment = cshim_segment_at(&rank->role, element / plan->segment);
    return element - segment.whole.begin >= segment.whole.length;
}

static void check_results(struct machine *machine)
{
    const struct cshim_plan *plan = &machine->plan;
    for (int r = 0; r < machine->ranks; r++) {
        const struct rank *rank = &machine->rank[r];
        uint64_t begin = 0, end = plan->count;
        if (plan->collective == CSHIM_REDUCE && r != (int)plan->root)
            continue;
        if (plan->collective == CSHIM_REDUCE_SCATTER) {
            begin = machine->block_begins[r];
            end = machine->block_begins[r + 1];
        }
        if (plan->collective == CSHIM_ALLTOALL)
            end = machine->received_begins[r][machine->ranks];
        for (uint64_t i = begin; i < end && machine->failure == NULL; i++)
            if (!is_rest(rank, i) &&
                rank->output[i - rank->first_output] != expected(machine, r, i))
                fault(machine, "a wrong result");
    }
}

/* Draws the blocks' lengths: about a third are 0, others any length up to `most`; or all are equal.
 */
static void draw_blocks(struct machine *machine, uint64_t most, bool are_equal)
{
    const uint64_t block = 1 + draw(machine, most);
    for (int i = 0; i < machine->ranks; i++) {
        const uint64_t length = are_equal               ? block
                                : draw(machine, 3) == 0 ? 0
                                                        : 1 + draw(machine, most);
        machine->block_begins[i + 1] = machine->block_begins[i] + length;
        for (int j = 0; j < machine->ranks; j++) {
            const uint64_t sent = are_equal               ? block
                                  : draw(machine, 3) == 0 ? 0
                                                          : 1 + draw(machine, most);
            machine->sent_begins[i][j + 1] = machine->sent_begins[i][j] + sent;
        }
    }
    for (int i = 0; i < machine->ranks; i++)
        for (int j = 0; j < machine->ranks; j++)
            machine->received_begins[i][j + 1] = machine->received_begins[i][j] +
                                                 machine->sent_begins[j][i + 1] -
                                                 machine->sent_begins[j][i];
}

/* Fills the buffers of a rank, and its role. */
static void set_up_rank(struct machine *machine, int r)
{
    const struct cshim_plan *plan = &machine->plan;
    struct rank *rank = &machine->rank[r];
    const bool is_alltoall = plan->collective == CSHIM_ALLTOALL;
    uint64_t elements = is_alltoall ? machine->sent_begins[r][machine->ranks] : plan->count;
    uint64_t results = is_alltoall ? machine->received_begins[r][machine->ranks] : plan->count;
    assert_true(cshim_layout_make(&rank->layout, machine->nodes, machine->ranks, RANKS_MAX, r));
    if (plan->collective == CSHIM_ALLGATHER) {
        rank->first_input = machine->block_begins[r];
        elements = machine->block_begins[r + 1] - rank->first_input;
    }
    if (plan->collective == CSHIM_REDUCE_SCATTER) {
        rank->first_output = machine->block_begins[r];
        results = machine->block_begins[r + 1] - rank->first_output;
    }
    rank->input = calloc(elements + 1, sizeof *rank->input);
    rank->output = calloc(results + 1, sizeof *rank->output);
    rank->scratch = calloc(CSHIM_SEGMENTS_IN_FLIGHT, plan->slot_bytes);
    assert_true(rank->input != NULL && rank->output != NULL && rank->scratch != NULL);
    for (int to = 0; is_alltoall && to < machine->ranks; to++)
        for (uint64_t i = machine->sent_begins[r][to]; i < machine->sent_begins[r][to + 1]; i++)
            rank->input[i] = value(r, to, i - machine->sent_begins[r][to]);
    for (uint64_t i = 0; !is_alltoall && i < elements; i++)
        rank->input[i] = value(r, 0, rank->first_input + i);
    if (plan->collective == CSHIM_BROADCAST && rank->output != NULL) /* has one buffer */
        memcpy(rank->output, rank->input, elements * sizeof *rank->input);
    rank->role = (struct cshim_role){
        .plan = plan,
        .layout = &rank->layout,
        .rank = r,
        .block_begins = is_alltoall ? machine->received_begins[r] : machine->block_begins,
        .sent_begins = machine->sent_begins[r],
    };
    if (plan->library->on_device) /* NCCL's blocks are equal */
        rank->role.block_begins = rank->role.sent_begins = NULL;
    cshim_role_find(&rank->role);
}

static void tear_down(struct machine *machine)
{
    for (int r = 0; r < machine->ranks; r++) {
        struct rank *rank = &machine->rank[r];
        for (unsigned i = 0; i < CSHIM_SEGMENTS_IN_FLIGHT; i++)
            cshim_operations_free(&rank->flights[i].operations);
        free(rank->scratch);
        free(rank->output);
        free(rank->input);
        cshim_layout_free(&rank->layout);
    }
    while (machine->parcels != NULL) {
        struct parcel *next = machine->parcels->next;
        free(machine->parcels);
        machine->parcels = next;
    }
}

/* Draws the node of each rank. Returns the number of nodes, and in *fewest the smallest number of
 * ranks on a node. */
static uint32_t draw_nodes(struct machine *machine, uint32_t *fewest)
{
    const uint32_t ranks = (uint32_t)machine->ranks;
    const uint32_t nodes = draw(machine, 3) == 0 ? 1 : 1 + (uint32_t)draw(machine, ranks);
    const bool is_even = draw(machine, 2) == 0, by_turns = draw(machine, 2) == 0;
    uint32_t on_node[RANKS_MAX] = {0};
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t node = by_turns ? r % nodes : r * nodes / ranks;
        if (!is_even && r >= nodes)
            node = (uint32_t)draw(machine, nodes);
        if (!is_even && r < nodes)
            node = r;
        machine->nodes[r] = (int)node;
        on_node[node]++;
    }
    *fewest = ranks;
    for (uint32_t i = 0; i < nodes; i++)
        *fewest = on_node[i] < *fewest ? on_node[i] : *fewest;
    return nodes;
}

/* Runs a random call. Returns false if there is no plan for it. */
static bool run_call(struct machine *machine, enum cshim_collective collective,
                     enum cshim_algorithm algorithm, int ranks, uint64_t seed)
{
    static struct cshim_rule rule = {.codec = CSHIM_CODEC_RAW, .worth = CSHIM_WORTH_ALWAYS};
    static const uint64_t counts[] = {1, 2, 255, 256, 257, 1000, 4096, 20000};
    const uint64_t limit = ranks <= 6 && seed % 4 == 0 ? 200000 : 3000;
    *machine = (struct machine){.ranks = ranks, .random = cshim_mix(seed)};
    static const enum cshim_library libraries[] = {CSHIM_MPI, CSHIM_MPI, CSHIM_GLOO, CSHIM_NCCL};
    const enum cshim_library library = libraries[draw(machine, COUNT_OF(libraries))];
    const bool is_nccl = library == CSHIM_NCCL && cshim_library_compresses(library, collective);
    struct cshim_call call = {.library = is_nccl || library != CSHIM_NCCL ? library : CSHIM_MPI,
                              .collective = collective,
                              .dtype = CSHIM_FLOAT64,
                              .op = CSHIM_SUM,
                              .ranks = (uint32_t)ranks};
    const bool has_blocks = collective == CSHIM_REDUCE_SCATTER || collective == CSHIM_ALLGATHER ||
                            collective == CSHIM_ALLTOALL;
    uint64_t count =
        draw(machine, 2) == 0 ? counts[draw(machine, COUNT_OF(counts))] : 1 + draw(machine, limit);
    call.nodes = draw_nodes(machine, &call.ranks_per_node);
    if (is_nccl && call.nodes * call.ranks_per_node != call.ranks)
        call.ranks_per_node = 0;
    call.root = (uint32_t)draw(machine, (uint64_t)ranks);
    call.is_apart = draw(machine, 2) == 0;
    rule.gather_codec = draw(machine, 4) == 0 ? CSHIM_CODEC_RAW : CSHIM_CODEC_NONE;
    if (has_blocks) {
        draw_blocks(machine, limit / (uint64_t)ranks + 1, is_nccl);
        for (int i = 0; i < ranks; i++) {
            for (int j = 0; j < ranks && collective == CSHIM_ALLTOALL; j++) {
                const uint64_t sent = machine->sent_begins[i][j + 1] - machine->sent_begins[i][j];
                call.block = sent > call.block ? sent : call.block;
            }
            const uint64_t own = machine->block_begins[i + 1] - machine->block_begins[i];
            if (collective != CSHIM_ALLTOALL && own > call.block)
                call.block = own;
        }
        count = collective == CSHIM_ALLTOALL ? call.block * (uint64_t)ranks
                                             : machine->block_begins[ranks];
    }
    call.bytes = count * sizeof(double);
    if (count == 0 || !cshim_plan_can(&call, algorithm))
        return false;
    machine->plan = cshim_plan_call_by(algorithm, &rule, &call, count);
    if (machine->plan.reason != CSHIM_REASON_COMPRESS)
        return false;
    for (int r = 0; r < ranks; r++)
        set_up_rank(machine, r);
    run(machine);
    if (machine->failure == NULL)
        check_results(machine);
    /* The planner assumes equally full nodes and equally large blocks. */
    if (machine->failure == NULL && !has_blocks && !machine->plan.schedule->staged &&
        machine->bytes != machine->plan.bytes_wire)
        fault(machine, "other bytes than the plan's");
    if (machine->failure != NULL)
        print_message("%s by %s, %d ranks, %u nodes, %llu elements, seed %llu: %s\n",
                      cshim_collective_name(collective), cshim_algorithm_name(algorithm), ranks,
                      call.nodes, (unsigned long long)count, (unsigned long long)seed,
                      machine->failure);
    return true;
}

/* Runs calls of a collective by all algorithms but cast that can make them. */
static void run_calls(enum cshim_collective collective, unsigned calls)
{
    static const enum cshim_algorithm algorithms[] = {
#define UNCOMPILED(...)
#define ALGORITHM(NAME, ...) CSHIM_ALGORITHM_##NAME,
#include "policy/algorithms.def"
    };
    static struct machine machine;
    const char *seed_text = getenv("SEED");
    const uint64_t first_seed = seed_text != NULL ? strtoull(seed_text, NULL, 10) : 0;
    for (unsigned i = 0; i < COUNT_OF(algorithms); i++) {
        unsigned made = 0;
        for (uint64_t seed = first_seed; seed < first_seed + calls; seed++) {
            const int ranks =
                seed % 8 == 7 ? 2 + (int)(cshim_mix(seed) % 63) : 2 + (int)(cshim_mix(seed) % 11);
            made += run_call(&machine, collective, algorithms[i], ranks, seed);
            tear_down(&machine);
            assert_null(machine.failure);
        }
        const struct cshim_schedule *schedule = cshim_schedule_of(collective, algorithms[i]);
        assert_true(schedule == NULL ? made == 0 : made > calls / 60);
    }
}

TEST(allreduces)
{
    run_calls(CSHIM_ALLREDUCE, 400);
}

TEST(reduces)
{
    run_calls(CSHIM_REDUCE, 400);
}

TEST(reduce_scatters)
{
    run_calls(CSHIM_REDUCE_SCATTER, 400);
}

TEST(allgathers)
{
    run_calls(CSHIM_ALLGATHER, 300);
}

TEST(alltoalls)
{
    run_calls(CSHIM_ALLTOALL, 300);
}

TEST(broadcasts)
{
    run_calls(CSHIM_BROADCAST, 300);
}
