/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/summary.h"

#include <stdlib.h>

#include "shim/mpi/internal.h"
#include "shim/report.h"

enum tag { TAG_ROWS = 1, TAG_PASSED, TAG_MOVES, TAG_MOVE, TAG_COUNTED, TAG_KINDS };

/* Whether rank 0 has memory for what the others send: if not, they must not. Collective. */
static bool has_room(const void *room)
{
    int enough = room != NULL;
    cshim_job.real->MPI_Bcast(&enough, 1, MPI_INT, 0, cshim_job.world);
    return enough != 0;
}

static int rows_bytes(const struct cshim_ledger *ledger)
{
    return (int)(ledger->row_count * sizeof *ledger->rows);
}

static void send_ledger(const struct cshim_ledger *ledger)
{
    PMPI_Send(ledger->rows, rows_bytes(ledger), MPI_BYTE, 0, TAG_ROWS, cshim_job.world);
    PMPI_Send(ledger->passed, sizeof ledger->own_passed, MPI_BYTE, 0, TAG_PASSED, cshim_job.world);
    PMPI_Send(&ledger->moves, 1, MPI_UINT64_T, 0, TAG_MOVES, cshim_job.world);
    PMPI_Send(ledger->move, sizeof ledger->move, MPI_BYTE, 0, TAG_MOVE, cshim_job.world);
    PMPI_Send(ledger->counted, sizeof ledger->counted, MPI_BYTE, 0, TAG_COUNTED, cshim_job.world);
}

static void add_ledger(struct cshim_ledger *ledger, int rank, struct cshim_row *rows)
{
    uint64_t passed[CSHIM_REASON_COUNT], moves;
    struct cshim_move move[CSHIM_MOVES_MAX];
    struct cshim_counted counted[CSHIM_COUNTED_FUNCTIONS];
    const MPI_Comm world = cshim_job.world;
    PMPI_Recv(rows, rows_bytes(ledger), MPI_BYTE, rank, TAG_ROWS, world, MPI_STATUS_IGNORE);
    PMPI_Recv(passed, sizeof passed, MPI_BYTE, rank, TAG_PASSED, world, MPI_STATUS_IGNORE);
    PMPI_Recv(&moves, 1, MPI_UINT64_T, rank, TAG_MOVES, world, MPI_STATUS_IGNORE);
    PMPI_Recv(move, sizeof move, MPI_BYTE, rank, TAG_MOVE, world, MPI_STATUS_IGNORE);
    PMPI_Recv(counted, sizeof counted, MPI_BYTE, rank, TAG_COUNTED, world, MPI_STATUS_IGNORE);
    cshim_ledger_merge(ledger, rows, passed);
    cshim_ledger_merge_counted(ledger, counted);
    cshim_ledger_merge_moves(ledger, moves, move);
}

static void gather_ledgers(struct cshim_ledger *ledger)
{
    if (cshim_job.rank != 0) {
        if (has_room(NULL))
            send_ledger(ledger);
        return;
    }
    struct cshim_row *rows = malloc((size_t)rows_bytes(ledger) + 1);
    if (!has_room(rows))
        cshim_log(CSHIM_LOG_WARN, "no memory to collect the report: it shows rank 0 only");
    for (int rank = 1; rank < cshim_job.ranks && rows != NULL; rank++)
        add_ledger(ledger, rank, rows);
    free(rows);
}

static void send_observed(struct cshim_observed *observed)
{
    observed->kinds[observed->count] = observed->unlisted;
    PMPI_Send(observed->kinds, (int)((observed->count + 1) * sizeof *observed->kinds), MPI_BYTE, 0,
              TAG_KINDS, cshim_job.world);
}

static void add_observed(struct cshim_observed *observed, int rank, struct cshim_kind *kinds)
{
    MPI_Status status;
    int bytes = 0;
    PMPI_Recv(kinds, sizeof observed->kinds, MPI_BYTE, rank, TAG_KINDS, cshim_job.world, &status);
    PMPI_Get_count(&status, MPI_BYTE, &bytes);
    for (size_t i = 0; i < (size_t)bytes / sizeof *kinds; i++)
        cshim_observed_add(observed, &kinds[i]);
}

/* The kinds of calls that each rank has written down, and those for which it had no place. */
static void gather_observed(struct cshim_observed *observed)
{
    if (cshim_job.rank != 0) {
        if (has_room(NULL))
            send_observed(observed);
        return;
    }
    struct cshim_kind *kinds = malloc(sizeof observed->kinds);
    if (!has_room(kinds))
        cshim_log(CSHIM_LOG_WARN, "no memory to collect the observed calls: the report shows those "
                                  "of rank 0 only");
    for (int rank = 1; rank < cshim_job.ranks && kinds != NULL; rank++)
        add_observed(observed, rank, kinds);
    free(kinds);
    cshim_observed_sort(observed);
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
    gather_ledgers(&cshim_job.ledger);
    if (cshim_job.observed != NULL)
        gather_observed(cshim_job.observed);
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
