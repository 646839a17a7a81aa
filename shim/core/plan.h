/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: how a call is compressed, as a pure function of properties that are equal on all
 * ranks.
 *
 * Uses no MPI, no CUDA and no mutable globals: equal arguments give the same plan on every rank, in
 * every run, and in `compshim explain`. Thread-safe. */
#ifndef CSHIM_PLAN_H
#define CSHIM_PLAN_H

#include "codecs/codec.h"
#include "policy/library.h"
#include "shim/core/grid.h"
#include "shim/core/schedule.h"

/* Why a call is not compressed, by the rows of reasons.def. If it is compressed, the reason is
 * CSHIM_REASON_COMPRESS, which is 0. */
enum cshim_reason {
#define REASON(NAME, ...) CSHIM_REASON_##NAME,
#include "shim/core/reasons.def"
    CSHIM_REASON_COUNT
};

const char *cshim_reason_name(enum cshim_reason reason);

/* Bytes of the header with which each message of elements between peers starts
 * (docs/wire-format.md). */
#define CSHIM_HEADER_BYTES 32u

/* Maximum number of segments in flight at once: while one is on the wire, others are encoded,
 * reduced and decoded. The grid needs at least three. */
#define CSHIM_SEGMENTS_IN_FLIGHT 4u

/* The plan of a call. If the call is passed through, only `reason` and `rule` are set. Exceptions:
 * with the reason no_gain from cshim_plan_call(), and for some calls captured into a CUDA graph
 * (with `segments` 0), the other members describe the compressed call. */
struct cshim_plan {
    enum cshim_reason reason;              /* CSHIM_REASON_COMPRESS, or why not */
    const struct cshim_rule *rule;         /* the rule that decided, or NULL */
    enum cshim_codec_id codec;             /* codec of contributions, in a grid also of row sums */
    enum cshim_codec_id gather_codec;      /* codec of reduced chunks */
    enum cshim_algorithm algorithm;        /* never AUTO in a plan that compresses */
    const struct cshim_schedule *schedule; /* how the algorithm makes the collective */
    const struct cshim_capabilities *library;
    enum cshim_collective collective;
    enum cshim_dtype dtype;
    enum cshim_op op; /* of a data-movement collective: CSHIM_SUM */
    uint32_t ranks;
    uint32_t root; /* root of a reduce or broadcast */
    /* Number of peers, which exchange encoded messages: all ranks; in hierarchical, and in a grid
     * of nodes, one rank of each node for its share of the elements. */
    uint32_t peers;
    struct cshim_grid grid; /* the peers in rows and columns; one row if there is no grid */
    /* Number of shares of a segment: ranks on the node with the fewest; 1 if not staged. */
    uint32_t shares;
    uint64_t count; /* elements */
    uint64_t block; /* with blocks: elements of the largest block */
    /* Elements of each segment (the last may be shorter): whole grains, equally many for each share
     * and, unless the division is CSHIM_WHOLE, for each piece (cshim_plan_pieces()). With blocks:
     * the length of a chunk of the largest block, times the number of ranks; the chunks of smaller
     * blocks may be shorter. */
    uint64_t segment;
    uint64_t segments;
    uint64_t piece_bytes;   /* bytes of the largest message in a row, including the header */
    uint64_t column_bytes;  /* bytes of the largest message in a grid's column; 0 without a grid */
    uint64_t stage_bytes;   /* bytes of the stage (a node's sum of a share, blocks to add), or 0 */
    uint64_t slot_bytes;    /* scratch of one segment in flight */
    uint64_t scratch_bytes; /* bytes of all segments in flight; at most the library's limit */
    /* Bytes that all ranks together send, or read in shared memory: with a packed codec at most
     * these; for cast an estimate. If blocks differ in length, the elements are assumed to lie in
     * blocks as long as the longest, and a shorter last one. */
    uint64_t bytes_wire;
    uint64_t bytes_network; /* inter-node part, as if all nodes had equally many ranks */
    uint64_t bytes_native;  /* bytes that a ring would send, summed over all ranks */
    unsigned quantizations; /* number of times that a value is rounded, if the codec rounds */
    double expected_error;  /* relative L2 error for normally distributed data; that of codec
                               bounded counts as 0 */
    float step; /* quantization step of codec bounded, twice its largest error; 0: no abs_error */
};

