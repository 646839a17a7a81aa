/* SPDX-License-Identifier: Apache-2.0 */
/* The classes of calls of a communicator whose rules say `worth = measured`: for each, what was
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

/* Classes of a communicator; calls beyond these take what a rule without measurements takes. */
#define CSHIM_CLASSES_MAX 64u

struct cshim_class {
    const struct cshim_rule *rule; /* NULL: the class is free */
    enum cshim_dtype dtype;
    enum cshim_codec_id codec; /* the rule's, or what max_rel_error takes instead */
    uint32_t size_class;       /* of the caller's buffer */
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

/* Takes memory for the classes if some rule of the policy says `worth = measured`. Returns false
 * without memory. The communicator frees it. */
bool cshim_classes_reserve(struct cshim_communicator *communicator);

/* Finds the class of a call of `count` elements that `rule` compresses, or starts it. Returns NULL
 * if all classes are taken or no algorithm can make the call: the caller then plans as without
 * measurements. */
struct cshim_class *cshim_class_find(struct cshim_communicator *communicator,
                                     const struct cshim_rule *rule, const struct cshim_call *call,
                                     uint64_t count);

/* Decides by the agreed durations in class->choice, and counts at rank 0 what the calls took. */
void cshim_class_decide(struct cshim_class *class, const struct cshim_communicator *communicator);

/* Ends the call that was begun last. Candidate and seconds are those of this rank. */
void cshim_class_end(struct cshim_class *class, unsigned candidate, double seconds);

/* Counts at rank 0 what calls took since the last decisions; before the report is written. */
void cshim_classes_count(const struct cshim_communicator *communicator);

#endif
