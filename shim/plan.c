/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: policy, algorithm, segments and bytes of one call. */
#include "shim/plan.h"

#include <math.h>

/* The largest message. Open MPI's tcp transport sends up to 64 KiB at once; larger messages wait
 * for the receiver first, and then share the link badly. Measured in docs/decisions.md. */
#define PIECE_LIMIT ((uint64_t)60 << 10)
/* Up to these, one step with more bytes is faster than two steps with fewer. */
#define ALLGATHER_RANKS 4u
#define ALLGATHER_BYTES ((uint64_t)32 << 10)

/* How an algorithm cuts a segment and what it keeps in memory for it. */
struct layout {
    uint64_t chunks; /* a segment is cut into so many */
    uint64_t pieces; /* encoded chunks, with headers, in scratch per segment in flight */
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
    if (cshim_dtype_bytes(call->dtype) == 0)
        return CSHIM_REASON_DTYPE;
    /* MPI has no average. */
    if (call->op != CSHIM_SUM && !(call->op == CSHIM_AVG && call->library == CSHIM_NCCL))
        return CSHIM_REASON_OP;
    return CSHIM_REASON_COMPRESS;
}

static enum cshim_reason rule_reason(const struct cshim_rule *rule, enum cshim_dtype dtype)
{
    if (rule == NULL)
        return CSHIM_REASON_NO_RULE;
    if (rule->codec == CSHIM_CODEC_NONE)
        return rule->max_size != UINT64_MAX ? CSHIM_REASON_TOO_SMALL : CSHIM_REASON_RULE_NONE;
    if (!cshim_codec_carries(rule->codec, dtype))
        return CSHIM_REASON_DTYPE;
    return CSHIM_REASON_COMPRESS;
}

/* `auto`, as compshim-policy(5) gives it. A rule that names hierarchical gets two_shot: the planner
 * is not told which ranks share a node. */
static enum cshim_algorithm choose_algorithm(const struct cshim_plan *plan)
{
    if (plan->rule->algorithm == CSHIM_ALGORITHM_HIERARCHICAL)
        return CSHIM_ALGORITHM_TWO_SHOT;
    if (plan->rule->algorithm != CSHIM_ALGORITHM_AUTO)
        return plan->rule->algorithm;
    if (plan->ranks == 2)
        return CSHIM_ALGORITHM_ALLGATHER;
    if (plan->ranks <= ALLGATHER_RANKS &&
        cshim_encoded_bytes(plan->codec, plan->dtype, plan->count) <= ALLGATHER_BYTES)
        return CSHIM_ALGORITHM_ALLGATHER;
    return CSHIM_ALGORITHM_TWO_SHOT;
}

static struct layout algorithm_layout(enum cshim_algorithm algorithm, uint64_t ranks)
{
    if (algorithm == CSHIM_ALGORITHM_ALLGATHER) /* own segment, and everybody's */
        return (struct layout){.chunks = 1, .pieces = ranks + 1};
    if (algorithm == CSHIM_ALGORITHM_ALLREDUCE) /* narrowed, reduced in place */
        return (struct layout){.chunks = ranks, .pieces = ranks};
    /* Sent and received chunks, the own one reduced, the reduced ones of everybody. */
    return (struct layout){.chunks = ranks, .pieces = 3 * ranks + 1};
}

/* The largest chunk of whole grains that the limits on messages and scratch allow, in elements; one
 * grain at least (that of thousands of ranks is too much: the call is passed on). Encoding k grains
 * never takes more than k times the bytes of one. */
static uint64_t largest_chunk(const struct cshim_plan *plan, const struct layout *layout)
{
    uint64_t limit =
        minimum(PIECE_LIMIT, CSHIM_SCRATCH_LIMIT / (CSHIM_SEGMENTS_IN_FLIGHT * layout->pieces));
    uint64_t grain_bytes = cshim_encoded_bytes(plan->codec, plan->dtype, CSHIM_GRAIN);
    if (limit < CSHIM_HEADER_BYTES + grain_bytes)
        return CSHIM_GRAIN;
    return (limit - CSHIM_HEADER_BYTES) / grain_bytes * CSHIM_GRAIN;
}

