/* SPDX-License-Identifier: Apache-2.0 */
/* Parses arbitrary text as a policy. The explanation of a rejection must begin with the file's name
 * and a line number. An accepted policy must be within the ranges that matching and planning rely
 * on, its rules must be reachable, and after writing and parsing again it must be the same but for
 * line numbers and its file's name (both up to a number of rules). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/library.h"
#include "tests/fuzz/fuzz.h"

/* Limits of slow checks: the number of a policy's first rules whose reachability is checked, the
 * most rules of a policy that is written and parsed again, and the most bytes of a text that is
 * also parsed as a size. */
#define RULES_WITNESSED 4u
#define RULES_REWRITTEN 16u
#define SIZE_TEXT_MAX 48u

static void check_message(char *message, const char *text, size_t size)
{
    char *end = memchr(message, '\n', CSHIM_MESSAGE_MAX);
    if (end != NULL) /* keeps the first of several lines */
        *end = '\0';
    fuzz_check_line(message, CSHIM_MESSAGE_MAX, "p.ini:");
    unsigned long line = strtoul(message + strlen("p.ini:"), &end, 10), lines = 1;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    FUZZ_CHECK(line <= lines && strncmp(end, ": ", 2) == 0 && end[2] != '\0');
}

static bool is_mask_of(uint32_t mask, unsigned count)
{
    return mask != 0 && mask >> count == 0;
}

static void check_rule(const struct cshim_rule *rule)
{
    FUZZ_CHECK(strnlen(rule->name, sizeof rule->name) < sizeof rule->name);
    FUZZ_CHECK(rule->name[0] != '\0' && rule->line > 0);
    FUZZ_CHECK(is_mask_of(rule->libraries, CSHIM_LIBRARY_COUNT));
    FUZZ_CHECK(is_mask_of(rule->collectives, CSHIM_COLLECTIVE_COUNT));
    FUZZ_CHECK(is_mask_of(rule->dtypes, CSHIM_DTYPE_COUNT));
    FUZZ_CHECK(is_mask_of(rule->ops, CSHIM_OP_COUNT));
    FUZZ_CHECK(rule->min_size <= rule->max_size);
    FUZZ_CHECK(rule->min_ranks >= 1 && rule->min_ranks <= rule->max_ranks);
    FUZZ_CHECK(rule->min_nodes >= 1 && rule->min_nodes <= rule->max_nodes);
    FUZZ_CHECK((unsigned)rule->codec < CSHIM_CODEC_COUNT);
    FUZZ_CHECK((unsigned)rule->algorithm < CSHIM_ALGORITHM_COUNT);
    FUZZ_CHECK(rule->max_rel_error >= 0 && rule->max_rel_error < 1);
    FUZZ_CHECK((rule->abs_error > 0) ==
               (rule->codec == CSHIM_CODEC_BOUNDED || rule->gather_codec == CSHIM_CODEC_BOUNDED));
    FUZZ_CHECK(rule->keep >= 1 && rule->keep <= 64);
    if (rule->codec == CSHIM_CODEC_TOPK || rule->gather_codec == CSHIM_CODEC_TOPK)
        FUZZ_CHECK(rule->error_feedback && !rule->stochastic && rule->max_rel_error <= 0 &&
                   (rule->collectives & CSHIM_MOVES) == 0);
}

static bool holds(const struct cshim_rule *rule, const struct cshim_call *call)
{
    if ((rule->libraries >> call->library & 1) == 0 ||
        (rule->collectives >> call->collective & 1) == 0 ||
        (rule->dtypes >> call->dtype & 1) == 0 || (rule->ops >> call->op & 1) == 0)
        return false;
    if (call->bytes < rule->min_size || call->bytes > rule->max_size)
        return false;
    if (call->ranks < rule->min_ranks || call->ranks > rule->max_ranks)
        return false;
    return call->nodes == 0 || (call->nodes >= rule->min_nodes && call->nodes <= rule->max_nodes);
}

/* Returns the first rule that matches a call, found by trying each. Checks that
 * cshim_policy_match() finds the same. */
