/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/gloo/describe.h"

#include <string.h>

#include "shim/core/reduction.h"
#include "shim/gloo/transport.h"
#include "shim/host/writable.h"

/* Maximum number of elements that are looked at to recognise integers. */
#define LOOKS 256u

/* Calls the reduction function of a call, for cshim_reduction_describe(). Returns nonzero if it
 * throws. */
static int try_reduction(const void *arguments, void *output, const void *a, const void *b,
                         size_t elements)
{
    void *exception = NULL;
    const int status = cshim_gloo_reduce(arguments, output, a, b, elements, &exception);
    cshim_gloo_drop(exception);
    return status;
}

/* Data movement -------------------------------------------------------------------------------- */

/* Returns the number of elements of a rank's block. `lengths`: the arguments' `received` or `sent`.
 */
static uint64_t length_at(const struct cshim_gloo_arguments *arguments, const size_t *lengths,
                          int rank)
{
    return lengths != NULL ? lengths[rank] * arguments->length_bytes / arguments->element_bytes
                           : arguments->elements / (uint64_t)arguments->ranks;
}

/* Returns the length of the longest block that this rank sends or receives, in elements. */
static uint64_t longest_block(const struct cshim_gloo_arguments *arguments)
{
    uint64_t longest = 0;
    for (int i = 0; i < arguments->ranks; i++) {
        const uint64_t received = length_at(arguments, arguments->received, i);
        const uint64_t sent = length_at(arguments, arguments->sent, i);
        longest = received > longest ? received : longest;
        longest = sent > longest ? sent : longest;
    }
    return longest;
}

/* Returns a type of the call's element size: one that a rule compresses or, if there is none, any;
 * CSHIM_DTYPE_OTHER if no type has that size. */
static enum cshim_dtype choose_type(const struct cshim_policy *policy,
                                    const struct cshim_gloo_arguments *arguments,
                                    const struct cshim_call *call)
{
    struct cshim_call typed = *call;
    const struct cshim_rule *rule;
    enum cshim_dtype any = CSHIM_DTYPE_OTHER;
    for (unsigned type = CSHIM_DTYPE_COUNT; type-- > 0;) {
        typed.dtype = (enum cshim_dtype)type;
        if (cshim_dtype_bytes(typed.dtype) != arguments->element_bytes)
            continue;
        any = typed.dtype;
        if (cshim_plan_reason(policy, &typed, arguments->elements, &rule) == CSHIM_REASON_COMPRESS)
            break;
    }
    return any;
}

/* Returns true if the bits of an element are seldom those of a number of the type, but often those
 * of an integer: a zero (the caller excludes +0), a subnormal, a NaN other than the usual one, or
 * a number of extreme magnitude. */
static bool is_strange(enum cshim_dtype dtype, uint64_t bits)
{
    const unsigned mantissa_bits = dtype == CSHIM_FLOAT64 ? 52 : dtype == CSHIM_FLOAT32 ? 23 : 7;
    const uint64_t largest = dtype == CSHIM_FLOAT64 ? 0x7ff : 0xff;
    const uint64_t exponent = bits >> mantissa_bits & largest;
    const uint64_t mantissa = bits & (((uint64_t)1 << mantissa_bits) - 1);
    if (exponent == largest)
        return mantissa != 0 && mantissa != (uint64_t)1 << (mantissa_bits - 1);
    return exponent < largest / 9 || exponent > largest - largest / 9;
}

/* Returns true if elements may have the type: always for float16, otherwise if at most an eighth is
 * strange. Looks at no more than LOOKS elements, and ignores those whose bits are all 0. If a
 * program moves integers, such as indices, usually more than an eighth is strange. */
static bool may_have_type(enum cshim_dtype dtype, const uint8_t *elements, uint64_t count)
{
    const size_t bytes = cshim_dtype_bytes(dtype);
    const uint64_t step = count / LOOKS + 1;
    unsigned strange = 0, seen = 0;
    if (dtype == CSHIM_FLOAT16) /* any 16 bits may be a usual float16 */
        return true;
    for (uint64_t i = 0; i < count; i += step) {
        uint64_t bits = 0; /* little-endian */
        memcpy(&bits, elements + i * bytes, bytes);
        seen += bits != 0;
        strange += bits != 0 && is_strange(dtype, bits);
    }
    return strange * 8 <= seen;
}

/* Returns the elements that this rank contributes, and sets their number. */
static const uint8_t *find_elements(const struct cshim_gloo_arguments *arguments, uint64_t *count)
{
    const int rank = arguments->rank;
    const uint8_t *elements = arguments->input != NULL ? arguments->input : arguments->output;
    *count = 0;
    if (arguments->collective == CSHIM_BROADCAST) {
        *count = rank == arguments->root ? arguments->elements : 0;
        return elements;
    }
    if (arguments->collective == CSHIM_ALLTOALL) {
        for (int i = 0; i < arguments->ranks; i++)
            *count += length_at(arguments, arguments->sent, i);
        return elements;
    }
    for (int i = 0; i < rank && arguments->input == NULL; i++)
        elements += length_at(arguments, arguments->received, i) * arguments->element_bytes;
    *count = length_at(arguments, arguments->received, rank);
    return elements;
}

