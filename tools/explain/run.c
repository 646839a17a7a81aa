/* SPDX-License-Identifier: Apache-2.0 */
/* compshim explain --report: a dry run. Each kind of call that COMPSHIM=observe has noted is
 * planned under the policy. The bytes are exact, the times are estimated. */
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/sample.h"
#include "tools/explain/explain.h"
#include "tools/lib/json.h"
#include "tools/lib/tool.h"

/* The share of a link's rate that an exchange reaches, and the time of a step of small messages.
 * Both were measured over TCP: see docs/measurements.md. */
#define LINK_SHARE 0.95
#define STEP_SECONDS 150e-6

#define RANKS_MOST 1e9    /* no job has more */
#define EXACT_MOST 0x1p53 /* a double holds whole numbers exactly up to this */

/* A kind of call, its plan, and figures over all its calls. */
struct outcome {
    struct explain_answer answer;
    bool is_class;  /* the kind stands for several sizes; their mean is planned */
    uint64_t bytes; /* the size, or the least of these */
    uint64_t calls;
    double seconds_wait;
    double bytes_native;
    double bytes_wire;
    double seconds_before;
    double seconds_after; /* NAN: there is nothing to estimate it from */
};

struct dry_run {
    const char *path; /* of the report */
    const json_t *report;
    const struct cshim_policy *policy;
    const struct cshim_machine *machine; /* NULL: not known */
    uint32_t nodes;                      /* that the ranks are to be spread over; 0: as recorded */
    enum cshim_library library;
    double link;            /* bytes per second of a node's link, each way; 0: take the exchange */
    const json_t *exchange; /* measurements of it, two for each codec that was measured */
    size_t count;
    struct outcome *outcomes;
    /* Sums over all kinds: */
    double compressed_calls;
    double bytes_native; /* of the compressed calls */
    double bytes_wire;
    double seconds_recorded; /* in the calls, where the run was recorded */
    double seconds_before;   /* the same on the nodes that are asked about */
    double seconds_after;
    double largest_error;
};

/* Reads a rate, "1Gbit", "25Gbit/s", "200Mbit" or "12.5GB/s", in bytes per second. Returns false if
 * the text is none. */
static bool parse_rate(const char *text, double *bytes_per_second)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"kbit", 125}, {"Mbit", 125e3}, {"Gbit", 125e6}, {"Tbit", 125e9},
                 {"kB", 1e3},   {"MB", 1e6},     {"GB", 1e9}};
    char *end = NULL;
    const double value = strtod(text, &end);
    if (end == text || !isfinite(value) || value <= 0)
        return false;
    while (*end == ' ')
        end++;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const size_t length = units[i].name[1] == 'B' ? 2 : 4;
        if (strncasecmp(end, units[i].name, length) != 0)
            continue;
        const char *rest = end + length;
        *bytes_per_second = value * units[i].bytes;
        return *rest == '\0' || strcasecmp(rest, "/s") == 0;
    }
    return false;
}

static unsigned find_word(enum cshim_word_set set, const json_t *kind, const char *key,
                          unsigned other)
{
    unsigned value;
    return cshim_word_find(set, ledger_text(kind, key), &value) != NULL ? value : other;
}

/* Takes the time from the line through the smallest and the largest measurement of the codec, over
 * the bytes that a rank sends. */
static double by_exchange(const struct dry_run *run, const struct cshim_plan *plan)
{
    const unsigned codec = plan->codec == CSHIM_CODEC_FP32 ? CSHIM_CODEC_RAW : plan->codec;
    const double ranks = fmax(1, ledger_number(run->report, "ranks"));
    const json_t *point, *small = NULL, *large = NULL;
    double least = INFINITY, most = -1; /* bytes of these, sent by all ranks */
    size_t i;
    json_array_foreach(run->exchange, i, point)
    {
        const double bytes = ledger_number(point, "bytes_wire");
        if (find_word(CSHIM_CODECS, point, "codec", CSHIM_CODEC_NONE) != codec)
            continue;
        small = bytes < least ? point : small;
        large = bytes > most ? point : large;
        least = fmin(least, bytes);
        most = fmax(most, bytes);
    }
    if (!(most > least))
        return NAN;
    const double seconds = ledger_number(small, "seconds");
    const double per_byte =
        fmax(0, (ledger_number(large, "seconds") - seconds) / ((most - least) / ranks));
    const double any = fmax(0, seconds - per_byte * least / ranks);
    return any + per_byte * (double)plan->bytes_wire / plan->ranks;
}

/* Seconds of a call that its plan compresses: a time for every call, and a time for each byte that
 * a rank sends. NAN if there is nothing to estimate it from: a link needs several nodes, and the
 * measurements have to be of the plan's codec (those of raw stand for fp32). */
