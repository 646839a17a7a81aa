/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of calls that may be made in several ways, for one communicator. Each class has what was
 * learned (shim/core/choice.h), and the durations of its calls for the report.
 *
 * With MPI, for each call that is measured, after the ranks have agreed on memory (gloo and NCCL
 * decide in their own choose.c):
 *
 *     class = cshim_class_find(classes, learned, rule, call);
 *     if (cshim_choice_is_due(&class->choice)) {
 *         ... agree on the durations with all ranks ...
 *         cshim_class_decide(class, ledger);
 *     }
 *     candidate = cshim_choice_begin(&class->choice);
 *     ... make the call: natively, or by algorithms[candidate] and codecs[candidate] ...
 *     cshim_class_end(class, candidate, seconds);
 *
 * `learned` has the choices of an earlier job; NULL: calls are measured. `ledger` is rank 0's,
 * which counts for all ranks; NULL at the others. Except with gloo, all ranks of a communicator
 * find the same classes in the same order. Not thread-safe. */
#ifndef CSHIM_CLASSES_H
#define CSHIM_CLASSES_H

#include "shim/core/choice.h"
#include "shim/report/ledger.h"

/* Maximum number of classes of a communicator, except with gloo. Calls of further classes are
 * planned without measurements. */
#define CSHIM_CLASSES_MAX 64u

struct cshim_class {
    const struct cshim_rule *rule; /* NULL: unused entry */
    enum cshim_op op;
    struct cshim_learned_choice key; /* key in lists of learned choices; has no choice itself */
    /* Algorithm and codec of each candidate; unused for the native one. */
    enum cshim_algorithm algorithms[CSHIM_CANDIDATES_MAX];
    enum cshim_codec_id codecs[CSHIM_CANDIDATES_MAX];
    struct cshim_choice choice;
    /* Calls of each candidate, and this rank's seconds in them, that are not yet in the ledger. */
    struct {
        uint64_t calls;
        double seconds;
    } uncounted[CSHIM_CANDIDATES_MAX];
    uint64_t untimed; /* native calls that are neither timed nor in the ledger yet */
};

/* Allocates the CSHIM_CLASSES_MAX classes of a communicator, or leaves *classes as it is (NULL) if
 * the policy has no rule for which `library`'s calls are measured. Returns false if there is no
 * memory. The caller frees them. */
bool cshim_classes_reserve(struct cshim_class **classes, const struct cshim_policy *policy,
                           enum cshim_library library);

/* Returns true if a call that `rule` compresses may have a class: if it is an all-reduce that the
 * library, too, can make, and the rule's `worth` is not `always`. Other calls are planned without
 * learned choices. */
static inline bool cshim_class_is_for(const struct cshim_rule *rule, const struct cshim_call *call)
{
    return rule->worth != CSHIM_WORTH_ALWAYS && call->collective == CSHIM_ALLREDUCE &&
           !call->lacks_native;
}

/* Returns true if the class is that of the calls with `op` and `key` that `rule` compresses. */
bool cshim_class_has(const struct cshim_class *class, const struct cshim_rule *rule,
                     enum cshim_op op, const struct cshim_learned_choice *key);
/* Starts the class of a call, with the class's candidates. These are the same whichever blocking
 * call starts the class; for a nonblocking call, algorithms that wait for the library are left out.
 * Returns false if no algorithm can make the smallest call of the class. */
bool cshim_class_start(struct cshim_class *class, const struct cshim_learned *learned,
                       const struct cshim_rule *rule, const struct cshim_call *call);

/* Returns the class of a call that `rule` compresses, and starts it if it is new. Returns NULL if
 * `classes` is NULL, all entries are used, or no algorithm can make the smallest call of the class:
 * the caller then plans without measurements. */
struct cshim_class *cshim_class_find(struct cshim_class *classes,
                                     const struct cshim_learned *learned,
                                     const struct cshim_rule *rule, const struct cshim_call *call);

/* Plans a call that is not timed, such as a nonblocking one: with the candidate that timed calls of
 * its class, or an earlier job, have chosen; otherwise without measurements. */
struct cshim_plan cshim_class_plan(struct cshim_class *classes, const struct cshim_learned *learned,
                                   const struct cshim_policy *policy, const struct cshim_rule *rule,
                                   const struct cshim_call *call, uint64_t count);

/* Stores the candidate's codec in call->instead, if it is not the rule's. */
void cshim_class_set_instead(const struct cshim_class *class, unsigned candidate,
                             struct cshim_call *call);
/* Plans a call of a class by a candidate. For the native candidate the reason is
 * CSHIM_REASON_NO_GAIN. */
struct cshim_plan cshim_class_plan_candidate(const struct cshim_class *class, unsigned candidate,
                                             const struct cshim_call *call, uint64_t count);

/* Decides by the agreed durations in class->choice. Rank 0 records the choice of a settled class
 * and, once the native duration is known, counts the uncounted calls. */
void cshim_class_decide(struct cshim_class *class, struct cshim_ledger *ledger);

/* Ends the call that cshim_choice_begin() began last. `seconds`: its duration on this rank. */
void cshim_class_end(struct cshim_class *class, unsigned candidate, double seconds);

/* Records and counts as cshim_class_decide() does, after a decision: for gloo, which decides
 * without that function. Logs a choice only if `is_new`. */
void cshim_class_decided(struct cshim_class *class, struct cshim_ledger *ledger, bool is_new);
/* Adds a call to the uncounted calls of a candidate. */
void cshim_class_add(struct cshim_class *class, unsigned candidate, double seconds);
/* Moves the uncounted calls to the ledger, on rank 0, once the native duration is known. */
void cshim_class_count(struct cshim_class *class, struct cshim_ledger *ledger);

/* Counts, at rank 0, the calls of all classes since their last decisions. Called before the report
 * is written. */
void cshim_classes_count(struct cshim_class *classes, struct cshim_ledger *ledger);

#endif
