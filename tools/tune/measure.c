/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the bundled benchmark without the library, and with it in every way. One job measures many
 * ways: its policy has a rule for each way and size, and the benchmark's sizes differ by a few
 * elements, so that each matches one rule. Rounds are repeated as long as there is time. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shim/core/clock.h"
#include "tools/compare/compare.h"
#include "tools/lib/launch.h"
#include "tools/lib/ledger_file.h"
#include "tools/lib/tool.h"
#include "tools/tune/tune.h"

#define ROUNDS_MAX 31
#define ROUNDS_WANTED 3   /* the largest sizes are left out if they leave no time for these */
#define RULES_MAX 240     /* of one policy */
#define CALLS_AT_LEAST 6  /* of the benchmark, per size */
#define SIZE_SECONDS 0.02 /* the benchmark repeats a size for at least so long */
#define ESTIMATE_BYTES ((uint64_t)1 << 20)

struct session {
    struct tune_measured *measured;
    char *const *launcher;
    char *benchmark;
    char *library;
    char *policy; /* the files of the jobs */
    char *report;
    double deadline;
    enum tune_end end; /* why a job gave no output */
};

/* The bytes that the benchmark is given for a way: no other way or size has the same. */
static uint64_t size_of(const struct session *session, size_t size, size_t way)
{
    return session->measured->sizes[size].bytes + (way + 1) * sizeof(float);
}

/* The command: the launcher's words, the benchmark, and its arguments. */
static char **make_command(const struct session *session, char *sizes, char *seconds)
{
    size_t words = 0;
    while (session->launcher[words] != NULL)
        words++;
    char **command = tool_allocate(words + 6, sizeof *command);
    memcpy(command, session->launcher, words * sizeof *command);
    command[words++] = session->benchmark;
    command[words++] = "--sizes";
    command[words++] = sizes;
    command[words++] = "--seconds";
    command[words] = seconds;
    return command;
}

/* Runs the benchmark over sizes (a list with commas), shimmed or not. Returns its output, the
 * caller's to free, or NULL if it was interrupted or failed. */
static char *run(struct session *session, char *sizes, bool shimmed, const char *what)
{
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%g", SIZE_SECONDS);
    char **command = make_command(session, sizes, seconds);
    char *preload = launch_preload(shimmed ? session->library : NULL, getenv("LD_PRELOAD"));
    char *text = tool_copy(what);
    const struct compare_progress progress = {text, session->deadline - cshim_seconds()};
    struct compare_child child = {.command = command,
                                  .preload = *preload != '\0' ? preload : NULL,
                                  .policy = shimmed ? session->policy : NULL,
                                  .report = shimmed ? session->report : NULL,
                                  .progress = &progress};
    const bool ended = compare_child_run(&child);
    free(text);
    free(command);
    free(preload);
    if (ended && child.status == 0)
        return child.output;
    session->end = ended ? TUNE_FAILED : TUNE_STOPPED;
    if (ended) {
        char *tail = compare_tail(child.output);
        tool_warn("the benchmark failed (%s %d); its last lines:\n%s",
                  WIFSIGNALED(child.status) ? "signal" : "exit status",
                  WIFSIGNALED(child.status) ? WTERMSIG(child.status) : WEXITSTATUS(child.status),
                  *tail != '\0' ? tail : "(no output)");
        free(tail);
    }
    free(child.output);
    return NULL;
}

/* The figure that a line of the benchmark is for, or NULL. */
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
static bool read_line(const char *line, unsigned long long *bytes, double *median)
{
    unsigned long long calls;
    double least;
    return sscanf(line, "%llu %llu %lf %lf", bytes, &calls, median, &least) == 4 && *median > 0;
}

/* Keeps the least of all rounds' medians: what is slower in other rounds comes from other work on
 * the machine. */
static void keep(const struct session *session, const char *output)
{
    for (const char *line = output; line != NULL; line = strchr(line, '\n')) {
        unsigned long long bytes;
        double median;
        line += *line == '\n';
        double *figure = read_line(line, &bytes, &median) ? find_figure(session, bytes) : NULL;
        if (figure != NULL)
            *figure = fmin(*figure, median); /* fmin ignores NAN */
    }
}