static double seconds_compressed(const struct dry_run *run, const struct explain_answer *answer)
{
    const struct cshim_plan *plan = &answer->plan;
    const uint32_t nodes = answer->call.nodes;
    const unsigned steps = plan->algorithm == CSHIM_ALGORITHM_ONE_SHOT ? 1 : 2;
    if (plan->seconds > 0)
        return plan->seconds;
    if (run->link == 0) /* what was measured holds where it was measured */
        return run->nodes == 0 ? by_exchange(run, plan) : NAN;
    if (nodes < 2)
        return NAN;
    return steps * STEP_SECONDS + (double)plan->bytes_network / nodes / (run->link * LINK_SHARE);
}

static _Noreturn void refuse(const struct dry_run *run, size_t kind, const char *what)
{
    errx(TOOL_NOT_SO, "%s: observed.kinds[%zu].%s is not as compshim writes it", run->path, kind,
         what);
}

/* A whole number of a kind, from `least` up to `most`. */
static uint64_t whole(const struct dry_run *run, size_t index, const json_t *kind, const char *key,
                      double least, double most)
{
    const double value = ledger_number(kind, key);
    if (!(value >= least && value <= most) || value != floor(value))
        refuse(run, index, key);
    return (uint64_t)value;
}

/* Spreads the ranks of a call over so many nodes, as evenly as can be: fewer ranks over one node
 * each. */
static void spread(struct cshim_call *call, uint32_t nodes)
{
    call->nodes = nodes < call->ranks ? nodes : call->ranks;
    call->ranks_per_node = call->ranks / call->nodes;
}

/* Seconds of a call that the library makes on other nodes than those that it was recorded on: what
 * is predicted, else a ring's bytes over the link. What the call took where it was recorded says
 * nothing of that. NAN without a link. */
static double seconds_native(const struct dry_run *run, const struct explain_answer *answer)
{
    const struct cshim_call *call = &answer->call;
    const double ranks = call->ranks, nodes = call->nodes;
    if (answer->plan.seconds_native > 0)
        return answer->plan.seconds_native;
    if (run->link == 0)
        return NAN;
    const double bytes = answer->plan.bytes_native > 0
                             ? (double)answer->plan.bytes_native / ranks
                             : 2 * (ranks - 1) / ranks * (double)call->bytes;
    return 2 * (nodes - 1) * STEP_SECONDS + bytes / (run->link * LINK_SHARE);
}

/* Reads a kind, and plans it. */
static struct outcome read_kind(struct dry_run *run, size_t index, const json_t *kind)
{
    const unsigned collective = find_word(CSHIM_COLLECTIVES, kind, "collective", UINT_MAX);
    struct cshim_call call = {
        .library = run->library,
        .collective = collective,
        .dtype = find_word(CSHIM_DTYPES, kind, "dtype", CSHIM_DTYPE_OTHER),
        .op = find_word(CSHIM_OPS, kind, "op", CSHIM_OP_OTHER),
        .ranks = (uint32_t)whole(run, index, kind, "ranks", 1, RANKS_MOST),
        .nodes = (uint32_t)whole(run, index, kind, "nodes", 1, RANKS_MOST),
        .ranks_per_node = (uint32_t)whole(run, index, kind, "ranks_per_node", 1, RANKS_MOST),
        .machine = run->machine,
    };
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
    outcome.seconds_wait = ledger_number(kind, "seconds_wait");
    outcome.seconds_before = ledger_number(kind, "seconds") + outcome.seconds_wait;
    run->seconds_recorded += outcome.seconds_before;
    if (collective == UINT_MAX)
        refuse(run, index, "collective");
    if (recorded_nodes > call.ranks || recorded_per_node > call.ranks / recorded_nodes)
        refuse(run, index, "nodes");
    if (outcome.is_class && element > 0)
        bytes -= bytes % element;
    if (element > 0 && bytes % element != 0)
        refuse(run, index, "bytes");
    outcome.answer = explain_call(run->policy, &call, bytes);
    if (call.nodes != recorded_nodes && call.nodes > 1)
        outcome.seconds_before =
            outcome.seconds_wait + (double)outcome.calls * seconds_native(run, &outcome.answer);
    return outcome;
}

static bool is_sampled_with(const struct outcome *a, const struct outcome *b)
{
    return b->answer.plan.reason == CSHIM_REASON_COMPRESS &&
           a->answer.plan.rule == b->answer.plan.rule &&
           a->answer.call.ranks == b->answer.call.ranks &&
           a->answer.call.nodes == b->answer.call.nodes;
}

