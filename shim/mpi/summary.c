/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/summary.h"

#include <string.h>

#include "shim/core/log.h"
#include "shim/mpi/job.h"
#include "shim/report/report.h"

enum tag { TAG_ROWS = 1, TAG_PASSED, TAG_MOVES, TAG_MOVE, TAG_COUNTED, TAG_KINDS };

/* Of a ledger's many rows a job has few: those travel one by one that calls were counted in, of
 * which every rank counts some native bytes. */
struct numbered_row {
    uint64_t index; /* the ledger's row_count: there are no more */
    struct cshim_row row;
};

/* The other end may have died, if the library lets a job go on without it: then they return false.
 */
static bool give(const void *data, size_t bytes, enum tag tag)
{
    return PMPI_Send(data, (int)bytes, MPI_BYTE, 0, (int)tag, cshim_mpi.world) == MPI_SUCCESS;
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
        cshim_ledger_merge_row(ledger, taken.index, &taken.row);
    }
    return false;
}

static bool give_ledger(const struct cshim_ledger *ledger)
{
    return give_rows(ledger) && give(ledger->passed, sizeof ledger->own_passed, TAG_PASSED) &&
           give(&ledger->moves, sizeof ledger->moves, TAG_MOVES) &&
           give(ledger->move, sizeof ledger->move, TAG_MOVE) &&
           give(ledger->counted, sizeof ledger->counted, TAG_COUNTED);
}

static bool take_ledger(struct cshim_ledger *ledger, int rank)
{
    uint64_t passed[CSHIM_REASON_COUNT], moves;
    struct cshim_move move[CSHIM_MOVES_MAX];
    struct cshim_counted counted[CSHIM_COUNTED_FUNCTIONS];
    if (!take_rows(ledger, rank) || !take(passed, sizeof passed, rank, TAG_PASSED) ||
        !take(&moves, sizeof moves, rank, TAG_MOVES) || !take(move, sizeof move, rank, TAG_MOVE) ||
        !take(counted, sizeof counted, rank, TAG_COUNTED))
        return false;
    cshim_ledger_merge_passed(ledger, passed);
    cshim_ledger_merge_counted(ledger, counted);
    cshim_ledger_merge_moves(ledger, moves, move);
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

/* Everything comes to rank 0 in pieces that need no memory, since there may be none left. */
static void gather(void)
{
    struct cshim_observed *observed = cshim_job.observed;
    int missing = 0;
    if (cshim_job.rank != 0) {
        (void)(give_ledger(&cshim_job.ledger) && (observed == NULL || give_observed(observed)));
        return;
    }
    for (int rank = 1; rank < cshim_job.ranks; rank++)
        missing += !(take_ledger(&cshim_job.ledger, rank) &&
                     (observed == NULL || take_observed(observed, rank)));
    if (observed != NULL)
        cshim_observed_sort(observed);
    if (missing > 0)
        cshim_log(CSHIM_LOG_WARN, "the report lacks %d of %d ranks, which are not there any more",
                  missing, cshim_job.ranks);
}

/* Of "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\n..." what fits into a line. */
static void shorten_version(char *library)
{
    library[strcspn(library, ",\n")] = '\0';
    for (char *tab = library; (tab = strchr(tab, '\t')) != NULL;)
        *tab = ' ';
}

void cshim_summary(void)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    gather();
    if (cshim_job.rank != 0)
        return;
    const char *wanted = cshim_report_wanted(cshim_job.policy);
    if (wanted == NULL)
        return;
    PMPI_Get_library_version(library, &length);
    shorten_version(library);
    const struct cshim_report_facts facts = {
        .library = library,
        .ranks = (uint32_t)cshim_job.ranks,
        .nodes = cshim_job.layout.nodes,
        .policy_source = cshim_job.policy->source,
        .policy_sha256 = cshim_job.policy_sha256,
        .wall_seconds = cshim_job.stopped - cshim_job.started,
        .observed = cshim_job.observed,
    };
    cshim_report_write(wanted, cshim_job.rank, &cshim_job.ledger, &facts);
}
