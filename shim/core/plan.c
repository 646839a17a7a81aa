/* SPDX-License-Identifier: Apache-2.0 */
/* The planner: policy, algorithm, segments and bytes of one call. */
#include "shim/core/plan.h"

#include <math.h>

#include "codecs/arithmetic.h"
#include "codecs/floats.h"
#include "shim/core/plan_bytes.h"

/* Up to this many ranks and encoded bytes, one exchange of more bytes (one_shot) is assumed to be
 * faster than two exchanges of fewer bytes (two_shot). */
#define ONE_SHOT_RANKS 4u
#define ONE_SHOT_BYTES ((uint64_t)8 << 10)
/* From this size on, in bytes, two_shot is assumed to be faster than one_shot for MPI's all-reduces
 * in raw by two ranks of a node: each copies and adds only half of the elements. */
#define TWO_SHOT_BYTES ((uint64_t)64 << 10)
/* Up to this size, in bytes, a library is assumed to make an all-reduce inside a node faster than
 * compshim does with messages in raw. */
#define COPIED_BYTES ((uint64_t)32 << 20)

/* Up to this size of a call's buffer, in bytes, an algorithm is tried however many bytes it sends.
 */
#define TRIED_IN_ANY_CASE_BYTES ((uint64_t)64 << 10)

/* With fewer grains than this per peer and share the shape of the grid is optimized (choose_grid).
 */
#define CROWDED_GRAINS 4u

const char *cshim_reason_name(enum cshim_reason reason)
{
    static const char *const names[] = {
#define REASON(NAME, name, WORDS) #name,
#include "shim/core/reasons.def"
    };
    return (unsigned)reason < CSHIM_REASON_COUNT ? names[reason] : "?";
}

static uint64_t minimum(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t grains_up(uint64_t elements)
{
    return cshim_divide_up(elements, CSHIM_GRAIN) * CSHIM_GRAIN;
}

/* Returns the bytes of the longest message of `elements` elements: a contribution or a reduced
 * chunk. */
static uint64_t longest_message(const struct cshim_plan *plan, uint64_t elements)
{
    const uint64_t own = cshim_encoded_bytes(plan->codec, plan->dtype, elements);
    const uint64_t gathered = cshim_encoded_bytes(plan->gather_codec, plan->dtype, elements);
    return CSHIM_HEADER_BYTES + (own > gathered ? own : gathered);
}

/* Returns a reason that follows from the call alone, without a rule; CSHIM_REASON_COMPRESS if there
 * is none. */
static enum cshim_reason call_reason(const struct cshim_call *call, uint64_t count)
{
    if (count == 0)
        return CSHIM_REASON_EMPTY;
    if (call->ranks <= 1)
        return CSHIM_REASON_SINGLE_RANK;
    if ((unsigned)call->dtype >= CSHIM_DTYPE_COUNT)
        return CSHIM_REASON_DTYPE;
    if (!cshim_library_makes(call->library, call->collective, call->op))
        return CSHIM_REASON_OP;
    return CSHIM_REASON_COMPRESS;
}

/* Returns true if the call's element type is known, or does not matter. If the library does not
 * pass the types of data movement, the rule must name types, unless its codec is raw or
 * lossless. */
static bool knows_type(const struct cshim_rule *rule, const struct cshim_call *call)
{
    return cshim_capabilities[call->library].has_type_of_moves ||
           (CSHIM_MOVES >> call->collective & 1) == 0 || cshim_plan_leaves_root(rule->codec) ||
           rule->dtypes != (1u << CSHIM_DTYPE_COUNT) - 1;
}

/* Returns CSHIM_REASON_COMPRESS, or why the rule that matches a call (NULL: none) does not compress
 * it. */
static enum cshim_reason rule_reason(const struct cshim_rule *rule, const struct cshim_call *call)
{
    if (rule == NULL)
        return CSHIM_REASON_NO_RULE;
    if (rule->codec == CSHIM_CODEC_NONE)
        return CSHIM_REASON_RULE_NONE;
    const bool has_gather = rule->gather_codec != CSHIM_CODEC_NONE;
    if (!knows_type(rule, call) || !cshim_codec_carries(rule->codec, call->dtype) ||
        (has_gather && !cshim_codec_carries(rule->gather_codec, call->dtype)))
        return CSHIM_REASON_DTYPE;
    const struct cshim_capabilities *library = &cshim_capabilities[call->library];
    const bool has_option = library->has_max_rel_error || rule->max_rel_error == 0;
    const bool has_codec =
        library->has_any_codec || (!cshim_codec_is_packed(rule->codec) && !has_gather);
    return has_option && has_codec ? CSHIM_REASON_COMPRESS : CSHIM_REASON_OPTION;
}

/* Tries only sizes at which the size range of an otherwise matching rule begins or ends, because
 * the decision changes only there. */
uint64_t cshim_plan_compressed_above(const struct cshim_policy *policy,
                                     const struct cshim_call *call)
{
    struct cshim_call larger = *call;
    uint64_t smallest = UINT64_MAX;
    for (size_t i = 0; i < 2 * policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i / 2];
        if (i % 2 == 0)
            larger.bytes = rule->min_size > 0 ? rule->min_size : 1;
        else /* 0, which the test below skips: the rule has no maximum */
            larger.bytes = rule->max_size < UINT64_MAX ? rule->max_size + 1 : 0;
        if (larger.bytes > call->bytes && larger.bytes < smallest &&
            cshim_rule_matches_but_size(rule, call) &&
            rule_reason(cshim_policy_match(policy, &larger), call) == CSHIM_REASON_COMPRESS)
            smallest = larger.bytes;
    }
    return smallest;
}

