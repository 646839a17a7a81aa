/* SPDX-License-Identifier: Apache-2.0 */
/* compshim explain --report: a dry run. Each kind of call that COMPSHIM=observe has noted is
 * planned under the policy. The bytes are exact, the times are estimated. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "shim/report/observed.h"
#include "shim/core/sample.h"
#include "tools/lib/estimate.h"
#include "tools/explain/explain.h"
#include "tools/lib/ledger_file.h"
#include "tools/lib/tool.h"

/* One kind of call, its plan, and figures over all its calls. */
struct outcome {
    struct cshim_kind kind;
    struct explain_answer answer;
    double bytes_native;
    double bytes_wire;
    double seconds_before;
    double seconds_after; /* NAN: there is nothing to estimate it from */
};

struct dry_run {
    const struct explain_options *chosen;
    struct ledger_file report;
    const struct cshim_policy *policy;
    enum cshim_library library;
    struct estimate_basis basis;
    struct estimate_point points[CSHIM_PROBES_MAX];
    size_t count;
    struct outcome *outcomes;
    /* Sums over all kinds: */
    double compressed_calls;
    double bytes_native; /* of the compressed calls */
    double bytes_wire;
    double seconds_before;
    double seconds_after;
    double largest_error;
};

static _Noreturn void refuse(const struct dry_run *run, size_t kind, const char *what)
{
    tool_fail(TOOL_NOT_SO, "%s: observed.kinds[%zu]: %s is not as compshim writes it",
              run->report.path, kind, what);
}

static unsigned find_word(enum cshim_word_set set, const json_t *kind, const char *key,
                          unsigned other)
{
    unsigned value;
    return cshim_word_find(set, ledger_text(kind, key), &value) != NULL ? value : other;
}

/* A whole number of a kind, from `least` up to the largest that a double holds exactly. */
static uint64_t whole(const struct dry_run *run, size_t index, const json_t *kind, const char *key,
                      double least)
{
    const double value = ledger_number(kind, key);
    if (!(value >= least && value <= 0x1p53) || value != floor(value))
        refuse(run, index, key);
    return (uint64_t)value;
}

static double seconds_of(const struct dry_run *run, size_t index, const json_t *kind,
                         const char *key)
{
    const double value = ledger_number(kind, key);
    if (!(value >= 0 && isfinite(value)))
        refuse(run, index, key);
    return value;
}

static struct cshim_kind read_kind(const struct dry_run *run, size_t index, const json_t *kind)
{
    const struct cshim_kind read = {
        .collective = (uint8_t)find_word(CSHIM_COLLECTIVES, kind, "collective", UINT8_MAX),
        .dtype = (uint8_t)find_word(CSHIM_DTYPES, kind, "dtype", CSHIM_DTYPE_OTHER),
        .op = (uint8_t)find_word(CSHIM_OPS, kind, "op", CSHIM_OP_OTHER),
        .is_class = json_object_get(kind, "bytes_below") != NULL,
        .ranks = (uint32_t)fmin(1e9, (double)whole(run, index, kind, "ranks", 1)),
        .nodes = (uint32_t)fmin(1e9, (double)whole(run, index, kind, "nodes", 1)),
        .ranks_per_node = (uint32_t)fmin(1e9, (double)whole(run, index, kind, "ranks_per_node", 1)),
        .bytes = whole(run, index, kind, "bytes", 0),
        .calls = whole(run, index, kind, "calls", 1),
        .bytes_total = whole(run, index, kind, "bytes_total", 0),
        .seconds = seconds_of(run, index, kind, "seconds"),
        .seconds_wait = seconds_of(run, index, kind, "seconds_wait"),
    };
    if (read.collective == UINT8_MAX)
        refuse(run, index, "collective");
    if (read.nodes > read.ranks || read.ranks_per_node > read.ranks / read.nodes)
        refuse(run, index, "nodes");
    return read;
}