static bool write_policy(const struct session *session, size_t first, size_t end)
{
    FILE *file = fopen(session->policy, "we");
    if (file == NULL) {
        tool_warn("cannot write %s: %s", session->policy, strerror(errno));
        return false;
    }
    fprintf(file, "[compshim]\nlog = error\n");
    for (size_t size = first; size < end; size++)
        for (size_t way = 0; way < session->measured->way_count; way++) {
            const struct tune_way *chosen = &session->measured->ways[way];
            const unsigned long long bytes = size_of(session, size, way);
            fprintf(file,
                    "[rule s%zuw%zu]\ndtype = float32\nmin_size = %llu\nmax_size = %llu\ncodec = "
                    "%s\nalgorithm = %s\n",
                    size, way, bytes, bytes, cshim_codec_name(chosen->codec),
                    cshim_algorithm_name(chosen->algorithm));
        }
    if (first == end)
        fprintf(file, "[rule all]\ncodec = none\n");
    const bool lost = ferror(file) != 0;
    if (fclose(file) == 0 && !lost)
        return true;
    tool_warn("cannot write all of %s", session->policy);
    return false;
}

/* Reads the ranks and nodes of the job from its report. There is one only if the library has
 * reached all ranks. */
static bool read_job(const struct session *session)
{
    struct ledger_file ledger;
    bool unreadable = false;
    char message[LEDGER_MESSAGE_MAX];
    if (!ledger_open(session->report, &ledger, &unreadable, message)) {
        tool_warn("%s", unreadable
                            ? "the library did not reach the benchmark's ranks, or not all of "
                              "them: does the command forward LD_PRELOAD?"
                            : message);
        return false;
    }
    session->measured->ranks = (uint32_t)ledger_number(ledger.root, "ranks");
    session->measured->nodes = (uint32_t)ledger_number(ledger.root, "nodes");
    ledger_close(&ledger);
    if (session->measured->ranks > 1)
        return true;
    tool_warn("one rank alone sends nothing: there is nothing to tune (mpirun -n 4)");
    return false;
}

static void add_way(struct tune_measured *measured, enum cshim_codec_id codec,
                    enum cshim_algorithm algorithm)
{
    if (measured->way_count < TUNE_WAYS_MAX)
        measured->ways[measured->way_count++] = (struct tune_way){codec, algorithm};
}

/* Every codec by every algorithm that these ranks can use it with. */
static void list_ways(struct tune_measured *measured)
{
    for (enum cshim_codec_id codec = CSHIM_CODEC_RAW; codec < CSHIM_CODEC_COUNT; codec++) {
        if (codec == CSHIM_CODEC_FP32) /* with float32 it does the same as raw */
            continue;
        if (codec == CSHIM_CODEC_FP16 || codec == CSHIM_CODEC_BF16)
            add_way(measured, codec, CSHIM_ALGORITHM_CAST);
        add_way(measured, codec, CSHIM_ALGORITHM_ONE_SHOT);
        add_way(measured, codec, CSHIM_ALGORITHM_TWO_SHOT);
        if (measured->nodes > 1 && measured->ranks > measured->nodes)
            add_way(measured, codec, CSHIM_ALGORITHM_HIERARCHICAL);
    }
}

/* Leaves the largest sizes out if there is no time for ROUNDS_WANTED rounds with them. A call's
 * time is taken to be in proportion to its size. */
static void limit_sizes(struct session *session, double seconds_of_estimate, double seconds)
{
    struct tune_measured *measured = session->measured;
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
        tool_warn("sizes from %llu bytes are left out: there is no time for them (--time)",
                  (unsigned long long)measured->sizes[kept].bytes);
    measured->size_count = kept;
}

/* Runs the first job. It shows whether the library reaches the ranks, how many ranks and nodes
 * there are, and how long a call takes. */