static const struct cshim_rule *match(const struct cshim_policy *policy, struct cshim_call call)
{
    const struct cshim_rule *rule = cshim_policy_match(policy, &call);
    size_t first = 0;
    while (first < policy->rule_count && !holds(&policy->rules[first], &call))
        first++;
    FUZZ_CHECK(rule == (first < policy->rule_count ? &policy->rules[first] : NULL));
    if (rule != NULL && rule->codec != CSHIM_CODEC_NONE)
        FUZZ_CHECK(cshim_policy_compresses(policy, call.library, call.collective, call.bytes));
    return rule;
}

/* Returns the k-th number of ranks or nodes at which a rule may become reachable: the rule's own
 * minimum, or one more than an earlier rule's maximum. For ranks, maxima of nodes count too. */
static uint64_t corner(const struct cshim_policy *policy, size_t k, uint64_t own, bool of_nodes)
{
    if (k == 0)
        return own;
    const struct cshim_rule *earlier = &policy->rules[(k - 1) / 2];
    return (uint64_t)(of_nodes || k % 2 == 0 ? earlier->max_nodes : earlier->max_ranks) + 1;
}

/* Returns true if `rule` applies to this call with some numbers of ranks and nodes. */
static bool decides(const struct cshim_policy *policy, size_t rule, struct cshim_call call)
{
    const struct cshim_rule *wanted = &policy->rules[rule];
    uint64_t fewest = wanted->min_ranks > wanted->min_nodes ? wanted->min_ranks : wanted->min_nodes;
    for (size_t r = 0; r <= 2 * rule; r++)
        for (size_t n = 0; n <= 2 * rule; n++) {
            uint64_t ranks = corner(policy, r, fewest, false);
            uint64_t nodes = corner(policy, n, wanted->min_nodes, true);
            if (ranks > UINT32_MAX || nodes > ranks)
                continue;
            call.ranks = (uint32_t)ranks;
            call.nodes = (uint32_t)nodes;
            if (match(policy, call) == wanted)
                return true;
        }
    return false;
}

/* Returns false for reduces outside MPI, averages in MPI, and data movement other than as a sum:
 * the shim never compresses these. Returns true for gloo's reduce-scatters and averages, although
 * the shim never compresses them either. */
static bool can_occur(const struct cshim_call *call)
{
    if (call->library == CSHIM_MPI)
        return call->op == CSHIM_SUM;
    const bool moves = call->collective == CSHIM_ALLGATHER || call->collective == CSHIM_ALLTOALL ||
                       call->collective == CSHIM_BROADCAST;
    return call->collective != CSHIM_REDUCE && (!moves || call->op == CSHIM_SUM);
}

/* Returns true if `rule` applies to a call of this size, of some library, collective, type and
 * operation. */
static bool decides_size(const struct cshim_policy *policy, size_t rule, uint64_t bytes)
{
    const unsigned kinds = CSHIM_LIBRARY_COUNT * CSHIM_COLLECTIVE_COUNT;
    for (unsigned kind = 0; kind < kinds; kind++)
        for (unsigned dtype = 0; dtype < CSHIM_DTYPE_COUNT; dtype++)
            for (unsigned op = 0; op < CSHIM_OP_COUNT; op++) {
                struct cshim_call call = {
                    .library = (enum cshim_library)(kind % CSHIM_LIBRARY_COUNT),
                    .collective = (enum cshim_collective)(kind / CSHIM_LIBRARY_COUNT),
                    .dtype = (enum cshim_dtype)dtype,
                    .op = (enum cshim_op)op,
                    .bytes = bytes,
                };
                if (can_occur(&call) && decides(policy, rule, call))
                    return true;
            }
    return false;
}

/* Returns true if `rule` applies to some call. The parser rejects unreachable rules, so it must be
 * true. */
static bool has_witness(const struct cshim_policy *policy, size_t rule)
{
    if (decides_size(policy, rule, policy->rules[rule].min_size))
        return true;
    for (size_t earlier = 0; earlier < rule; earlier++)
        if (policy->rules[earlier].max_size != UINT64_MAX &&
            decides_size(policy, rule, policy->rules[earlier].max_size + 1))
            return true;
    return false;
}

