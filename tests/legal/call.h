/* SPDX-License-Identifier: Apache-2.0 */
/* One call of a script on this rank: its buffers, the call itself, and the check of every element.
 */
#ifndef LEGAL_CALL_H
#define LEGAL_CALL_H

#include <mpi.h>

#include "tests/legal/script.h"

/* Memory of a buffer: pages of its own between two inaccessible ones, or malloc's. */
struct room {
    char *pages;  /* first accessible page; NULL: the memory is malloc's */
    size_t bytes; /* size of the accessible pages */
};

/* A call and its buffers. */
struct call {
    const struct step *step; /* shape of the call */
    uint64_t key;            /* seed of the data */
    MPI_Comm comm;
    char *in, *out; /* equal if the call is in place or a broadcast */
    struct room in_room, out_room;
    MPI_Request requests[2];
    int number; /* number of the step that starts the call */
    /* Group number and size of the call's communicator, this rank's rank in it, and the world's
     * ranks of its members. */
    int group, size, me, members[RANKS_MAX];
    int begins[RANKS_MAX + 1]; /* indices of a reduce_scatter's blocks, then their end */
    int request_count;
};

/* State of this process. `digests` holds, by step and group, digests of results that all ranks of
 * the group share. */
extern int rank, failures;
extern struct script script;
extern double bound; /* largest error allowed, as a share of the largest possible sum */
extern MPI_Datatype pair;
extern MPI_Op own_sum;
extern uint64_t digests[STEPS_MAX * GROUPS_MAX];

/* Creates the buffers of a call on the step's communicator or a duplicate of it. Free them with
 * legal_drop_call. */
struct call legal_make_call(const struct step *step, int number, MPI_Comm comm);
/* Fills the input, and the result with bytes 0xff, to start a persistent call again. */
void legal_refill(struct call *call);
void legal_drop_call(struct call *call);

/* Makes the call, starts a nonblocking one, or creates a persistent one. Sets request_count to the
 * number of active requests. */
void legal_issue(struct call *call);
/* Completes requests by the function that `way` selects, 0 to 9. */
void legal_complete(int count, MPI_Request requests[], int way);

/* Checks the buffers of a completed call, and adds to the digests. */
void legal_check_call(const struct call *call);
/* Counts a failure, and prints the first ones. */
void legal_fail(const struct call *call, const char *what, int i, int count, double got,
                double want);

#endif
