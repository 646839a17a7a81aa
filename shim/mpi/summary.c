/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/summary.h"

#include <string.h>

#include "shim/core/log.h"
#include "shim/core/tree.h"
#include "shim/report/file.h"

enum tag { TAG_ROWS = 1, TAG_TALLY, TAG_KINDS, TAG_MISSING };

/* Message with one row of the ledger. Empty rows are not sent: a job uses few of the rows. */
struct numbered_row {
    uint64_t index; /* the ledger's row_count marks the end */
    struct cshim_row row;
};

/* Sends to the parent in the tree. Returns false if the parent has died, in a job that survives
 * that. */
static bool send_to_parent(const void *data, size_t bytes, enum tag tag)
{
    return PMPI_Send(data, (int)bytes, MPI_BYTE, cshim_tree_parent(cshim_job.rank), (int)tag,
                     cshim_mpi.world.comm) == MPI_SUCCESS;
}

/* Receives from a child. Returns false if it has died. */
static bool receive_from_child(void *data, size_t bytes, int rank, enum tag tag)
{
    return PMPI_Recv(data, (int)bytes, MPI_BYTE, rank, (int)tag, cshim_mpi.world.comm,
                     MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* Returns true if no call has added to the row. */
static bool is_empty(const void *row)
{
    static const char zeros[sizeof(struct cshim_row)];
    return memcmp(row, zeros, sizeof zeros) == 0;
}

static bool send_rows(const struct cshim_ledger *ledger)
{
    struct numbered_row sent = {.index = 0};
    for (; sent.index < ledger->row_count; sent.index++) {
        sent.row = ledger->rows[sent.index];
        if (!is_empty(&sent.row) && !send_to_parent(&sent, sizeof sent, TAG_ROWS))
            return false;
    }
    return send_to_parent(&sent, sizeof sent, TAG_ROWS);
}

static bool receive_rows(struct cshim_ledger *ledger, int rank)
{
    struct numbered_row received;
    while (receive_from_child(&received, sizeof received, rank, TAG_ROWS)) {
        if (received.index >= ledger->row_count)
            return true;
        cshim_row_add(&ledger->rows[received.index], &received.row);
    }
    return false;
}

static bool receive_ledger(struct cshim_ledger *ledger, int rank)
{
    struct cshim_tally tally;
    if (!receive_rows(ledger, rank) || !receive_from_child(&tally, sizeof tally, rank, TAG_TALLY))
        return false;
    cshim_ledger_merge(ledger, &tally);
    return true;
}

/* Sends the kinds of calls that this rank has recorded or received, then the sum of the calls that
 * found no free entry. The `ranks` of that sum is 0, which marks the end. */
static bool send_observed(const struct cshim_observed *observed)
{
    for (size_t i = 0; i < observed->count; i++)
        if (!send_to_parent(&observed->kinds[i], sizeof *observed->kinds, TAG_KINDS))
            return false;
    return send_to_parent(&observed->unlisted, sizeof observed->unlisted, TAG_KINDS);
}

static bool receive_observed(struct cshim_observed *observed, int rank)
{
    struct cshim_kind kind;
    while (receive_from_child(&kind, sizeof kind, rank, TAG_KINDS)) {
        cshim_observed_add(observed, &kind);
        if (kind.ranks == 0)
            return true;
    }
    return false;
}

/* Collects all figures at rank 0, along the tree of shim/core/tree.h: each rank adds those of its
 * children to its own. Messages have fixed sizes, because there may be no memory left to allocate.
 */
static void collect_figures(void)
{
    struct cshim_ledger *ledger = &cshim_job.ledger;
    struct cshim_observed *observed = cshim_job.observed;
    int first, missing = 0, below; /* `missing`: number of ranks left out */
    const int children = cshim_tree_children(cshim_job.rank, cshim_job.ranks, &first);
    for (int child = first; child < first + children; child++)
        missing += receive_ledger(ledger, child) &&
                           (observed == NULL || receive_observed(observed, child)) &&
                           receive_from_child(&below, sizeof below, child, TAG_MISSING)
                       ? below
                       : cshim_tree_size(child, cshim_job.ranks);
    if (cshim_job.rank != 0) {
        (void)(send_rows(ledger) &&
               send_to_parent(&ledger->tally, sizeof ledger->tally, TAG_TALLY) &&
               (observed == NULL || send_observed(observed)) &&
               send_to_parent(&missing, sizeof missing, TAG_MISSING));
        return;
    }
    if (observed != NULL)
        cshim_observed_sort(observed);
    if (missing > 0)
        cshim_log(CSHIM_LOG_WARN, "the report lacks %d of %d ranks: a rank has ended", missing,
                  cshim_job.ranks);
}

/* Shortens "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\n..." to fit a line. */
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
    collect_figures();
    if (cshim_job.rank != 0 || cshim_job.wanted == NULL)
        return;
    PMPI_Get_library_version(library, &length);
    shorten_version(library);
    cshim_job.library = library;
    cshim_job.nodes = cshim_mpi.world.layout.nodes;
    cshim_report_write(&cshim_job, cshim_mpi.file_additions);
}
