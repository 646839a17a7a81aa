/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/mpi/summary.h"

#include <errno.h>
#include <stdlib.h>

#include "shim/mpi/internal.h"
#include "shim/report.h"

enum tag { TAG_ROWS = 1, TAG_PASSED, TAG_MOVES, TAG_MOVE };

static void gather_ledgers(struct cshim_ledger *ledger)
{
    const int bytes = (int)(ledger->row_count * sizeof *ledger->rows);
    uint64_t passed[CSHIM_REASON_COUNT], moves;
    struct cshim_move move[CSHIM_MOVES_MAX];
    if (cshim_job.rank != 0) {
        PMPI_Send(ledger->rows, bytes, MPI_BYTE, 0, TAG_ROWS, cshim_job.world);
        PMPI_Send(ledger->passed, sizeof ledger->passed, MPI_BYTE, 0, TAG_PASSED, cshim_job.world);
        PMPI_Send(&ledger->moves, 1, MPI_UINT64_T, 0, TAG_MOVES, cshim_job.world);
        PMPI_Send(ledger->move, sizeof ledger->move, MPI_BYTE, 0, TAG_MOVE, cshim_job.world);
        return;
    }
    struct cshim_row *rows = malloc((size_t)bytes + 1);
    for (int rank = 1; rank < cshim_job.ranks && rows != NULL; rank++) {
        PMPI_Recv(rows, bytes, MPI_BYTE, rank, TAG_ROWS, cshim_job.world, MPI_STATUS_IGNORE);
        PMPI_Recv(passed, sizeof passed, MPI_BYTE, rank, TAG_PASSED, cshim_job.world,
                  MPI_STATUS_IGNORE);
        PMPI_Recv(&moves, 1, MPI_UINT64_T, rank, TAG_MOVES, cshim_job.world, MPI_STATUS_IGNORE);
        PMPI_Recv(move, sizeof move, MPI_BYTE, rank, TAG_MOVE, cshim_job.world, MPI_STATUS_IGNORE);
        cshim_ledger_merge(ledger, rows, passed);
        cshim_ledger_merge_moves(ledger, moves, move);
    }
    if (rows == NULL)
        cshim_log(CSHIM_LOG_WARN, "no memory to collect the report: it shows rank 0 only");
    free(rows);
}

static const char *job_id(void)
{
    static const char *const names[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID",
                                        "OMPI_MCA_ess_base_jobid"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *value = getenv(names[i]);
        if (value != NULL && *value != '\0')
            return value;
    }
    return "0";
}

static void write_json(const char *pattern, const struct cshim_report_facts *facts)
{
    char path[CSHIM_PATH_MAX];
    if (!cshim_report_path(pattern, cshim_job.rank, job_id(), path, sizeof path)) {
        cshim_log(CSHIM_LOG_ERROR, "the report's file name is too long: %s", pattern);
        return;
    }
    FILE *stream = fopen(path, "we");
    if (stream == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "cannot write the report %s: %s", path, strerror(errno));
        return;
    }
    cshim_report_json(stream, &cshim_job.ledger, facts);
    const bool lost = ferror(stream) != 0;
    if (fclose(stream) != 0 || lost)
        cshim_log(CSHIM_LOG_ERROR, "cannot write all of the report %s", path);
}

void cshim_summary(void)
{
    char library[MPI_MAX_LIBRARY_VERSION_STRING];
    int length;
    gather_ledgers(&cshim_job.ledger);
    if (cshim_job.rank != 0)
        return;
    const char *wanted = getenv("COMPSHIM_REPORT");
    if (wanted == NULL || *wanted == '\0')
        wanted = cshim_job.policy->report;
    if (strcmp(wanted, "off") == 0)
        return;
    PMPI_Get_library_version(library, &length);
    library[strcspn(library, ",")] = '\0'; /* "Open MPI v4.1.4, package: ..." */
    const struct cshim_report_facts facts = {
        .library = library,
        .ranks = (uint32_t)cshim_job.ranks,
        .nodes = cshim_job.layout.nodes,
        .policy_source = cshim_job.policy->source,
        .policy_sha256 = cshim_job.policy_sha256,
        .wall_seconds = cshim_seconds() - cshim_job.started,
    };
    cshim_report_table(stderr, &cshim_job.ledger, &facts);
    if (strcmp(wanted, "summary") != 0)
        write_json(wanted, &facts);
}
