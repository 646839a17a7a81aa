/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "shim/mpi/job.h"
#include "shim/report/report.h"

enum tag { TAG_ROWS = 1, TAG_TALLY, TAG_KINDS };

#define KINDS_IN_PIECE ((size_t)64)

/* A row of the ledger as it travels. A job uses few of the many rows, so only those are sent in
 * which calls were counted. Every rank counts native bytes for a call, so a row without any is not
 * used. */
struct numbered_row {
    uint64_t index; /* the ledger's row_count stands for the end */
    struct cshim_row row;
};

static void send_rows(const struct cshim_ledger *ledger)
{
    struct numbered_row sent = {.index = 0};
    for (; sent.index < ledger->row_count; sent.index++) {
        sent.row = ledger->rows[sent.index];
        if (sent.row.bytes_native > 0)
            PMPI_Send(&sent, sizeof sent, MPI_BYTE, 0, TAG_ROWS, cshim_mpi.world);
    }
    PMPI_Send(&sent, sizeof sent, MPI_BYTE, 0, TAG_ROWS, cshim_mpi.world);
}

static void add_rows(struct cshim_ledger *ledger, int rank)
{
    struct numbered_row got;
    for (;;) {
        PMPI_Recv(&got, sizeof got, MPI_BYTE, rank, TAG_ROWS, cshim_mpi.world, MPI_STATUS_IGNORE);
        if (got.index >= ledger->row_count)
            return;
        cshim_row_add(&ledger->rows[got.index], &got.row);
    }
}

static void send_ledger(const struct cshim_ledger *ledger)
{
    send_rows(ledger);
    PMPI_Send(&ledger->tally, sizeof ledger->tally, MPI_BYTE, 0, TAG_TALLY, cshim_mpi.world);
}

static void add_ledger(struct cshim_ledger *ledger, int rank)
{
    struct cshim_tally tally;
    add_rows(ledger, rank);
    PMPI_Recv(&tally, sizeof tally, MPI_BYTE, rank, TAG_TALLY, cshim_mpi.world, MPI_STATUS_IGNORE);
    cshim_ledger_merge(ledger, &tally);
}

/* Sends the kinds of calls that this rank has written down, and as the last one the calls for which
 * it had no place. They go in pieces, and a shorter piece is the last. */
static void send_observed(struct cshim_observed *observed)
{
    const size_t count = observed->count + 1;
    size_t first = 0, length;
    observed->kinds[observed->count] = observed->unlisted;
    do {
        length = count - first < KINDS_IN_PIECE ? count - first : KINDS_IN_PIECE;
        PMPI_Send(observed->kinds + first, (int)(length * sizeof *observed->kinds), MPI_BYTE, 0,
                  TAG_KINDS, cshim_mpi.world);
        first += length;
    } while (length == KINDS_IN_PIECE);
}

static void add_observed(struct cshim_observed *observed, int rank)
{
    struct cshim_kind kinds[KINDS_IN_PIECE];
    MPI_Status status;
    int bytes = 0;
    do {
        PMPI_Recv(kinds, sizeof kinds, MPI_BYTE, rank, TAG_KINDS, cshim_mpi.world, &status);
        PMPI_Get_count(&status, MPI_BYTE, &bytes);
        for (size_t i = 0; i < (size_t)bytes / sizeof *kinds; i++)
            cshim_observed_add(observed, &kinds[i]);
    } while ((size_t)bytes == sizeof kinds);
}

/* Collects everything at rank 0, in pieces for which no memory is allocated, since there may be
 * none left. */
static void gather(void)
{
    if (cshim_job.rank != 0) {
        send_ledger(&cshim_job.ledger);
        if (cshim_job.observed != NULL)
            send_observed(cshim_job.observed);
        return;
    }
    for (int rank = 1; rank < cshim_job.ranks; rank++)
        add_ledger(&cshim_job.ledger, rank);
    if (cshim_job.observed == NULL)
        return;
    for (int rank = 1; rank < cshim_job.ranks; rank++)
        add_observed(cshim_job.observed, rank);
    cshim_observed_sort(cshim_job.observed);
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
