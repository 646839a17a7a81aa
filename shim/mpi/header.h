/* SPDX-License-Identifier: Apache-2.0 */
/* The header before each message (docs/wire-format.md): both sides' view of the call. */
#ifndef CSHIM_MPI_HEADER_H
#define CSHIM_MPI_HEADER_H

#include <string.h>

#include "shim/plan.h"

#define CSHIM_HEADER_MAGIC 0x31535343u /* "CSS1" in little-endian bytes */

struct cshim_header {
    uint32_t magic;
    uint32_t sequence; /* of the compressed call on its communicator, from 1 */
    uint64_t count;    /* elements of the whole call */
    uint32_t segment;  /* index */
    uint32_t elements; /* in this message */
    uint8_t codec;
    uint8_t dtype;
    uint8_t algorithm;
    uint8_t step;   /* 0: parts of one rank; 1: a reduced chunk */
    uint32_t flags; /* 0 */
};
_Static_assert(sizeof(struct cshim_header) == CSHIM_HEADER_BYTES, "the wire format is fixed");

#endif