/* Returns true if some rule may compress calls of this collective with this element type. */
static bool may_be_compressed(const struct cshim_policy *policy, const struct cshim_call *call)
{
    return (policy->compressed_types[call->library][call->collective] >> call->dtype & 1) != 0;
}

/* The library's own collectives (cast, hierarchical) need a caller that waits. hierarchical needs
 * several nodes, at least one of them with several ranks; with blocks, the same number of ranks on
 * every node. */
bool cshim_plan_can(const struct cshim_call *call, enum cshim_algorithm algorithm)
{
    const struct cshim_schedule *schedule = cshim_schedule_of(call->collective, algorithm);
    if (schedule == NULL || (call->nonblocking && cshim_schedule_needs_library(schedule)))
        return false;
    if (algorithm == CSHIM_ALGORITHM_GRID)
        return call->ranks > CSHIM_GRID_NONE && cshim_capabilities[call->library].has_grid;
    if (call->collective == CSHIM_BROADCAST && cshim_capabilities[call->library].has_own_broadcast)
        return algorithm == CSHIM_ALGORITHM_ONE_SHOT;
    if (!schedule->staged)
        return true;
    return call->nodes > 1 && call->ranks > call->nodes && call->ranks_per_node > 0 &&
           (schedule->division != CSHIM_BLOCKS ||
            call->ranks == (uint64_t)call->nodes * call->ranks_per_node);
}

/* Returns true if one_shot is assumed to be faster than two_shot, before anything was measured. */
static bool is_for_one_shot(const struct cshim_plan *plan, const struct cshim_call *call)
{
    const enum cshim_codec_id gather_codec = plan->rule->gather_codec;
    const bool sends_raw = plan->codec == CSHIM_CODEC_RAW &&
                           (gather_codec == CSHIM_CODEC_NONE || gather_codec == plan->codec);
    if (plan->ranks == 2)
        return !sends_raw || !cshim_capabilities[call->library].reads_in_place ||
               call->collective != CSHIM_ALLREDUCE || call->nodes != 1 ||
               call->bytes < TWO_SHOT_BYTES;
    return plan->ranks <= ONE_SHOT_RANKS &&
           cshim_encoded_bytes(plan->codec, plan->dtype, plan->count) <= ONE_SHOT_BYTES;
}

/* Returns the rule's algorithm, or the algorithm for `auto` (compshim-policy(5)) if the rule's
 * cannot make the call or is `auto`. */
static enum cshim_algorithm choose_algorithm(const struct cshim_plan *plan,
                                             const struct cshim_call *call)
{
    if (cshim_plan_can(call, plan->rule->algorithm))
        return plan->rule->algorithm;
    if (is_for_one_shot(plan, call) && cshim_plan_can(call, CSHIM_ALGORITHM_ONE_SHOT))
        return CSHIM_ALGORITHM_ONE_SHOT;
    if (cshim_plan_can(call, CSHIM_ALGORITHM_HIERARCHICAL))
        return CSHIM_ALGORITHM_HIERARCHICAL;
    return cshim_plan_can(call, CSHIM_ALGORITHM_TWO_SHOT) ? CSHIM_ALGORITHM_TWO_SHOT
                                                          : CSHIM_ALGORITHM_ONE_SHOT;
}

