/* SPDX-License-Identifier: Apache-2.0 */
/* compshim compare: runs a program in several modes and on several rank counts, and prints what
 * time, accuracy and traffic came of it. */
#include <errno.h>
#include <string.h>

#include "tools/compare/compare.h"
#include "tools/lib/launch.h"
#include "tools/lib/json.h"

#define OPTION(field) offsetof(struct compare_options, field)

static const struct tool_option options[] = {
    {"modes", 'm', TOOL_TEXT, OPTION(modes), "LIST",
     "off, codecs, policy files (default off,fp16,fp8_e4m3)"},
    {"policy", 'p', TOOL_TEXT, OPTION(policy), "LIST", "policy files to add to the modes"},
    {"ranks", 'n', TOOL_TEXT, OPTION(ranks), "LIST",
     "numbers of ranks (default 2); for 1 only off is run"},
    {"serial", 0, TOOL_TEXT, OPTION(serial), "COMMAND",
     "the program without MPI, a line for sh: a row of its own"},
    {"repeat", 'r', TOOL_COUNT, OPTION(repeat), "N",
     "run all N times, modes in turn: medians and their spread (default 1)"},
    {"min-size", 0, TOOL_SIZE, OPTION(min_size), "SIZE",
     "a codec's mode leaves smaller buffers alone (default 64KiB)"},
    {"metric-time", 0, TOOL_TEXT, OPTION(metrics[COMPARE_FIGURE_TIME]), "REGEX",
     "group 1 of its last match in the output is the time"},
    {"metric-accuracy", 0, TOOL_TEXT, OPTION(metrics[COMPARE_FIGURE_ACCURACY]), "REGEX",
     "the same for the accuracy"},
    {"metric-step", 0, TOOL_TEXT, OPTION(metrics[COMPARE_FIGURE_STEP]), "REGEX",
     "the same for milliseconds per step"},
    {"html", 0, TOOL_TEXT, OPTION(html), "FILE", "write a page with tables and plots there"},
    {"markdown", 0, TOOL_TEXT, OPTION(markdown), "FILE", "write the tables as Markdown there"},
    {"json", 'j', TOOL_TEXT, OPTION(json), "FILE", "write all results and every run there"},
    {"title", 0, TOOL_TEXT, OPTION(title), "TEXT", "the first line of the tables and of the page"},
    {"link", 0, TOOL_TEXT, OPTION(link), "TEXT", "what joins the ranks (default shared memory)"},
    {0},
};

static const struct compare_options defaults = {
    .modes = "off,fp16,fp8_e4m3",
    .ranks = "2",
    .title = "All-reduce, compressed and not",
    .link = "shared memory",
    .metrics = {[COMPARE_FIGURE_TIME] = "train time +([0-9.]+)",
                [COMPARE_FIGURE_STEP] = "step +([0-9.]+) ms",
                [COMPARE_FIGURE_ACCURACY] = "test accuracy +([0-9.]+)"},
    .repeat = 1,
    .min_size = 65536,
};

/* Estimates the seconds that all runs to come will take: each as long as the last one of its cell,
 * or else as the mean of all. Negative before the first run has ended. */
static double seconds_left(const struct compare_plan *plan)
{
    double all = 0, done = 0, left = 0;
    for (size_t i = 0; i < plan->cell_count; i++)
        for (size_t run = 0; run < json_array_size(plan->cells[i].runs); run++, done++)
            all += ledger_number(json_array_get(plan->cells[i].runs, run), "wall_seconds");
    for (size_t i = 0; i < plan->cell_count && done > 0; i++) {
        const struct compare_cell *cell = &plan->cells[i];
        size_t count = json_array_size(cell->runs);
        double expected = count > 0
                              ? ledger_number(json_array_get(cell->runs, count - 1), "wall_seconds")
                              : all / done;
        left += cell->is_wanted ? expected * (double)(plan->options->repeat - count) : 0;
    }
    return done > 0 ? left : -1;
}

