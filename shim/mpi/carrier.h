/* SPDX-License-Identifier: Apache-2.0 */
/* Private communicator that carries the messages of compressed calls, with the nodes and the
 * connections of its ranks. All communicators of the program within the job use the carrier of the
 * job, cshim_mpi.world. A communicator merged with a spawned job (spawn.h) has a carrier of its own
 * as an attribute, which its duplicates share. That carrier is freed with the last of these
 * communicators and of their states, but not in MPI_Finalize.
 *
 * Included by job.h. All functions except setup and teardown are thread-safe. */
#ifndef CSHIM_MPI_CARRIER_H
#define CSHIM_MPI_CARRIER_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/core/layout.h"

/* Constant once its first communicator is prepared, except `references` and `connected`. */
struct cshim_carrier {
    MPI_Comm comm;
    MPI_Group group; /* group of `comm` */
    int ranks;
    int rank; /* this process's rank in `comm` */
    struct cshim_layout layout;
    uint32_t connection_limit;  /* maximum number of connections of a rank for a compressed call */
    const uint8_t **scratch_of; /* scratch of the node's other ranks, by rank; or NULL */
    bool prepares_later;        /* a nonblocking call may begin to prepare its communicator */
    /* Entry for each rank: true if a communicator prepared on this carrier, or earlier on the job's
     * carrier, may have connected this process to that rank. Atomic. */
    bool *connected;
    uint32_t references; /* number of communicators and states that use it; atomic; 0 in
                            cshim_mpi.world */
};

/* Makes the private communicator of the ranks of `comm`, and finds their nodes and connections.
 * Stores a communicator of this rank's node, which the caller frees. Collective over `comm`.
 * Returns an MPI error, and ends the job if there is no memory. */
int cshim_carrier_make(struct cshim_carrier *carrier, MPI_Comm comm, MPI_Comm *node);
/* Frees everything that cshim_carrier_make() has made, except the private communicator. */
void cshim_carrier_free(struct cshim_carrier *carrier);

/* Makes the key of the attribute. Returns an MPI error. */
int cshim_carrier_setup(void);
void cshim_carrier_teardown(void);
/* Makes a carrier for a communicator with ranks of another job, and stores it as an attribute.
 * Collective over `comm`. Returns an MPI error, and ends the job if there is no memory. */
int cshim_carrier_attach(MPI_Comm comm);
/* Returns a communicator's carrier, by default the job's, with a reference that the caller
 * releases. */
struct cshim_carrier *cshim_carrier_of(MPI_Comm comm);
void cshim_carrier_release(struct cshim_carrier *carrier);

/* Marks `count` ranks of the carrier as connected to this process. Does nothing if they exceed the
 * connection limit, because plans then connect this process to only some of them. */
void cshim_carrier_connect(struct cshim_carrier *carrier, const int *ranks, int count);
/* Returns true if this process can open too few files for a call with `count` ranks of the carrier.
 * A call needs one for each new connection, and half as many in reserve, because other
 * communicators may open connections in the meantime. */
bool cshim_carrier_lacks_descriptors(const struct cshim_carrier *carrier, const int *ranks,
                                     int count);

#endif
