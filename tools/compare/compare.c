/* SPDX-License-Identifier: Apache-2.0 */
/* compshim compare: runs a program in several modes and on several numbers of ranks, and prints
 * time, accuracy and traffic. */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/compare/compare.h"
#include "shim/core/output.h"
#include "tools/html/page.h"
#include "tools/lib/json.h"

static struct compare_options chosen = {
    .modes = "off,fp16,fp8_e4m3",
    .ranks = "2",
    .title = "All-reduce, compressed and not",
    .link = "shared memory",
    .repeat = 1,
    .min_size = 65536,
};

static const struct tool_option options[] = {
    {"modes", 'm', TOOL_TEXT, &chosen.modes, "LIST",
     "off, codecs, policy files, built-in @policies (default off,fp16,fp8_e4m3)"},
    {"policy", 'p', TOOL_TEXT, &chosen.policy, "LIST", "policies to add to the modes"},
    {"ranks", 'n', TOOL_TEXT, &chosen.ranks, "LIST",
     "numbers of ranks (default 2); for 1 only off is run"},
    {"serial", 0, TOOL_TEXT, &chosen.serial, "COMMAND",
     "the program without MPI, a line for sh: a row of its own"},
    {"repeat", 'r', TOOL_COUNT, &chosen.repeat, "N",
     "run all N times, modes in turn: medians and their spread (default 1)"},
    {"min-size", 0, TOOL_SIZE, &chosen.min_size, "SIZE",
     "smallest buffer that a codec's mode compresses (default 64KiB)"},
    {"metric-time", 0, TOOL_TEXT, &chosen.metrics[COMPARE_FIGURE_TIME], "REGEX",
     "the time is group 1 of its last match in the output"},
    {"metric-accuracy", 0, TOOL_TEXT, &chosen.metrics[COMPARE_FIGURE_ACCURACY], "REGEX",
     "the same for the accuracy"},
    {"metric-step", 0, TOOL_TEXT, &chosen.metrics[COMPARE_FIGURE_STEP], "REGEX",
     "the same for milliseconds per step"},
    {"html", 0, TOOL_TEXT, &chosen.html, "FILE", "write a page with tables and plots"},
    {"markdown", 0, TOOL_TEXT, &chosen.markdown, "FILE", "write the tables as Markdown"},
    {"json", 'j', TOOL_TEXT, &chosen.json, "FILE", "write all results and every run"},
    {"title", 0, TOOL_TEXT, &chosen.title, "TEXT", "the first line of the tables and of the page"},
    {"link", 0, TOOL_TEXT, &chosen.link, "TEXT",
     "the network, as text for the tables (default shared memory)"},
    {0},
};

static const struct {
    const char *option, *expression; /* default expression */
} metrics[COMPARE_METRIC_COUNT] = {
    [COMPARE_FIGURE_TIME] = {"--metric-time", "train time +([0-9.]+)"},
    [COMPARE_FIGURE_STEP] = {"--metric-step", "step +([0-9.]+) ms"},
    [COMPARE_FIGURE_ACCURACY] = {"--metric-accuracy", "test accuracy +([0-9.]+)"},
};

static void compile_metrics(struct compare_plan *plan)
{
    for (size_t i = 0; i < COMPARE_METRIC_COUNT; i++) {
        const char *given = plan->options->metrics[i];
        const char *text = given != NULL ? given : metrics[i].expression;
        int error = regcomp(&plan->metrics[i], text, REG_EXTENDED | REG_NEWLINE);
        if (error != 0) {
            char message[256];
            regerror(error, &plan->metrics[i], message, sizeof message);
            tool_misuse("%s: '%s': %s", metrics[i].option, text, message);
        }
        if (plan->metrics[i].re_nsub < 1)
            tool_misuse("%s: '%s' has no group in round brackets for the number", metrics[i].option,
                        text);
    }
}

