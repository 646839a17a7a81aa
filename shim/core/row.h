/* SPDX-License-Identifier: Apache-2.0 */
/* A row of the report: figures of the calls with equal struct cshim_row_key (shim/report/ledger.h).
 *
 * Pure: calls neither MPI nor CUDA, allocates nothing. Functions take no locks. */
#ifndef CSHIM_ROW_H
#define CSHIM_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Phases that reports and traces attribute time to. */
enum cshim_phase {
    CSHIM_PHASE_ENCODE,
    CSHIM_PHASE_EXCHANGE,
    CSHIM_PHASE_DECODE, /* decoding and adding */
    CSHIM_PHASES
};

/* Figures of calls. Rows are sent between ranks, and to compshim top, as bytes, so all members are
 * 8 bytes wide. Rank 0 of a communicator counts calls (compared, native, verified and checked ones,
 * too), bytes_in and seconds. The ranks that compare results with sums or native results count the
 * errors; with gloo and NCCL only rank 0 does so. With MPI each rank counts the bytes of its own
 * messages (bytes_wire, bytes_network, bytes_native), and the first rank of a node the bytes of its
 * intra-node operations; with gloo and NCCL rank 0 counts the bytes of all ranks. */
struct cshim_row {
    uint64_t calls;
    uint64_t bytes_in;      /* bytes of the callers' buffers */
    uint64_t bytes_wire;    /* bytes sent, or read in shared memory; for cast an estimate */
    uint64_t bytes_network; /* the part of bytes_wire that goes to other nodes */
    uint64_t bytes_native;  /* bytes that a ring of the library would have sent */
    double seconds;
    double seconds_of[CSHIM_PHASES];
    uint64_t compared_calls;        /* compressed calls of classes whose native time was measured */
    double seconds_compared;        /* duration of the compared calls */
    double seconds_native_estimate; /* estimated duration of the compared calls, made natively */
    uint64_t native_calls;          /* native calls of these classes */
    double seconds_native;          /* duration of these native calls */
    /* `seconds_native_estimate` by the lower and the upper quartile of the measured durations. */
    double seconds_native_low;
    double seconds_native_high;
    /* Sampled elements. Their exact sums are made in float64. */
    double error_squares; /* the sum of (result - exact sum)^2 */
    double sum_squares;   /* the sum of the exact sums' squares */
    uint64_t samples;     /* number of sampled elements */
    /* The policy's verify: calls that were also made natively. An error is the compressed result
     * minus the native result. */
    uint64_t verified;           /* number of these calls */
    double verify_errors;        /* the sum of the errors */
    double verify_error_squares; /* the sum of their squares */
    double verify_largest;       /* the largest magnitude of an error */
    double verify_magnitudes;    /* the sum of the native results' magnitudes */
    double verify_squares;       /* the sum of the native results' squares */
    /* Figures of the policy's check_ranks. */
    uint64_t checked;   /* calls whose results were compared across ranks */
    uint64_t differing; /* calls whose results were not the same on all ranks */
};

/* A member of a row: how its values in two rows are added, and where it is in the report. */
struct cshim_row_field {
    const char *name; /* name in the JSON; NULL: the JSON has only values computed from it */
    bool in_totals;   /* whether the JSON's totals have the field, too */
    enum { CSHIM_FIELD_COUNT, CSHIM_FIELD_REAL, CSHIM_FIELD_LARGEST } kind;
    size_t offset;
};

/* All members in their order, which is that of the JSON. Members with names come first. */
#define CSHIM_ROW_FIELDS (sizeof(struct cshim_row) / sizeof(uint64_t))
extern const struct cshim_row_field cshim_row_fields[CSHIM_ROW_FIELDS];

/* Adds the figures of a row to those of another. */
void cshim_row_add(struct cshim_row *to, const struct cshim_row *from);

/* Returns the sampled relative L2 error of a row; negative if nothing was sampled. */
double cshim_row_error(const struct cshim_row *row);

/* Time saved by compressing: the compared and the native calls took `took` seconds, and native
 * calls alone would have taken `natively`. The speed-up of the compared calls is 0 if it is not
 * known; `low` and `high` are its spread. */
struct cshim_saving {
    double natively, took;
    double speedup, low, high;
};
struct cshim_saving cshim_row_saving(const struct cshim_row *row);

/* Results of verify for the calls of a row. */
struct cshim_verdict {
    double rel_l2;  /* the relative L2 error */
    double largest; /* the largest magnitude of an error */
    double bias;    /* the sum of the errors over the sum of the native results' magnitudes */
};
struct cshim_verdict cshim_row_verdict(const struct cshim_row *row);

#endif
