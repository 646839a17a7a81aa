/* SPDX-License-Identifier: Apache-2.0 */
/* A row of the report: sums over the calls of one kind.
 *
 * Pure: calls neither MPI nor CUDA, allocates nothing. A row is guarded by its owner. */
#ifndef CSHIM_ROW_H
#define CSHIM_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows travel between ranks, and to compshim top, as bytes: all members are 8 bytes wide. Figures
 * of a call as a whole (calls, bytes_in, seconds, samples) are counted at rank 0 of its
 * communicator; bytes_wire and bytes_native on every rank, for its own part. */
struct cshim_row {
    uint64_t calls;
    uint64_t bytes_in;      /* the caller's buffer */
    uint64_t bytes_wire;    /* handed to the library for sending */
    uint64_t bytes_network; /* of these, to other nodes */
    uint64_t bytes_native;  /* what a ring would have sent */
    double seconds;
    double seconds_encode;
    double seconds_exchange;
    double seconds_decode; /* decoding and reducing */
    double error_squares;  /* sampled: sum of (result - sum in float64)^2 ... */
    double sum_squares;    /* ... and of that sum's square */
    uint64_t samples;      /* elements sampled */
    /* verify: calls also made natively, and of result - native result: sum, sum of squares and
     * largest magnitude; of the native result: sums of magnitudes and of squares. */
    uint64_t verified;
    double verify_errors;
    double verify_error_squares;
    double verify_largest;
    double verify_magnitudes;
    double verify_squares;
    uint64_t checked;   /* check_ranks: calls whose results were compared across ranks ... */
    uint64_t differing; /* ... and were not the same */
};

/* A member of a row: how it is summed and, where it stands in the report by itself, its name. */
struct cshim_row_field {
    const char *name; /* in the JSON; NULL from the first on that is not there by itself */
    bool in_totals;
    enum { CSHIM_FIELD_COUNT, CSHIM_FIELD_REAL, CSHIM_FIELD_LARGEST } kind;
    size_t offset;
};

/* All members, in the order of the structure, which is that of the JSON. */
#define CSHIM_ROW_FIELDS (sizeof(struct cshim_row) / sizeof(uint64_t))
extern const struct cshim_row_field cshim_row_fields[CSHIM_ROW_FIELDS];

/* Adds the figures of one row to another. */
void cshim_row_add(struct cshim_row *to, const struct cshim_row *from);

/* The sampled relative L2 error of a row; negative if nothing was sampled. */
double cshim_row_error(const struct cshim_row *row);

/* What verify found of a row's calls: the relative L2 error, the largest magnitude of an error, and
 * the sum of the errors over that of the native result's magnitudes. */
struct cshim_verdict {
    double rel_l2;
    double largest;
    double bias;
};
struct cshim_verdict cshim_row_verdict(const struct cshim_row *row);

#endif
