/* SPDX-License-Identifier: Apache-2.0 */
/* What the runner needs of a library: messages between peers, and a few collectives of its own.
 *
 * An engine fills the table once (MPI: shim/mpi/transport.c). Every function returns 0 or an error
 * of the library, which the runner hands on to its caller unchanged. A function may be called by
 * several threads at once, but never for one communicator. */
#ifndef CSHIM_TRANSPORT_H
#define CSHIM_TRANSPORT_H

#include "shim/core/header.h"

struct cshim_exchange;
struct cshim_range;

/* No message was longer than its place. */
enum { CSHIM_NO_PEER = -1 };

struct cshim_transport {
    /* The names of the calls in messages to the user, by collective: "MPI_Allreduce". */
    const char *call_names[CSHIM_COLLECTIVE_COUNT];

    /* Requests have numbers from 0 to CSHIM_REQUESTS(peers) - 1. Forgets the requests [first,
     * first + count), which a failed exchange may have left. */
    void (*forget)(const struct cshim_exchange *exchange, unsigned first, unsigned count);
    /* Start the message with number `request` from or to a peer of the exchange, of `bytes` bytes,
     * which stay in place until the request is complete. */
    int (*receive)(const struct cshim_exchange *exchange, unsigned request, void *message,
                   size_t bytes, int from, enum cshim_message kind);
    int (*send)(const struct cshim_exchange *exchange, unsigned request, const void *message,
                size_t bytes, int to, enum cshim_message kind);
    /* Another rank's shared scratch (cshim_scratch_share), where this process can read it, or NULL.
     * A library without this has NULL in its place. */
    const uint8_t *(*scratch_of)(const struct cshim_exchange *exchange, int rank);
    /* Completes the requests [first, first + count), of which some may never have been started.
     * Waits for them, unless the exchange is nonblocking: then *done says whether all are complete.
     * If a message was longer than its place, *too_long is the number of its request less first;
     * else CSHIM_NO_PEER. */
    int (*complete)(const struct cshim_exchange *exchange, unsigned first, unsigned count,
                    bool *done, int *too_long);

    /* Sends each other rank of the node a block of its share of `input`, elements of the call's
     * type, and leaves theirs of this rank's share in `parts`, one behind the other, with room for
     * its own. The shares have share_lengths, and follow each other. */
    int (*spread_inside)(const struct cshim_exchange *exchange, const void *input, void *parts,
                         const struct cshim_range *block);
    /* Collects the shares of all ranks of the node in `output`, each at its place in begins: on all
     * of them, or on the call's root only. */
    int (*gather_inside)(const struct cshim_exchange *exchange, const void *share, void *output,
                         const int *lengths, const int *begins);

    /* Waits for all ranks of the node, and says whether `own` is true on all of them. NULL where
     * there is no scratch_of. */
    int (*meet_inside)(const struct cshim_exchange *exchange, bool own, bool *all);

    /* The library's own all-reduce of the call's type; input may equal output. */
    int (*sum)(const struct cshim_exchange *exchange, const void *input, void *output,
               uint64_t count);
    /* Adds narrowed elements of all ranks in place: those of codec fp32 as floats; 16-bit floats by
     * cshim_reduce, rounded at each rank. */
    int (*sum_narrowed)(const struct cshim_exchange *exchange, void *codes, uint64_t count,
                        enum cshim_dtype dtype);
    /* The largest of each of `count` numbers over all ranks, on each of them. */
    int (*maximum)(const struct cshim_exchange *exchange, const uint64_t *own, uint64_t *largest,
                   int count);
    /* Sums doubles of all ranks into `sums` of the rank `root`. */
    int (*sum_at)(const struct cshim_exchange *exchange, const double *values, double *sums,
                  int count, int root);

    /* Ends the job, or returns the error that the call ends with on this rank and leads to one on
     * the others: they have made different calls, or this one has no memory. `why` is for an error
     * that has words; the user has been told already. */
    int (*abort)(const struct cshim_exchange *exchange, const char *why);
};

#endif
