/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a communication library that the runner needs: messages between peers, and a few
 * collectives.
 *
 * Each engine for host memory has one constant table (shim/mpi/transport.c, shim/gloo/transport.c).
 * Every function that returns an int returns 0 or an error, which the runner returns to its caller
 * unchanged: MPI's error; with gloo 1, after storing an exception in the call. Different
 * communicators may call a function concurrently, one communicator never does.
 *
 * Intra-node functions concern the ranks of this node. A share is the part of a segment that one of
 * them reduces. */
#ifndef CSHIM_TRANSPORT_H
#define CSHIM_TRANSPORT_H

#include "shim/core/header.h"

struct cshim_exchange;
struct cshim_range;

/* Value to which the caller of complete() sets *too_long beforehand: unless complete() changes it,
 * no message was longer than its buffer. */
enum { CSHIM_NO_PEER = -1 };

struct cshim_transport {
    /* Names of the calls in messages to the user, by collective: "MPI_Allreduce"; NULL for those
     * that the engine does not compress. */
    const char *call_names[CSHIM_COLLECTIVE_COUNT];

    /* Resets all requests, before an exchange starts one: an exchange that failed, or that an error
     * handler of the program left by a jump, may have left some. NULL if an engine does that after
     * each call. Requests are numbered from 0 to CSHIM_REQUESTS(peers) - 1. */
    void (*forget)(const struct cshim_exchange *exchange);
    /* Starts to receive a message of at most `bytes` bytes (gloo: up to the end of the scratch), or
     * to send one of `bytes` bytes, as request `request`. `from` and `to` are indices among the
     * plan's peers. `message` lies in the communicator's scratch, and must stay valid until the
     * request is complete. */
    int (*receive)(const struct cshim_exchange *exchange, unsigned request, void *message,
                   size_t bytes, int from, enum cshim_message kind);
    int (*send)(const struct cshim_exchange *exchange, unsigned request, const void *message,
                size_t bytes, int to, enum cshim_message kind);
    /* Returns the shared scratch (cshim_scratch_share) of another rank if this process can read it,
     * otherwise NULL. The function is NULL in an engine without shared memory. */
    const uint8_t *(*scratch_of)(const struct cshim_exchange *exchange, int rank);
    /* Completes requests [first, first + count), some of which may never have been started; with
     * gloo, all started ones of the segment's messages of this type. Waits, unless the exchange is
     * nonblocking. Sets *done to whether all are complete. If it finds a message longer than its
     * buffer (MPI only), sets *too_long to the index of its request, counted from `first`;
     * otherwise leaves *too_long unchanged. */
    int (*complete)(const struct cshim_exchange *exchange, unsigned first, unsigned count,
                    bool *done, int *too_long);

    /* Intra-node all-to-all of a block of each share. `input` has the shares of all local ranks,
     * contiguous, with share_lengths elements of the call's type. Sends the range `block` of each
     * share to its rank, except this rank. Receives this rank's block from the others in `parts`,
     * in rank order, with an unused gap for its own. */
    int (*spread_inside)(const struct cshim_exchange *exchange, const void *input, void *parts,
                         const struct cshim_range *block);
    /* Gathers the node's shares into `output`, at share_begins: on all local ranks; in a reduce, on
     * the root only. */
    int (*gather_inside)(const struct cshim_exchange *exchange, const void *share, void *output);

    /* Barrier of the node; sets *all to whether `own` is true on all its ranks. NULL in an engine
     * without scratch_of. */
    int (*meet_inside)(const struct cshim_exchange *exchange, bool own, bool *all);

    /* All-reduce of the call's type by the library; `input` may equal `output`. */
    int (*sum)(const struct cshim_exchange *exchange, const void *input, void *output,
               uint64_t count);
    /* In-place all-reduce of converted elements: float32 for codec fp32, or 16-bit floats, which
     * are added as by cshim_add(). */
    int (*sum_narrowed)(const struct cshim_exchange *exchange, void *codes, uint64_t count,
                        enum cshim_dtype dtype);
    /* Elementwise maximum of `count` integers over all ranks, on all ranks. */
    int (*maximum)(const struct cshim_exchange *exchange, const uint64_t *own, uint64_t *largest,
                   int count);
    /* Sums doubles of all ranks into `sums` of rank `root`; with gloo into `sums` of every rank. */
    int (*sum_at)(const struct cshim_exchange *exchange, const double *values, double *sums,
                  int count, int root);

    /* MPI: ends the job. gloo: stores an exception with the text `why`, unless the call has one,
     * and returns 1; the engine then closes the context's connections, so that the call fails on
     * all ranks. Called if ranks make different calls, or this rank has no memory, after `why` was
     * printed. */
    int (*abort)(const struct cshim_exchange *exchange, const char *why);
};

#endif
