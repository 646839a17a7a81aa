/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the bundled benchmark without the library, and with it for each listed combination of codec
 * and algorithm (list_ways). One job measures many of them: its policy has a rule for each
 * combination and size, and the benchmark's sizes differ by a few elements, so that each matches
 * one rule. Rounds are repeated while there is time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "tools/check/check.h"
#include "tools/lib/launch.h"
#include "tools/lib/json.h"
#include "tools/lib/tool.h"
#include "tools/tune/tune.h"

#define ROUNDS_MAX 31
#define ROUNDS_WANTED 3   /* the largest sizes are left out if this many do not fit the time */
#define RULES_MAX 240     /* rules in one policy */
#define CALLS_AT_LEAST 6  /* calls of the benchmark per size */
#define SIZE_SECONDS 0.02 /* the benchmark repeats a size for at least this time */
#define ESTIMATE_BYTES (1ull << 20)

struct session {
    struct tune_measured *measured;
    char *const *launcher;
    char *benchmark;
    char *library;
    double deadline;
};

/* Files of the jobs, and their folder. Removed when the tool ends. */
static char *folder, *policy, *report;

static void remove_files(void)
{
    unlink(policy);
    unlink(report);
    rmdir(folder);
}

/* Makes a folder next to the output: rank 0 may run on another host, which most likely can read
 * there, but not in /tmp. */
static void make_folder(const char *output)
{
    const char *slash = strrchr(output, '/');
    char *name = tool_format("%.*s.compshim-tune-XXXXXX",
                             slash != NULL ? (int)(slash - output) + 1 : 0, output);
    folder = launch_make_folder(name);
    policy = tool_format("%s/policy.ini", folder);
    report = tool_format("%s/report.json", folder);
    atexit(remove_files);
}

/* Returns the bytes of the calls that measure combination `way` at size number `size`: a few
 * elements more than the size, so that no other pair has the same number. */
static uint64_t size_of(const struct session *session, size_t size, size_t way)
{
    return session->measured->sizes[size].bytes + (way + 1) * sizeof(float);
}

/* Runs the benchmark over sizes (a comma-separated list), with or without the shim. Returns its
 * output. Ends the tool, with a message, if the benchmark fails or is interrupted. */
static char *run(const struct session *session, char *sizes, bool shimmed, const char *what)
{
    size_t words = 0;
    while (session->launcher[words] != NULL)
        words++;
    char *const added[] = {
        session->benchmark, "--sizes", sizes, "--seconds", tool_format("%g", SIZE_SECONDS), NULL};
    char **command = tool_allocate(words + sizeof added / sizeof *added, sizeof *command);
    memcpy(command, session->launcher, words * sizeof *command);
    memcpy(command + words, added, sizeof added);
    struct child child = {.command = command,
                          .is_local = locality_is_certain(command),
                          .library = shimmed ? session->library : NULL,
                          .policy = shimmed ? policy : NULL,
                          .report = shimmed ? report : NULL,
                          .progress = what,
                          .left = session->deadline - cshim_seconds()};
    const enum child_end end = child_run(&child);
    if (end == CHILD_STOPPED)
        errx(128 + child_stop_signal(), "interrupted: nothing is written");
    if (end == CHILD_FAILED) {
        child_report_failure(&child, "the benchmark", "; ");
        exit(TOOL_NOT_SO);
    }
    return child.output;
}

/* Returns where the time of the benchmark's line for `bytes` bytes is stored, or NULL. */
static double *find_figure(const struct session *session, uint64_t bytes)
{
    struct tune_measured *measured = session->measured;
    for (size_t size = 0; size < measured->size_count; size++) {
        if (bytes == measured->sizes[size].bytes)
            return &measured->sizes[size].native;
        for (size_t way = 0; way < measured->way_count; way++)
            if (bytes == size_of(session, size, way))
                return &measured->sizes[size].ways[way];
    }
    return NULL;
}

/* Reads a line of the benchmark: bytes, calls, median and least seconds. */
static bool read_result(const char *line, unsigned long long *bytes, double *median)
{
    unsigned long long calls;
    double least;
    return sscanf(line, "%llu %llu %lf %lf", bytes, &calls, median, &least) == 4 && *median > 0;
}

