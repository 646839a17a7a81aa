/* SPDX-License-Identifier: Apache-2.0 */
/* Names and parameters of the kernels, for the .cu files, the engine that launches them, and the
 * stand-in that runs them on the CPU. Valid C11 and CUDA C++; needs no CUDA header.
 *
 * A kernel takes one structure by value. All pointers in it are device pointers. The kernels that
 * encode and decode work on the pieces of one segment. Piece p holds elements [p * chunk,
 * min((p + 1) * chunk, count)) of the segment and is one message: a header of 32 bytes
 * (shim/core/header.h), then the bytes that cshim_encode_with() of codecs/codec.h gives for these
 * elements. Pieces without elements are neither written nor read.
 *
 * A caller's buffer has the alignment of its elements, and any count. Messages begin at multiples
 * of 16 bytes, so `encoded` and `stride` are multiples of 16. */
#ifndef CSHIM_DEVICE_KERNELS_H
#define CSHIM_DEVICE_KERNELS_H

#include <stdint.h>

#include "codecs/codec.h"
#include "codecs/scalar.h"

/* Number of words of a message header. */
#define CSHIM_KERNEL_HEADER_WORDS 8u
/* Index of the word with the number of elements, which kernels set or expect for each piece. */
#define CSHIM_KERNEL_HEADER_ELEMENTS 5u
/* Number of words, from the first, that kernels compare with the expected ones. */
#define CSHIM_KERNEL_HEADER_COMPARED 7u

/* Words of a fault record, in which a kernel reports the first message with an unexpected header:
 * one of the states below, the number of the piece (in a reduction: of the rank), then the received
 * header. Each workspace has one record, in host memory mapped into the device. No kernel resets
 * it. */
#define CSHIM_KERNEL_FAULT_WORDS (2u + CSHIM_KERNEL_HEADER_WORDS)
#define CSHIM_KERNEL_FAULT_NONE 0u
#define CSHIM_KERNEL_FAULT_WRITTEN 1u
#define CSHIM_KERNEL_FAULT_WRITING 2u /* a fault is being recorded; its words are not valid yet */

/* Error feedback and stochastic rounding of an encoding (struct cshim_encoding of codecs/codec.h).
 * All zero for the codecs raw and fp32, which have neither. */
struct cshim_kernel_options {
    float *residual; /* a residual for each element, piece p's from index p * chunk on; or NULL */
    uint64_t key;
    uint64_t first; /* index in the call of the first element to encode, a multiple of a grain */
    uint32_t stochastic;
};

/* Encodes the pieces of a segment. */
struct cshim_kernel_encode {
    uint32_t codec;             /* set by cshim_kernel_set_codec, as in every structure */
    uint32_t dtype;             /* type of the input elements */
    struct cshim_format format; /* set by cshim_kernel_set_codec */
    const void *input;          /* piece p begins at element input_stride * p */
    uint64_t input_stride;      /* in elements; equal to chunk if the pieces are contiguous */
    uint64_t count;             /* elements of the segment, in all pieces */
    uint64_t chunk;             /* elements of each full piece; the last ones may have fewer */
    uint32_t pieces;
    void *encoded; /* the message of piece p begins at byte stride * p */
    uint64_t stride;
    void *own; /* destination of piece own_piece's message, instead of `encoded`; or NULL */
    uint32_t own_piece;
    uint32_t header[CSHIM_KERNEL_HEADER_WORDS];
    /* Factor of each element before encoding, in the type of the sums. A product that is NaN
     * becomes the canonical NaN; a factor of 1 leaves all bits as they are. If factor_at is not
     * NULL, the factor is read from there, as one element of type dtype. */
    double factor;
    const void *factor_at;
    struct cshim_kernel_options options;
};

/* Decodes the pieces of a segment. */
struct cshim_kernel_decode {
    uint32_t codec;
    uint32_t dtype; /* type of the output elements */
    struct cshim_format format;
    const void *encoded;
    uint64_t stride;
    uint64_t count;
    uint64_t chunk;
    uint32_t pieces;
    void *output;           /* piece p begins at element output_stride * p */
    uint64_t output_stride; /* in elements */
    uint32_t header[CSHIM_KERNEL_HEADER_WORDS];
    uint32_t *fault;
};

