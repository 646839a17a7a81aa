/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine knows of a communicator: cached on it as an attribute, and freed when the
 * communicator and its persistent requests are. */
#ifndef CSHIM_MPI_COMMUNICATOR_H
#define CSHIM_MPI_COMMUNICATOR_H

#include "shim/host/communicator.h"
#include "shim/mpi/job.h"

struct pending; /* nonblocking.c */

#define CSHIM_PLANS 4

/* The plan of an all-reduce, which on one communicator follows from what stands before it. To make
 * it again would take a few microseconds, and a small call cannot lose them. */
struct cshim_planned {
    const struct cshim_rule *rule; /* NULL: nothing is kept here */
    uint64_t count;
    enum cshim_dtype dtype;
    enum cshim_codec_id instead;
    enum cshim_algorithm algorithm; /* the measured one; AUTO where calls are not measured */
    struct cshim_plan plan;
};

struct cshim_comm {
    struct cshim_communicator host; /* first: the transport finds the rest by it */
    uint32_t references;            /* the communicator's, and one of each that holds it; atomic */
    struct cshim_comm *whole; /* of a persistent request's own state: the communicator's; or NULL */
    MPI_Comm program;         /* the program's, for its error handler; once freed, MPI_COMM_SELF */
    enum cshim_reason reason; /* CSHIM_REASON_COMPRESS, or why this communicator never compresses */

    /* State of compressed calls. The first one makes it; a nonblocking one only begins to. */
    bool prepared;
    bool preparing;        /* a nonblocking call has begun it: rank 0's number is on its way, ... */
    MPI_Request agreement; /* ... by this request, ... */
    int refused;           /* ... which has ended with this MPI error */
    bool told;        /* the library itself has called the program's error handler for an error */
    int *world_ranks; /* of its ranks, in the job's communicator, which messages go by */
    int number;       /* by which its messages are told from those of others, ... */
    int first_tag;    /* ... and the first tag that follows from it */
    MPI_Comm node;    /* hierarchical: the ranks of this node, errors returned; ... */
    int *across;      /* ... and the world ranks of this local rank on all nodes */
    struct pending *active; /* the nonblocking call that has the scratch, or NULL; ... */
    uint32_t pending;       /* ... and how many are under way; atomic */
    MPI_Request *requests;  /* CSHIM_REQUESTS(ranks) */
    MPI_Status *statuses;   /* of one transfer's requests, by rank ... */
    int *indices;           /* ... or of those of them that have ended */
    struct cshim_planned planned[CSHIM_PLANS]; /* of the latest kinds of calls ... */
    unsigned plans;                            /* ... of so many */
    struct cshim_comm *next;                   /* in the list of all states */
};

/* The communicator whose error handler is told of errors. */
MPI_Comm cshim_comm_program(const struct cshim_comm *state);
/* Finds what is known of a communicator, without a word to the other ranks. Ends the job where
 * there is no memory. Returns an MPI error. */
int cshim_comm_find(MPI_Comm comm, struct cshim_comm **state);
/* How many files this process may still open. Over TCP the library takes one for each rank that
 * another speaks to, and ends the job where it gets none. Where /proc is not there, or there is no
 * limit, all that are allowed. */
int cshim_mpi_free_descriptors(void);

/* Makes what compressed calls need, once. Collective then, with the same outcome on all ranks: it
 * may leave a reason against compressing. No communicator is made: that could wait for a collective
 * call of another thread, and libraries have few. Returns an MPI error. */
int cshim_comm_prepare(MPI_Comm comm, struct cshim_comm *state);
/* Begins the same for a nonblocking call, where cshim_mpi.prepares_later; ends the job where this
 * rank has no memory or no tags. Goes at the call's place in the order of the communicator's
 * collectives. Returns an MPI error. */
int cshim_comm_begin_preparing(struct cshim_comm *state);
/* Ends what begin_preparing has begun, when state->agreement has ended with this MPI error. */
void cshim_comm_end_preparing(struct cshim_comm *state, int status);
/* Returns true if there are tags for as many communicators as any program is known to have. */
bool cshim_comm_has_many_numbers(void);
/* The same for what hierarchical needs besides, which is a communicator for each node. */
int cshim_comm_prepare_levels(struct cshim_comm *state);
/* Makes a state for one persistent request on a prepared communicator: ranks may start persistent
 * requests in any order, so each has tags and a sequence of its own. Collective, with the
 * same outcome on all ranks: sets a reason, CSHIM_REASON_COMPRESS if *own is there, which the
 * request releases. It keeps the communicator's state. Returns an MPI error. */
int cshim_comm_part(struct cshim_comm *state, enum cshim_reason *reason, struct cshim_comm **own);
/* Changes whenever the program frees a communicator: a handle may mean another one then. */
uint32_t cshim_comm_generation(void);

/* Counts what calls of measured classes took since the last decisions, on all communicators. */
void cshim_comm_count_classes(void);
/* Whoever holds a state releases it. It is not freed with the communicator before that. */
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

#endif
