/* SPDX-License-Identifier: Apache-2.0 */
/* compshim explain: shows what the policy would do to a call, and why, without running anything. */
#include "tools/explain/explain.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/lib/json.h"
#include "tools/lib/launch.h"
#include "tools/lib/tool.h"

#define SIZES_MAX 1000
#define RANKS 4 /* default of --ranks */
/* Number of columns in the table of sizes; the last two only with --link. */
#define EXPLAIN_COLUMNS 11

static struct {
    const char *policy, *sizes, *report, *link, *machine;
    const char *library, *collective, *dtype, *op; /* NULL: first value of the enum */
    uint64_t size;                                 /* UINT64_MAX: not given */
    uint32_t ranks;                                /* 0: RANKS */
    uint32_t nodes; /* 0: as many as ranks; with --report: as recorded */
    bool json;
    bool operations;
} chosen = {.size = UINT64_MAX};

static const struct tool_option options[] = {
    {"policy", 'p', TOOL_TEXT, &chosen.policy, "FILE",
     "explain this policy.ini (default: the one a run would find); alone: print it"},
    {"size", 's', TOOL_SIZE, &chosen.size, "SIZE", "bytes of the caller's buffer, such as 25MiB"},
    {"sizes", 0, TOOL_TEXT, &chosen.sizes, "LIST",
     "a table of sizes: 64KiB-64MiB (doubling) or 1MiB,25MiB"},
    {"report", 0, TOOL_TEXT, &chosen.report, "FILE",
     "a report of COMPSHIM=observe: what the policy would have done to that run"},
    {"link", 0, TOOL_TEXT, &chosen.link, "RATE",
     "lower bound of the time that each node's link needs at this rate, such as 1Gbit"},
    {"collective", 0, TOOL_TEXT, &chosen.collective, "NAME",
     "allreduce (default), reduce_scatter, allgather, alltoall, broadcast; MPI: reduce"},
    {"dtype", 0, TOOL_TEXT, &chosen.dtype, "NAME",
     "float32 (default), float64, float16, bfloat16, other"},
    {"op", 0, TOOL_TEXT, &chosen.op, "NAME", "sum (default), avg, other"},
    {"ranks", 'n', TOOL_COUNT, &chosen.ranks, "N", "ranks of the communicator (default 4)"},
    {"nodes", 0, TOOL_COUNT, &chosen.nodes, "N",
     "nodes that hold them, as evenly as can be (default: as many as ranks; with --report: as "
     "recorded)"},
    {"library", 0, TOOL_TEXT, &chosen.library, "NAME", "mpi (default), nccl, gloo"},
    {"machine", 0, TOOL_TEXT, &chosen.machine, "FILE",
     "choices that a job has learned (COMPSHIM_MACHINE)"},
    {"ops", 0, TOOL_FLAG, &chosen.operations, NULL,
     "with --size: print the operations of rank 0 for the first segment, too"},
    {"json", 0, TOOL_FLAG, &chosen.json, NULL, "print the same as JSON"},
    {0},
};

/* Returns the value of an option's word; 0 without a word. The option has the name of its set of
 * words. `other` is the value of the word "other"; UINT_MAX: there is no such word. */
static unsigned parse_word(enum cshim_word_set set, const char *word, unsigned other)
{
    struct cshim_words words = cshim_words(set);
    unsigned value = 0;
    if (word == NULL || cshim_word_find(set, word, &value) != NULL)
        return value;
    if (other != UINT_MAX)
        words.names[words.count++] = "other";
    if (other == UINT_MAX || strcmp(word, "other") != 0)
        tool_misuse("unknown --%s '%s'%s", words.what, word,
                    tool_hint("", word, words.names, words.count));
    return other;
}

/* Returns the choices in the file of --machine, or NULL without that option. */
static const struct cshim_learned *load_machine(void)
{
    char *text = NULL;
    size_t length = 0;
    char message[CSHIM_MESSAGE_MAX];
    if (chosen.machine == NULL)
        return NULL;
    setenv("COMPSHIM_MACHINE", chosen.machine, 1);
    const struct cshim_learned *learned = NULL;
    if (cshim_learned_load(&text, &length, message))
        learned = cshim_learned_parse(text, length, chosen.machine, message);
    if (learned == NULL)
        errx(TOOL_NOT_SO, "--machine: %s", message);
    free(text);
    return learned;
}

