/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a running process, in shared memory, for compshim top. Only where COMPSHIM_LIVE=on
 * asks for it. Needs libc only.
 *
 * The file is locked as long as its process lives: one without a lock is stale, whatever process
 * has the number by now. It appears under its name when it is complete. */
#ifndef CSHIM_LIVE_H
#define CSHIM_LIVE_H

#include "shim/core/plan.h"
#include "shim/report/row.h"

#define CSHIM_LIVE_FOLDER "/dev/shm"
#define CSHIM_LIVE_PREFIX "compshim-" /* then the user's number, the process's and the library */
#define CSHIM_LIVE_MAGIC "cshimtop"
#define CSHIM_LIVE_RULES 64u /* those beyond are counted as the last */

/* Sums over the calls under one rule, as this process counts them in its ledger. */
struct cshim_live_rule {
    char name[CSHIM_RULE_NAME_MAX];
    uint64_t codec; /* these two of the last call */
    uint64_t algorithm;
    struct cshim_row row;
};

/* Written by one process, read by others while it writes: members are 8 bytes wide, so each is
 * whole. */
struct cshim_live {
    char magic[8];
    char version[24]; /* of the writer: a reader of another one does not know the layout */
    uint64_t size;    /* of this structure */
    int64_t pid;
    int64_t rank;
    int64_t ranks;
    int64_t nodes;
    char library[8];
    char program[64];
    char job[64]; /* by its launcher */
    char policy[256];
    double started; /* by the monotonic clock */
    uint64_t rule_count;
    struct cshim_live_rule rules[CSHIM_LIVE_RULES];
    uint64_t passed[CSHIM_REASON_COUNT]; /* calls, atomic */
};

/* Publishes this process. Returns NULL if that is not asked for, or, after a warning, if it is not
 * possible. */
struct cshim_live *cshim_live_open(const struct cshim_policy *policy, const char *library, int rank,
                                   int ranks, int nodes);
/* Removes the file; withdraw leaves the memory to those that may still count. NULL is nothing. */
void cshim_live_close(struct cshim_live *live);
void cshim_live_withdraw(const struct cshim_live *live);

#endif
