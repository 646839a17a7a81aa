/* SPDX-License-Identifier: Apache-2.0 */
/* State of a communicator of the program: cached on it as an attribute, and freed with the last of
 * the communicator, its persistent requests and its pending nonblocking calls; never after a
 * nonblocking call has failed. Each compressed persistent request also has a state of its own
 * (cshim_comm_make_persistent).
 *
 * A blocking call uses it in this order:
 *
 *     cshim_comm_find(comm, &state);    local; state->reason may say that calls are passed through
 *     cshim_comm_hold(state);           an error handler may free the communicator during the call
 *     cshim_comm_prepare(comm, state);  collective the first time, then does nothing
 *     cshim_comm_prepare_levels(state); likewise; if the plan is staged
 *     cshim_exchange_of(&arguments, &plan, state);  see describe.h
 *     cshim_comm_release(state);
 *
 * MPI allows no two concurrent collective calls on one communicator, so its state needs no lock,
 * except for what is shared with pending nonblocking calls. All functions except setup, teardown
 * and count_classes may be called from several threads for different communicators. */
#ifndef CSHIM_MPI_COMMUNICATOR_H
#define CSHIM_MPI_COMMUNICATOR_H

#include "shim/host/communicator.h"
#include "shim/mpi/job.h"

struct pending; /* an active nonblocking call; defined in nonblocking.c */

#define CSHIM_PLANS 4

/* Cached plan of an all-reduce. On one communicator, the plan depends only on the fields before
 * `plan`. Planning takes a few microseconds, too long for a small call. */
struct cshim_planned {
    const struct cshim_rule *rule; /* NULL: unused entry */
    uint64_t count;
    enum cshim_dtype dtype;
    enum cshim_op op;
    enum cshim_codec_id instead;
    enum cshim_algorithm algorithm; /* the candidate's; AUTO: that of a call without measurements */
    struct cshim_plan plan;
};

struct cshim_comm {
    struct cshim_communicator host; /* first, because the transport casts its address */
    uint32_t references;            /* one for the communicator or persistent request that owns the
                                       state, and one for each holder; atomic */
    struct cshim_comm *parent;      /* persistent request only: state of its communicator */
    MPI_Comm program;               /* the program's communicator; MPI_COMM_SELF once it is freed;
                                       unused with a parent (cshim_comm_program) */
    enum cshim_reason reason; /* CSHIM_REASON_COMPRESS, or why calls are always passed through */

    /* State of compressed calls, most of it filled by cshim_comm_prepare(), or by
     * cshim_comm_begin_preparing() and cshim_comm_end_preparing(). */
    bool prepared;
    bool preparing;                /* a nonblocking call has started the broadcast of `number` */
    MPI_Request agreement;         /* request of the broadcast of `number` */
    int refused;                   /* MPI error of the broadcast of `number` */
    bool error_reported;           /* the library has called the program's error handler already */
    struct cshim_carrier *carrier; /* carries the messages */
    int *carrier_ranks;            /* each rank's rank in the carrier */
    int number;        /* identifies this communicator's messages, together with carrier_ranks[0] */
    int first_tag;     /* follows from `number` */
    MPI_Comm node;     /* staged schedules: communicator of this node's ranks; returns errors */
    bool lacks_levels; /* `node` cannot be made: staged schedules pass calls through */
    struct pending *active; /* nonblocking call that may use the scratch, or NULL */
    uint32_t pending;       /* number of active nonblocking calls; atomic */
    MPI_Request *requests;  /* CSHIM_REQUESTS(ranks) entries */
    MPI_Status *statuses;   /* statuses of the requests of one wait, in their order; in nonblocking
                               calls, status i is that of request indices[i] */
    int *indices; /* nonblocking calls: positions of the requests that have just completed */
    struct cshim_planned planned[CSHIM_PLANS]; /* cached plans, replaced in turn */
    unsigned plans;                            /* number of plans cached so far */
    struct cshim_comm *next;                   /* next in the list of communicators' states */
};

