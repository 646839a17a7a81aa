/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: what was compressed, what was not and why, and what it cost.
 *
 * Pure: no MPI, no CUDA. Counting is thread-safe and allocates nothing; a row's place follows from
 * rule, dtype and algorithm, so finding it is one multiplication. */
#ifndef CSHIM_LEDGER_H
#define CSHIM_LEDGER_H

#include <pthread.h>

#include "shim/plan.h"

/* Sums over the calls of one kind. Rows travel between ranks as bytes: all members are 8 bytes
 * wide. Figures of a call as a whole (calls, bytes_in, seconds, samples) are counted at rank 0 of
 * its communicator; bytes_wire and bytes_native on every rank, for its own part. */
struct cshim_row {
    uint64_t calls;
    uint64_t bytes_in;      /* the caller's buffer */
    uint64_t bytes_wire;    /* handed to the library for sending */
    uint64_t bytes_network; /* of these, to other nodes */
    uint64_t bytes_native;  /* what a ring would have sent */
    double seconds;
    double seconds_encode;
    double seconds_exchange;
    double seconds_decode; /* decoding and reducing */
    double error_squares;  /* sampled: sum of (result - sum in float64)^2 ... */
    double sum_squares;    /* ... and of that sum's square */
    uint64_t samples;      /* elements sampled */
};

struct cshim_ledger {
    const struct cshim_policy *policy;
    pthread_mutex_t lock; /* guards rows */
    size_t row_count;
    struct cshim_row *rows;
    uint64_t passed[CSHIM_REASON_COUNT]; /* calls, atomic; counted at rank 0 of the communicator */
};

/* Starts an empty ledger for a policy, which must outlive it. Returns false without memory. */
bool cshim_ledger_init(struct cshim_ledger *ledger, const struct cshim_policy *policy);
void cshim_ledger_free(struct cshim_ledger *ledger);

/* Counts a call that was passed through. */
static inline void cshim_ledger_pass(struct cshim_ledger *ledger, enum cshim_reason reason)
{
    __atomic_fetch_add(&ledger->passed[reason], 1, __ATOMIC_RELAXED);
}

/* Adds one compressed call's figures to the row of its plan. */
void cshim_ledger_add(struct cshim_ledger *ledger, const struct cshim_plan *plan,
                      const struct cshim_row *figures);

/* Adds another rank's rows and passed counts; both ledgers have the same policy. */
void cshim_ledger_merge(struct cshim_ledger *ledger, const struct cshim_row *rows,
                        const uint64_t passed[CSHIM_REASON_COUNT]);

/* What row `index` counts. */
struct cshim_row_key {
    const struct cshim_rule *rule;
    enum cshim_dtype dtype;
    enum cshim_algorithm algorithm;
};
struct cshim_row_key cshim_ledger_key(const struct cshim_ledger *ledger, size_t index);

/* The sampled relative L2 error of a row; negative if nothing was sampled. */
double cshim_row_error(const struct cshim_row *row);

/* The sum of all rows. */
struct cshim_row cshim_ledger_total(const struct cshim_ledger *ledger);

#endif