/* The bytes that all ranks send for the sample of one call. */
static double sampled_bytes(const struct dry_run *run, const struct cshim_plan *plan)
{
    const double others = plan->ranks - 1;
    if (run->library == CSHIM_MPI)
        return others * fmin((double)plan->count, CSHIM_SAMPLE_MAX) * sizeof(double);
    if (!cshim_schedule_adds(plan->schedule))
        return 0;
    return others * plan->ranks * (double)cshim_sample_block_bytes(plan->ranks);
}

/* The bytes of a kind's samples. Which calls are sampled depends on how many the rule has
 * compressed on a communicator: kinds with the same rule, ranks and nodes are taken for calls of
 * one communicator, and share its samples in proportion to their calls. */
static double bytes_of_samples(const struct dry_run *run, const struct outcome *outcome)
{
    double calls = 0;
    for (size_t i = 0; i < run->count; i++)
        if (is_sampled_with(outcome, &run->outcomes[i]))
            calls += (double)run->outcomes[i].calls;
    const double sampled = fmin(calls, CSHIM_SAMPLES_AT_FIRST) + floor(calls / CSHIM_SAMPLES_EVERY);
    return sampled * (double)outcome->calls / calls * sampled_bytes(run, &outcome->answer.plan);
}

/* Fills in the figures of a kind, and adds them to the sums. */
static void estimate(struct dry_run *run, struct outcome *outcome)
{
    const struct cshim_plan *plan = &outcome->answer.plan;
    const double calls = (double)outcome->calls;
    outcome->seconds_after = outcome->seconds_before;
    if (plan->reason == CSHIM_REASON_COMPRESS) {
        outcome->bytes_native = calls * (double)plan->bytes_native;
        outcome->bytes_wire = calls * (double)plan->bytes_wire;
        if (plan->rule->verify > 0) /* these calls are also made natively */
            outcome->bytes_wire += floor(calls / plan->rule->verify) * (double)plan->bytes_native;
        outcome->bytes_wire += bytes_of_samples(run, outcome);
        outcome->seconds_after =
            outcome->seconds_wait + calls * seconds_compressed(run, &outcome->answer);
        run->compressed_calls += calls;
        run->largest_error = fmax(run->largest_error, plan->expected_error);
    }
    run->bytes_native += outcome->bytes_native;
    run->bytes_wire += outcome->bytes_wire;
    run->seconds_before += outcome->seconds_before;
    run->seconds_after += outcome->seconds_after;
}

static void open_report(struct dry_run *run, const char *link)
{
    if (link != NULL && !parse_rate(link, &run->link))
        tool_misuse("--link: '%s' is not a rate (such as 1Gbit, 200Mbit or 12.5GB)", link);
    run->report = ledger_load(run->path);
    const json_t *observed = json_object_get(run->report, "observed");
    const json_t *kinds = json_object_get(observed, "kinds");
    if (!json_is_array(kinds))
        errx(TOOL_NOT_SO,
             "%s: its calls were not written down; run the program with COMPSHIM=observe "
             "COMPSHIM_REPORT=FILE",
             run->path);
    if (run->nodes == ledger_number(run->report, "nodes"))
        run->nodes = 0; /* what was measured holds */
    const char *library = ledger_text(run->report, "library");
    run->library = strncmp(library, "NCCL", 4) == 0   ? CSHIM_NCCL
                   : strncmp(library, "gloo", 4) == 0 ? CSHIM_GLOO
                                                      : CSHIM_MPI;
    run->exchange = json_object_get(observed, "exchange");
    run->count = json_array_size(kinds);
    run->outcomes = tool_allocate(run->count, sizeof *run->outcomes);
    for (size_t i = 0; i < run->count; i++)
        run->outcomes[i] = read_kind(run, i, json_array_get(kinds, i));
    for (size_t i = 0; i < run->count; i++)
        estimate(run, &run->outcomes[i]);
}

/* "12.3 s", or "-" if it could not be estimated. */
static char *seconds_text(double seconds)
{
    return isfinite(seconds) ? tool_seconds(seconds) : tool_copy("-");
}