/* Keeps the smallest median of all rounds: other work on the machine makes rounds slower. */
static void keep_best(const struct session *session, const char *output)
{
    for (const char *line = output; line != NULL; line = strchr(line, '\n')) {
        unsigned long long bytes;
        double median;
        line += *line == '\n';
        double *figure = read_result(line, &bytes, &median) ? find_figure(session, bytes) : NULL;
        if (figure != NULL)
            *figure = fmin(*figure, median); /* fmin ignores NAN */
    }
}

static void write_job_policy(const struct session *session, size_t first, size_t end)
{
    FILE *file = fopen(policy, "we");
    if (file == NULL)
        err(TOOL_SYSTEM, "cannot write %s", policy);
    fprintf(file, "[compshim]\nlog = error\n");
    for (size_t size = first; size < end; size++)
        for (size_t way = 0; way < session->measured->way_count; way++) {
            const struct tune_way *chosen = &session->measured->ways[way];
            const unsigned long long bytes = size_of(session, size, way);
            fprintf(file,
                    "[rule s%zuw%zu]\ndtype = float32\nmin_size = %llu\nmax_size = %llu\ncodec = "
                    "%s\nalgorithm = %s\nworth = always\n",
                    size, way, bytes, bytes, cshim_codec_name(chosen->codec),
                    cshim_algorithm_name(chosen->algorithm));
        }
    if (first == end)
        fprintf(file, "[rule all]\ncodec = none\n");
    const bool lost = ferror(file) != 0;
    if (fclose(file) != 0 || lost)
        errx(TOOL_SYSTEM, "cannot write all of %s", policy);
}

/* Opens the report of the last job, which exists only if the library has reached all ranks. */
static json_t *open_report(void)
{
    if (access(report, R_OK) != 0)
        errx(TOOL_NOT_SO, "the library did not reach the benchmark's ranks, or not all of "
                          "them: does the command forward LD_PRELOAD?");
    return ledger_load(report);
}

bool tune_is_measured(const struct tune_measured *measured, enum cshim_codec_id codec,
                      enum cshim_algorithm algorithm)
{
    /* With float32, fp32 equals raw; the effect of bounded depends on the data; topk is for
     * programs that are made for it. */
    if (codec == CSHIM_CODEC_NONE || codec == CSHIM_CODEC_FP32 || codec == CSHIM_CODEC_BOUNDED ||
        codec == CSHIM_CODEC_TOPK)
        return false;
    switch (algorithm) {
    case CSHIM_ALGORITHM_CAST:
        return codec == CSHIM_CODEC_FP16 || codec == CSHIM_CODEC_BF16;
    case CSHIM_ALGORITHM_ONE_SHOT:
    case CSHIM_ALGORITHM_TWO_SHOT:
        return true;
    case CSHIM_ALGORITHM_HIERARCHICAL:
        return measured->nodes > 1 && measured->ranks > measured->nodes;
    default:
        return false;
    }
}

/* Lists the combinations to measure, by codec. */
static void list_ways(struct tune_measured *measured)
{
    for (enum cshim_codec_id codec = CSHIM_CODEC_RAW; codec < CSHIM_CODEC_COUNT; codec++)
        for (enum cshim_algorithm algorithm = CSHIM_ALGORITHM_CAST;
             algorithm < CSHIM_ALGORITHM_COUNT; algorithm++)
            if (tune_is_measured(measured, codec, algorithm))
                measured->ways[measured->way_count++] = (struct tune_way){codec, algorithm};
}

/* Leaves the largest sizes out if ROUNDS_WANTED rounds with them do not fit the time, assuming that
 * a call's time is proportional to its size. */
static void limit_sizes(struct tune_measured *measured, double seconds_of_estimate, double seconds)
{
    const double calls = CALLS_AT_LEAST * (1 + 0.7 * (double)measured->way_count);
    size_t kept = 0;
    double needed = 0;
    for (; kept < measured->size_count; kept++) {
        const double call =
            seconds_of_estimate * (double)measured->sizes[kept].bytes / (double)ESTIMATE_BYTES;
        needed += ROUNDS_WANTED * fmax(calls * call, SIZE_SECONDS * (double)measured->way_count);
        if (needed > seconds && kept > 0)
            break;
    }
    if (kept < measured->size_count)
        warnx("sizes from %llu bytes are left out: there is no time for them (--time)",
              (unsigned long long)measured->sizes[kept].bytes);
    measured->size_count = kept;
}