/* Share of the native time that compressing a call must save (compshim-policy(5), `worth`). */
#define CSHIM_WORTH 0.1

/* For a call that the policy passes through: returns the smallest size, above the call's, at which
 * the policy compresses a call that is equal otherwise; UINT64_MAX if there is none. If there is
 * one, and no rule or a rule with codec none matches the call, the call is too small. */
uint64_t cshim_plan_compressed_above(const struct cshim_policy *policy,
                                     const struct cshim_call *call);

/* Returns CSHIM_REASON_COMPRESS if policy and call allow a call of `count` elements to be
 * compressed, otherwise the reason against it. Runs for calls that are passed through, too, so it
 * must be fast. Sets *rule to the rule that decided, or NULL. */
enum cshim_reason cshim_plan_reason(const struct cshim_policy *policy,
                                    const struct cshim_call *call, uint64_t count,
                                    const struct cshim_rule **rule);

/* Plans a call of `count` elements as it is made before anything was measured: decides whether the
 * policy compresses it, then plans algorithm, segments and bytes. */
struct cshim_plan cshim_plan_call(const struct cshim_policy *policy, const struct cshim_call *call,
                                  uint64_t count);

/* Returns true if an algorithm can make the call. */
bool cshim_plan_can(const struct cshim_call *call, enum cshim_algorithm algorithm);

/* Plans a call that `rule` compresses by a given algorithm, which has to be able to make the call;
 * AUTO stands for the rule's algorithm or, if that cannot make the call, for the one that
 * `algorithm = auto` stands for. The reason may be too few connections or too little scratch. */
struct cshim_plan cshim_plan_call_by(enum cshim_algorithm algorithm, const struct cshim_rule *rule,
                                     const struct cshim_call *call, uint64_t count);

/* A candidate: an algorithm and a codec that are worth measuring for a call. */
struct cshim_plan_candidate {
    enum cshim_algorithm algorithm;
    enum cshim_codec_id codec;
    unsigned roundings; /* number of times that a value is rounded; 0: exact, or bounded */
};
/* Maximum number of candidates: each algorithm except auto and cast, and codec raw. */
#define CSHIM_PLAN_CANDIDATES_MAX (CSHIM_ALGORITHM_COUNT - 1u)

/* Lists the candidates for a call that `rule` compresses. The first one is used before anything was
 * measured, unless cshim_plan_is_native_first(). Then follow, if they are worth a trial, other
 * algorithms, unless the rule names one that can make the call; then codec raw, if it may replace
 * the rule's codec. Returns their number; 0 if no plan compresses the call. */
unsigned cshim_plan_candidates(const struct cshim_rule *rule, const struct cshim_call *call,
                               uint64_t count,
                               struct cshim_plan_candidate found[CSHIM_PLAN_CANDIDATES_MAX]);

/* Returns true if a call that `rule` compresses is made natively before anything was measured: if
 * the rule's `worth` is CSHIM_WORTH_FORETOLD; or, unless it is CSHIM_WORTH_ALWAYS, if the call is
 * an MPI all-reduce of up to 32 MiB with codec raw on one node whose ranks do not read each other's
 * memory: compshim would send the same elements as the library. Never if call->lacks_native. */
bool cshim_plan_is_native_first(const struct cshim_rule *rule, const struct cshim_call *call);

/* Returns true if the call is an all-reduce of ranks on one node that, by this algorithm, may read
 * the elements of each other's messages in place. */
static inline bool cshim_plan_is_read(const struct cshim_call *call, enum cshim_algorithm algorithm)
{
    return cshim_capabilities[call->library].reads_in_place &&
           call->collective == CSHIM_ALLREDUCE && call->nodes == 1 && !call->is_apart &&
           (algorithm == CSHIM_ALGORITHM_ONE_SHOT || algorithm == CSHIM_ALGORITHM_TWO_SHOT);
}

/* Returns true if a broadcast with this codec loses nothing and, in host memory, does not write the
 * root's buffer. With other codecs, which may round the elements, the root's buffer is written,
 * too, so that it has the same bits as the other ranks. */
static inline bool cshim_plan_leaves_root(enum cshim_codec_id codec)
{
    return cshim_codec_is_exact(codec) && codec != CSHIM_CODEC_BOUNDED;
}

#endif
