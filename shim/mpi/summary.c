/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/summary.h"

#include <string.h>

#include "shim/core/log.h"
#include "shim/core/tree.h"
#include "shim/report/report.h"

enum tag { TAG_ROWS = 1, TAG_TALLY, TAG_KINDS, TAG_MISSING };

/* A row of the ledger as it travels. A job uses few of the many rows, so only those are sent in
 * which calls were counted. Every rank counts native bytes for a call, so a row without any is not
 * used. */
struct numbered_row {
    uint64_t index; /* the ledger's row_count stands for the end */
    struct cshim_row row;
};

/* The other end may have died, if the library lets a job go on without it: then they return false.
 */
static bool give(const void *data, size_t bytes, enum tag tag)
{
    return PMPI_Send(data, (int)bytes, MPI_BYTE, cshim_tree_parent(cshim_job.rank), (int)tag,
                     cshim_mpi.world) == MPI_SUCCESS;
}

static bool take(void *data, size_t bytes, int rank, enum tag tag)
{
    return PMPI_Recv(data, (int)bytes, MPI_BYTE, rank, (int)tag, cshim_mpi.world,
                     MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

static bool give_rows(const struct cshim_ledger *ledger)
{
    struct numbered_row given = {.index = 0};
    for (; given.index < ledger->row_count; given.index++) {
        given.row = ledger->rows[given.index];
        if (given.row.bytes_native > 0 && !give(&given, sizeof given, TAG_ROWS))
            return false;
    }
    return give(&given, sizeof given, TAG_ROWS);
}

static bool take_rows(struct cshim_ledger *ledger, int rank)
{
    struct numbered_row taken;
    while (take(&taken, sizeof taken, rank, TAG_ROWS)) {
        if (taken.index >= ledger->row_count)
            return true;
        cshim_row_add(&ledger->rows[taken.index], &taken.row);
    }
    return false;
}

static bool take_ledger(struct cshim_ledger *ledger, int rank)
{
    struct cshim_tally tally;
    if (!take_rows(ledger, rank) || !take(&tally, sizeof tally, rank, TAG_TALLY))
        return false;
    cshim_ledger_merge(ledger, &tally);
    return true;
}

/* The kinds of calls that this rank has written down, and last those for which it had no place,
 * whose ranks are 0. */
static bool give_observed(const struct cshim_observed *observed)
{
    for (size_t i = 0; i < observed->count; i++)
        if (!give(&observed->kinds[i], sizeof *observed->kinds, TAG_KINDS))
            return false;
    return give(&observed->unlisted, sizeof observed->unlisted, TAG_KINDS);
}

static bool take_observed(struct cshim_observed *observed, int rank)
{
    struct cshim_kind kind;
    while (take(&kind, sizeof kind, rank, TAG_KINDS)) {
        cshim_observed_add(observed, &kind);
        if (kind.ranks == 0)
            return true;
    }
    return false;
}

/* Collects everything at rank 0, along the tree of shim/core/tree.h: a rank adds to its own figures
 * those of the ranks below it. The pieces are such that no memory is allocated for them, since
 * there may be none left. */
static void gather(void)
{
    struct cshim_ledger *ledger = &cshim_job.ledger;
    struct cshim_observed *observed = cshim_job.observed;
    int first, missing = 0, below; /* ranks that are not there any more */
    const int children = cshim_tree_children(cshim_job.rank, cshim_job.ranks, &first);
    for (int child = first; child < first + children; child++)
        missing += take_ledger(ledger, child) &&
                           (observed == NULL || take_observed(observed, child)) &&
                           take(&below, sizeof below, child, TAG_MISSING)
                       ? below
                       : cshim_tree_size(child, cshim_job.ranks);
    if (cshim_job.rank != 0) {
        (void)(give_rows(ledger) && give(&ledger->tally, sizeof ledger->tally, TAG_TALLY) &&
               (observed == NULL || give_observed(observed)) &&
               give(&missing, sizeof missing, TAG_MISSING));
        return;
    }
    if (observed != NULL)
        cshim_observed_sort(observed);
    if (missing > 0)
        cshim_log(CSHIM_LOG_WARN, "the report lacks %d of %d ranks, which are not there any more",
                  missing, cshim_job.ranks);
}

/* Cuts "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\n..." to what fits into a line.
 */
static void shorten_version(char *library)
{
    library[strcspn(library, ",\n")] = '\0';
    for (char *tab = library; (tab = strchr(tab, '\t')) != NULL;)
        *tab = ' ';
}

void cshim_summary(void)
{
    static char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    gather();
    if (cshim_job.rank != 0)
        return;
    const char *wanted = cshim_report_wanted(cshim_job.policy, true);
    if (wanted == NULL)
        return;
    PMPI_Get_library_version(library, &length);
    shorten_version(library);
    cshim_job.library = library;
    cshim_job.nodes = cshim_mpi.layout.nodes;
    cshim_report_write(wanted, &cshim_job);
}
