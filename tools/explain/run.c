/* SPDX-License-Identifier: Apache-2.0 */
/* compshim explain --report: plans, by the policy, each class of calls that COMPSHIM=observe has
 * recorded. The bytes are those that the plans and `verify` send, with estimates for samples and
 * for classes of several sizes; the times are those of the run, except the limits of a link. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/sample.h"
#include "shim/core/words.h"
#include "tools/explain/explain.h"
#include "tools/lib/json.h"
#include "tools/lib/tool.h"

#define RANKS_MOST 1e9    /* more than any job has */
#define EXACT_MOST 0x1p53 /* a double is exact for all integers up to this one */

/* A class of calls, its plan, and figures over all its calls. */
struct outcome {
    struct explain_answer answer;
    bool is_class;  /* the class is a range of sizes; their mean is planned */
    uint64_t bytes; /* size, or lower limit of the sizes */
    uint64_t calls;
    double bytes_native;
    double bytes_wire;
    double seconds; /* as recorded, including waiting */
    struct explain_limit limit;
};

struct dry_run {
    const char *path; /* path of the report */
    const json_t *report;
    const struct explain_setting *setting;
    uint32_t nodes; /* number of nodes to spread the ranks over; 0: as recorded */
    enum cshim_library library;
    size_t count;
    struct outcome *outcomes;
    /* Figures of all classes: */
    double compressed_calls;
    double bytes_native; /* this sum and the next are of the compressed calls */
    double bytes_wire;
    double seconds;
    struct explain_limit limit;
    double largest_error;
};

static unsigned find_word(enum cshim_word_set set, const json_t *kind, const char *key,
                          unsigned other)
{
    unsigned value;
    return cshim_word_find(set, ledger_text(kind, key), &value) != NULL ? value : other;
}

static _Noreturn void refuse_report(const struct dry_run *run, size_t kind, const char *what)
{
    errx(TOOL_NOT_SO, "%s: observed.kinds[%zu].%s is not as compshim writes it", run->path, kind,
         what);
}

/* Returns an integer member of a class. Ends the tool if it is not from `least` to `most`. */
static uint64_t whole(const struct dry_run *run, size_t index, const json_t *kind, const char *key,
                      double least, double most)
{
    const double value = ledger_number(kind, key);
    if (!(value >= least && value <= most) || value != floor(value))
        refuse_report(run, index, key);
    return (uint64_t)value;
}

/* Spreads the ranks of a call over `nodes` nodes, as evenly as possible; with fewer ranks than
 * nodes, one rank per node. */
static void spread(struct cshim_call *call, uint32_t nodes)
{
    call->nodes = nodes < call->ranks ? nodes : call->ranks;
    call->ranks_per_node = call->ranks / call->nodes;
}

/* Reads a class of calls, and plans it. NCCL's calls of a recorded run have no ranks per node,
 * because nothing was prepared for hierarchical, and after ncclCommSplit no nodes: then each rank
 * is assumed to have its own. */
static struct outcome read_kind(const struct dry_run *run, size_t index, const json_t *kind)
{
    const double least = run->library == CSHIM_NCCL ? 0 : 1;
    const unsigned collective = find_word(CSHIM_COLLECTIVES, kind, "collective", UINT_MAX);
    struct cshim_call call = {
        .library = run->library,
        .collective = collective,
        .dtype = find_word(CSHIM_DTYPES, kind, "dtype", CSHIM_DTYPE_OTHER),
        .op = find_word(CSHIM_OPS, kind, "op", CSHIM_OP_OTHER),
        .ranks = (uint32_t)whole(run, index, kind, "ranks", 1, RANKS_MOST),
        .nodes = (uint32_t)whole(run, index, kind, "nodes", least, RANKS_MOST),
        .ranks_per_node = (uint32_t)whole(run, index, kind, "ranks_per_node", least, RANKS_MOST),
    };
    if (call.nodes == 0)
        call.nodes = call.ranks;
    struct outcome outcome = {
        .is_class = json_object_get(kind, "bytes_below") != NULL,
        .bytes = whole(run, index, kind, "bytes", 0, EXACT_MOST),
        .calls = whole(run, index, kind, "calls", 1, EXACT_MOST),
    };
    const uint32_t recorded_nodes = call.nodes, recorded_per_node = call.ranks_per_node;
    if (run->nodes > 0)
        spread(&call, run->nodes);
    const uint64_t element = cshim_dtype_bytes(call.dtype);
    const uint64_t total = whole(run, index, kind, "bytes_total", 0, EXACT_MOST);
    uint64_t bytes = outcome.is_class ? total / outcome.calls : outcome.bytes;
    outcome.seconds = ledger_number(kind, "seconds") + ledger_number(kind, "seconds_wait");
    if (collective == UINT_MAX)
        refuse_report(run, index, "collective");
    if (recorded_nodes > call.ranks || recorded_per_node > call.ranks / recorded_nodes)
        refuse_report(run, index, "nodes");
    if (outcome.is_class && element > 0)
        bytes -= bytes % element;
    if (element > 0 && bytes % element != 0)
        refuse_report(run, index, "bytes");
    outcome.answer = explain_call(run->setting->policy, &call, bytes);
    outcome.limit = explain_limit(&outcome.answer, &run->setting->link);
    outcome.limit.native *= (double)outcome.calls;
    outcome.limit.chosen *= (double)outcome.calls;
    return outcome;
}