/* Decodes one chunk from each rank's message and adds the chunks in rank order, as cshim_reduce
 * does. */
struct cshim_kernel_reduce {
    uint32_t codec;
    uint32_t dtype;
    struct cshim_format format;
    const void *parts; /* the message of rank r begins at byte stride * r */
    uint64_t stride;
    uint64_t count; /* elements of the chunk */
    uint32_t ranks;
    /* Exactly one of `output` and `reencoded` is not NULL. */
    void *output;    /* the sums, rounded once to dtype */
    void *reencoded; /* the sums, encoded as a message */
    /* Factor of the sums before they are rounded or encoded; 1 for none. With float64 it has to be
     * positive and finite (as 1 / ranks of a mean is), because the padding of a message is
     * multiplied too. */
    double factor;
    uint32_t header[CSHIM_KERNEL_HEADER_WORDS];           /* expected in all ranks' messages */
    uint32_t reencoded_header[CSHIM_KERNEL_HEADER_WORDS]; /* header of `reencoded` */
    uint32_t *fault;
    struct cshim_kernel_options options; /* for encoding the sums */
};

/* Parameters of the algorithm cast: CSHIM_KERNEL_NARROW converts a buffer to floats of 16 bits
 * (with the codec fp32: 32 bits) without header and scales, CSHIM_KERNEL_WIDEN converts it back.
 * The codec fp16 divides the whole buffer by one power of two, chosen so that 2^headroom times
 * *largest does not round above the largest code (cshim_cast_exponent, codecs/scalar.h). Before
 * that, CSHIM_KERNEL_LARGEST computes *largest by atomic maxima: the largest finite magnitude of a
 * buffer's products with the factor, as the bits of a float32. The caller first sets *largest to
 * zero. */
struct cshim_kernel_cast {
    uint32_t codec;
    uint32_t dtype; /* type of the caller's elements */
    struct cshim_format format;
    const void *input; /* elements of dtype; for WIDEN the converted ones, 16-byte aligned */
    void *output;      /* not used by LARGEST */
    uint64_t count;
    uint32_t headroom;
    double factor; /* factor of the input (see struct cshim_kernel_encode); with WIDEN, of the
                      output */
    const void *factor_at; /* not used by WIDEN */
    uint32_t *largest;     /* set by LARGEST, read with fp16 only */
};

enum cshim_kernel_operation {
    CSHIM_KERNEL_ENCODE,
    CSHIM_KERNEL_DECODE,
    CSHIM_KERNEL_REDUCE,
    CSHIM_KERNEL_NARROW, /* from here on: codecs fp32, fp16 and bf16 only */
    CSHIM_KERNEL_WIDEN,
    CSHIM_KERNEL_LARGEST,
    CSHIM_KERNEL_OPERATION_COUNT
};

/* Threads per block of every kernel. Kernels use no dynamic shared memory. */
#define CSHIM_KERNEL_THREADS 256u

/* Returns the name of a kernel in the binary, such as "cshim_encode". Returns NULL for an unknown
 * operation or codec, for the codec none, and for an operation of the algorithm cast with a codec
 * that cast does not support; does not refuse codecs that only the CPU has. An operation has the
 * same kernel for all its codecs. */
const char *cshim_kernel_name(enum cshim_kernel_operation operation, enum cshim_codec_id codec);

/* Sets codec and format in a kernel's parameters, whose dtype has to be set. The format of raw is
 * that of the elements (for float64 that of fp32), without scales. */
void cshim_kernel_set_codec(void *parameters, enum cshim_codec_id codec);

/* Returns the number of blocks to launch for `count` elements (of all pieces) on a device of
 * `processors` multiprocessors. Results are the same for any number of blocks. */
uint32_t cshim_kernel_blocks(enum cshim_kernel_operation operation, uint64_t count,
                             uint32_t processors);

#endif