/* Returns the policy of a codec's mode, which has one rule. */
static char *policy_text(const char *codec, uint64_t min_size)
{
    return tool_format("[rule %s]\nmin_size = %" PRIu64
                       "\ndtype = float32\nop = sum, avg\ncodec = %s\nworth = always\n",
                       codec, min_size, codec);
}

/* Returns true if a codec needs no other key in its rule. */
static bool is_mode(const char *codec)
{
    char message[CSHIM_MESSAGE_MAX];
    const char *text = policy_text(codec, 0);
    struct cshim_policy *policy = cshim_policy_parse(text, strlen(text), "a mode", message);
    const bool is_whole = policy != NULL;
    cshim_policy_free(policy);
    return is_whole;
}

static _Noreturn void refuse_mode(const char *name)
{
    struct cshim_words modes = cshim_words(CSHIM_CODECS);
    size_t known = 0;
    modes.names[known++] = "off"; /* replaces `none` */
    for (size_t i = known; i < modes.count; i++)
        if (is_mode(modes.names[i]))
            modes.names[known++] = modes.names[i];
    tool_misuse("--modes: '%s' is neither off, nor a codec that needs no other key, nor a "
                "file.ini, nor a built-in @policy%s",
                name, tool_hint("", name, modes.names, known));
}

/* Makes the mode of a name. `is_policy`: the name comes from --policy, so it names a policy,
 * whatever its extension. Ends the tool if there is no such mode. */
static struct compare_mode make_mode(const char *name, bool is_policy)
{
    struct compare_mode mode = {.name = name, .label = name};
    unsigned codec;
    if (is_policy || cshim_policy_is_named(name) || fnmatch("?*.ini", name, 0) == 0) {
        cshim_policy_free(launch_load_policy(name));
        mode.policy = launch_name_policy(name);
    } else if (strcmp(name, "off") == 0) {
        mode.label = "off (native)";
    } else if (cshim_word_find(CSHIM_CODECS, name, &codec) != NULL && codec != CSHIM_CODEC_NONE &&
               is_mode(name)) {
        mode.codec = codec;
        if (!cshim_codec_is_packed(codec))
            mode.label = tool_format("%s (%zu bit)", name,
                                     8 * cshim_encoded_bytes(codec, CSHIM_FLOAT32, CSHIM_GRAIN) /
                                         CSHIM_GRAIN);
    } else {
        refuse_mode(name);
    }
    mode.has_shim = mode.policy != NULL || mode.codec != CSHIM_CODEC_NONE;
    return mode;
}

static void add_modes(struct compare_plan *plan, const char *list, bool is_policy)
{
    size_t count = 0;
    char **names = list != NULL ? tool_split(list, &count) : NULL;
    for (size_t i = 0; i < count; i++) {
        for (size_t known = 0; known < plan->mode_count; known++)
            if (strcmp(plan->modes[known].name, names[i]) == 0)
                tool_misuse("the mode '%s' is given twice", names[i]);
        const struct compare_mode mode = make_mode(names[i], is_policy);
        plan->modes = tool_append(plan->modes, &plan->mode_count, sizeof mode, &mode);
    }
}

/* Returns the cell of mode off in column `rank`; NULL if this mode is not among the modes. */
static const struct compare_cell *find_native(const struct compare_plan *plan, size_t rank)
{
    for (size_t mode = 0; mode < plan->mode_count; mode++)
        if (!plan->modes[mode].has_shim && !plan->modes[mode].is_serial)
            return &plan->cells[mode * plan->rank_count + rank];
    return NULL;
}

/* Sets the numbers of ranks and makes the cells. The serial run is in the column of one rank, which
 * is added if the user has not asked for it. */
