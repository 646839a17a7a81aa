/* SPDX-License-Identifier: Apache-2.0 */
/* compshim tune: measures, decides, and writes a policy. */
#include "tools/tune/tune.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/policy.h"
#include "tools/compare/compare.h"
#include "tools/lib/launch.h"
#include "tools/lib/tool.h"

struct tune_options {
    const char *output;
    bool force;
    uint32_t time;
    const char *max_rel_error;
    const char *sizes;
    const char *save;
    const char *from;
};

#define OPTION(field) offsetof(struct tune_options, field)

static const struct tool_option options[] = {
    {"output", 'o', TOOL_TEXT, OPTION(output), "FILE", "the policy to write (default policy.ini)"},
    {"force", 'f', TOOL_FLAG, OPTION(force), NULL, "write it even if there is one already"},
    {"time", 't', TOOL_COUNT, OPTION(time), "SECONDS", "measure for about so long (default 120)"},
    {"max-rel-error", 'e', TOOL_TEXT, OPTION(max_rel_error), "X",
     "the relative error that a result may have (default 0.01)"},
    {"sizes", 0, TOOL_TEXT, OPTION(sizes), "LIST",
     "sizes to measure: 64KiB-64MiB (doubling) or 1MiB,25MiB"},
    {"save", 0, TOOL_TEXT, OPTION(save), "FILE", "write the measurements as JSON, too"},
    {"from", 0, TOOL_TEXT, OPTION(from), "FILE", "measure nothing: decide by measurements saved"},
    {0},
};

static double parse_error(const char *text)
{
    char *end = NULL;
    const double error = strtod(text, &end);
    if (end == text || *end != '\0' || !(error >= 0 && error <= 1))
        tool_misuse("tune", "--max-rel-error: '%s' is not a number from 0 to 1", text);
    return error;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void set_sizes(const char *text, struct tune_measured *measured)
{
    uint64_t sizes[TUNE_SIZES_MAX];
    const size_t count = tool_parse_sizes(&tool_tune, text, sizes, TUNE_SIZES_MAX);
    qsort(sizes, count, sizeof *sizes, by_value);
    for (size_t i = 0; i < count; i++) {
        /* The benchmark is given sizes close above these, one for each way. */
        if (sizes[i] < 1024 || sizes[i] % sizeof(float) != 0 || sizes[i] > (uint64_t)1 << 30)
            tool_misuse("tune", "--sizes: %llu bytes: take whole float32 from 1KiB to 1GiB",
                        (unsigned long long)sizes[i]);
        if (measured->size_count > 0 && sizes[i] < sizes[i - 1] + 1024)
            tool_misuse("tune", "--sizes: %llu and %llu bytes are less than 1KiB apart",
                        (unsigned long long)sizes[i - 1], (unsigned long long)sizes[i]);
        measured->sizes[measured->size_count++].bytes = sizes[i];
    }
}

/* Makes a folder beside the output. Rank 0 may run on another host: it can most likely read what is
 * beside the output, but not what is in /tmp. */
static char *make_folder(const char *output)
{
    const char *slash = strrchr(output, '/');
    char *folder = tool_format("%.*s.compshim-tune-XXXXXX",
                               slash != NULL ? (int)(slash - output) + 1 : 0, output);
    if (mkdtemp(folder) == NULL)
        tool_fail(TOOL_SYSTEM, "cannot make a folder beside %s: %s", output, strerror(errno));
    return launch_absolute(folder);
}

static void measure(const struct tune_options *chosen, char *const *launcher,
                    struct tune_measured *measured)
{
    char *folder = make_folder(chosen->output);
    compare_catch_signals();
    /* There may be more ranks than processors. Open MPI 4 reads the first variable, Open MPI 5 the
     * second. */
    setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
    setenv("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe", 0);
    const enum tune_end end = tune_measure(launcher, chosen->time, folder, measured);
    rmdir(folder);
    if (end == TUNE_STOPPED) {
        tool_warn("interrupted: nothing is written");
        exit(128 + compare_stop_signal());
    }
    if (end == TUNE_FAILED)
        exit(TOOL_NOT_SO);
}

/* Writes the policy under another name and renames it, so that no reader finds half of it. */
static void write_policy(const char *path, const char *text)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), path, message);
    if (policy == NULL)
        tool_fail(TOOL_SYSTEM, "the policy came out wrong, please report this: %s", message);
    cshim_policy_free(policy);
    char *temporary = tool_format("%s.new", path);
    FILE *file = fopen(temporary, "we");
    if (file == NULL)
        tool_fail(TOOL_SYSTEM, "cannot write %s: %s", temporary, strerror(errno));
    const bool lost = fputs(text, file) < 0;
    if (fclose(file) != 0 || lost || rename(temporary, path) != 0) {
        const int error = errno;
        unlink(temporary);
        tool_fail(TOOL_SYSTEM, "cannot write %s: %s", path, strerror(error));
    }
    free(temporary);
}

static int run(int argc, char **argv)
{
    struct tune_options chosen = {.output = "policy.ini",
                                  .time = 120,
                                  .max_rel_error = "0.01",
                                  .sizes = "4KiB,16KiB-1MiB,4MiB,16MiB,64MiB"};
    static struct tune_measured measured;
    const int first = tool_parse(&tool_tune, argc, argv, &chosen);
    const double max_rel_error = parse_error(chosen.max_rel_error);
    if ((first == argc) == (chosen.from == NULL))
        tool_misuse("tune", first == argc ? "no command that starts ranks, such as 'mpirun -n 4'"
                                          : "--from needs no command: nothing is run");
    if (chosen.from == NULL)
        set_sizes(chosen.sizes, &measured);
    if (!chosen.force && access(chosen.output, F_OK) == 0)
        tool_fail(TOOL_NOT_SO, "%s exists already: take --force, or another --output",
                  chosen.output);
    if (chosen.from != NULL)
        tune_load(chosen.from, &measured);
    else
        measure(&chosen, argv + first, &measured);
    char *text = tune_policy(&measured, max_rel_error);
    if (chosen.save != NULL)
        tune_save(&measured, chosen.save);
    write_policy(chosen.output, text);
    fputs(text, stdout);
    return tool_finish(TOOL_GOOD);
}

const struct tool_command tool_tune = {
    .name = "tune",
    .summary = "measure this machine or cluster and write a policy for it",
    .usage = "[OPTION...] [--] LAUNCHER [ARGUMENT...]",
    .details =
        "LAUNCHER starts ranks as the program's launch does; a benchmark of all-reduces is added "
        "to it and\nrun without the library and in every codec and algorithm. Sizes for which "
        "nothing measured faster\nthan native are passed on. The policy states the measurements; "
        "it is printed, too.\n\n"
        "  compshim tune -- mpirun -n 4\n"
        "  compshim tune --max-rel-error 0.05 --time 300 -- mpirun --hostfile hosts -n 32\n",
    .takes_command = true,
    .options = options,
    .run = run,
};