/* Plans a kind. Where it stands for several sizes, their mean is planned. */
static struct explain_answer plan_kind(const struct dry_run *run, size_t index,
                                       const struct cshim_kind *kind)
{
    uint64_t element = cshim_dtype_bytes((enum cshim_dtype)kind->dtype);
    uint64_t bytes = kind->is_class ? kind->bytes_total / kind->calls : kind->bytes;
    const struct cshim_call call = {
        .library = run->library,
        .collective = (enum cshim_collective)kind->collective,
        .dtype = (enum cshim_dtype)kind->dtype,
        .op = (enum cshim_op)kind->op,
        .ranks = kind->ranks,
        .nodes = kind->nodes,
        .ranks_per_node = kind->ranks_per_node,
    };
    if (kind->is_class && element > 0)
        bytes -= bytes % element;
    if (element > 0 && bytes % element != 0)
        refuse(run, index, "bytes");
    return explain_call(run->chosen, run->policy, &call, bytes);
}

static void estimate(const struct dry_run *run, struct outcome *outcome)
{
    const struct cshim_plan *plan = &outcome->answer.plan;
    const double calls = (double)outcome->kind.calls;
    outcome->seconds_before = outcome->kind.seconds + outcome->kind.seconds_wait;
    outcome->seconds_after = outcome->seconds_before;
    if (plan->reason != CSHIM_REASON_COMPRESS)
        return;
    outcome->bytes_native = calls * (double)plan->bytes_native;
    outcome->bytes_wire = calls * (double)plan->bytes_wire;
    if (plan->rule->verify > 0) /* these calls are also made natively */
        outcome->bytes_wire += floor(calls / plan->rule->verify) * (double)plan->bytes_native;
    outcome->seconds_after = outcome->kind.seconds_wait +
                             calls * estimate_seconds(&run->basis, plan, outcome->kind.nodes);
}

static bool is_sampled_with(const struct outcome *a, const struct outcome *b)
{
    return b->answer.plan.reason == CSHIM_REASON_COMPRESS &&
           a->answer.plan.rule == b->answer.plan.rule && a->kind.ranks == b->kind.ranks &&
           a->kind.nodes == b->kind.nodes;
}

/* The bytes that all ranks send for the sample of one call. */
static double sampled_bytes(const struct dry_run *run, const struct cshim_plan *plan)
{
    const double others = plan->ranks - 1;
    if (run->library == CSHIM_MPI)
        return others * fmin((double)plan->count, CSHIM_SAMPLE_MAX) * sizeof(double);
    if (plan->collective == CSHIM_ALLGATHER)
        return 0;
    return others * plan->ranks * (double)cshim_sample_block_bytes(plan->ranks);
}

/* Adds the bytes of samples. Which calls are sampled depends on how many the rule has compressed on
 * a communicator: kinds with the same rule, ranks and nodes are taken for calls of one
 * communicator, and share its samples in proportion to their calls. */
static void add_samples(const struct dry_run *run, struct outcome *outcome)
{
    const struct cshim_plan *plan = &outcome->answer.plan;
    double calls = 0;
    if (plan->reason != CSHIM_REASON_COMPRESS)
        return;
    for (size_t i = 0; i < run->count; i++)
        if (is_sampled_with(outcome, &run->outcomes[i]))
            calls += (double)run->outcomes[i].kind.calls;
    const double sampled = fmin(calls, CSHIM_SAMPLES_AT_FIRST) + floor(calls / CSHIM_SAMPLES_EVERY);
    outcome->bytes_wire += sampled * (double)outcome->kind.calls / calls * sampled_bytes(run, plan);
}

