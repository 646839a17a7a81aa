/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: policy, algorithm, segments and bytes of one call. */
#include "shim/core/plan.h"

#include <math.h>

/* The largest message. Open MPI's tcp transport sends up to 64 KiB at once; larger messages wait
 * for the receiver first, and then share the link badly. Measured in docs/decisions.md. */
#define PIECE_LIMIT ((uint64_t)60 << 10)
/* Messages between GPUs are as long as they can be: each exchange is a launch on every GPU, and
 * elements are counted in 32 bits. */
#define NCCL_PIECE_LIMIT ((uint64_t)1 << 32)
/* Up to these, one step with more bytes is faster than two steps with fewer: docs/measurements.md.
 */
#define ALLGATHER_RANKS 4u
#define ALLGATHER_BYTES ((uint64_t)8 << 10)

/* How an algorithm cuts a segment and what it keeps in memory for it. */
struct layout {
    uint64_t chunks; /* a share of a segment is cut into so many */
    uint64_t pieces; /* encoded chunks, with headers, in scratch per segment in flight */
    uint64_t staged; /* chunks of the caller's type in scratch per segment in flight */
};

struct limits {
    uint64_t piece; /* bytes of a message */
    uint64_t scratch;
    uint64_t in_flight; /* segments */
};

const char *cshim_reason_name(enum cshim_reason reason)
{
    static const char *const names[CSHIM_REASON_COUNT] = {
        [CSHIM_REASON_COMPRESS] = "compress",
        [CSHIM_REASON_DTYPE] = "dtype",
        [CSHIM_REASON_OP] = "op",
        [CSHIM_REASON_EMPTY] = "empty",
        [CSHIM_REASON_TOO_SMALL] = "too_small",
        [CSHIM_REASON_RULE_NONE] = "rule_none",
        [CSHIM_REASON_NO_RULE] = "no_rule",
        [CSHIM_REASON_SINGLE_RANK] = "single_rank",
        [CSHIM_REASON_INTERCOMM] = "intercomm",
        [CSHIM_REASON_DEVICE_BUFFER] = "device_buffer",
        [CSHIM_REASON_DERIVED_DATATYPE] = "derived_datatype",
        [CSHIM_REASON_NOT_AGREED] = "not_agreed",
        [CSHIM_REASON_CAPTURED] = "captured",
        [CSHIM_REASON_NONBLOCKING] = "nonblocking",
        [CSHIM_REASON_DISABLED] = "disabled",
        [CSHIM_REASON_NO_MEMORY] = "no_memory",
        [CSHIM_REASON_NO_KERNELS] = "no_kernels",
        [CSHIM_REASON_OPTION] = "option",
    };
    return (unsigned)reason < CSHIM_REASON_COUNT ? names[reason] : "?";
}