static void add_outcome(struct tool_table *table, const struct outcome *outcome)
{
    const struct cshim_call *call = &outcome->answer.call;
    const struct cshim_plan *plan = &outcome->answer.plan;
    const bool compressed = plan->reason == CSHIM_REASON_COMPRESS;
    char *cells[] = {
        tool_format("%s%s %s %s", outcome->is_class ? "from " : "",
                    tool_bytes((double)outcome->bytes), cshim_dtype_name(call->dtype),
                    cshim_op_name(call->op)),
        tool_format("%u/%u", call->ranks, call->nodes),
        tool_copy(plan->rule != NULL ? plan->rule->name : "-"),
        compressed ? tool_format("%s, %s", cshim_codec_name(plan->codec),
                                 cshim_algorithm_name(plan->algorithm))
                   : tool_format("passed on: %s", cshim_reason_name(plan->reason)),
        tool_format("%" PRIu64, outcome->calls),
        compressed ? tool_bytes(outcome->bytes_native) : NULL,
        compressed ? tool_bytes(outcome->bytes_wire) : NULL,
        seconds_text(outcome->seconds_before),
        seconds_text(outcome->seconds_after),
        compressed && plan->step <= 0 ? tool_format("%.1e", plan->expected_error) : NULL,
    };
    tool_table_add(table, cells);
}

/* Seconds of the whole run without compression: as recorded, with what its calls take on the nodes
 * that are asked about. */
static double wall_before(const struct dry_run *run)
{
    return ledger_number(run->report, "wall_seconds") + run->seconds_before - run->seconds_recorded;
}

static void print_totals(const struct dry_run *run)
{
    const double wall = wall_before(run);
    if (run->compressed_calls == 0) {
        puts("\nnothing would be compressed");
        return;
    }
    printf("\nbytes on the wire  %s where a ring sends %s: %.1fx less\n"
           "expected error     %.1e at most (relative L2, normally distributed data)\n",
           tool_bytes(run->bytes_wire), tool_bytes(run->bytes_native),
           run->bytes_native / run->bytes_wire, run->largest_error);
    if (isfinite(run->seconds_after) && isfinite(run->seconds_before))
        printf("in these calls     %s, estimated, instead of %s\n"
               "the whole run      %s, estimated, instead of %s\n",
               tool_seconds(run->seconds_after), tool_seconds(run->seconds_before),
               tool_seconds(fmax(0, wall - run->seconds_before) + run->seconds_after),
               tool_seconds(wall));
    else
        tool_print(
            stdout, 19, "time               cannot be told: %s\n",
            run->link > 0
                ? "calls within one node cross no link (--nodes N says on how many they would run)"
                : "the report has no measurements to go by (--link RATE, and --nodes N where it "
                  "was "
                  "recorded on one)");
}

static void print_text(const struct dry_run *run)
{
    struct tool_table table = tool_table_of(
        "call,ranks/nodes,rule,would be,calls,native,wire,with waiting,would be,error", 4);
    const double unlisted = ledger_number(
        json_object_get(json_object_get(run->report, "observed"), "unlisted"), "calls");
    for (size_t i = 0; i < run->count; i++)
        add_outcome(&table, &run->outcomes[i]);
    const char *nodes =
        run->nodes > 0 ? tool_format(" on %s", tool_plural(run->nodes, "node")) : "";
    tool_print(stdout, 2, "%s%s under policy %s\n\n", run->path, nodes, run->policy->source);
    tool_table_print(&table, stdout);
    if (unlisted > 0)
        printf("and %.0f calls of too many kinds to be listed\n", unlisted);
    print_totals(run);
}

static void print_json(const struct dry_run *run)
{
    json_t *kinds = json_array();
    for (size_t i = 0; i < run->count; i++) {
        const struct outcome *outcome = &run->outcomes[i];
        json_array_append_new(kinds,
                              json_pack("{sI so sf sf so so}", "calls", (json_int_t)outcome->calls,
                                        "answer", explain_json(&outcome->answer), "bytes_native",
                                        outcome->bytes_native, "bytes_wire", outcome->bytes_wire,
                                        "seconds_before", tool_json_number(outcome->seconds_before),
                                        "seconds_after", tool_json_number(outcome->seconds_after)));
    }
    const double wall = wall_before(run);
    tool_json_print(json_pack(
        "{so s{sI sf sf so so so so sf}}", "kinds", kinds, "totals", "compressed_calls",
        (json_int_t)run->compressed_calls, "bytes_native", run->bytes_native, "bytes_wire",
        run->bytes_wire, "seconds_before", tool_json_number(run->seconds_before), "seconds_after",
        tool_json_number(run->seconds_after), "wall_before", tool_json_number(wall), "wall_after",
        tool_json_number(fmax(0, wall - run->seconds_before) + run->seconds_after),
        "expected_error", run->largest_error));
}

void explain_run(const char *report, const struct explain_setting *setting, bool json)
{
    struct dry_run run = {.path = report,
                          .policy = setting->policy,
                          .machine = setting->machine,
                          .nodes = setting->nodes};
    open_report(&run, setting->link);
    if (json)
        print_json(&run);
    else
        print_text(&run);
}