static bool explore(struct session *session, double seconds)
{
    char sizes[32];
    unsigned long long bytes;
    double median;
    snprintf(sizes, sizeof sizes, "%llu", (unsigned long long)ESTIMATE_BYTES);
    if (!write_policy(session, 0, 0)) {
        session->end = TUNE_FAILED;
        return false;
    }
    char *output = run(session, sizes, true, "looking at the job");
    if (output == NULL)
        return false;
    session->end = TUNE_FAILED;
    const char *line = strstr(output, sizes);
    const bool is_measured = line != NULL && read_line(line, &bytes, &median);
    free(output);
    if (!read_job(session))
        return false;
    if (!is_measured) {
        tool_warn("the benchmark printed no times");
        return false;
    }
    list_ways(session->measured);
    limit_sizes(session, median, seconds);
    return true;
}

/* The benchmark's list for the sizes [first, end): those themselves, or those that stand for the
 * ways. */
static char *size_list(const struct session *session, size_t first, size_t end, bool ways)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    if (file == NULL)
        tool_fail(TOOL_SYSTEM, "out of memory");
    for (size_t size = first; size < end; size++) {
        if (!ways)
            fprintf(file, "%s%llu", size > first ? "," : "",
                    (unsigned long long)session->measured->sizes[size].bytes);
        for (size_t way = 0; ways && way < session->measured->way_count; way++)
            fprintf(file, "%s%llu", size > first || way > 0 ? "," : "",
                    (unsigned long long)size_of(session, size, way));
    }
    fclose(file);
    return text;
}

static bool measure(struct session *session, size_t first, size_t end, bool ways, const char *what)
{
    if (ways && !write_policy(session, first, end)) {
        session->end = TUNE_FAILED;
        return false;
    }
    char *sizes = size_list(session, first, end, ways);
    char *output = run(session, sizes, ways, what);
    free(sizes);
    if (output == NULL)
        return false;
    keep(session, output);
    free(output);
    return true;
}

/* Every size natively and in every way, once. */
static bool measure_round(struct session *session, unsigned round)
{
    const size_t count = session->measured->size_count;
    const size_t batch = RULES_MAX / session->measured->way_count;
    char what[128];
    snprintf(what, sizeof what, "round %u: natively", round);
    if (!measure(session, 0, count, false, what))
        return false;
    for (size_t first = 0; first < count; first += batch) {
        const size_t end = first + batch < count ? first + batch : count;
        snprintf(what, sizeof what, "round %u: compressed, sizes %zu to %zu of %zu", round,
                 first + 1, end, count);
        if (!measure(session, first, end, true, what))
            return false;
    }
    return true;
}

/* Whether every size has a native time. Says which has none. */
static bool is_complete(const struct tune_measured *measured)
{
    for (size_t size = 0; size < measured->size_count; size++)
        if (isnan(measured->sizes[size].native)) {
            tool_warn("the benchmark printed no time for %llu bytes",
                      (unsigned long long)measured->sizes[size].bytes);
            return false;
        }
    return true;
}

enum tune_end tune_measure(char *const *launcher, double seconds, const char *folder,
                           struct tune_measured *measured)
{
    static const char *const folders[] = {"", "/../libexec/compshim"};
    struct session session = {
        .measured = measured,
        .launcher = launcher,
        .benchmark = launch_find("allreduce_bench", folders, 2,
                                 "nor in libexec/compshim of its prefix; build it with make or "
                                 "install it with make install"),
        .library = launch_find_library(),
        .policy = tool_format("%s/policy.ini", folder),
        .report = tool_format("%s/report.json", folder),
        .deadline = cshim_seconds() + seconds};
    for (size_t size = 0; size < measured->size_count; size++) {
        measured->sizes[size].native = NAN;
        for (size_t way = 0; way < TUNE_WAYS_MAX; way++)
            measured->sizes[size].ways[way] = NAN;
    }
    bool goes_on = explore(&session, seconds);
    double longest = 0;
    for (unsigned round = 1; goes_on && round <= ROUNDS_MAX; round++) {
        const double began = cshim_seconds();
        if (round > 1 && began + longest > session.deadline)
            break;
        goes_on = measure_round(&session, round);
        longest = fmax(longest, cshim_seconds() - began);
    }
    if (goes_on)
        session.end = is_complete(measured) ? TUNE_DONE : TUNE_FAILED;
    unlink(session.policy);
    unlink(session.report);
    return session.end;
}