/* Cuts the call into the fewest segments that the limits allow, and those evenly: a short last
 * segment would leave the link idle. */
static void cut_segments(struct cshim_plan *plan)
{
    struct layout layout = algorithm_layout(plan->algorithm, plan->ranks);
    uint64_t fewest = divide_up(plan->count, layout.chunks * largest_chunk(plan, &layout));
    uint64_t chunk = grains_up(divide_up(divide_up(plan->count, fewest), layout.chunks));
    plan->segment = layout.chunks * chunk;
    plan->segments = divide_up(plan->count, plan->segment);
    plan->piece_bytes = message_bytes(plan, chunk);
    plan->slot_bytes = layout.pieces * plan->piece_bytes;
    plan->scratch_bytes = minimum(plan->segments, CSHIM_SEGMENTS_IN_FLIGHT) * plan->slot_bytes;
}

/* Bytes of one segment in `message`s that each go to one rank: the whole (allgather), or every
 * non-empty chunk once (two_shot). */
static uint64_t segment_messages(const struct cshim_plan *plan, uint64_t elements)
{
    uint64_t chunk, begin;
    if (elements == 0 || plan->algorithm == CSHIM_ALGORITHM_ALLGATHER)
        return message_bytes(plan, elements);
    cshim_plan_chunk(elements, plan->ranks, 0, &begin, &chunk);
    return elements / chunk * message_bytes(plan, chunk) + message_bytes(plan, elements % chunk);
}

static uint64_t wire_bytes(const struct cshim_plan *plan)
{
    uint64_t others = plan->ranks - 1;
    if (plan->algorithm == CSHIM_ALGORITHM_ALLREDUCE) {
        unsigned narrowed = cshim_codec_info(plan->codec)->element_bytes;
        uint64_t element = narrowed != 0 ? narrowed : cshim_dtype_bytes(plan->dtype);
        return multiply(2 * others, multiply(plan->count, element));
    }
    /* All segments but the last are alike. */
    uint64_t full = plan->count / plan->segment;
    uint64_t messages = add(multiply(full, segment_messages(plan, plan->segment)),
                            segment_messages(plan, plan->count % plan->segment));
    /* Gathered: every rank sends its own to all others. Two shots: a chunk comes from all others to
     * its owner, and goes back to them. */
    uint64_t copies =
        plan->algorithm == CSHIM_ALGORITHM_ALLGATHER ? plan->ranks * others : 2 * others;
    return multiply(copies, messages);
}

static unsigned count_quantizations(const struct cshim_plan *plan)
{
    if (plan->algorithm == CSHIM_ALGORITHM_ALLGATHER)
        return 1;
    return plan->algorithm == CSHIM_ALGORITHM_TWO_SHOT ? 2 : plan->ranks;
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
    return rule_reason(*rule, call->dtype);
}

struct cshim_plan cshim_plan_call(const struct cshim_policy *policy, const struct cshim_call *call,
                                  uint64_t count)
{
    struct cshim_plan plan = {0};
    plan.reason = cshim_plan_reason(policy, call, count, &plan.rule);
    if (plan.reason != CSHIM_REASON_COMPRESS)
        return plan;
    plan.codec = plan.rule->codec;
    plan.dtype = call->dtype;
    plan.ranks = call->ranks;
    plan.count = count;
    plan.algorithm = choose_algorithm(&plan);
    cut_segments(&plan);
    if (plan.scratch_bytes > CSHIM_SCRATCH_LIMIT)
        return (struct cshim_plan){.reason = CSHIM_REASON_NO_MEMORY, .rule = plan.rule};
    plan.bytes_wire = wire_bytes(&plan);
    plan.bytes_native = multiply(2 * ((uint64_t)plan.ranks - 1), call->bytes);
    plan.quantizations = count_quantizations(&plan);
    plan.expected_error = cshim_codec_info(plan.codec)->typical * sqrt(plan.quantizations);
    return plan;
}