/* Returns CSHIM_REASON_COMPRESS, or the reason why this rank's elements are not to be rounded. */
static enum cshim_reason refuse_rounding(const struct cshim_gloo_arguments *arguments,
                                         const struct cshim_call *call)
{
    uint64_t count;
    const uint8_t *elements = find_elements(arguments, &count);
    if (arguments->collective == CSHIM_BROADCAST && count > 0 &&
        !cshim_is_writable(arguments->output, call->bytes))
        return CSHIM_REASON_READ_ONLY;
    return may_have_type(call->dtype, elements, count) ? CSHIM_REASON_COMPRESS : CSHIM_REASON_DTYPE;
}

/* Describes a data-movement collective, for which the policy expects CSHIM_SUM as the operation. */
static enum cshim_reason describe_move(const struct cshim_job *job,
                                       struct cshim_gloo_arguments *arguments,
                                       struct cshim_call *call, const struct cshim_rule **rule,
                                       void **exception)
{
    const bool observes = job->observed != NULL;
    uint64_t most = 0;
    call->op = CSHIM_SUM;
    call->root = (uint32_t)arguments->root;
    if (cshim_shapes[call->collective].has_blocks)
        call->block = longest_block(arguments);
    if (arguments->sent != NULL) { /* each rank knows only its own blocks */
        if (!observes && cshim_gloo_maximum(arguments, call->block, &call->block, exception) != 0)
            return CSHIM_REASON_NOT_AGREED;
        arguments->elements = call->block * call->ranks;
    }
    call->bytes = arguments->elements * arguments->element_bytes;
    call->dtype = choose_type(job->policy, arguments, call);
    enum cshim_reason reason = cshim_plan_reason(job->policy, call, arguments->elements, rule);
    if (reason != CSHIM_REASON_COMPRESS || observes || cshim_plan_leaves_root((*rule)->codec))
        return reason;
    if (cshim_gloo_maximum(arguments, refuse_rounding(arguments, call), &most, exception) != 0)
        return CSHIM_REASON_NOT_AGREED;
    return (enum cshim_reason)most;
}

enum cshim_reason cshim_gloo_describe(const struct cshim_gloo_context *context,
                                      struct cshim_gloo_arguments *arguments,
                                      struct cshim_call *call, const struct cshim_rule **rule,
                                      void **exception)
{
    const struct cshim_job *job = context->host.job;
    *call = (struct cshim_call){
        .library = CSHIM_GLOO,
        .collective = arguments->collective,
        .bytes = arguments->elements * arguments->element_bytes,
        .ranks = (uint32_t)arguments->ranks,
        .nodes = context->host.layout.nodes,
        .ranks_per_node = context->host.layout.ranks_per_node,
        .instead = CSHIM_CODEC_NONE,
    };
    if (arguments->collective != CSHIM_ALLREDUCE)
        return describe_move(job, arguments, call, rule, exception);
    cshim_reduction_describe(try_reduction, arguments, arguments->element_bytes, &call->dtype,
                             &call->op);
    return cshim_plan_reason(job->policy, call, arguments->elements, rule);
}

/* The exchange --------------------------------------------------------------------------------- */

/* Stores the end of each rank's block in begins[rank + 1], in elements; begins[0] is 0 already. */
static void find_blocks(const struct cshim_gloo_arguments *arguments, const size_t *lengths,
                        uint64_t *begins)
{
    for (int i = 0; i < arguments->ranks; i++)
        begins[i + 1] = begins[i] + length_at(arguments, lengths, i);
}

struct cshim_exchange cshim_gloo_exchange_of(struct cshim_gloo_call *call,
                                             const struct cshim_plan *plan)
{
    const struct cshim_gloo_arguments *arguments = call->arguments;
    const void *input = arguments->input != NULL ? arguments->input : arguments->output;
    if (plan->collective == CSHIM_ALLREDUCE)
        cshim_gloo_add_inputs(arguments, &input, &call->exception);
    struct cshim_exchange exchange = {
        .communicator = &call->host,
        .plan = plan,
        .input = input,
        .output = arguments->output,
        .element_bytes = arguments->element_bytes,
        .number = call->number,
    };
    if (plan->schedule->division == CSHIM_BLOCKS)
        find_blocks(arguments, arguments->received, call->host.block_begins);
    if (plan->collective == CSHIM_ALLTOALL)
        find_blocks(arguments, arguments->sent, call->host.sent_begins);
    cshim_exchange_set_ranges(&exchange, arguments->input == NULL);
    /* A lossless broadcast does not write the root's output, so the input is copied there first. */
    if (plan->collective == CSHIM_BROADCAST && exchange.source.length > 0 &&
        arguments->output != input) {
        memcpy(arguments->output, input, arguments->elements * arguments->element_bytes);
        exchange.input = arguments->output;
    }
    return exchange;
}