static void add_to_totals(struct dry_run *run, const struct outcome *outcome)
{
    const struct cshim_plan *plan = &outcome->answer.plan;
    run->seconds_before += outcome->seconds_before;
    run->seconds_after += outcome->seconds_after;
    if (plan->reason != CSHIM_REASON_COMPRESS)
        return;
    run->compressed_calls += (double)outcome->kind.calls;
    run->bytes_native += outcome->bytes_native;
    run->bytes_wire += outcome->bytes_wire;
    run->largest_error = fmax(run->largest_error, plan->expected_error);
}

static void read_points(struct dry_run *run, const json_t *exchange)
{
    size_t i;
    const json_t *point;
    json_array_foreach(exchange, i, point)
    {
        const unsigned codec = find_word(CSHIM_CODECS, point, "codec", CSHIM_CODEC_NONE);
        if (codec != CSHIM_CODEC_NONE && run->basis.count < CSHIM_PROBES_MAX)
            run->points[run->basis.count++] = (struct estimate_point){
                .codec = (enum cshim_codec_id)codec,
                .bytes_wire = (uint64_t)fmax(0, ledger_number(point, "bytes_wire")),
                .seconds = ledger_number(point, "seconds"),
            };
    }
    run->basis.points = run->points;
    run->basis.ranks = (uint32_t)fmax(1, ledger_number(run->report.root, "ranks"));
}

static void open_report(struct dry_run *run, const struct explain_options *chosen)
{
    char message[LEDGER_MESSAGE_MAX];
    bool unreadable = false;
    if (chosen->link != NULL && !estimate_parse_rate(chosen->link, &run->basis.link))
        tool_misuse(chosen->command->name,
                    "--link: '%s' is not a rate (such as 1Gbit, 200Mbit or 12.5GB)", chosen->link);
    if (!ledger_open(chosen->report, &run->report, &unreadable, message))
        tool_fail(unreadable ? TOOL_SYSTEM : TOOL_NOT_SO, "%s", message);
    const json_t *observed = json_object_get(run->report.root, "observed");
    const json_t *kinds = json_object_get(observed, "kinds");
    if (!json_is_array(kinds))
        tool_fail(TOOL_NOT_SO,
                  "%s: its calls were not written down; run the program with COMPSHIM=observe "
                  "COMPSHIM_REPORT=FILE",
                  chosen->report);
    run->library =
        strncmp(ledger_text(run->report.root, "library"), "NCCL", 4) == 0 ? CSHIM_NCCL : CSHIM_MPI;
    read_points(run, json_object_get(observed, "exchange"));
    run->count = json_array_size(kinds);
    run->outcomes = tool_allocate(run->count, sizeof *run->outcomes);
    for (size_t i = 0; i < run->count; i++) {
        struct outcome *outcome = &run->outcomes[i];
        outcome->kind = read_kind(run, i, json_array_get(kinds, i));
        outcome->answer = plan_kind(run, i, &outcome->kind);
        estimate(run, outcome);
    }
    for (size_t i = 0; i < run->count; i++) {
        add_samples(run, &run->outcomes[i]);
        add_to_totals(run, &run->outcomes[i]);
    }
}

/* "12.345", or "-" if it could not be estimated. */
static char *seconds_text(double seconds)
{
    return isfinite(seconds) ? tool_format("%.3f", seconds) : tool_copy("-");
}

static void add_outcome(struct tool_table *table, const struct outcome *outcome)
{
    const struct cshim_kind *kind = &outcome->kind;
    const struct cshim_plan *plan = &outcome->answer.plan;
    const bool compressed = plan->reason == CSHIM_REASON_COMPRESS;
    char *cells[] = {
        tool_format("%s%s %s %s", kind->is_class ? "from " : "", tool_bytes((double)kind->bytes),
                    cshim_dtype_name((enum cshim_dtype)kind->dtype),
                    cshim_op_name((enum cshim_op)kind->op)),
        tool_format("%u/%u", kind->ranks, kind->nodes),
        tool_copy(plan->rule != NULL ? plan->rule->name : "-"),
        compressed ? tool_format("%s, %s", cshim_codec_name(plan->codec),
                                 cshim_algorithm_name(plan->algorithm))
                   : tool_format("passed on: %s", explain_reason(plan)),
        tool_format("%" PRIu64, kind->calls),
        compressed ? tool_bytes(outcome->bytes_native) : NULL,
        compressed ? tool_bytes(outcome->bytes_wire) : NULL,
        seconds_text(outcome->seconds_before),
        seconds_text(outcome->seconds_after),
        compressed ? tool_format("%.1e", plan->expected_error) : NULL,
    };
    tool_table_add(table, cells);
}

