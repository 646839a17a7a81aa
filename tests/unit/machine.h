/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated machine, which executes the operations of all ranks of a call. The ranks progress in
 * random order, and a message is delivered at a random time between its send and the wait for it:
 *
 *     fill in ranks, plan, nodes and random, and of each rank layout, role, buffers (with their
 *         first elements) and scratch;
 *     machine_run(&machine);
 *     if (machine.failure == NULL) check the outputs;
 *
 * The machine checks that
 *   - each send has its receive, and nothing is left over; a receive that is posted after its send
 *     has the same size;
 *   - the ranks' progress does not end in a deadlock;
 *   - no message lies outside its segment's scratch, or is overwritten while it is sent or before
 *     it is read, also where the receiver reads it in the sender's memory;
 *   - no element is read from a message that has not been waited for;
 *   - each message is waited for before its scratch is used again.
 * Elements are float64 in raw. */
#ifndef TESTS_UNIT_MACHINE_H
#define TESTS_UNIT_MACHINE_H

#include "shim/core/compiler.h"

#define MACHINE_RANKS_MAX 64

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
    uint32_t sender_index, receiver_index; /* of the operations */
    unsigned sender_slot, receiver_slot;
    struct parcel *next;
};

/* A rank's state of a segment in flight. */
struct flight {
    struct cshim_segment segment;
    struct cshim_operations operations;
    unsigned next;
    uint8_t *scratch;
    uint64_t arrived[CSHIM_MESSAGES]
                    [MACHINE_RANKS_MAX]; /* digest of each message received; 0: none */
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
    const uint8_t *inputs[MACHINE_RANKS_MAX];
    uint64_t sends[CSHIM_MESSAGES][MACHINE_RANKS_MAX], receives[CSHIM_MESSAGES][MACHINE_RANKS_MAX];
    uint64_t node_operations; /* number of NODE_REDUCE and NODE_GATHER operations so far */
    bool waits_for_node;
};

struct machine {
    struct cshim_plan plan;
    int ranks;
    int nodes[MACHINE_RANKS_MAX];
    uint64_t block_begins[MACHINE_RANKS_MAX + 1],
        sent_begins[MACHINE_RANKS_MAX][MACHINE_RANKS_MAX + 1],
        received_begins[MACHINE_RANKS_MAX][MACHINE_RANKS_MAX + 1];
    struct rank rank[MACHINE_RANKS_MAX];
    struct parcel *parcels;
    uint64_t bytes, random;
    const char *failure;
};

/* Returns a random number below `below`; 0 if that is 0. */
uint64_t machine_draw(struct machine *machine, uint64_t below);
/* Sets the machine's failure, unless it has one. */
void machine_fault(struct machine *machine, const char *what);
/* Runs all ranks in random order until none can continue. Sets the failure if a check fails. */
void machine_run(struct machine *machine);
/* Frees the operations, the messages, and the ranks' buffers and layouts. */
void machine_free(struct machine *machine);

#endif