/* The text of a policy being written. */
struct text {
    char bytes[16384];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void write_text(struct text *text, const char *format,
                                                             ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length =
        vsnprintf(text->bytes + text->length, sizeof text->bytes - text->length, format, arguments);
    va_end(arguments);
    FUZZ_CHECK(length >= 0 && (size_t)length < sizeof text->bytes - text->length);
    text->length += (size_t)length;
}

/* Appends KEY=A,B for the bits of a mask, or nothing if all are set (but always the collectives,
 * because data movement must be named). Naming all is equivalent for a program, but the parser then
 * requires the codec to support each type. */
static void write_list(struct text *text, const char *key, uint32_t mask, unsigned count,
                       const char *(*name)(unsigned))
{
    const char *separator = "=";
    if (mask == (1u << count) - 1 && strcmp(key, "collective") != 0)
        return;
    write_text(text, "%s", key);
    for (unsigned value = 0; value < count; value++)
        if ((mask >> value & 1) != 0) {
            write_text(text, "%s%s", separator, name(value));
            separator = ",";
        }
    write_text(text, "\n");
}

static const char *library_name(unsigned value)
{
    return cshim_library_name((enum cshim_library)value);
}

static const char *collective_name(unsigned value)
{
    return cshim_collective_name((enum cshim_collective)value);
}

static const char *dtype_name(unsigned value)
{
    return cshim_dtype_name((enum cshim_dtype)value);
}

static const char *op_name(unsigned value)
{
    return cshim_op_name((enum cshim_op)value);
}

static void write_range(struct text *text, const char *key, uint32_t least, uint32_t most)
{
    write_text(text, "%s=%u-", key, least);
    if (most != UINT32_MAX)
        write_text(text, "%u", most);
    write_text(text, "\n");
}

static void write_rule(struct text *text, const struct cshim_rule *rule)
{
    write_text(text, "[rule %s]\n", rule->name);
    write_list(text, "library", rule->libraries, CSHIM_LIBRARY_COUNT, library_name);
    write_list(text, "collective", rule->collectives, CSHIM_COLLECTIVE_COUNT, collective_name);
    write_list(text, "dtype", rule->dtypes, CSHIM_DTYPE_COUNT, dtype_name);
    write_list(text, "op", rule->ops, CSHIM_OP_COUNT, op_name);
    write_range(text, "ranks", rule->min_ranks, rule->max_ranks);
    write_range(text, "nodes", rule->min_nodes, rule->max_nodes);
    write_text(text, "min_size=%llu\n", (unsigned long long)rule->min_size);
    if (rule->max_size != UINT64_MAX)
        write_text(text, "max_size=%llu\n", (unsigned long long)rule->max_size);
    write_text(text, "codec=%s\nalgorithm=%s\n", cshim_codec_name(rule->codec),
               cshim_algorithm_name(rule->algorithm));
    write_text(text, "error_feedback=%s\nrounding=%s\n", rule->error_feedback ? "on" : "off",
               rule->stochastic ? "stochastic" : "nearest");
    if (rule->gather_codec != CSHIM_CODEC_NONE)
        write_text(text, "gather_codec=%s\n", cshim_codec_name(rule->gather_codec));
    if (rule->codec == CSHIM_CODEC_TOPK || rule->gather_codec == CSHIM_CODEC_TOPK)
        write_text(text, "keep=%u\n", rule->keep);
    if (rule->abs_error > 0)
        write_text(text, "abs_error=%.17g\n", rule->abs_error);
    if (rule->max_rel_error > 0)
        write_text(text, "max_rel_error=%.17g\n", rule->max_rel_error);
    if (rule->worth != CSHIM_WORTH_MEASURED)
        write_text(text, "worth=%s\n", rule->worth == CSHIM_WORTH_ALWAYS ? "always" : "foretold");
    if (rule->verify > 0)
        write_text(text, "verify=%u\n", rule->verify);
    if (rule->check_ranks > 0)
        write_text(text, "check_ranks=%u\n", rule->check_ranks);
}

static void write_policy(struct text *text, const struct cshim_policy *policy)
{
    static const char *const levels[] = {"error", "warn", "info", "debug"};
    write_text(text, "[compshim]\nreport=%s\nlog=%s\nseed=%llu\nfeedback_memory=%llu\n",
               policy->report, levels[policy->log], (unsigned long long)policy->seed,
               (unsigned long long)policy->feedback_memory);
    for (size_t i = 0; i < policy->rule_count; i++)
        write_rule(text, &policy->rules[i]);
}

static bool same_rule(const struct cshim_rule *a, const struct cshim_rule *b)
{
    return strcmp(a->name, b->name) == 0 && a->libraries == b->libraries &&
           a->collectives == b->collectives && a->dtypes == b->dtypes && a->ops == b->ops &&
           a->min_size == b->min_size && a->max_size == b->max_size &&
           a->min_ranks == b->min_ranks && a->max_ranks == b->max_ranks &&
           a->min_nodes == b->min_nodes && a->max_nodes == b->max_nodes && a->codec == b->codec &&
           a->gather_codec == b->gather_codec && a->algorithm == b->algorithm &&
           a->error_feedback == b->error_feedback && a->stochastic == b->stochastic &&
           a->max_rel_error == b->max_rel_error && a->abs_error == b->abs_error &&
           a->keep == b->keep && a->worth == b->worth && a->verify == b->verify &&
           a->check_ranks == b->check_ranks;
}

static void check_rewritten(const struct cshim_policy *policy)
{
    static struct text text;
    char message[CSHIM_MESSAGE_MAX];
    text.length = 0;
    write_policy(&text, policy);
    struct cshim_policy *again = cshim_policy_parse(text.bytes, text.length, "again", message);
    if (again == NULL)
        fprintf(stderr, "%s\n%s\n", message, text.bytes);
    FUZZ_CHECK(again != NULL);
    FUZZ_CHECK(strcmp(again->report, policy->report) == 0 && again->log == policy->log);
    FUZZ_CHECK(again->seed == policy->seed);
    FUZZ_CHECK(again->feedback_memory == policy->feedback_memory);
    FUZZ_CHECK(again->rule_count == policy->rule_count);
    for (size_t i = 0; i < policy->rule_count; i++)
        FUZZ_CHECK(same_rule(&again->rules[i], &policy->rules[i]));
    cshim_policy_free(again);
}

static void check_policy(const struct cshim_policy *policy)
{
    FUZZ_CHECK(strcmp(policy->source, "p.ini") == 0);
    FUZZ_CHECK(strnlen(policy->report, sizeof policy->report) < sizeof policy->report);
    FUZZ_CHECK((unsigned)policy->log <= CSHIM_LOG_DEBUG);
    for (size_t i = 0; i < policy->rule_count; i++) {
        check_rule(&policy->rules[i]);
        FUZZ_CHECK(i >= RULES_WITNESSED || has_witness(policy, i));
    }
    if (policy->rule_count <= RULES_REWRITTEN)
        check_rewritten(policy);
}

/* Returns the factor of a unit: 1024 for K or KiB, 1000 for KB, and so on. */
static long double factor_of(const char *unit)
{
    const char *letter = strpbrk(unit, "KMGkmg");
    long double factor = 1;
    if (letter == NULL)
        return 1;
    const long double step = letter[1] == 'B' || letter[1] == 'b' ? 1000.0L : 1024.0L;
    for (const char *power = "KMG"; *power != '\0'; power++) {
        factor *= step;
        if ((*letter & ~('a' - 'A')) == *power)
            break;
    }
    return factor;
}

/* Parses a short text as a size, too, and compares the result with one in long double. */
static void check_size(const uint8_t *data, size_t size)
{
    char text[SIZE_TEXT_MAX + 1] = "";
    char *end;
    uint64_t bytes;
    if (size > SIZE_TEXT_MAX)
        return;
    memcpy(text, data, size);
    if (!cshim_parse_size(text, &bytes))
        return;
    long double expected = strtold(text, &end);
    expected *= factor_of(end);
    long double difference = expected - (long double)bytes;
    FUZZ_CHECK(bytes <= (uint64_t)1 << 63);
    FUZZ_CHECK((difference < 0 ? -difference : difference) <= expected * 0x1p-60L);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char message[CSHIM_MESSAGE_MAX];
    const char *text = (const char *)data;
    memset(message, 'x', sizeof message);
    struct cshim_policy *policy = cshim_policy_parse(text, size, "p.ini", message);
    if (policy == NULL)
        check_message(message, text, size);
    else
        check_policy(policy);
    cshim_policy_free(policy);
    check_size(data, size);
    return 0;
}