/* Adds to an answer the choice that the file of --machine has for calls of its class. */
static void add_learned(struct explain_answer *answer, const struct cshim_learned *learned)
{
    const struct cshim_rule *rule = answer->plan.rule;
    if (learned == NULL || rule == NULL || answer->call.bytes == 0)
        return;
    const struct cshim_learned_choice wanted = cshim_learned_key(rule, &answer->call);
    answer->learned = cshim_learned_find(learned, &wanted);
}

/* Returns the call that the options describe, without its size. */
static struct cshim_call describe_call(void)
{
    struct cshim_call call = {
        .library = parse_word(CSHIM_LIBRARIES, chosen.library, UINT_MAX),
        .collective = parse_word(CSHIM_COLLECTIVES, chosen.collective, UINT_MAX),
        .dtype = parse_word(CSHIM_DTYPES, chosen.dtype, CSHIM_DTYPE_OTHER),
        .op = parse_word(CSHIM_OPS, chosen.op, CSHIM_OP_OTHER),
        .ranks = chosen.ranks > 0 ? chosen.ranks : RANKS,
    };
    call.nodes = chosen.nodes > 0 && chosen.report == NULL ? chosen.nodes : call.ranks;
    if (!cshim_library_compresses(call.library, call.collective))
        tool_misuse("--collective: %s is never compressed in %s",
                    cshim_collective_name(call.collective), cshim_library_name(call.library));
    if (call.dtype == CSHIM_BFLOAT16 && !cshim_capabilities[call.library].has_bfloat16)
        tool_misuse("--dtype: MPI has no bfloat16, so that no call can be compressed there (take "
                    "--library gloo or nccl)");
    if (call.nodes > call.ranks)
        tool_misuse("--nodes: %u ranks do not fill %u nodes", call.ranks, call.nodes);
    call.ranks_per_node = call.ranks / call.nodes;
    return call;
}

/* Exits unless one of --size, --sizes and --report is given, with options that fit it. */
static void check_choice(void)
{
    int choices = (chosen.size != UINT64_MAX) + (chosen.sizes != NULL) + (chosen.report != NULL);
    if (choices == 0)
        tool_misuse("--size is missing: the bytes of the buffer (or --sizes, or --report)");
    if (choices > 1)
        tool_misuse("take one of --size, --sizes and --report");
    if (chosen.operations && (chosen.size == UINT64_MAX || chosen.json))
        tool_misuse("--ops goes with --size, and without --json");
    if (chosen.machine != NULL && chosen.size == UINT64_MAX)
        tool_misuse("--machine goes with --size");
    if (chosen.report != NULL && (chosen.library != NULL || chosen.collective != NULL ||
                                  chosen.dtype != NULL || chosen.op != NULL || chosen.ranks > 0))
        tool_misuse("--report FILE says itself what was called: leave out --library, "
                    "--collective, --dtype, --op and --ranks");
}

static void add_answer(struct tool_table *table, const struct explain_answer *answer,
                       const struct explain_link *link)
{
    const struct cshim_plan *plan = &answer->plan;
    const struct explain_limit limit = explain_limit(answer, link);
    char *cells[EXPLAIN_COLUMNS] = {tool_bytes((double)answer->call.bytes),
                                    tool_copy(plan->rule != NULL ? plan->rule->name : "-")};
    if (plan->reason == CSHIM_REASON_COMPRESS) {
        cells[2] = tool_copy(cshim_codec_name(plan->codec));
        cells[3] = tool_copy(cshim_algorithm_name(plan->algorithm));
        cells[4] = tool_format("%" PRIu64, plan->segments);
        cells[5] = tool_bytes((double)plan->bytes_native);
        cells[6] = tool_bytes((double)plan->bytes_wire);
        cells[7] = tool_format("%.1fx", (double)plan->bytes_native / (double)plan->bytes_wire);
        cells[8] = plan->step > 0 ? NULL : tool_format("%.1e", plan->expected_error);
    } else {
        cells[2] = tool_format("native (%s)", cshim_reason_name(plan->reason));
    }
    if (limit.native > 0) {
        cells[9] = tool_seconds(limit.native);
        cells[10] = tool_seconds(limit.chosen);
    }
    tool_table_add(table, cells);
}