/* Returns the program's communicator, whose error handler is called for errors of its calls. */
MPI_Comm cshim_comm_program(const struct cshim_comm *state);
/* Finds the state of a communicator, or makes it. Local: sends nothing to other
 * ranks. Ends the job if there is no memory. Returns an MPI error. */
int cshim_comm_find(MPI_Comm comm, struct cshim_comm **state);

/* Prepares a communicator for compressed calls: allocates memory and agrees on tags. Does nothing
 * if this is done, or was begun for a nonblocking call, or if state->reason is against compressing.
 * Otherwise collective; unless MPI reports an error, all ranks have the same outcome, which may be
 * a reason in state->reason. Makes no MPI communicator: that could wait for a collective call of
 * another thread, and libraries allow few. Returns an MPI error. */
int cshim_comm_prepare(MPI_Comm comm, struct cshim_comm *state);
/* Prepares the first communicator of a carrier, which has all of the carrier's ranks, and sets
 * carrier->prepares_later. Collective. Returns an MPI error. */
int cshim_comm_prepare_first(MPI_Comm comm, struct cshim_comm *state);
/* Begins to prepare a communicator for its first nonblocking call, by a nonblocking broadcast of
 * the number, which counts as a collective call before it. Does nothing if that was done. Called
 * only if state->carrier->prepares_later. Ends the job if this rank lacks memory or tags. Returns
 * an MPI error; then the program's error handler may have freed `state`. */
int cshim_comm_begin_preparing(struct cshim_comm *state);
/* Ends what cshim_comm_begin_preparing() has begun, once state->agreement has completed with
 * `status`. After an error, calls that have not begun are passed through. */
void cshim_comm_end_preparing(struct cshim_comm *state, int status);
/* Plans a call that `rule` compresses. An all-reduce is planned with `algorithm` (AUTO: with the
 * one that is used without measurements), or gets the cached plan of an equal call on this
 * communicator. Other collectives ignore `algorithm`. */
struct cshim_plan cshim_comm_plan(struct cshim_comm *state, enum cshim_algorithm algorithm,
                                  const struct cshim_rule *rule, const struct cshim_call *call,
                                  uint64_t count);
/* Makes `node`, which staged schedules need, unless it exists. Collective if it does not. Sets
 * state->lacks_levels, on all ranks, if a rank has made too many such communicators, or the library
 * makes no more. Ends the job if there is no memory. Returns an MPI error. */
int cshim_comm_prepare_levels(struct cshim_comm *state);
/* Makes a state for one persistent request on a prepared communicator. Ranks may start persistent
 * requests in any order, so each request has its own tags and sequence numbers. Collective, with
 * the same outcome on all ranks. Sets *reason; if that is CSHIM_REASON_COMPRESS, sets *own, which
 * the request releases and which holds a reference to `state`. Returns an MPI error. */
int cshim_comm_make_persistent(struct cshim_comm *state, enum cshim_reason *reason,
                               struct cshim_comm **own);
/* Returns a number that changes whenever the program frees a communicator that has a state: the
 * handle may then denote another communicator. Thread-safe. */
uint32_t cshim_comm_generation(void);

/* Counts the calls of measured classes since their last decisions, on all communicators that are
 * not freed, for the report. */
void cshim_comm_count_classes(void);
/* Acquires or releases a reference. The state is freed with the last one. Thread-safe. */
void cshim_comm_hold(struct cshim_comm *state);
void cshim_comm_release(struct cshim_comm *state);

/* Registers the attribute that holds the state; `on_delete` is called when the program frees a
 * communicator. Returns an MPI error. */
int cshim_comm_setup(MPI_Comm_delete_attr_function *on_delete);
/* Removes the state from the list of communicators' states, in on_delete. Returns false if
 * cshim_comm_teardown() has removed it already. */
bool cshim_comm_unlink(struct cshim_comm *state);
/* Counts the state's classes and releases the communicator's reference, in on_delete. */
void cshim_comm_leave(struct cshim_comm *state);
/* Frees the attribute's key, and the states in the list except those that unfinished or failed
 * calls hold. */
void cshim_comm_teardown(void);

#endif
