/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a script on this rank: its buffers, the call itself, and the check of every element.
 */
#ifndef LEGAL_CALL_H
#define LEGAL_CALL_H

#include <mpi.h>

#include "tests/legal/script.h"

/* Memory of a buffer: pages of its own between two that nobody may touch, or malloc's. */
struct room {
    char *pages;  /* the first that may be touched; NULL: the memory is malloc's */
    size_t bytes; /* of these pages */
};

/* A call and its buffers. */
struct call {
    const struct step *step; /* its shape */
    uint64_t key;            /* of its data */
    MPI_Comm comm;
    char *in, *out; /* in place both are the same */
    struct room in_room, out_room;
    MPI_Request requests[2];
    int number;                              /* of the step that starts it */
    int group, size, me, members[RANKS_MAX]; /* of its communicator; me: this rank's place there */
    int begins[RANKS_MAX + 1];               /* of the blocks of a reduce_scatter */
    int request_count;
};

/* Of this process; `digests` are of the results that all ranks of a group share, by step and group.
 */
extern int rank, failures;
extern struct script script;
extern double bound; /* how far from its sum an element may be, as a part of the largest sum */
extern MPI_Datatype pair;
extern MPI_Op own_sum;
extern uint64_t digests[STEPS_MAX * GROUPS_MAX];

/* Makes the buffers of a call on a communicator of the script's. Drop it when it is complete. */
struct call legal_make_call(const struct step *step, int number, MPI_Comm comm);
/* Fills the input and clears the result, for another start of a persistent call. */
void legal_refill(struct call *call);
void legal_drop_call(struct call *call);

/* Makes the call, or begins it: then it has requests. */
void legal_issue(struct call *call);
/* Completes requests in one of ten ways. */
void legal_complete(int count, MPI_Request requests[], int way);

/* Checks what a completed call has left in its buffers, and adds to the digests. */
void legal_check_call(const struct call *call);
/* Counts a failure; the first of them are printed. */
void legal_fail(const struct call *call, const char *what, int i, int count, double got,
                double want);

#endif