static void print_totals(const struct dry_run *run)
{
    const double wall = ledger_number(run->report.root, "wall_seconds");
    if (run->compressed_calls == 0) {
        puts("\nnothing would be compressed");
        return;
    }
    printf("\nbytes on the wire  %s where a ring sends %s: %.2fx less\n"
           "expected error     %.1e at most (relative L2, normally distributed data)\n",
           tool_bytes(run->bytes_wire), tool_bytes(run->bytes_native),
           run->bytes_native / run->bytes_wire, run->largest_error);
    if (isfinite(run->seconds_after))
        printf("in these calls     %.3f s, estimated, instead of %.3f s\n"
               "the whole run      %.3f s, estimated, instead of %.3f s\n",
               run->seconds_after, run->seconds_before,
               fmax(0, wall - run->seconds_before) + run->seconds_after, wall);
    else
        puts("time               cannot be told: the report has no measurements to go by (--link "
             "RATE, for several nodes)");
}

static void print_text(const struct dry_run *run)
{
    static const char *const headings[] = {"call",   "ranks/nodes", "rule",    "would be", "calls",
                                           "native", "wire",        "seconds", "would be", "error"};
    struct tool_table table = {.columns = 10, .numeric_from = 4, .headings = 1};
    const double unlisted = ledger_number(
        json_object_get(json_object_get(run->report.root, "observed"), "unlisted"), "calls");
    tool_table_copy(&table, headings);
    for (size_t i = 0; i < run->count; i++)
        add_outcome(&table, &run->outcomes[i]);
    printf("%s under policy %s\n\n", run->report.path, run->policy->source);
    tool_table_print(&table, stdout);
    if (unlisted > 0)
        printf("and %.0f calls of too many kinds to be listed\n", unlisted);
    print_totals(run);
}

static json_t *number_or_null(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static void print_json(const struct dry_run *run)
{
    json_t *kinds = json_array();
    for (size_t i = 0; i < run->count; i++) {
        const struct outcome *outcome = &run->outcomes[i];
        json_array_append_new(
            kinds,
            json_pack("{sI so sf sf sf so}", "calls", (json_int_t)outcome->kind.calls, "answer",
                      explain_json(&outcome->answer), "bytes_native", outcome->bytes_native,
                      "bytes_wire", outcome->bytes_wire, "seconds_before", outcome->seconds_before,
                      "seconds_after", number_or_null(outcome->seconds_after)));
    }
    const double wall = ledger_number(run->report.root, "wall_seconds");
    explain_print_json(json_pack(
        "{so s{sI sf sf sf so sf so sf}}", "kinds", kinds, "totals", "compressed_calls",
        (json_int_t)run->compressed_calls, "bytes_native", run->bytes_native, "bytes_wire",
        run->bytes_wire, "seconds_before", run->seconds_before, "seconds_after",
        number_or_null(run->seconds_after), "wall_before", wall, "wall_after",
        number_or_null(fmax(0, wall - run->seconds_before) + run->seconds_after), "expected_error",
        run->largest_error));
}

void explain_run(const struct explain_options *chosen, const struct cshim_policy *policy)
{
    struct dry_run run = {.chosen = chosen, .policy = policy};
    open_report(&run, chosen);
    if (chosen->json)
        print_json(&run);
    else
        print_text(&run);
}
