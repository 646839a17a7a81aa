/* SPDX-License-Identifier: Apache-2.0 */
/* The classes of calls of a communicator that may be made in several ways: for each, what was
 * learned (shim/core/choice.h), and what its calls took, for the report.
 *
 * For each such call, after the ranks' memory has been agreed on:
 *
 *     class = cshim_class_find(communicator, rule, call, count);
 *     if (cshim_choice_is_due(&class->choice)) {
 *         ... least durations of all ranks ...
 *         cshim_class_decide(class, communicator);
 *     }
 *     candidate = cshim_choice_begin(&class->choice);
 *     ... make the call: natively, or by algorithms[candidate] and codecs[candidate] ...
 *     cshim_class_end(class, candidate, seconds);
 *
 * All ranks of a communicator find the same classes in the same order. Not thread-safe, as calls of
 * one communicator follow each other. */
#ifndef CSHIM_CLASSES_H
#define CSHIM_CLASSES_H

#include "shim/core/choice.h"
#include "shim/host/communicator.h"

/* Classes of a communicator; calls beyond these take what nothing was measured for takes. */
#define CSHIM_CLASSES_MAX 64u

struct cshim_class {
    const struct cshim_rule *rule; /* NULL: the class is free */
    enum cshim_dtype dtype;
    enum cshim_codec_id codec; /* the rule's, or what max_rel_error takes instead */
    enum cshim_library library;
    uint32_t size_class; /* of the caller's buffer */
    /* Algorithm and codec by candidate; those of the native one are unused. */
    enum cshim_algorithm algorithms[CSHIM_CANDIDATES_MAX];
    enum cshim_codec_id codecs[CSHIM_CANDIDATES_MAX];
    struct cshim_choice choice;
    /* Calls of each candidate, and this rank's seconds in them, that the ledger does not have yet.
     */
    struct {
        uint64_t calls;
        double seconds;
    } uncounted[CSHIM_CANDIDATES_MAX];
};

/* Takes memory for the classes, if calls of the library may have some. Returns false without
 * memory. The communicator frees it. */
bool cshim_classes_reserve(struct cshim_communicator *communicator, enum cshim_library library);

/* Returns true if calls by a rule are measured, or made as an earlier job has learned. */
static inline bool cshim_class_is_for(const struct cshim_rule *rule, const struct cshim_call *call)
{
    return rule->worth != CSHIM_WORTH_ALWAYS && call->collective == CSHIM_ALLREDUCE;
}

/* Returns true if a call that `rule` compresses is of the class. */
bool cshim_class_has(const struct cshim_class *class, const struct cshim_rule *rule,
                     const struct cshim_call *call);
/* Starts the class of such a call: the same one for each of its calls. Returns false if no
 * algorithm can make them. */
bool cshim_class_start(struct cshim_class *class, const struct cshim_communicator *communicator,
                       const struct cshim_rule *rule, const struct cshim_call *call);

/* Finds the class of a call of `count` elements that `rule` compresses, or starts it. Returns NULL
 * if all classes are taken or no algorithm can make the call: the caller then plans as without
 * measurements. */
struct cshim_class *cshim_class_find(struct cshim_communicator *communicator,
                                     const struct cshim_rule *rule, const struct cshim_call *call);

/* Plans a call whose duration is not known to its caller, as one that is nonblocking: as measured
 * calls of its class have learned, else as where nothing was measured. */
struct cshim_plan cshim_class_plan(struct cshim_communicator *communicator,
                                   const struct cshim_rule *rule, const struct cshim_call *call,
                                   uint64_t count);

/* Plans a call of a class by a candidate; the reason is CSHIM_REASON_NO_GAIN for the native one. */
struct cshim_plan cshim_class_plan_candidate(const struct cshim_class *class, unsigned candidate,
                                             const struct cshim_call *call, uint64_t count);

/* Decides by the agreed durations in class->choice, and counts at rank 0 what the calls took. */
void cshim_class_decide(struct cshim_class *class, const struct cshim_communicator *communicator);

/* Ends the call that was begun last. Candidate and seconds are those of this rank. */
void cshim_class_end(struct cshim_class *class, unsigned candidate, double seconds);

/* Parts of these, for calls in any order: notes a decision, and adds and counts a call. */
void cshim_class_decided(struct cshim_class *class, const struct cshim_communicator *communicator);
void cshim_class_add(struct cshim_class *class, unsigned candidate, double seconds);
void cshim_class_count(struct cshim_class *class, const struct cshim_communicator *communicator);

/* Counts at rank 0 what calls took since the last decisions; before the report is written. */
void cshim_classes_count(const struct cshim_communicator *communicator);

#endif
