/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/machine.h"

#include "codecs/hash.h"
#include "tests/unit/unit.h"

uint64_t machine_draw(struct machine *machine, uint64_t below)
{
    machine->random = machine->random * 6364136223846793005u + 1442695040888963407u;
    return below > 0 ? (machine->random >> 33) % below : 0;
}

void machine_fault(struct machine *machine, const char *what)
{
    if (machine->failure == NULL)
        machine->failure = what;
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
        machine_fault(machine, "a message is longer than its buffer");
    else if (digest(parcel->sent_at, parcel->bytes) != parcel->digest)
        machine_fault(machine, "a message was overwritten while it was sent");
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
        machine_fault(machine, "a message lies outside the scratch");
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
    parcel->receiver_index = operation->index;
    flight->arrived[operation->message][operation->index] = 0;
    if (parcel->sent_at != NULL &&
        parcel->bytes != CSHIM_HEADER_BYTES + encoded_bytes(operation->elements))
        machine_fault(machine, "a message has another size than its receive");
    memset(parcel->received_at, 0, CSHIM_HEADER_BYTES);
}

static void start_send(struct machine *machine, struct rank *rank, struct flight *flight,
                       const struct cshim_operation *operation)
{
    const int to = rank_of_peer(machine, rank, operation->peer);
    struct parcel *parcel = find_parcel(machine, rank->role.rank, to, operation->message,
                                        rank->sends[operation->message][to]++);
    if (rank->begun != flight->scratch + operation->offset)
        machine_fault(machine, "another message is sent than was made");
    parcel->sent_at = rank->begun;
    parcel->bytes = (uint64_t)(rank->end - rank->begun);
    parcel->digest = digest(parcel->sent_at, parcel->bytes);
    parcel->sender_slot = (unsigned)(flight - rank->flights);
    parcel->sender_index = operation->index;
    machine->bytes += parcel->bytes;
}

/* Returns true if a WAIT of a segment waits for the message. */
static bool is_awaited(const struct parcel *parcel, const struct rank *rank, unsigned slot,
                       const struct cshim_operation *wait)
{
    if (parcel->type != wait->message)
        return false;
    return wait->kind == CSHIM_OPERATION_WAIT_RECEIVED
               ? parcel->to == rank->role.rank && parcel->received_at != NULL &&
                     parcel->receiver_slot == slot && parcel->receiver_index < wait->parts
               : parcel->from == rank->role.rank && parcel->sent_at != NULL &&
                     parcel->sender_slot == slot && parcel->sender_index < wait->parts;
}

/* Delivers the messages that a WAIT waits for, up to the first that is missing. Returns true if
 * none is missing. */
static bool wait_is_over(struct machine *machine, struct rank *rank, struct flight *flight,
                         const struct cshim_operation *wait)
{
    const unsigned slot = (unsigned)(flight - rank->flights);
    for (struct parcel *p = machine->parcels; p != NULL; p = p->next) {
        if (!is_awaited(p, rank, slot, wait))
            continue;
        deliver(machine, p);
        if (!p->delivered)
            return false;
    }
    return true;
}

/* Forgets the messages that a WAIT has waited for; keeps the digests of those that arrived. */
static void end_wait(struct machine *machine, struct rank *rank, struct flight *flight,
                     const struct cshim_operation *wait)
{
    const unsigned slot = (unsigned)(flight - rank->flights);
    const bool receives = wait->kind == CSHIM_OPERATION_WAIT_RECEIVED;
    for (struct parcel *p = machine->parcels; p != NULL; p = p->next) {
        if (!is_awaited(p, rank, slot, wait))
            continue;
        if (receives)
            flight->arrived[wait->message][p->receiver_index] = digest(p->received_at, p->bytes);
        *(receives ? &p->receiver_slot : &p->sender_slot) = CSHIM_SEGMENTS_IN_FLIGHT;
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
        machine_fault(machine, "a message is read before it has arrived");
    else if (arrived != digest(message, bytes))
        machine_fault(machine, "a message was overwritten before it was read");
    if (machine->plan.collective == CSHIM_ALLREDUCE &&
        (machine->plan.algorithm == CSHIM_ALGORITHM_ONE_SHOT ||
         machine->plan.algorithm == CSHIM_ALGORITHM_TWO_SHOT) &&
        digest(machine->rank[from].scratch + (flight->scratch - rank->scratch) +
                   operation->sender_offset,
               bytes) != arrived)
        machine_fault(machine, "a message was overwritten in its sender's scratch");
}

static void reduce(struct machine *machine, struct rank *rank, struct flight *flight,
                   const struct cshim_operation *operation)
{
    for (unsigned part = 0; part < operation->parts; part++)
        if (rank->inputs[part] == NULL) {
            machine_fault(machine, "a sum of what was not read");
            return;
        }
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
        machine_fault(machine, "an unknown operation");
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
            machine_fault(machine, "a message was not waited for");
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

void machine_run(struct machine *machine)
{
    bool any = true;
    while (any && machine->failure == NULL) {
        any = false;
        const int first = (int)machine_draw(machine, (uint64_t)machine->ranks);
        for (int i = 0; i < machine->ranks && machine->failure == NULL; i++) {
            struct rank *rank = &machine->rank[(first + i) % machine->ranks];
            for (uint64_t steps = 1 + machine_draw(machine, 12); steps > 0 && step(machine, rank);
                 steps--)
                any = true;
        }
        for (struct parcel *p = machine->parcels; p != NULL; p = p->next)
            if (machine_draw(machine, 3) == 0)
                deliver(machine, p);
    }
    for (int i = 0; i < machine->ranks; i++)
        if (!is_done(machine, &machine->rank[i]))
            machine_fault(machine, "a deadlock");
    for (struct parcel *p = machine->parcels; p != NULL; p = p->next)
        if (!p->delivered)
            machine_fault(machine, "a message without a receive, or a receive without a message");
}

void machine_free(struct machine *machine)
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