static bool is_sampled_with(const struct outcome *a, const struct outcome *b)
{
    return b->answer.plan.reason == CSHIM_REASON_COMPRESS &&
           a->answer.plan.rule == b->answer.plan.rule &&
           a->answer.call.ranks == b->answer.call.ranks &&
           a->answer.call.nodes == b->answer.call.nodes;
}

/* Returns the bytes that a report counts for the sample of one call of all ranks. */
static double sampled_bytes(const struct dry_run *run, const struct cshim_plan *plan)
{
    const double others = plan->ranks - 1;
    if (run->library != CSHIM_NCCL)
        return others * fmin((double)plan->count, CSHIM_SAMPLE_MAX) * sizeof(double);
    if (!cshim_shapes[plan->collective].adds)
        return 0;
    return others * plan->ranks * (double)cshim_sample_block_bytes(plan->ranks);
}

/* Returns the bytes of a class's samples. Which calls are sampled depends on the number of calls
 * that a rule has compressed on a communicator. Classes with the same rule, ranks and nodes are
 * assumed to be on one communicator, and share its samples in proportion to their calls. */
static double bytes_of_samples(const struct dry_run *run, const struct outcome *outcome)
{
    double calls = 0;
    for (size_t i = 0; i < run->count; i++)
        if (is_sampled_with(outcome, &run->outcomes[i]))
            calls += (double)run->outcomes[i].calls;
    const double sampled = fmin(calls, CSHIM_SAMPLES_AT_FIRST) + floor(calls / CSHIM_SAMPLES_EVERY);
    return sampled * (double)outcome->calls / calls * sampled_bytes(run, &outcome->answer.plan);
}

/* Computes the bytes of a class, and adds its figures to the sums. */
static void add_up(struct dry_run *run, struct outcome *outcome)
{
    const struct cshim_plan *plan = &outcome->answer.plan;
    const double calls = (double)outcome->calls;
    if (plan->reason == CSHIM_REASON_COMPRESS) {
        outcome->bytes_native = calls * (double)plan->bytes_native;
        outcome->bytes_wire = calls * (double)plan->bytes_wire;
        /* The library repeats every `verify`-th sum. */
        if (plan->rule->verify > 0 && run->library != CSHIM_NCCL &&
            cshim_shapes[plan->collective].adds)
            outcome->bytes_wire += floor(calls / plan->rule->verify) * (double)plan->bytes_native;
        outcome->bytes_wire += bytes_of_samples(run, outcome);
        run->compressed_calls += calls;
        run->largest_error = fmax(run->largest_error, plan->expected_error);
    }
    run->bytes_native += outcome->bytes_native;
    run->bytes_wire += outcome->bytes_wire;
    run->seconds += outcome->seconds;
    run->limit.native += outcome->limit.native;
    run->limit.chosen += outcome->limit.chosen;
}

static void open_report(struct dry_run *run)
{
    run->report = ledger_load(run->path);
    const json_t *observed = json_object_get(run->report, "observed");
    const json_t *kinds = json_object_get(observed, "kinds");
    if (!json_is_array(kinds))
        errx(TOOL_NOT_SO,
             "%s: its calls were not written down; run the program with COMPSHIM=observe "
             "COMPSHIM_REPORT=FILE (compshim report shows what a compressed run has measured)",
             run->path);
    if (run->nodes == ledger_number(run->report, "nodes"))
        run->nodes = 0;
    const char *library = ledger_text(run->report, "library");
    run->library = strncmp(library, "NCCL", 4) == 0   ? CSHIM_NCCL
                   : strncmp(library, "gloo", 4) == 0 ? CSHIM_GLOO
                                                      : CSHIM_MPI;
    run->count = json_array_size(kinds);
    run->outcomes = tool_allocate(run->count, sizeof *run->outcomes);
    for (size_t i = 0; i < run->count; i++)
        run->outcomes[i] = read_kind(run, i, json_array_get(kinds, i));
    for (size_t i = 0; i < run->count; i++)
        add_up(run, &run->outcomes[i]);
}

