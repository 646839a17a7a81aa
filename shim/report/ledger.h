/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger of a job: the compressed calls with their bytes and times, and the calls passed
 * through with their reasons.
 *
 * Calls neither MPI nor CUDA. Counting is thread-safe and allocates nothing. There is a row
 * for each rule, collective, dtype, codec and algorithm; its index is computed from these five. */
#ifndef CSHIM_LEDGER_H
#define CSHIM_LEDGER_H

#include <pthread.h>

#include "gloo_names.h"
#include "mpi_names.h"
#include "shim/core/learned.h"
#include "shim/core/plan.h"
#include "shim/report/live.h"
#include "shim/core/row.h"

/* A class of tensors (rule, type and count) for which max_rel_error has switched to a more precise
 * codec. Recorded at rank 0 of the communicator. */
struct cshim_codec_change {
    uint32_t rule; /* index in the policy */
    uint8_t dtype; /* enum cshim_dtype */
    uint8_t from;  /* enum cshim_codec_id */
    uint8_t to;
    uint64_t count; /* elements */
    uint32_t call;  /* number of the compressed call after which it switched, from 1 */
    float error;    /* relative L2 error of that call's encoding */
};
#define CSHIM_CODEC_CHANGES_MAX 64u

/* Number of functions whose calls are counted in a report if the policy never compresses them:
 * MPI's, then gloo's. */
#define CSHIM_COUNTED_ALL ((unsigned)CSHIM_MPI_COUNTED + (unsigned)CSHIM_GLOO_COUNTED)

/* Calls of a function that the policy never compresses. Travels between ranks as bytes. */
struct cshim_counted {
    uint64_t calls;
    uint64_t bytes; /* bytes of one rank's buffers, by its arguments */
};

/* Maximum number of classes of calls whose learned choices a ledger keeps. */
#define CSHIM_LEARNED_MAX 128u

/* Counts of a process besides its rows. Travels between ranks as bytes. */
struct cshim_tally {
    uint64_t passed[CSHIM_REASON_COUNT]; /* calls passed through, by reason; each is counted on one
                                            rank, usually rank 0 of its communicator */
    struct cshim_counted counted[CSHIM_COUNTED_ALL];
    /* MPI and gloo: bytes of the passed-through calls that cshim_ledger_weigh() counts. `unruled`:
     * bytes of calls that no rule matched, by element type. `ruled_out`: bytes of the other
     * calls. */
    uint64_t unruled[CSHIM_DTYPE_COUNT];
    uint64_t ruled_out;
    uint64_t changes; /* number of switches by max_rel_error; the first CSHIM_CODEC_CHANGES_MAX are
                         kept */
    struct cshim_codec_change change[CSHIM_CODEC_CHANGES_MAX];
};

struct cshim_ledger {
    const struct cshim_policy *policy;
    pthread_mutex_t lock; /* guards rows, changes and learned choices */
    size_t row_count;
    struct cshim_row *rows;
    struct cshim_tally tally;
    uint64_t *passed; /* `passed` of the tally or, while figures are published, of `live`; atomic */
    struct cshim_live *live; /* published figures of the process, or NULL */
    size_t learned_count;
    struct cshim_learned_choice learned[CSHIM_LEARNED_MAX];
};

/* Starts an empty ledger for a policy, which must outlive it. Returns false if there is no
 * memory. */
bool cshim_ledger_init(struct cshim_ledger *ledger, const struct cshim_policy *policy);
void cshim_ledger_free(struct cshim_ledger *ledger);

/* Makes the ledger also count in `live`; NULL: no longer. Returns the previous `live`. No other
 * thread may use the ledger meanwhile. */
struct cshim_live *cshim_ledger_publish(struct cshim_ledger *ledger, struct cshim_live *live);

/* Counts a call that was passed through. */
static inline void cshim_ledger_pass(struct cshim_ledger *ledger, enum cshim_reason reason)
{
    __atomic_fetch_add(&ledger->passed[reason], 1, __ATOMIC_RELAXED);
}

/* Counts the bytes of a call that the policy passed through, if they are at least
 * CSHIM_WEIGHED_FROM and the call's type is not CSHIM_DTYPE_OTHER. */
#define CSHIM_WEIGHED_FROM ((uint64_t)64 << 10)
static inline void cshim_ledger_weigh(struct cshim_ledger *ledger, enum cshim_reason reason,
                                      const struct cshim_call *call)
{
    uint64_t *bytes = reason == CSHIM_REASON_NO_RULE ? &ledger->tally.unruled[call->dtype]
                                                     : &ledger->tally.ruled_out;
    if (call->bytes >= CSHIM_WEIGHED_FROM && (unsigned)call->dtype < CSHIM_DTYPE_COUNT)
        __atomic_fetch_add(bytes, call->bytes, __ATOMIC_RELAXED);
}

/* Counts a call of a function that the policy never compresses. gloo's functions are numbered after
 * MPI's. */
static inline void cshim_ledger_count(struct cshim_ledger *ledger, unsigned function,
                                      uint64_t bytes)
{
    struct cshim_counted *counted = &ledger->tally.counted[function];
    __atomic_fetch_add(&counted->calls, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&counted->bytes, bytes, __ATOMIC_RELAXED);
}
const char *cshim_counted_name(unsigned function); /* such as "MPI_Bcast" */

/* Adds figures of calls to the row of their plan. */
void cshim_ledger_add(struct cshim_ledger *ledger, const struct cshim_plan *plan,
                      const struct cshim_row *figures);

/* Records that the plan's class of tensors has switched to codec `to`, after call number `call`,
 * because of its `error`. */
void cshim_ledger_add_change(struct cshim_ledger *ledger, const struct cshim_plan *plan,
                             enum cshim_codec_id to, uint32_t call, float error);

/* Records the choice that a class of calls has learned; replaces its earlier one. Ignores further
 * classes once CSHIM_LEARNED_MAX are recorded. */
void cshim_ledger_learn(struct cshim_ledger *ledger, const struct cshim_learned_choice *choice);

/* Adds another rank's tally, counted under the same policy. Not thread-safe. */
void cshim_ledger_merge(struct cshim_ledger *ledger, const struct cshim_tally *tally);

/* Key of a row: calls with equal keys are counted together. */
struct cshim_row_key {
    enum cshim_collective collective;
    const struct cshim_rule *rule;
    enum cshim_dtype dtype;
    enum cshim_algorithm algorithm;
    enum cshim_codec_id codec;
};
struct cshim_row_key cshim_ledger_key(const struct cshim_ledger *ledger, size_t index);

/* Returns the number of calls that were passed through, over all reasons. Calls of functions that
 * the policy never compresses (`counted`) are not among them. */
uint64_t cshim_ledger_passed(const struct cshim_ledger *ledger);

/* Returns the sum of all rows. */
struct cshim_row cshim_ledger_total(const struct cshim_ledger *ledger);

#endif
