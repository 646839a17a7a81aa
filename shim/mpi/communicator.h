/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine knows of a communicator: cached on it as an attribute, and freed when the
 * communicator and its persistent requests are. */
#ifndef CSHIM_MPI_COMMUNICATOR_H
#define CSHIM_MPI_COMMUNICATOR_H

#include "shim/host/communicator.h"
#include "shim/mpi/job.h"

struct pending; /* nonblocking.c */

struct cshim_comm {
    struct cshim_communicator host; /* first: the transport finds the rest by it */
    uint32_t references;            /* the communicator's, and one of each that holds it; atomic */
    MPI_Comm program;         /* the program's, for its error handler; once freed, MPI_COMM_SELF */
    enum cshim_reason reason; /* CSHIM_REASON_COMPRESS, or why this communicator never compresses */

    /* What a compressed call needs. The first blocking call makes it; a nonblocking call can only
     * want it. */
    bool prepared;
    bool wanted;
    MPI_Comm comm;           /* private: the same ranks, errors returned */
    MPI_Comm node;           /* hierarchical: the ranks of this node, ... */
    MPI_Comm across;         /* ... and those of this local rank on all nodes; null without share */
    struct pending *active;  /* the nonblocking call that has the scratch, or NULL; ... */
    uint32_t pending;        /* ... and how many are under way; atomic */
    MPI_Request *requests;   /* CSHIM_REQUESTS(ranks) */
    MPI_Status *statuses;    /* of one transfer's requests, by rank ... */
    int *indices;            /* ... or of those of them that have ended */
    struct cshim_comm *next; /* in the list of all states */
};

/* Finds what is known of a communicator, without a word to the other ranks. Ends the job where
 * there is no memory. Returns an MPI error. */
int cshim_comm_find(MPI_Comm comm, struct cshim_comm **state);
/* Makes what compressed calls need, once. Collective then, with the same outcome on all ranks: it
 * may leave a reason against compressing. Returns an MPI error. */
int cshim_comm_prepare(MPI_Comm comm, struct cshim_comm *state);
/* A persistent request holds the state, which is not freed with the communicator before it is
 * released. */
void cshim_comm_hold(struct cshim_comm *state);
void cshim_comm_release(struct cshim_comm *state);

/* Registers the attribute that holds the state, and what the library calls when the program frees
 * the communicator. Returns an MPI error. */
int cshim_comm_setup(MPI_Comm_delete_attr_function *on_delete);
/* For on_delete: takes the state out of the list; returns false if teardown has freed it already.
 * Leave then gives up the communicator's own reference. */
bool cshim_comm_unlink(struct cshim_comm *state);
void cshim_comm_leave(struct cshim_comm *state);
/* Frees the memory of every state left. */
void cshim_comm_teardown(void);

/* transport.c: the runner's transport (shim/host/transport.h) over MPI's messages and collectives,
 * on the private communicators above. Setup makes the operations that add 16-bit floats, and
 * returns an MPI error; teardown frees them. */
extern const struct cshim_transport cshim_mpi_transport;
int cshim_mpi_transport_setup(void);
void cshim_mpi_transport_teardown(void);

#endif
