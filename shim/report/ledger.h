/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger: what was compressed, what was not and why, and what it cost.
 *
 * Pure: calls neither MPI nor CUDA. Counting is thread-safe and allocates nothing; a row's place
 * follows from rule, collective, dtype, codec and algorithm, so finding it is one multiplication.
 */
#ifndef CSHIM_LEDGER_H
#define CSHIM_LEDGER_H

#include <pthread.h>

#include "mpi_names.h"
#include "shim/core/plan.h"
#include "shim/report/live.h"
#include "shim/report/row.h"

/* A kind of tensor that moved to a more precise codec, at rank 0 of its communicator. */
struct cshim_move {
    uint32_t rule; /* index */
    uint8_t dtype;
    uint8_t from; /* codecs */
    uint8_t to;
    uint64_t count; /* elements */
    uint32_t call;  /* the compressed call of its communicator after which it moved */
    float error;    /* what its encoding lost */
};
#define CSHIM_MOVES_MAX 64u

/* Calls of a function that is never compressed. Travels between ranks as bytes. */
struct cshim_counted {
    uint64_t calls;
    uint64_t bytes; /* one rank's buffer, as far as a glance at the arguments tells */
};

struct cshim_ledger {
    const struct cshim_policy *policy;
    pthread_mutex_t lock; /* guards rows */
    size_t row_count;
    struct cshim_row *rows;
    uint64_t moves; /* how many; the first CSHIM_MOVES_MAX are kept */
    struct cshim_move move[CSHIM_MOVES_MAX];
    /* Both atomic, and counted at rank 0 of the communicator. */
    uint64_t *passed; /* calls by reason: these, or those of live */
    uint64_t own_passed[CSHIM_REASON_COUNT];
    struct cshim_live *live; /* where the process publishes its figures, or NULL */
    struct cshim_counted counted[CSHIM_COUNTED_FUNCTIONS];
};

/* Starts an empty ledger for a policy, which must outlive it. Returns false without memory. */
bool cshim_ledger_init(struct cshim_ledger *ledger, const struct cshim_policy *policy);
void cshim_ledger_free(struct cshim_ledger *ledger);

/* From here on what is counted is published, too; with NULL no longer. Returns where it was
 * published until now. No other thread may use the ledger meanwhile. */
struct cshim_live *cshim_ledger_publish(struct cshim_ledger *ledger, struct cshim_live *live);

/* Counts a call that was passed through. */
static inline void cshim_ledger_pass(struct cshim_ledger *ledger, enum cshim_reason reason)
{
    __atomic_fetch_add(&ledger->passed[reason], 1, __ATOMIC_RELAXED);
}

/* Counts a call of a function that is never compressed. */
static inline void cshim_ledger_count(struct cshim_ledger *ledger, enum cshim_mpi_counted function,
                                      uint64_t bytes)
{
    __atomic_fetch_add(&ledger->counted[function].calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&ledger->counted[function].bytes, bytes, __ATOMIC_RELAXED);
}
const char *cshim_counted_name(enum cshim_mpi_counted function); /* "MPI_Bcast" */

/* Adds one compressed call's figures to the row of its plan. */
void cshim_ledger_add(struct cshim_ledger *ledger, const struct cshim_plan *plan,
                      const struct cshim_row *figures);

/* Notes that the plan's kind of tensor moved to codec `to`. */
void cshim_ledger_move(struct cshim_ledger *ledger, const struct cshim_plan *plan,
                       enum cshim_codec_id to, uint32_t call, float error);

/* Adds row `index` (below row_count) of another rank's ledger, and its passed counts; both ledgers
 * have the same policy. */
void cshim_ledger_merge_row(struct cshim_ledger *ledger, size_t index, const struct cshim_row *row);
void cshim_ledger_merge_passed(struct cshim_ledger *ledger,
                               const uint64_t passed[CSHIM_REASON_COUNT]);
/* Adds another rank's counts of functions that are never compressed. */
void cshim_ledger_merge_counted(struct cshim_ledger *ledger,
                                const struct cshim_counted counted[CSHIM_COUNTED_FUNCTIONS]);
/* Adds another rank's moves: `moves` of them, of which the first CSHIM_MOVES_MAX are in move. */
void cshim_ledger_merge_moves(struct cshim_ledger *ledger, uint64_t moves,
                              const struct cshim_move *move);

/* What row `index` counts. */
struct cshim_row_key {
    enum cshim_collective collective;
    const struct cshim_rule *rule;
    enum cshim_dtype dtype;
    enum cshim_algorithm algorithm;
    enum cshim_codec_id codec;
};
struct cshim_row_key cshim_ledger_key(const struct cshim_ledger *ledger, size_t index);

/* Calls that were passed through, for all reasons. */
uint64_t cshim_ledger_passed(const struct cshim_ledger *ledger);

/* The sum of all rows. */
struct cshim_row cshim_ledger_total(const struct cshim_ledger *ledger);

#endif