/* Returns the schedule of the plan's algorithm; for grid the schedule of a grid of nodes, if there
 * are enough nodes for that and hierarchical could make the call. */
static const struct cshim_schedule *choose_schedule(const struct cshim_plan *plan,
                                                    const struct cshim_call *call)
{
    return plan->algorithm == CSHIM_ALGORITHM_GRID && call->nodes > CSHIM_GRID_NONE &&
                   cshim_plan_can(call, CSHIM_ALGORITHM_HIERARCHICAL)
               ? &cshim_schedule_grid_of_nodes
               : cshim_schedule_of(plan->collective, plan->algorithm);
}

/* Returns the number of a segment's messages that a slot holds for the row: for all peers, if they
 * form no grid. */
static uint64_t row_messages(const struct cshim_plan *plan)
{
    return (uint64_t)plan->schedule->pieces_per_peer *
               cshim_divide_up(plan->peers, plan->grid.rows) +
           plan->schedule->pieces_more;
}

/* Returns the number of a segment's messages that a slot holds for a grid's column. */
static uint64_t column_messages(const struct cshim_plan *plan)
{
    return plan->grid.rows > 1
               ? (uint64_t)plan->schedule->pieces_per_peer * cshim_grid_depth(&plan->grid)
               : 0;
}

/* Returns the number of pieces in the stage; 0 if there is none. The stage holds the node's sum of
 * one share. With blocks it holds the chunks of all ranks; the sum replaces a share of them, or has
 * memory of its own if the library needs that (adds_blocks_apart). */
static uint64_t staged_pieces(const struct cshim_plan *plan)
{
    if (!plan->schedule->staged)
        return 0;
    return cshim_plan_pieces(plan) * (plan->schedule->division == CSHIM_BLOCKS
                                          ? plan->shares + plan->library->adds_blocks_apart
                                          : 1);
}

/* Returns the number of elements of the largest piece (whole grains, at least one) that the limits
 * on messages and scratch allow. (If one grain for each of thousands of ranks exceeds the scratch,
 * the call is passed through.) A message within a row of the grid has a piece for each row. k
 * encoded grains never take more than k times the bytes of one. */
static uint64_t largest_piece(const struct cshim_plan *plan, uint64_t message_limit)
{
    const uint64_t grain_bytes = longest_message(plan, CSHIM_GRAIN) - CSHIM_HEADER_BYTES;
    const uint64_t slot = plan->library->scratch_limit / CSHIM_SEGMENTS_IN_FLIGHT;
    const uint64_t rows = plan->grid.rows;
    const uint64_t pieces = row_messages(plan) * rows + column_messages(plan);
    const uint64_t headers = (row_messages(plan) + column_messages(plan)) * CSHIM_HEADER_BYTES;
    if (slot < headers || message_limit < CSHIM_HEADER_BYTES + grain_bytes)
        return CSHIM_GRAIN;
    const uint64_t by_message = (message_limit - CSHIM_HEADER_BYTES) / (rows * grain_bytes);
    const uint64_t by_scratch =
        (slot - headers) /
        (pieces * grain_bytes + staged_pieces(plan) * CSHIM_GRAIN * cshim_dtype_bytes(plan->dtype));
    const uint64_t grains = minimum(by_message, by_scratch);
    return (grains > 0 ? grains : 1) * CSHIM_GRAIN;
}

/* Cuts the call into the fewest segments that the limits allow, of about equal length, because a
 * short last segment would leave the link idle. Blocks are cut as if all had the size of the
 * largest. */