/* Explains the call for each size of a list. */
static void explain_sizes(const struct cshim_policy *policy, const struct cshim_call *call,
                          const struct explain_link *link)
{
    static uint64_t sizes[SIZES_MAX];
    const size_t count = tool_parse_sizes(chosen.sizes, sizes, SIZES_MAX);
    struct tool_table table = tool_table_of(
        link->rate != NULL
            ? "size,rule,codec,algorithm,segments,native,wire,ratio,error,link natively,link"
            : "size,rule,codec,algorithm,segments,native,wire,ratio,error",
        4);
    json_t *answers = json_array();
    for (size_t i = 0; i < count; i++) {
        const struct explain_answer answer = explain_call(policy, call, sizes[i]);
        add_answer(&table, &answer, link);
        json_array_append_new(answers, explain_json(&answer, link));
    }
    if (chosen.json) {
        tool_json_print(answers);
    } else {
        tool_print(stdout, 2, "%s %s, %s, %s, ranks %u, nodes %u, policy %s\n",
                   cshim_library_name(call->library), cshim_collective_name(call->collective),
                   cshim_dtype_name(call->dtype), cshim_op_name(call->op), call->ranks, call->nodes,
                   policy->source);
        tool_table_print(&table, stdout);
        if (link->rate != NULL)
            tool_print(stdout, 2, "link at %s: %s\n", link->rate,
                       call->nodes > 1 ? EXPLAIN_LIMIT : EXPLAIN_NO_LINK);
    }
}

/* Returns true if a policy is given and no option describes a call, so that the policy itself is
 * printed. */
static bool wants_text(void)
{
    return chosen.policy != NULL && chosen.size == UINT64_MAX && chosen.sizes == NULL &&
           chosen.report == NULL && chosen.library == NULL && chosen.collective == NULL &&
           chosen.dtype == NULL && chosen.op == NULL && chosen.ranks == 0 && chosen.nodes == 0 &&
           chosen.link == NULL && chosen.machine == NULL && !chosen.operations;
}

/* Prints the policy's text, after checking it. */
static void print_policy(void)
{
    size_t length;
    char source[CSHIM_PATH_MAX], message[CSHIM_MESSAGE_MAX];
    char *text = cshim_policy_load(chosen.policy, &length, source, message);
    if (text == NULL)
        errx(TOOL_NOT_SO, "%s", message);
    cshim_policy_free(launch_parse_policy(text, length, source, message));
    if (chosen.json)
        tool_json_print(
            json_pack("{so so}", "policy", tool_json_text(source), "text", tool_json_text(text)));
    else
        fwrite(text, 1, length, stdout);
    free(text);
}

static int run_explain(char **words)
{
    if (*words != NULL)
        tool_misuse("unexpected argument '%s'", *words);
    if (wants_text()) {
        print_policy();
        return tool_finish(TOOL_GOOD);
    }
    check_choice();
    const struct cshim_call call = describe_call();
    const struct explain_link link = explain_link(chosen.link);
    const struct cshim_learned *learned = load_machine();
    struct cshim_policy *policy = launch_load_policy(chosen.policy);
    if (chosen.report != NULL) {
        const struct explain_setting setting = {policy, link, chosen.nodes};
        explain_run(chosen.report, &setting, chosen.json);
    } else if (chosen.sizes != NULL) {
        explain_sizes(policy, &call, &link);
    } else {
        struct explain_answer answer = explain_call(policy, &call, chosen.size);
        add_learned(&answer, learned);
        if (chosen.json)
            tool_json_print(explain_json(&answer, &link));
        else
            explain_print_text(&answer, &link);
        if (chosen.operations)
            explain_print_operations(&answer);
    }
    if (!chosen.json && chosen.report == NULL && chosen.nodes == 0 && call.ranks > 1)
        puts("assumed: each rank on a node of its own (--nodes N for another layout)");
    return tool_finish(TOOL_GOOD);
}

const struct tool_command tool_explain = {
    .name = "explain",
    .summary = "show what a policy does to an all-reduce, or to a whole run, and why",
    .usage = "--size SIZE | --sizes LIST | --report FILE | --policy FILE [OPTION...]",
    .details = "Runs nothing: the answer comes from the planner of the library itself. "
               "Bytes are those that all ranks together send. Each job measures itself how "
               "long a call takes, and which algorithm is fastest.\n\n"
               "  compshim explain --size 25MiB --ranks 8\n"
               "  compshim explain --sizes 64KiB-64MiB --ranks 8 --nodes 2 --link 10Gbit\n"
               "  COMPSHIM=observe COMPSHIM_REPORT=run.json compshim run -- mpirun -n 8 ./train\n"
               "  compshim explain --report run.json --policy @fp8 --nodes 2 --link 1Gbit\n"
               "  compshim explain --policy @fp8\n",
    .options = options,
    .run = run_explain,
};