static void add_ranks(struct compare_plan *plan, const char *list)
{
    size_t count = 0;
    char **texts = tool_split(list, &count);
    uint32_t *ranks = tool_allocate(count + 1, sizeof *ranks);
    bool is_added = plan->options->serial != NULL;
    ranks[0] = 1;
    for (size_t i = 0; i < count; i++) {
        ranks[i + 1] = tool_parse_count("ranks", texts[i]);
        is_added &= ranks[i + 1] != 1;
    }
    plan->ranks = is_added ? ranks : ranks + 1;
    plan->rank_count = count + is_added;
    if (count > 1 && !compare_has(plan->command, "{ranks}"))
        tool_misuse("several --ranks, but no {ranks} in the command");
    plan->cell_count = plan->mode_count * plan->rank_count;
    plan->cells = tool_allocate(plan->cell_count, sizeof *plan->cells);
    size_t wanted = 0;
    for (size_t i = 0; i < plan->cell_count; i++) {
        struct compare_cell *cell = &plan->cells[i];
        const size_t rank = i % plan->rank_count;
        *cell = (struct compare_cell){.mode = &plan->modes[i / plan->rank_count],
                                      .ranks = plan->ranks[rank],
                                      .native = find_native(plan, rank),
                                      .runs = json_array()};
        const bool one = cell->ranks == 1;
        cell->is_wanted = cell->mode->is_serial
                              ? one
                              : !(is_added && rank == 0) && !(one && cell->mode->has_shim);
        wanted += cell->is_wanted;
    }
    if (wanted == 0)
        tool_misuse("a single rank sends nothing: only the mode off is run with it, or a "
                    "serial program");
}

/* Writes the policy of a codec's mode. */
static void write_mode_policy(const struct compare_plan *plan, struct compare_mode *mode)
{
    mode->policy = tool_format("%s/%s.ini", plan->folder, mode->name);
    FILE *file = fopen(mode->policy, "we");
    if (file == NULL || fputs(policy_text(mode->name, plan->options->min_size), file) < 0 ||
        fclose(file) != 0)
        err(TOOL_SYSTEM, "%s", mode->policy);
}

static void make_files(struct compare_plan *plan)
{
    const char *parent = getenv("TMPDIR");
    plan->folder = launch_make_folder(
        tool_format("%s/compshim-XXXXXX", parent != NULL && *parent ? parent : "/tmp"));
    for (size_t mode = 0; mode < plan->mode_count; mode++)
        if (plan->modes[mode].codec != CSHIM_CODEC_NONE)
            write_mode_policy(plan, &plan->modes[mode]);
}

/* Makes the matrix of runs and the temporary files, and describes the machine. Checks all options;
 * ends the tool if one is wrong. `options` and `command` must outlive the plan. */
static void make_plan(struct compare_plan *plan, const struct compare_options *options,
                      char **command)
{
    *plan = (struct compare_plan){.options = options, .command = command};
    compile_metrics(plan);
    if (options->serial != NULL)
        plan->modes = tool_append(
            NULL, &plan->mode_count, sizeof *plan->modes,
            &(struct compare_mode){.name = "serial", .label = "serial", .is_serial = true});
    add_modes(plan, options->modes, false);
    add_modes(plan, options->policy, true);
    add_ranks(plan, options->ranks);
    for (size_t mode = 0; mode < plan->mode_count && plan->library == NULL; mode++)
        if (plan->modes[mode].has_shim)
            plan->library = launch_find_library();
    tool_check_writable("--json", options->json, "\"title\"");
    tool_check_writable("--markdown", options->markdown, COMPARE_MARKDOWN_MARK);
    tool_check_writable("--html", options->html, PAGE_MARK);
    make_files(plan);
    plan->environment = compare_environment(options->link);
}

/* Removes the temporary files. */
static void clean_plan(const struct compare_plan *plan)
{
    for (size_t mode = 0; mode < plan->mode_count; mode++)
        if (plan->modes[mode].codec != CSHIM_CODEC_NONE)
            unlink(plan->modes[mode].policy);
    rmdir(plan->folder);
}

/* Estimates the seconds of all remaining runs: each as long as the last one of its cell, otherwise
 * as the mean of all. Negative before the first run has ended. */
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

/* Runs the modes alternately within each repeat, so that a machine that slows down affects all of
 * them. */