static void cut_segments(struct cshim_plan *plan, uint64_t message_limit)
{
    const bool blocks = plan->schedule->division == CSHIM_BLOCKS;
    const uint64_t pieces = cshim_plan_pieces(plan) * plan->shares;
    const uint64_t count = blocks ? cshim_multiply(plan->block, pieces) : plan->count;
    uint64_t fewest = cshim_divide_up(count, pieces * largest_piece(plan, message_limit));
    uint64_t piece = grains_up(cshim_divide_up(cshim_divide_up(count, fewest), pieces));
    const uint64_t longest = longest_message(plan, piece);
    plan->segment = pieces * piece;
    plan->segments = cshim_divide_up(blocks ? plan->block : count, blocks ? piece : plan->segment);
    plan->piece_bytes = plan->grid.rows * (longest - CSHIM_HEADER_BYTES) + CSHIM_HEADER_BYTES;
    plan->column_bytes = plan->grid.rows > 1 ? longest : 0;
    plan->stage_bytes = staged_pieces(plan) * piece * cshim_dtype_bytes(plan->dtype);
    plan->slot_bytes = row_messages(plan) * plan->piece_bytes +
                       column_messages(plan) * plan->column_bytes + plan->stage_bytes;
    plan->scratch_bytes = minimum(plan->segments, CSHIM_SEGMENTS_IN_FLIGHT) * plan->slot_bytes;
}

/* Sets the grid: one row or, for algorithm grid, r rows, where r is the square root of the number
 * of peers, rounded down. If there are few grains, tries all numbers from r down to max(r / 2, 2),
 * and takes the one with which the busiest peer receives the fewest bytes. */
static void choose_grid(struct cshim_plan *plan)
{
    const uint64_t grains = cshim_divide_up(plan->count, CSHIM_GRAIN);
    uint32_t root = 1;
    double mean;
    plan->grid = cshim_grid_make(plan->peers, 1);
    if (plan->algorithm != CSHIM_ALGORITHM_GRID)
        return;
    while ((uint64_t)(root + 1) * (root + 1) <= plan->peers)
        root++;
    plan->grid = cshim_grid_make(plan->peers, root);
    if (grains / plan->peers / plan->shares >= CROWDED_GRAINS)
        return;
    struct cshim_plan other = *plan;
    double least = INFINITY;
    for (uint32_t rows = root; rows > 1 && 2 * rows >= root; rows--) {
        other.grid = cshim_grid_make(plan->peers, rows);
        if (grains < other.grid.columns)
            cshim_grid_place_owners(&other.grid, grains);
        const double bytes = cshim_plan_busiest(&other, plan->count, &mean);
        if (bytes < least) {
            least = bytes;
            plan->grid = other.grid;
        }
    }
}

/* Returns an upper bound of the number of ranks with which a rank exchanges messages. Also counts
 * ranks of the same node, because a library without shared memory connects to them as well. */
static uint32_t partners_of(const struct cshim_plan *plan, const struct cshim_call *call)
{
    if (plan->algorithm == CSHIM_ALGORITHM_CAST)
        return 0; /* uses the library's own collective */
    const uint32_t longest = (uint32_t)cshim_divide_up(plan->peers, plan->grid.rows);
    const uint32_t column = plan->grid.rows > 1 ? cshim_grid_depth(&plan->grid) : 1;
    /* Staged: maximum number of other ranks on a node, as each other node has at least
     * ranks_per_node. */
    const uint32_t inside =
        plan->peers == plan->ranks ? 0 : plan->ranks - (plan->peers - 1) * call->ranks_per_node - 1;
    return longest - 1 + column - 1 + inside;
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
    reason = rule_reason(*rule, call);
    if ((reason == CSHIM_REASON_NO_RULE || reason == CSHIM_REASON_RULE_NONE) &&
        may_be_compressed(policy, call) && cshim_plan_compressed_above(policy, call) != UINT64_MAX)
        return CSHIM_REASON_TOO_SMALL;
    return reason;
}

/* Returns a quantization step, for codec bounded, with which the plan keeps the rule's abs_error
 * (per rank); 0 without abs_error. Each rank's contribution has an error of up to half a step, as
 * have a grid's row sums and an encoded sum. In data movement each element is rounded once. */
static float step_of(const struct cshim_plan *plan)
{
    const double ranks = plan->ranks, rows = plan->grid.rows > 1 ? plan->grid.rows : 0;
    const double share = cshim_shapes[plan->collective].adds ? ranks / (ranks + rows + 1) : 1;
    const double most = plan->rule->abs_error * 2 * share;
    const float nearest = (float)most;
    return cshim_bits_float(cshim_float_bits(nearest) - ((double)nearest > most));
}

/* Plans a call by an algorithm, for the rule that compresses it. AUTO stands for the algorithm of
 * choose_algorithm(). */