/* Adds the row of a class. With --link it has two more columns, for the limits of the link. */
static void add_outcome(struct tool_table *table, const struct outcome *outcome)
{
    const struct cshim_call *call = &outcome->answer.call;
    const struct cshim_plan *plan = &outcome->answer.plan;
    const bool compressed = plan->reason == CSHIM_REASON_COMPRESS;
    const bool has_limit = outcome->limit.native > 0;
    char *cells[] = {
        tool_format("%s%s %s %s", outcome->is_class ? "from " : "",
                    tool_bytes((double)outcome->bytes), cshim_dtype_name(call->dtype),
                    cshim_op_name(call->op)),
        tool_format("%u/%u", call->ranks, call->nodes),
        tool_copy(plan->rule != NULL ? plan->rule->name : "-"),
        compressed ? tool_format("%s, %s", cshim_codec_name(plan->codec),
                                 cshim_algorithm_name(plan->algorithm))
                   : tool_format("native (%s)", cshim_reason_name(plan->reason)),
        tool_format("%" PRIu64, outcome->calls),
        compressed ? tool_bytes(outcome->bytes_native) : NULL,
        compressed ? tool_bytes(outcome->bytes_wire) : NULL,
        has_limit ? tool_seconds(outcome->limit.native) : NULL,
        has_limit ? tool_seconds(outcome->limit.chosen) : NULL,
        NULL,
        NULL,
    };
    char **last = &cells[table->columns - 2];
    last[0] = compressed && plan->step <= 0 ? tool_format("%.1e", plan->expected_error) : NULL;
    last[1] = tool_seconds(outcome->seconds);
    tool_table_add(table, cells);
}

static void print_totals(const struct dry_run *run)
{
    const char *rate = run->setting->link.rate;
    char factor[CSHIM_WORDS_MAX];
    if (run->compressed_calls == 0) {
        puts("\nnothing would be compressed");
        return;
    }
    printf("\nbytes on the wire  %s where a ring sends %s: %s\n"
           "expected error     %.1e at most (relative L2, normally distributed data)\n"
           "recorded           %s in these calls, of %s\n",
           tool_bytes(run->bytes_wire), tool_bytes(run->bytes_native),
           cshim_factor_words(run->bytes_native, run->bytes_wire, factor), run->largest_error,
           tool_seconds(run->seconds), tool_seconds(ledger_number(run->report, "wall_seconds")));
    if (rate == NULL)
        puts("gain               each job measures it; --link RATE gives a link's limit");
    else if (run->limit.native > 0)
        tool_print(stdout, 19, "link at %-10s %s at least, natively %s: %s\n", rate,
                   tool_seconds(run->limit.chosen), tool_seconds(run->limit.native), EXPLAIN_LIMIT);
    else
        tool_print(stdout, 19, "link at %-10s %s\n", rate, EXPLAIN_NO_LINK);
}

static void print_text(const struct dry_run *run)
{
    struct tool_table table = tool_table_of(
        run->setting->link.rate != NULL
            ? "call,ranks/nodes,rule,would be,calls,native,wire,link natively,link,error,recorded"
            : "call,ranks/nodes,rule,would be,calls,native,wire,error,recorded",
        4);
    const double unlisted = ledger_number(
        json_object_get(json_object_get(run->report, "observed"), "unlisted"), "calls");
    for (size_t i = 0; i < run->count; i++)
        add_outcome(&table, &run->outcomes[i]);
    const char *nodes =
        run->nodes > 0 ? tool_format(" on %s", tool_plural(run->nodes, "node")) : "";
    tool_print(stdout, 2, "%s%s under policy %s\n\n", run->path, nodes,
               run->setting->policy->source);
    tool_table_print(&table, stdout);
    if (unlisted > 0)
        printf("and %.0f calls of too many kinds to be listed\n", unlisted);
    print_totals(run);
}

/* `seconds_after` and `wall_after`, predictions of earlier versions, are kept as null. */
static void print_json(const struct dry_run *run)
{
    const struct explain_link *link = &run->setting->link;
    json_t *kinds = json_array();
    for (size_t i = 0; i < run->count; i++) {
        const struct outcome *outcome = &run->outcomes[i];
        json_array_append_new(
            kinds,
            json_pack("{sI so sf sf sf so sn}", "calls", (json_int_t)outcome->calls, "answer",
                      explain_json(&outcome->answer, link), "bytes_native", outcome->bytes_native,
                      "bytes_wire", outcome->bytes_wire, "seconds_before", outcome->seconds,
                      "limit", explain_limit_json(&outcome->limit, link), "seconds_after"));
    }
    tool_json_print(json_pack("{so s{sI sf sf sf so sn sf sn sf}}", "kinds", kinds, "totals",
                              "compressed_calls", (json_int_t)run->compressed_calls, "bytes_native",
                              run->bytes_native, "bytes_wire", run->bytes_wire, "seconds_before",
                              run->seconds, "limit", explain_limit_json(&run->limit, link),
                              "seconds_after", "wall_before",
                              ledger_number(run->report, "wall_seconds"), "wall_after",
                              "expected_error", run->largest_error));
}

void explain_run(const char *report, const struct explain_setting *setting, bool json)
{
    struct dry_run run = {.path = report, .setting = setting, .nodes = setting->nodes};
    open_report(&run);
    if (json)
        print_json(&run);
    else
        print_text(&run);
}
