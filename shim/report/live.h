/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of a running process, in shared memory, for compshim top. A process publishes them if
 * COMPSHIM_LIVE=on.
 *
 * For each library a process has a file in CSHIM_LIVE_FOLDER, and keeps it locked until the process
 * ends. A file without a lock is stale: its process has ended, even if a new process has the same
 * id. A file gets its final name when its contents are complete. */
#ifndef CSHIM_LIVE_H
#define CSHIM_LIVE_H

#include "shim/core/plan.h"
#include "shim/core/row.h"

#define CSHIM_LIVE_FOLDER "/dev/shm"
#define CSHIM_LIVE_PREFIX "compshim-" /* followed by user, process, namespace, library */
#define CSHIM_LIVE_MAGIC "cshimtop"
#define CSHIM_LIVE_RULES 64u /* the last entry also counts all further rules */

/* Sums over the calls under one rule, as this process counts them in its ledger. */
struct cshim_live_rule {
    char name[CSHIM_RULE_NAME_MAX];
    uint64_t codec;     /* codec of the figures added last; before that the rule's */
    uint64_t algorithm; /* algorithm of the figures added last */
    struct cshim_row row;
};

/* One process writes this while others read it. Each member that changes is 8 bytes wide, so that a
 * reader finds an old value or a new one. */
struct cshim_live {
    char magic[8];
    char version[24]; /* version of the writer: others may have another layout */
    uint64_t size;    /* bytes of this structure */
    int64_t pid;
    int64_t rank;
    int64_t ranks;
    int64_t nodes;
    char library[8];
    char program[64];
    char job[64]; /* cshim_report_job(); if that is "0", "by" and the parent's process id */
    char policy[256];
    double started; /* time of cshim_live_open(), by cshim_seconds() */
    uint64_t rule_count;
    struct cshim_live_rule rules[CSHIM_LIVE_RULES];
    uint64_t passed[CSHIM_REASON_COUNT]; /* calls passed through, by reason; atomic */
};

/* Creates the file of this process. Returns NULL if COMPSHIM_LIVE does not ask for it, or, with a
 * warning, if it cannot be created. */
struct cshim_live *cshim_live_open(const struct cshim_policy *policy, const char *library, int rank,
                                   int ranks, int nodes);
/* Removes the file. The memory stays, for threads that may still count. Does nothing with NULL. */
void cshim_live_withdraw(const struct cshim_live *live);

#endif
