/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/summary.h"

#include <stdlib.h>

#include "shim/mpi/internal.h"
#include "shim/report.h"

enum tag { TAG_ROWS = 1, TAG_PASSED, TAG_MOVES, TAG_MOVE, TAG_COUNTED, TAG_KINDS };

/* Memory of rank 0 for what the others send; they send nothing if it has none. Collective. */
static void *room_at_root(size_t bytes, bool *enough)
{
    void *room = cshim_job.rank == 0 ? malloc(bytes) : NULL;
    int has_room = room != NULL;
    cshim_job.real->MPI_Bcast(&has_room, 1, MPI_INT, 0, cshim_job.world);
    *enough = has_room != 0;
    return room;
}

static void gather_ledgers(struct cshim_ledger *ledger)
{
    const int bytes = (int)(ledger->row_count * sizeof *ledger->rows);
    uint64_t passed[CSHIM_REASON_COUNT], moves;
    struct cshim_move move[CSHIM_MOVES_MAX];
    struct cshim_counted counted[CSHIM_COUNTED_FUNCTIONS];
    bool enough;
    struct cshim_row *rows = room_at_root((size_t)bytes + 1, &enough);
    if (!enough && cshim_job.rank == 0)
        cshim_log(CSHIM_LOG_WARN, "no memory to collect the report: it shows rank 0 only");
    if (!enough)
        return;
    if (cshim_job.rank != 0) {
        PMPI_Send(ledger->rows, bytes, MPI_BYTE, 0, TAG_ROWS, cshim_job.world);
        PMPI_Send(ledger->passed, sizeof passed, MPI_BYTE, 0, TAG_PASSED, cshim_job.world);
        PMPI_Send(&ledger->moves, 1, MPI_UINT64_T, 0, TAG_MOVES, cshim_job.world);
        PMPI_Send(ledger->move, sizeof ledger->move, MPI_BYTE, 0, TAG_MOVE, cshim_job.world);
        PMPI_Send(ledger->counted, sizeof ledger->counted, MPI_BYTE, 0, TAG_COUNTED,
                  cshim_job.world);
        return;
    }
    for (int rank = 1; rank < cshim_job.ranks; rank++) {
        PMPI_Recv(rows, bytes, MPI_BYTE, rank, TAG_ROWS, cshim_job.world, MPI_STATUS_IGNORE);
        PMPI_Recv(passed, sizeof passed, MPI_BYTE, rank, TAG_PASSED, cshim_job.world,
                  MPI_STATUS_IGNORE);
        PMPI_Recv(&moves, 1, MPI_UINT64_T, rank, TAG_MOVES, cshim_job.world, MPI_STATUS_IGNORE);
        PMPI_Recv(move, sizeof move, MPI_BYTE, rank, TAG_MOVE, cshim_job.world, MPI_STATUS_IGNORE);
        PMPI_Recv(counted, sizeof counted, MPI_BYTE, rank, TAG_COUNTED, cshim_job.world,
                  MPI_STATUS_IGNORE);
        cshim_ledger_merge(ledger, rows, passed);
        cshim_ledger_merge_counted(ledger, counted);
        cshim_ledger_merge_moves(ledger, moves, move);
    }
    free(rows);
}

/* The kinds of calls that each rank has written down, and those for which it had no place. */
static void gather_observed(struct cshim_observed *observed)
{
    const int place = (int)sizeof(struct cshim_kind);
    bool enough;
    struct cshim_kind *kinds = room_at_root(sizeof observed->kinds, &enough);
    if (!enough && cshim_job.rank == 0)
        cshim_log(CSHIM_LOG_WARN, "no memory to collect the observed calls: the report shows those "
                                  "of rank 0 only");
    if (cshim_job.rank != 0 && enough) {
        observed->kinds[observed->count] = observed->unlisted;
        PMPI_Send(observed->kinds, ((int)observed->count + 1) * place, MPI_BYTE, 0, TAG_KINDS,
                  cshim_job.world);
    }
    if (cshim_job.rank != 0)
        return;
    for (int rank = 1; rank < cshim_job.ranks && enough; rank++) {
        MPI_Status status;
        int bytes = 0;
        PMPI_Recv(kinds, sizeof observed->kinds, MPI_BYTE, rank, TAG_KINDS, cshim_job.world,
                  &status);
        PMPI_Get_count(&status, MPI_BYTE, &bytes);
        for (int i = 0; i < bytes / place; i++)
            cshim_observed_add(observed, &kinds[i]);
    }
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