/* Runs the modes in turn within each repeat, so that a machine that slows down slows all of them.
 */
static enum child_end run_all(const struct compare_plan *plan)
{
    size_t all = 0, done = 0;
    for (size_t i = 0; i < plan->cell_count; i++)
        all += plan->cells[i].is_wanted ? plan->options->repeat : 0;
    for (uint32_t repeat = 0; repeat < plan->options->repeat; repeat++)
        for (size_t rank = 0; rank < plan->rank_count; rank++)
            for (size_t mode = 0; mode < plan->mode_count; mode++) {
                if (!compare_cell(plan, mode, rank)->is_wanted)
                    continue;
                const char *progress =
                    tool_format("[%zu/%zu] %s, %s", ++done, all, plan->modes[mode].label,
                                tool_plural(plan->ranks[rank], "rank"));
                enum child_end end =
                    compare_run_once(plan, mode, rank, progress, seconds_left(plan));
                if (end != CHILD_DONE)
                    return end;
            }
    return CHILD_DONE;
}

/* Writes a file if its path is given. Returns false, with a message printed, if that fails. */
static bool write_file(const struct compare_plan *plan, const char *path,
                       void (*write)(const struct compare_plan *, FILE *))
{
    if (path == NULL)
        return true;
    FILE *file = fopen(path, "we");
    if (file == NULL) {
        tool_warn("%s: %s", path, strerror(errno));
        return false;
    }
    write(plan, file);
    bool lost = ferror(file) != 0;
    lost = fclose(file) != 0 || lost;
    if (lost)
        tool_warn("%s: not all of it could be written: %s", path, strerror(errno));
    return !lost;
}

static int run(int argc, char **argv)
{
    struct compare_options chosen = defaults;
    struct compare_plan plan;
    int first = tool_parse(&tool_compare, argc, argv, &chosen);
    if (first == argc)
        tool_misuse("compare", "no command to run");
    compare_plan_make(&plan, &chosen, argv + first);
    child_catch_signals();
    launch_permit_mpirun(argv + first, false); /* tells root once; each run counts its ranks */
    compare_watch_load();
    enum child_end end = run_all(&plan);
    compare_add_load(plan.environment);
    plan.is_complete = end == CHILD_DONE;
    if (!plan.is_complete)
        tool_warn("stopped early; what was finished:");
    compare_write_text(&plan, stdout);
    bool written = write_file(&plan, chosen.json, compare_write_json);
    written = write_file(&plan, chosen.markdown, compare_write_markdown) && written;
    written = write_file(&plan, chosen.html, compare_write_page) && written;
    int status = !written ? TOOL_SYSTEM : plan.is_complete ? TOOL_GOOD : TOOL_NOT_SO;
    compare_plan_clean(&plan);
    status = tool_finish(status);
    return end == CHILD_STOPPED ? 128 + child_stop_signal() : status;
}

const struct tool_command tool_compare = {
    .name = "compare",
    .summary = "run a program in several modes and show time, accuracy and traffic",
    .usage = "[OPTION...] [--] COMMAND [ARGUMENT...]",
    .details =
        "COMMAND is started as it is, without a shell; {ranks} and {mode} in it are replaced, and\n"
        "{log} by a file where the program is to leave a CSV table of its steps, with the columns\n"
        "seconds and accuracy (0 to 1): the page shows accuracy over time. The same in --serial.\n"
        "The mode off runs it without the shim. A codec's mode uses a policy of one rule: float32\n"
        "sums from --min-size up in that codec, nothing else. Regular expressions are POSIX\n"
        "extended ones. A run that fails ends the comparison; what is finished is printed.\n\n"
        "  compshim compare --modes off,fp16,fp8_e4m3 --ranks 1,2,4 --serial ./train \\\n"
        "    -- mpirun -n {ranks} ./train\n",
    .takes_command = true,
    .options = options,
    .run = run,
};
