/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: policy, algorithm, segments and bytes of one call. */
#include "shim/core/plan.h"

#include <math.h>

#include "codecs/arithmetic.h"
#include "shim/core/cost.h"

/* The largest message. Open MPI's tcp transport sends up to 64 KiB at once; larger messages wait
 * for the receiver first, and then share the link badly. Measured in docs/decisions.md. */
#define PIECE_LIMIT ((uint64_t)60 << 10)
/* Messages between GPUs are as long as they can be: each exchange is a launch on every GPU, and
 * elements are counted in 32 bits. */
#define NCCL_PIECE_LIMIT ((uint64_t)1 << 32)
/* Up to these, one step with more bytes is faster than two steps with fewer: docs/measurements.md.
 */
#define ONE_SHOT_RANKS 4u
#define ONE_SHOT_BYTES ((uint64_t)8 << 10)

/* What a library's transport and memory allow. */
struct limits {
    uint64_t piece; /* bytes of a message */
    uint64_t scratch;
    uint64_t in_flight; /* segments */
};
static const struct limits library_limits[CSHIM_LIBRARY_COUNT] = {
    [CSHIM_MPI] = {PIECE_LIMIT, CSHIM_SCRATCH_LIMIT, CSHIM_SEGMENTS_IN_FLIGHT},
    [CSHIM_GLOO] = {PIECE_LIMIT, CSHIM_SCRATCH_LIMIT, CSHIM_SEGMENTS_IN_FLIGHT},
    [CSHIM_NCCL] = {NCCL_PIECE_LIMIT, CSHIM_NCCL_SCRATCH_LIMIT, CSHIM_SEGMENTS_IN_FLIGHT},
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
        [CSHIM_REASON_UNKNOWN_LAYOUT] = "unknown_layout",
        [CSHIM_REASON_NO_GAIN] = "no_gain",
        [CSHIM_REASON_SECOND_LIBRARY] = "second_library",
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

/* Of as many elements in either codec. */
static uint64_t longest_message(const struct cshim_plan *plan, uint64_t elements)
{
    const uint64_t own = cshim_encoded_bytes(plan->codec, plan->dtype, elements);
    const uint64_t gathered = cshim_encoded_bytes(plan->gather_codec, plan->dtype, elements);
    return CSHIM_HEADER_BYTES + (own > gathered ? own : gathered);
}

void cshim_plan_chunk(uint64_t count, uint32_t ranks, uint32_t index, uint64_t *begin,
                      uint64_t *length)
{
    uint64_t chunk = grains_up(divide_up(count, ranks));
    *begin = minimum(index * chunk, count);
    *length = minimum(chunk, count - *begin);
}

void cshim_plan_owned(uint64_t count, uint32_t peers, uint32_t share, uint32_t peer,
                      uint64_t *begin, uint64_t *length)
{
    const uint64_t chunk = grains_up(divide_up(count, peers));
    const uint64_t chunks = chunk > 0 ? divide_up(count, chunk) : 0;
    const uint32_t first = (uint32_t)(share * chunks % peers);
    cshim_plan_chunk(count, peers, (peer + (peers - first)) % peers, begin, length);
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

/* Whether a sum is smaller than any that the policy compresses: then nothing else of it matters. */
static bool is_too_small(const struct cshim_policy *policy, const struct cshim_call *call)
{
    const uint64_t from = policy->compress_from[call->collective][call->dtype];
    return call->bytes < from && from != UINT64_MAX;
}

static enum cshim_reason rule_reason(const struct cshim_policy *policy,
                                     const struct cshim_rule *rule, const struct cshim_call *call)
{
    if (rule != NULL && rule->codec != CSHIM_CODEC_NONE) {
        const bool has_gather = rule->gather_codec != CSHIM_CODEC_NONE;
        if (!cshim_codec_carries(rule->codec, call->dtype) ||
            (has_gather && !cshim_codec_carries(rule->gather_codec, call->dtype)))
            return CSHIM_REASON_DTYPE;
        /* The kernels have one codec, whose messages are as long as the plan says. */
        const bool has_option = call->library == CSHIM_MPI || rule->max_rel_error == 0;
        const bool has_codec =
            call->library != CSHIM_NCCL || (!cshim_codec_is_packed(rule->codec) && !has_gather);
        return has_option && has_codec ? CSHIM_REASON_COMPRESS : CSHIM_REASON_OPTION;
    }
    if ((rule != NULL && rule->max_size != UINT64_MAX) ||
        (call->library == CSHIM_MPI && is_too_small(policy, call)))
        return CSHIM_REASON_TOO_SMALL;
    return rule != NULL ? CSHIM_REASON_RULE_NONE : CSHIM_REASON_NO_RULE;
}

/* Whether a call can be made by an algorithm. The library's own collectives need a caller that
 * waits, and a node's need nodes that hold several ranks, which can share the network's work.
 * Blocks are added inside a node by NCCL's engine only. */
static bool can(const struct cshim_call *call, enum cshim_algorithm algorithm)
{
    const struct cshim_schedule *schedule = cshim_schedule_of(call->collective, algorithm);
    if (schedule == NULL || (call->nonblocking && cshim_schedule_needs_library(schedule)))
        return false;
    if (!cshim_schedule_has(schedule, CSHIM_STEP_REDUCE_INSIDE))
        return true;
    return call->nodes > 1 && call->ranks > call->nodes && call->ranks_per_node > 0 &&
           (schedule->division != CSHIM_BLOCKS || call->library == CSHIM_NCCL);
}

/* `auto`, as compshim-policy(5) gives it: also for a rule's algorithm that cannot make the call. */
static enum cshim_algorithm choose_algorithm(const struct cshim_plan *plan,
                                             const struct cshim_call *call)
{
    const bool is_small = plan->ranks == 2 || (plan->ranks <= ONE_SHOT_RANKS &&
                                               cshim_encoded_bytes(plan->codec, plan->dtype,
                                                                   plan->count) <= ONE_SHOT_BYTES);
    if (can(call, plan->rule->algorithm))
        return plan->rule->algorithm;
    if (is_small && can(call, CSHIM_ALGORITHM_ONE_SHOT))
        return CSHIM_ALGORITHM_ONE_SHOT;
    if (can(call, CSHIM_ALGORITHM_HIERARCHICAL))
        return CSHIM_ALGORITHM_HIERARCHICAL;
    return can(call, CSHIM_ALGORITHM_TWO_SHOT) ? CSHIM_ALGORITHM_TWO_SHOT
                                               : CSHIM_ALGORITHM_ONE_SHOT;
}

/* Encoded chunks, with headers, in scratch for each segment in flight. */
static uint64_t pieces_of(const struct cshim_plan *plan)
{
    return (uint64_t)plan->schedule->pieces_per_peer * plan->peers + plan->schedule->pieces_more;
}

/* Chunks of elements that are staged: the node's sum of one share; of blocks all that a node adds.
 */
static uint64_t staged_chunks(const struct cshim_plan *plan)
{
    if (!plan->schedule->staged)
        return 0;
    return (uint64_t)plan->peers * (plan->schedule->division == CSHIM_BLOCKS ? plan->shares : 1);
}

/* The largest chunk of whole grains that the limits on messages and scratch allow, in elements; one
 * grain at least. (One grain for each of thousands of ranks is too much: the call is passed on.)
 * Encoding k grains never takes more than k times the bytes of one. */
static uint64_t largest_chunk(const struct cshim_plan *plan, const struct limits *limits)
{
    const uint64_t grain_bytes = longest_message(plan, CSHIM_GRAIN) - CSHIM_HEADER_BYTES;
    const uint64_t slot = limits->scratch / limits->in_flight;
    const uint64_t headers = pieces_of(plan) * CSHIM_HEADER_BYTES;
    if (slot < headers || limits->piece < CSHIM_HEADER_BYTES + grain_bytes)
        return CSHIM_GRAIN;
    const uint64_t by_message = (limits->piece - CSHIM_HEADER_BYTES) / grain_bytes;
    const uint64_t by_scratch =
        (slot - headers) / (pieces_of(plan) * grain_bytes +
                            staged_chunks(plan) * CSHIM_GRAIN * cshim_dtype_bytes(plan->dtype));
    const uint64_t grains = minimum(by_message, by_scratch);
    return (grains > 0 ? grains : 1) * CSHIM_GRAIN;
}

/* Cuts the call into the fewest segments that the limits allow, and those evenly: a short last
 * segment would leave the link idle. Blocks are cut as if all were as large as the largest. */
static void cut_segments(struct cshim_plan *plan, const struct limits *limits)
{
    const bool blocks = plan->schedule->division == CSHIM_BLOCKS;
    const uint64_t chunks =
        (plan->schedule->division == CSHIM_WHOLE ? 1 : (uint64_t)plan->peers) * plan->shares;
    const uint64_t count = blocks ? multiply(plan->block, chunks) : plan->count;
    uint64_t fewest = divide_up(count, chunks * largest_chunk(plan, limits));
    uint64_t chunk = grains_up(divide_up(divide_up(count, fewest), chunks));
    plan->segment = chunks * chunk;
    plan->segments = divide_up(blocks ? plan->block : count, blocks ? chunk : plan->segment);
    plan->piece_bytes = longest_message(plan, chunk);
    plan->stage_bytes = staged_chunks(plan) * chunk * cshim_dtype_bytes(plan->dtype);
    plan->slot_bytes = pieces_of(plan) * plan->piece_bytes + plan->stage_bytes;
    plan->scratch_bytes = minimum(plan->segments, limits->in_flight) * plan->slot_bytes;
}

/* The messages of elements that are cut into chunks, of which the last may be shorter. */
static uint64_t chunk_messages(const struct cshim_plan *plan, uint64_t elements, uint64_t chunk)
{
    return add(multiply(elements / chunk, message_bytes(plan, chunk)),
               message_bytes(plan, elements % chunk));
}

/* Bytes of the messages that carry every element of one share once. */
static uint64_t share_messages(const struct cshim_plan *plan, uint64_t elements)
{
    uint64_t chunk, begin;
    if (elements == 0 || plan->schedule->division == CSHIM_WHOLE)
        return message_bytes(plan, elements);
    cshim_plan_chunk(elements, plan->peers, 0, &begin, &chunk);
    return chunk_messages(plan, elements, chunk);
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

/* The same of a whole call: all segments but the last are alike. Blocks are in the place of
 * segments. */
static uint64_t call_messages(const struct cshim_plan *plan)
{
    const uint64_t chunk = plan->segment / ((uint64_t)plan->peers * plan->shares);
    if (plan->block > 0) {
        const uint64_t whole = chunk_messages(plan, plan->block, chunk);
        return add(multiply(plan->count / plan->block, whole),
                   chunk_messages(plan, plan->count % plan->block, chunk));
    }
    return add(multiply(plan->count / plan->segment, segment_messages(plan, plan->segment)),
               segment_messages(plan, plan->count % plan->segment));
}

/* Of these, what the root of a reduce adds up itself, and nobody has to send to it; or the root of
 * a broadcast passes on itself. */
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
 * Inside the nodes the library reduces, and may gather: as the fewest bytes that takes. */
static void count_bytes(struct cshim_plan *plan, const struct cshim_call *call)
{
    const struct cshim_schedule *schedule = plan->schedule;
    const uint64_t others = plan->peers - 1;
    /* Of the other ranks that a message goes to, those elsewhere. */
    const uint64_t apart = call->nodes > 1 ? call->ranks - call->ranks / call->nodes : 0;
    plan->bytes_native = multiply(
        cshim_shapes[call->collective].ring_passes * ((uint64_t)plan->ranks - 1), call->bytes);
    if (schedule->parts_to == CSHIM_TO_LIBRARY) {
        count_cast_bytes(plan, call);
        return;
    }
    const uint64_t messages = call_messages(plan);
    const enum cshim_codec_id own = plan->codec;
    plan->codec = plan->gather_codec;
    const uint64_t sums = schedule->sums_to == CSHIM_TO_ALL ? call_messages(plan) : 0;
    plan->codec = own;
    /* A part reaches one receiver from all others, or all others from its one owner; where every
     * receiver adds the whole, all others from all. Sums for all go the way of the parts back. The
     * parts that a root spreads reach one receiver each, as do sums for a root. */
    const bool everywhere = schedule->division == CSHIM_WHOLE && schedule->parts_to == CSHIM_TO_ALL;
    const bool spread = schedule->root_gives && schedule->sums_to == CSHIM_TO_ALL;
    const uint64_t givers = spread ? 0 : everywhere && !schedule->root_gives ? plan->ranks : 1;
    const uint64_t all = add(multiply(givers, messages), sums);
    plan->bytes_wire = multiply(others, all);
    plan->bytes_network = multiply(apart, all);
    if (cshim_schedule_has(schedule, CSHIM_STEP_REDUCE_INSIDE)) {
        plan->bytes_network = plan->bytes_wire;
        const uint64_t passes = cshim_schedule_has(schedule, CSHIM_STEP_GATHER_INSIDE) ? 2 : 1;
        plan->bytes_wire =
            add(plan->bytes_wire,
                multiply(passes * ((uint64_t)plan->ranks - plan->peers), call->bytes));
    } else if (spread || schedule->sums_to == CSHIM_TO_ROOT) {
        const uint64_t with_root = messages - root_messages(plan);
        plan->bytes_wire = add(plan->bytes_wire, with_root);
        plan->bytes_network = add(plan->bytes_network, multiply(with_root / plan->ranks, apart));
    }
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

/* The largest power of two whose multiples keep the rule's abs_error. Each of the ranks' parts is
 * off by half a step, and so is the sum that travels on; the sum may be off by abs_error for each
 * rank. What is only moved is off once. */
static float step_of(const struct cshim_plan *plan)
{
    int exponent;
    if (plan->rule->abs_error <= 0)
        return 0;
    const double ranks = plan->ranks;
    const double share = cshim_schedule_adds(plan->schedule) ? ranks / (ranks + 1) : 1;
    frexp(plan->rule->abs_error * 2 * share, &exponent);
    return ldexpf(1, exponent - 1);
}

/* Plans a call that the rule compresses by an algorithm. */
static struct cshim_plan plan_by(enum cshim_algorithm algorithm, const struct cshim_rule *rule,
                                 const struct cshim_call *call, uint64_t count)
{
    struct cshim_plan plan = {.rule = rule};
    plan.codec = call->instead != CSHIM_CODEC_NONE ? call->instead : rule->codec;
    plan.collective = call->collective;
    plan.dtype = call->dtype;
    plan.ranks = call->ranks;
    plan.root = call->root;
    plan.count = count;
    plan.algorithm = algorithm != CSHIM_ALGORITHM_AUTO ? algorithm : choose_algorithm(&plan, call);
    plan.schedule = cshim_schedule_of(plan.collective, plan.algorithm);
    if (plan.schedule->division == CSHIM_BLOCKS)
        plan.block = call->block != 0 ? call->block : divide_up(count, call->ranks);
    const bool has_levels = cshim_schedule_has(plan.schedule, CSHIM_STEP_REDUCE_INSIDE);
    plan.peers = has_levels ? call->nodes : call->ranks;
    plan.shares = has_levels ? call->ranks_per_node : 1;
    const struct limits *limits = &library_limits[call->library];
    plan.gather_codec = plan.codec;
    plan.step = step_of(&plan);
    if (rule->gather_codec != CSHIM_CODEC_NONE && call->instead == CSHIM_CODEC_NONE &&
        plan.collective == CSHIM_ALLREDUCE && plan.schedule->sums_to == CSHIM_TO_ALL)
        plan.gather_codec = rule->gather_codec;
    cut_segments(&plan, limits);
    /* NCCL's engine runs segments of other calls beside this one's. */
    if (plan.scratch_bytes > limits->scratch ||
        (call->library == CSHIM_NCCL && plan.slot_bytes > limits->scratch / limits->in_flight))
        return (struct cshim_plan){.reason = CSHIM_REASON_NO_MEMORY, .rule = rule};
    count_bytes(&plan, call);
    plan.quantizations =
        plan.schedule->quantizations != 0 ? plan.schedule->quantizations : plan.ranks;
    const double own_error = cshim_codec_info(plan.codec)->typical;
    const double gather_error = cshim_codec_info(plan.gather_codec)->typical;
    plan.expected_error =
        sqrt((plan.quantizations - 1) * own_error * own_error + gather_error * gather_error);
    if (call->machine != NULL)
        plan.seconds = cshim_cost_plan(call->machine, &plan, call);
    return plan;
}

/* `auto` with facts of the machine: the algorithm that is foretold to take the least time. Without
 * them it is that of choose_algorithm. */
static struct cshim_plan plan_fastest(const struct cshim_rule *rule, const struct cshim_call *call,
                                      uint64_t count)
{
    static const enum cshim_algorithm candidates[] = {
        CSHIM_ALGORITHM_ONE_SHOT, CSHIM_ALGORITHM_TWO_SHOT, CSHIM_ALGORITHM_HIERARCHICAL};
    struct cshim_plan fastest = plan_by(CSHIM_ALGORITHM_AUTO, rule, call, count);
    if (!(fastest.seconds > 0) || can(call, rule->algorithm))
        return fastest;
    for (size_t i = 0; i < sizeof candidates / sizeof *candidates; i++) {
        if (candidates[i] == fastest.algorithm || !can(call, candidates[i]))
            continue;
        const struct cshim_plan plan = plan_by(candidates[i], rule, call, count);
        if (plan.seconds > 0 && plan.seconds < fastest.seconds)
            fastest = plan;
    }
    return fastest;
}

/* The same, unless the call would not gain. */
static struct cshim_plan plan_worth(const struct cshim_rule *rule, const struct cshim_call *call,
                                    uint64_t count)
{
    struct cshim_plan plan = plan_fastest(rule, call, count);
    if (plan.reason != CSHIM_REASON_COMPRESS)
        return plan;
    if (plan.seconds > 0)
        plan.seconds_native = cshim_cost_native(call->machine, call);
    const bool gains = plan.seconds_native > 0
                           ? plan.seconds <= (1 - CSHIM_WORTH) * plan.seconds_native
                           : rule->worth == CSHIM_WORTH_GAIN;
    if (!gains && rule->worth != CSHIM_WORTH_ALWAYS)
        plan.reason = CSHIM_REASON_NO_GAIN;
    return plan;
}

/* Times are foretold in the default floating-point environment: a program may round in another way
 * on one rank than on others. */
struct cshim_plan cshim_plan_call(const struct cshim_policy *policy, const struct cshim_call *call,
                                  uint64_t count)
{
    struct cshim_plan plan = {0};
    plan.reason = cshim_plan_reason(policy, call, count, &plan.rule);
    if (plan.reason != CSHIM_REASON_COMPRESS)
        return plan;
    const cshim_arithmetic programs = cshim_arithmetic_begin();
    plan = plan_worth(plan.rule, call, count);
    cshim_arithmetic_end(&programs);
    return plan;
}
