/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels: names and parameters, for the .cu files, the engine that launches them and the
 * stand-in that runs them on the CPU. Valid C11 and CUDA C++; no CUDA header is needed.
 *
 * A kernel takes one structure by value. It works on the pieces of one segment: piece p holds
 * elements [p * chunk, min((p + 1) * chunk, count)) of the segment, as one message: 32 bytes of
 * header (shim/core/header.h), then what cshim_encode of codecs/codec.h gives for these elements,
 * byte for byte. Pieces without elements are neither written nor read. All pointers are the
 * device's.
 *
 * A buffer of the caller's has the alignment of its element, and any count. Messages begin at
 * multiples of 16 bytes: encoded and stride are such.
 */
#ifndef CSHIM_DEVICE_KERNELS_H
#define CSHIM_DEVICE_KERNELS_H

#include <stdint.h>

#include "codecs/codec.h"
#include "codecs/scalar.h"

/* Words of a message header. The kernels fill in, or expect, the number of elements of each piece
 * themselves, and do not compare the last word. */
#define CSHIM_KERNEL_HEADER_WORDS 8u
#define CSHIM_KERNEL_HEADER_ELEMENTS 5u
#define CSHIM_KERNEL_HEADER_COMPARED 7u

/* Words of the place where kernels report the first message that is not the expected one: one of
 * the values below, the number of the piece (in a reduction: of the rank), then the header as it
 * came. Each communicator has such a place in host memory that the device sees. No kernel resets
 * it. */
#define CSHIM_KERNEL_FAULT_WORDS (2u + CSHIM_KERNEL_HEADER_WORDS)
#define CSHIM_KERNEL_FAULT_NONE 0u
#define CSHIM_KERNEL_FAULT_WRITTEN 1u
#define CSHIM_KERNEL_FAULT_WRITING 2u /* there is one; the other words are not there yet */

/* What an encoding does besides rounding to nearest: struct cshim_encoding of codecs/codec.h.
 * Zeros for a codec that loses nothing. */
struct cshim_kernel_options {
    float *residual; /* of the segment's elements as the kernel numbers them, or NULL */
    uint64_t key;
    uint64_t first; /* number of the segment's first element in its call; whole grains */
    uint32_t stochastic;
};

/* Encodes the pieces of a segment. */
struct cshim_kernel_encode {
    uint32_t codec;             /* in every structure: set by cshim_kernel_set_codec */
    uint32_t dtype;             /* of input */
    struct cshim_format format; /* in every structure: set, too */
    const void *input;          /* piece p begins input_stride * p elements on */
    uint64_t input_stride;      /* in elements; chunk where the pieces lie side by side */
    uint64_t count;             /* elements of the segment, all pieces */
    uint64_t chunk;             /* elements of every piece but the last ones */
    uint32_t pieces;
    void *encoded; /* piece p's message goes stride * p bytes on */
    uint64_t stride;
    void *own; /* where the message of piece own_piece goes instead, unless this is NULL */
    uint32_t own_piece;
    uint32_t header[CSHIM_KERNEL_HEADER_WORDS];
    /* Each element is multiplied by this first, in the type that sums are made in, and a NaN that
     * comes out is canonical; 1 leaves the bits alone. Where factor_at is not NULL the factor is
     * read there, one element of dtype. */
    double factor;
    const void *factor_at;
    struct cshim_kernel_options options;
};

/* Decodes the pieces of a segment. */
struct cshim_kernel_decode {
    uint32_t codec;
    uint32_t dtype; /* of output */
    struct cshim_format format;
    const void *encoded;
    uint64_t stride;
    uint64_t count;
    uint64_t chunk;
    uint32_t pieces;
    void *output;           /* piece p begins output_stride * p elements on */
    uint64_t output_stride; /* in elements */
    uint32_t header[CSHIM_KERNEL_HEADER_WORDS];
    uint32_t *fault;
};

/* Decodes one chunk from the message of each rank, and adds them in rank order, as cshim_reduce. */
struct cshim_kernel_reduce {
    uint32_t codec;
    uint32_t dtype;
    struct cshim_format format;
    const void *parts; /* rank r's message begins stride * r bytes on */
    uint64_t stride;
    uint64_t count; /* elements of the chunk */
    uint32_t ranks;
    /* Exactly one of these is not NULL. */
    void *output;    /* the sum, rounded once to dtype */
    void *reencoded; /* the sum as a message */
    /* The sum is multiplied by it before it is rounded or encoded; 1 for none. That of float64 is
     * positive and finite, as that of a mean is: what pads a message is multiplied, too. */
    double factor;
    uint32_t header[CSHIM_KERNEL_HEADER_WORDS];           /* expected of the parts */
    uint32_t reencoded_header[CSHIM_KERNEL_HEADER_WORDS]; /* written */
    uint32_t *fault;
    struct cshim_kernel_options options; /* of the encoding of the sum; not its input's */
};

/* The algorithm cast: narrowing a buffer to floats of 16 bits (fp32: 32 bits) without header or
 * scales, and widening it back. fp16 divides the whole buffer by one power of two: the least with
 * which 2^headroom times *largest stays below the top code (cshim_cast_exponent, codecs/scalar.h).
 * `largest` finds the largest finite magnitude of a buffer before, as the bits of a float32, by an
 * atomic maximum with *largest (zero it before). */
struct cshim_kernel_cast {
    uint32_t codec;
    uint32_t dtype; /* of the caller's buffer */
    struct cshim_format format;
    const void *input; /* of dtype; widen: the codec's element, 16-byte aligned */
    void *output;      /* not of largest */
    uint64_t count;
    uint32_t headroom;
    double factor; /* as in struct cshim_kernel_encode; widen multiplies what it has widened */
    const void *factor_at; /* not of widen */
    uint32_t *largest;     /* fp16 only */
};

enum cshim_kernel_operation {
    CSHIM_KERNEL_ENCODE,
    CSHIM_KERNEL_DECODE,
    CSHIM_KERNEL_REDUCE,
    CSHIM_KERNEL_NARROW, /* this and what follows: codecs fp32, fp16, bf16 */
    CSHIM_KERNEL_WIDEN,
    CSHIM_KERNEL_LARGEST,
    CSHIM_KERNEL_OPERATION_COUNT
};

/* Threads of a block, of every kernel. No shared memory is given at launch. */
#define CSHIM_KERNEL_THREADS 256u

/* The name of a kernel in the binary, such as "cshim_encode"; NULL if the operation is not for the
 * codec. A kernel serves all of its operation's codecs. */
const char *cshim_kernel_name(enum cshim_kernel_operation operation, enum cshim_codec_id codec);

/* Puts a codec and its format in a kernel's parameters, of which dtype is set. The format of raw is
 * that of the elements, but those of float64. */
void cshim_kernel_set_codec(void *parameters, enum cshim_codec_id codec);

/* Blocks to launch for `count` elements (of all pieces) on a device of `processors`
 * multiprocessors. Kernels are right for any number of blocks. */
uint32_t cshim_kernel_blocks(enum cshim_kernel_operation operation, uint64_t count,
                             uint32_t processors);

#endif