/* Runs the first job, to find out whether the library reaches the ranks, the numbers of ranks and
 * nodes, and how long a call takes. */
static void explore_machine(struct session *session, double seconds)
{
    struct tune_measured *measured = session->measured;
    char *sizes = tool_format("%llu", ESTIMATE_BYTES);
    unsigned long long bytes;
    double median;
    write_job_policy(session, 0, 0);
    char *output = run(session, sizes, true, "looking at the job");
    const char *line = strstr(output, sizes);
    const bool is_measured = line != NULL && read_result(line, &bytes, &median);
    const json_t *ledger = open_report();
    measured->ranks = (uint32_t)ledger_number(ledger, "ranks");
    measured->nodes = (uint32_t)ledger_number(ledger, "nodes");
    if (measured->ranks <= 1)
        errx(TOOL_NOT_SO, "one rank alone sends nothing: there is nothing to tune (mpirun -n 4)");
    if (!is_measured)
        errx(TOOL_NOT_SO, "the benchmark printed no times");
    list_ways(measured);
    limit_sizes(measured, median, seconds);
}

/* Measures the sizes [first, end): the native calls, or each listed combination. */
static void measure(const struct session *session, size_t first, size_t end, bool ways,
                    const char *what)
{
    char *sizes = NULL;
    for (size_t size = first; size < end; size++)
        for (size_t way = 0; way < (ways ? session->measured->way_count : 1); way++) {
            const uint64_t bytes =
                ways ? size_of(session, size, way) : session->measured->sizes[size].bytes;
            sizes = tool_format("%s%s%llu", sizes != NULL ? sizes : "", sizes != NULL ? "," : "",
                                (unsigned long long)bytes);
        }
    if (ways)
        write_job_policy(session, first, end);
    char *output = run(session, sizes, ways, what);
    keep_best(session, output);
}

/* Measures the native call and each listed combination for each size, once. */
static void measure_round(const struct session *session, unsigned round)
{
    const size_t count = session->measured->size_count;
    const size_t batch = RULES_MAX / session->measured->way_count;
    measure(session, 0, count, false, tool_format("round %u: natively", round));
    for (size_t first = 0; first < count; first += batch) {
        const size_t end = first + batch < count ? first + batch : count;
        measure(session, first, end, true,
                tool_format("round %u: compressed, sizes %zu to %zu of %zu", round, first + 1, end,
                            count));
    }
}

void tune_measure(char *const *launcher, double seconds, const char *output,
                  struct tune_measured *measured)
{
    static const char *const folders[] = {"", "/../libexec/compshim"};
    make_folder(output);
    child_catch_signals();
    /* Allows more ranks than processors: the first variable is for Open MPI 4, the second for Open
     * MPI 5. */
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);
    struct session session = {
        .measured = measured,
        .launcher = launcher,
        .benchmark = launch_find("allreduce_bench", folders, 2,
                                 "nor in libexec/compshim of its prefix; build it with make or "
                                 "install it with make install"),
        .library = launch_find_library(),
        .deadline = cshim_seconds() + seconds};
    for (size_t size = 0; size < measured->size_count; size++) {
        measured->sizes[size].native = NAN;
        for (size_t way = 0; way < TUNE_WAYS_MAX; way++)
            measured->sizes[size].ways[way] = NAN;
    }
    explore_machine(&session, seconds);
    double longest = 0;
    for (unsigned round = 1; round <= ROUNDS_MAX; round++) {
        const double began = cshim_seconds();
        if (round > 1 && began + longest > session.deadline)
            break;
        measure_round(&session, round);
        longest = fmax(longest, cshim_seconds() - began);
    }
    for (size_t size = 0; size < measured->size_count; size++)
        if (isnan(measured->sizes[size].native))
            errx(TOOL_NOT_SO, "the benchmark printed no time for %llu bytes",
                 (unsigned long long)measured->sizes[size].bytes);
}