static CSHIM_APART struct cshim_plan plan_by(enum cshim_algorithm algorithm,
                                             const struct cshim_rule *rule,
                                             const struct cshim_call *call, uint64_t count)
{
    struct cshim_plan plan = {.rule = rule};
    plan.codec = call->instead != CSHIM_CODEC_NONE ? call->instead : rule->codec;
    plan.library = &cshim_capabilities[call->library];
    plan.collective = call->collective;
    plan.dtype = call->dtype;
    plan.op = call->op;
    plan.ranks = call->ranks;
    plan.root = call->root;
    plan.count = count;
    plan.algorithm = algorithm != CSHIM_ALGORITHM_AUTO ? algorithm : choose_algorithm(&plan, call);
    plan.schedule = choose_schedule(&plan, call);
    if (plan.schedule->division == CSHIM_BLOCKS)
        plan.block = call->block != 0 ? call->block : cshim_divide_up(count, call->ranks);
    plan.peers = plan.schedule->staged ? call->nodes : call->ranks;
    plan.shares = plan.schedule->staged ? call->ranks_per_node : 1;
    plan.gather_codec = plan.codec;
    choose_grid(&plan);
    if (call->partners > 0 && partners_of(&plan, call) > call->partners)
        return (struct cshim_plan){.reason = CSHIM_REASON_NO_DESCRIPTORS, .rule = rule};
    plan.step = step_of(&plan);
    if (rule->gather_codec != CSHIM_CODEC_NONE && call->instead == CSHIM_CODEC_NONE &&
        plan.collective == CSHIM_ALLREDUCE && plan.schedule->division == CSHIM_CHUNKS)
        plan.gather_codec = rule->gather_codec;
    cut_segments(&plan, cshim_plan_is_read(call, plan.algorithm) ? CSHIM_NODE_PIECE_LIMIT
                                                                 : plan.library->message_limit);
    if (plan.scratch_bytes > plan.library->scratch_limit ||
        (plan.library->on_device &&
         plan.slot_bytes > plan.library->scratch_limit / CSHIM_SEGMENTS_IN_FLIGHT))
        return (struct cshim_plan){.reason = CSHIM_REASON_NO_MEMORY, .rule = rule};
    cshim_plan_count_bytes(&plan, call);
    plan.quantizations =
        plan.schedule->quantizations != 0 ? plan.schedule->quantizations : plan.ranks;
    const double own_error = cshim_codec_info(plan.codec)->typical;
    const double gather_error = cshim_codec_info(plan.gather_codec)->typical;
    plan.expected_error =
        sqrt((plan.quantizations - 1) * own_error * own_error + gather_error * gather_error);
    return plan;
}

static unsigned roundings_of(const struct cshim_plan *plan)
{
    return plan->expected_error > 0 || plan->step > 0 ? plan->quantizations : 0;
}

static const enum cshim_algorithm algorithms[] = {
#define UNCOMPILED(...)
#define ALGORITHM(NAME, ...) CSHIM_ALGORITHM_##NAME,
#include "policy/algorithms.def"
};
#define ALGORITHMS (sizeof algorithms / sizeof *algorithms)
_Static_assert(ALGORITHMS + 1 <= CSHIM_PLAN_CANDIDATES_MAX, "each, and raw, may be a candidate");

/* Plans a call by the algorithm of choose_algorithm(). If that needs too many connections, and the
 * rule does not name it, takes the first algorithm that can compress the call, if there is one. */
static CSHIM_APART struct cshim_plan plan_prior(const struct cshim_rule *rule,
                                                const struct cshim_call *call, uint64_t count)
{
    const struct cshim_plan prior = plan_by(CSHIM_ALGORITHM_AUTO, rule, call, count);
    if (prior.reason != CSHIM_REASON_NO_DESCRIPTORS || cshim_plan_can(call, rule->algorithm))
        return prior;
    for (size_t i = 0; i < ALGORITHMS; i++) {
        if (!cshim_plan_can(call, algorithms[i]))
            continue;
        const struct cshim_plan plan = plan_by(algorithms[i], rule, call, count);
        if (plan.reason == CSHIM_REASON_COMPRESS)
            return plan;
    }
    return prior;
}