static uint64_t minimum(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t divide_up(uint64_t value, uint64_t by)
{
    return value / by + (value % by != 0);
}

static uint64_t grains_up(uint64_t elements)
{
    return divide_up(elements, CSHIM_GRAIN) * CSHIM_GRAIN;
}

/* Products and sums of bytes stop at UINT64_MAX: a figure that large is beyond any machine. */
static uint64_t multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* One message: header and encoded elements. Nothing is sent for no elements. */
static uint64_t message_bytes(const struct cshim_plan *plan, uint64_t elements)
{
    if (elements == 0)
        return 0;
    return CSHIM_HEADER_BYTES + cshim_encoded_bytes(plan->codec, plan->dtype, elements);
}

void cshim_plan_chunk(uint64_t count, uint32_t ranks, uint32_t index, uint64_t *begin,
                      uint64_t *length)
{
    uint64_t chunk = grains_up(divide_up(count, ranks));
    *begin = minimum(index * chunk, count);
    *length = minimum(chunk, count - *begin);
}

/* The reasons that need no rule: the facts of the call alone. */
static enum cshim_reason call_reason(const struct cshim_call *call, uint64_t count)
{
    if (count == 0)
        return CSHIM_REASON_EMPTY;
    if (call->ranks <= 1)
        return CSHIM_REASON_SINGLE_RANK;
    if ((unsigned)call->dtype >= CSHIM_DTYPE_COUNT)
        return CSHIM_REASON_DTYPE;
    /* MPI has no average. */
    if (call->op != CSHIM_SUM && !(call->op == CSHIM_AVG && call->library == CSHIM_NCCL))
        return CSHIM_REASON_OP;
    return CSHIM_REASON_COMPRESS;
}

bool cshim_plan_too_small(const struct cshim_policy *policy, enum cshim_collective collective,
                          enum cshim_dtype dtype, uint64_t bytes)
{
    const uint64_t from = policy->compress_from[collective][dtype];
    return bytes < from && from != UINT64_MAX;
}

/* What a library's transport and memory allow. */
static struct limits library_limits(enum cshim_library library)
{
    if (library == CSHIM_NCCL)
        return (struct limits){
            .piece = NCCL_PIECE_LIMIT, .scratch = CSHIM_NCCL_SCRATCH_LIMIT, .in_flight = 1};
    return (struct limits){.piece = PIECE_LIMIT,
                           .scratch = CSHIM_SCRATCH_LIMIT,
                           .in_flight = CSHIM_SEGMENTS_IN_FLIGHT};
}

static enum cshim_reason rule_reason(const struct cshim_policy *policy,
                                     const struct cshim_rule *rule, const struct cshim_call *call)
{
    if (rule != NULL && rule->codec != CSHIM_CODEC_NONE) {
        if (!cshim_codec_carries(rule->codec, call->dtype))
            return CSHIM_REASON_DTYPE;
        return call->library == CSHIM_NCCL && rule->max_rel_error > 0 ? CSHIM_REASON_OPTION
                                                                      : CSHIM_REASON_COMPRESS;
    }
    if ((rule != NULL && rule->max_size != UINT64_MAX) ||
        (call->library == CSHIM_MPI &&
         cshim_plan_too_small(policy, call->collective, call->dtype, call->bytes)))
        return CSHIM_REASON_TOO_SMALL;
    return rule != NULL ? CSHIM_REASON_RULE_NONE : CSHIM_REASON_NO_RULE;
}

/* Whether some nodes hold several of the ranks, which can share the network's work. */
static bool has_levels(const struct cshim_call *call)
{
    return call->nodes > 1 && call->ranks > call->nodes && call->ranks_per_node > 0;
}

/* Whether one side of the call is a block for each rank, which is cut by itself. */
static bool has_blocks(enum cshim_collective collective)
{
    return collective == CSHIM_REDUCE_SCATTER || collective == CSHIM_ALLGATHER;
}

/* `auto`, as compshim-policy(5) gives it. A reduce_scatter has but one way. Its own all-reduce, and
 * what hierarchical does inside a node, the library can only do for a whole all-reduce, and only
 * while the caller waits. */
static enum cshim_algorithm choose_algorithm(const struct cshim_plan *plan,
                                             const struct cshim_call *call)
{
    const enum cshim_algorithm named = plan->rule->algorithm;
    const bool with_library = call->collective == CSHIM_ALLREDUCE && !call->nonblocking;
    const bool levels = with_library && has_levels(call);
    if (call->collective == CSHIM_REDUCE_SCATTER)
        return CSHIM_ALGORITHM_TWO_SHOT;
    if (call->collective == CSHIM_ALLGATHER)
        return CSHIM_ALGORITHM_ONE_SHOT;
    if (named != CSHIM_ALGORITHM_AUTO && (named != CSHIM_ALGORITHM_CAST || with_library) &&
        (named != CSHIM_ALGORITHM_HIERARCHICAL || levels))
        return named;
    if (plan->ranks == 2)
        return CSHIM_ALGORITHM_ONE_SHOT;
    if (plan->ranks <= ALLGATHER_RANKS &&
        cshim_encoded_bytes(plan->codec, plan->dtype, plan->count) <= ALLGATHER_BYTES)
        return CSHIM_ALGORITHM_ONE_SHOT;
    return levels ? CSHIM_ALGORITHM_HIERARCHICAL : CSHIM_ALGORITHM_TWO_SHOT;
}

static void choose_peers(struct cshim_plan *plan, const struct cshim_call *call)
{
    const bool levels = plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL;
    plan->peers = levels ? call->nodes : call->ranks;
    plan->shares = levels ? call->ranks_per_node : 1;
}

static struct layout algorithm_layout(enum cshim_algorithm algorithm, uint64_t peers)
{
    if (algorithm == CSHIM_ALGORITHM_ONE_SHOT) /* own segment, and everybody's */
        return (struct layout){.chunks = 1, .pieces = peers + 1};
    if (algorithm == CSHIM_ALGORITHM_CAST) /* narrowed, reduced in place */
        return (struct layout){.chunks = peers, .pieces = peers};
    /* Sent and received chunks, the own one reduced, the reduced ones of everybody; before that, in
     * hierarchical, the share of the node's sum. */
    return (struct layout){.chunks = peers,
                           .pieces = 3 * peers + 1,
                           .staged = algorithm == CSHIM_ALGORITHM_HIERARCHICAL ? peers : 0};
}

/* The largest chunk of whole grains that the limits on messages and scratch allow, in elements; one
 * grain at least (that of thousands of ranks is too much: the call is passed on). Encoding k grains
 * never takes more than k times the bytes of one. */
static uint64_t largest_chunk(const struct cshim_plan *plan, const struct layout *layout,
                              const struct limits *limits)
{
    const uint64_t grain_bytes = cshim_encoded_bytes(plan->codec, plan->dtype, CSHIM_GRAIN);
    const uint64_t slot = limits->scratch / limits->in_flight;
    const uint64_t headers = layout->pieces * CSHIM_HEADER_BYTES;
    if (slot < headers || limits->piece < CSHIM_HEADER_BYTES + grain_bytes)
        return CSHIM_GRAIN;
    const uint64_t by_message = (limits->piece - CSHIM_HEADER_BYTES) / grain_bytes;
    const uint64_t by_scratch =
        (slot - headers) / (layout->pieces * grain_bytes +
                            layout->staged * CSHIM_GRAIN * cshim_dtype_bytes(plan->dtype));
    const uint64_t grains = minimum(by_message, by_scratch);
    return (grains > 0 ? grains : 1) * CSHIM_GRAIN;
}

/* Cuts the call into the fewest segments that the limits allow, and those evenly: a short last
 * segment would leave the link idle. */
static void cut_segments(struct cshim_plan *plan, const struct limits *limits)
{
    const struct layout layout = algorithm_layout(plan->algorithm, plan->peers);
    /* Blocks are cut as if all were as large as the largest. */
    const bool scattered = has_blocks(plan->collective);
    const uint64_t chunks = (scattered ? plan->peers : layout.chunks) * plan->shares;
    const uint64_t count = scattered ? multiply(plan->block, plan->peers) : plan->count;
    uint64_t fewest = divide_up(count, chunks * largest_chunk(plan, &layout, limits));
    uint64_t chunk = grains_up(divide_up(divide_up(count, fewest), chunks));
    plan->segment = chunks * chunk;
    plan->segments = divide_up(scattered ? plan->block : count, scattered ? chunk : plan->segment);
    plan->piece_bytes = message_bytes(plan, chunk);
    plan->stage_bytes = layout.staged * chunk * cshim_dtype_bytes(plan->dtype);
    plan->slot_bytes = layout.pieces * plan->piece_bytes + plan->stage_bytes;
    plan->scratch_bytes = minimum(plan->segments, limits->in_flight) * plan->slot_bytes;
}

/* Bytes of one share of `elements` in messages that each go to one peer: the whole (allgather), or
 * every non-empty chunk once (two_shot). */
static uint64_t share_messages(const struct cshim_plan *plan, uint64_t elements)
{
    uint64_t chunk, begin;
    if (elements == 0 || plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT)
        return message_bytes(plan, elements);
    cshim_plan_chunk(elements, plan->peers, 0, &begin, &chunk);
    return elements / chunk * message_bytes(plan, chunk) + message_bytes(plan, elements % chunk);
}

/* The same of a whole segment. All shares that are not empty are alike, but for the last. */
static uint64_t segment_messages(const struct cshim_plan *plan, uint64_t elements)
{
    uint64_t share, begin;
    if (elements == 0)
        return 0;
    cshim_plan_chunk(elements, plan->shares, 0, &begin, &share);
    return add(multiply(elements / share, share_messages(plan, share)),
               share_messages(plan, elements % share));
}

/* The same of a whole call: all segments but the last are alike. A reduce_scatter has its results
 * in the place of segments. */
static uint64_t call_messages(const struct cshim_plan *plan)
{
    const uint64_t chunk = plan->segment / plan->peers;
    if (has_blocks(plan->collective)) {
        const uint64_t last = plan->count % plan->block;
        const uint64_t whole = add(multiply(plan->block / chunk, message_bytes(plan, chunk)),
                                   message_bytes(plan, plan->block % chunk));
        return add(multiply(plan->count / plan->block, whole),
                   add(multiply(last / chunk, message_bytes(plan, chunk)),
                       message_bytes(plan, last % chunk)));
    }
    return add(multiply(plan->count / plan->segment, segment_messages(plan, plan->segment)),
               segment_messages(plan, plan->count % plan->segment));
}

/* Of these, what the root of a reduce adds up itself, and nobody has to send to it. */
static uint64_t root_messages(const struct cshim_plan *plan)
{
    uint64_t begin, chunk, last;
    cshim_plan_chunk(plan->segment, plan->peers, plan->root, &begin, &chunk);
    cshim_plan_chunk(plan->count % plan->segment, plan->peers, plan->root, &begin, &last);
    return add(multiply(plan->count / plan->segment, message_bytes(plan, chunk)),
               message_bytes(plan, last));
}

/* The library's own all-reduce of narrowed elements takes a sum and its result over as few links as
 * join the nodes. */
static void count_cast_bytes(struct cshim_plan *plan, const struct cshim_call *call)
{
    const uint64_t hops = call->nodes > 1 ? call->nodes - 1 : 0;
    const unsigned narrowed = cshim_codec_info(plan->codec)->element_bits / 8;
    const uint64_t element = narrowed != 0 ? narrowed : cshim_dtype_bytes(plan->dtype);
    plan->bytes_wire = multiply(2 * ((uint64_t)plan->peers - 1), multiply(plan->count, element));
    plan->bytes_network = multiply(2 * hops, multiply(plan->count, element));
}

/* What all ranks send, each message counted as often as it is sent; and of it, what leaves a node.
 * Inside the nodes the library reduces and gathers: as the fewest bytes that takes. */
static void count_bytes(struct cshim_plan *plan, const struct cshim_call *call)
{
    const bool whole = call->collective == CSHIM_ALLREDUCE;
    const uint64_t others = plan->peers - 1;
    /* Of the other ranks that a message goes to, those elsewhere. */
    const uint64_t apart = call->nodes > 1 ? call->ranks - call->ranks / call->nodes : 0;
    plan->bytes_native = multiply((whole ? 2 : 1) * ((uint64_t)plan->ranks - 1), call->bytes);
    if (plan->algorithm == CSHIM_ALGORITHM_CAST) {
        count_cast_bytes(plan, call);
        return;
    }
    const uint64_t messages = call_messages(plan);
    /* Gathered: every rank sends its own to all others. Two shots: a chunk comes from all others to
     * its owner, and goes back to them. Else it only comes, to the owner or the root. */
    uint64_t times = 1;
    if (whole)
        times = plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT ? plan->ranks : 2;
    plan->bytes_wire = multiply(times * others, messages);
    plan->bytes_network = multiply(times * apart, messages);
    if (plan->algorithm == CSHIM_ALGORITHM_HIERARCHICAL) {
        plan->bytes_network = plan->bytes_wire;
        plan->bytes_wire =
            add(plan->bytes_wire, multiply(2 * ((uint64_t)plan->ranks - plan->peers), call->bytes));
    } else if (call->collective == CSHIM_REDUCE && plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT) {
        const uint64_t sums = messages - root_messages(plan);
        plan->bytes_wire = add(plan->bytes_wire, sums);
        plan->bytes_network = add(plan->bytes_network, multiply(sums / plan->ranks, apart));
    }
}

static unsigned count_quantizations(const struct cshim_plan *plan)
{
    if (plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT || plan->collective == CSHIM_REDUCE_SCATTER)
        return 1;
    return plan->algorithm == CSHIM_ALGORITHM_CAST ? plan->ranks : 2;
}

enum cshim_reason cshim_plan_reason(const struct cshim_policy *policy,
                                    const struct cshim_call *call, uint64_t count,
                                    const struct cshim_rule **rule)
{
    *rule = NULL;
    enum cshim_reason reason = call_reason(call, count);
    if (reason != CSHIM_REASON_COMPRESS)
        return reason;
    *rule = cshim_policy_match(policy, call);
    return rule_reason(policy, *rule, call);
}

struct cshim_plan cshim_plan_call(const struct cshim_policy *policy, const struct cshim_call *call,
                                  uint64_t count)
{
    struct cshim_plan plan = {0};
    plan.reason = cshim_plan_reason(policy, call, count, &plan.rule);
    if (plan.reason != CSHIM_REASON_COMPRESS)
        return plan;
    plan.codec = call->instead != CSHIM_CODEC_NONE ? call->instead : plan.rule->codec;
    plan.collective = call->collective;
    plan.dtype = call->dtype;
    plan.ranks = call->ranks;
    plan.root = call->root;
    plan.count = count;
    if (has_blocks(call->collective))
        plan.block = call->block != 0 ? call->block : divide_up(count, call->ranks);
    plan.algorithm = choose_algorithm(&plan, call);
    choose_peers(&plan, call);
    const struct limits limits = library_limits(call->library);
    cut_segments(&plan, &limits);
    if (plan.scratch_bytes > limits.scratch)
        return (struct cshim_plan){.reason = CSHIM_REASON_NO_MEMORY, .rule = plan.rule};
    count_bytes(&plan, call);
    plan.quantizations = count_quantizations(&plan);
    plan.expected_error = cshim_codec_info(plan.codec)->typical * sqrt(plan.quantizations);
    return plan;
}