static enum child_end run_all(const struct compare_plan *plan)
{
    size_t all = 0, done = 0;
    for (size_t i = 0; i < plan->cell_count; i++)
        all += plan->cells[i].is_wanted ? plan->options->repeat : 0;
    for (uint32_t repeat = 0; repeat < plan->options->repeat; repeat++)
        for (size_t rank = 0; rank < plan->rank_count; rank++)
            for (size_t mode = 0; mode < plan->mode_count; mode++) {
                struct compare_cell *cell = &plan->cells[mode * plan->rank_count + rank];
                if (!cell->is_wanted)
                    continue;
                const char *progress =
                    tool_format("[%zu/%zu] %s, %s", ++done, all, cell->mode->label,
                                tool_plural(cell->ranks, "rank"));
                enum child_end end = compare_run_once(plan, cell, progress, seconds_left(plan));
                if (end != CHILD_DONE)
                    return end;
            }
    return CHILD_DONE;
}

/* Writes a file if its path is given. On failure prints a message and returns false. */
static bool write_file(const struct compare_plan *plan, const char *path,
                       void (*write)(const struct compare_plan *, FILE *))
{
    if (path == NULL)
        return true;
    struct cshim_output output;
    const char *problem = cshim_output_open(&output, path, NULL);
    if (problem == NULL) {
        write(plan, output.stream);
        problem = cshim_output_close(&output);
    }
    if (problem != NULL)
        warnx("cannot write %s: %s", path, problem);
    return problem == NULL;
}

static int run_compare(char **words)
{
    struct compare_plan plan;
    if (*words == NULL)
        tool_misuse("no command to run");
    if (fnmatch("*.json", *words, 0) == 0)
        tool_misuse("'%s' is a report: 'compshim report' shows reports side by side", *words);
    make_plan(&plan, &chosen, words);
    child_catch_signals();
    launch_permit_mpirun(words, false); /* here, so that its note to the user root appears once */
    compare_watch_load();
    enum child_end end = run_all(&plan);
    compare_add_load(plan.environment);
    plan.is_complete = end == CHILD_DONE;
    for (enum compare_figure i = 0; i < COMPARE_METRIC_COUNT; i++)
        if (chosen.metrics[i] != NULL && compare_misses(&plan, i))
            warnx("%s '%s': not every output has a match", metrics[i].option, chosen.metrics[i]);
    const bool has_results = plan.is_complete || seconds_left(&plan) >= 0;
    if (!plan.is_complete && has_results)
        warnx("stopped early; finished runs:");
    bool written = write_file(&plan, chosen.json, compare_write_json);
    written = write_file(&plan, chosen.markdown, compare_write_markdown) && written;
    written = write_file(&plan, chosen.html, compare_write_page) && written;
    if (has_results)
        compare_write_text(&plan, stdout);
    int status = !written ? TOOL_SYSTEM : plan.is_complete ? TOOL_GOOD : TOOL_NOT_SO;
    clean_plan(&plan);
    status = tool_finish(status);
    return end == CHILD_STOPPED ? 128 + child_stop_signal() : status;
}

const struct tool_command tool_compare = {
    .name = "compare",
    .summary = "run a program in several modes and show time, accuracy and traffic",
    .usage = "[OPTION...] [--] COMMAND [ARGUMENT...]",
    .details =
        "COMMAND is started without a shell. In it and in --serial, {ranks} and {mode} are "
        "replaced, "
        "and {log} by the name of a file to which the program can write a CSV table of its steps, "
        "with the columns seconds and accuracy (0 to 1), for the page's plot of accuracy over "
        "time. "
        "The mode off runs it without the shim. A codec's mode uses a policy with one rule: that "
        "codec for float32 sums from --min-size on. Regular expressions are POSIX "
        "extended ones. A failed run ends the comparison; the finished runs are printed.\n\n  "
        "compshim compare --modes off,fp16,fp8_e4m3 --ranks 1,2,4 --serial ./train \\\n    -- "
        "mpirun -n {ranks} ./train\n",
    .takes_command = true,
    .options = options,
    .run = run_compare,
};