bool cshim_plan_is_native_first(const struct cshim_rule *rule, const struct cshim_call *call)
{
    const enum cshim_codec_id codec =
        call->instead != CSHIM_CODEC_NONE ? call->instead : rule->codec;
    const bool is_copied = call->is_apart && cshim_capabilities[call->library].reads_in_place &&
                           call->collective == CSHIM_ALLREDUCE && call->nodes == 1 &&
                           codec == CSHIM_CODEC_RAW && call->bytes <= COPIED_BYTES;
    return !call->lacks_native && (rule->worth == CSHIM_WORTH_FORETOLD ||
                                   (is_copied && rule->worth != CSHIM_WORTH_ALWAYS));
}

struct cshim_plan cshim_plan_call(const struct cshim_policy *policy, const struct cshim_call *call,
                                  uint64_t count)
{
    struct cshim_plan plan = {0};
    plan.reason = cshim_plan_reason(policy, call, count, &plan.rule);
    if (plan.reason != CSHIM_REASON_COMPRESS)
        return plan;
    /* The program's rounding mode may differ between ranks. */
    const cshim_arithmetic saved = cshim_arithmetic_begin();
    plan = plan_prior(plan.rule, call, count);
    cshim_arithmetic_end(&saved);
    if (plan.reason == CSHIM_REASON_COMPRESS && cshim_plan_is_native_first(plan.rule, call))
        plan.reason = CSHIM_REASON_NO_GAIN;
    return plan;
}

struct cshim_plan cshim_plan_call_by(enum cshim_algorithm algorithm, const struct cshim_rule *rule,
                                     const struct cshim_call *call, uint64_t count)
{
    const cshim_arithmetic saved = cshim_arithmetic_begin();
    const struct cshim_plan plan = plan_by(algorithm, rule, call, count);
    cshim_arithmetic_end(&saved);
    return plan;
}

/* Returns true if a trial of a plan may be worth its time: it sends at most 1/16 more bytes than a
 * ring would natively, or the call is so small that its bytes do not matter. */
static bool is_worth_a_trial(const struct cshim_plan *plan, const struct cshim_call *call)
{
    return plan->bytes_wire <= plan->bytes_native + plan->bytes_native / 16 ||
           call->bytes <= TRIED_IN_ANY_CASE_BYTES;
}

/* Returns true if codec raw may replace the rule's codec. */
static bool may_be_raw(const struct cshim_rule *rule, const struct cshim_call *call)
{
    return rule->codec != CSHIM_CODEC_RAW && rule->codec != CSHIM_CODEC_TOPK &&
           rule->abs_error == 0 && !rule->error_feedback && call->instead == CSHIM_CODEC_NONE &&
           cshim_codec_carries(CSHIM_CODEC_RAW, call->dtype);
}

/* Adds a plan to the candidates if it compresses, is not one of them yet and, unless it is the
 * first, is worth a trial. Returns their number. */
static unsigned add_candidate(const struct cshim_plan *plan, const struct cshim_call *call,
                              struct cshim_plan_candidate *found, unsigned candidates)
{
    for (unsigned i = 0; i < candidates; i++)
        if (found[i].algorithm == plan->algorithm && found[i].codec == plan->codec)
            return candidates;
    if (plan->reason != CSHIM_REASON_COMPRESS || (candidates > 0 && !is_worth_a_trial(plan, call)))
        return candidates;
    found[candidates] =
        (struct cshim_plan_candidate){plan->algorithm, plan->codec, roundings_of(plan)};
    return candidates + 1;
}

unsigned cshim_plan_candidates(const struct cshim_rule *rule, const struct cshim_call *call,
                               uint64_t count,
                               struct cshim_plan_candidate found[CSHIM_PLAN_CANDIDATES_MAX])
{
    struct cshim_call raw = *call;
    struct cshim_plan plan = cshim_plan_call_by(CSHIM_ALGORITHM_AUTO, rule, call, count);
    unsigned candidates = add_candidate(&plan, call, found, 0);
    for (size_t i = 0; i < ALGORITHMS && !cshim_plan_can(call, rule->algorithm); i++) {
        if (!cshim_plan_can(call, algorithms[i]))
            continue;
        plan = cshim_plan_call_by(algorithms[i], rule, call, count);
        candidates = add_candidate(&plan, call, found, candidates);
    }
    raw.instead = CSHIM_CODEC_RAW;
    if (may_be_raw(rule, call)) {
        plan = cshim_plan_call_by(CSHIM_ALGORITHM_AUTO, rule, &raw, count);
        candidates = add_candidate(&plan, &raw, found, candidates);
    }
    return candidates;
}
