/* SPDX-License-Identifier: Apache-2.0 */
/* From the options of `compshim compare` to the matrix of runs. */
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/compare/compare.h"
#include "tools/lib/launch.h"

static void compile_metrics(struct compare_plan *plan)
{
    static const char *const names[COMPARE_METRIC_COUNT] = {"--metric-time", "--metric-step",
                                                            "--metric-accuracy"};
    for (size_t i = 0; i < COMPARE_METRIC_COUNT; i++) {
        const char *text = plan->options->metrics[i];
        int error = regcomp(&plan->metrics[i], text, REG_EXTENDED | REG_NEWLINE);
        if (error != 0) {
            char message[256];
            regerror(error, &plan->metrics[i], message, sizeof message);
            tool_misuse("compare", "%s: '%s': %s", names[i], text, message);
        }
        if (plan->metrics[i].re_nsub < 1)
            tool_misuse("compare", "%s: '%s' has no group in round brackets for the number",
                        names[i], text);
    }
}

/* Makes the mode of a name. `is_policy`: --policy names it, so that it is a file whatever its end.
 */
static struct compare_mode make_mode(const char *name, bool is_policy)
{
    struct cshim_words modes = cshim_words(CSHIM_CODECS);
    struct compare_mode mode = {.name = name, .label = name};
    unsigned codec;
    modes.names[CSHIM_CODEC_NONE] = "off";
    if (is_policy || fnmatch("?*.ini", name, 0) == 0) {
        cshim_policy_free(launch_load_policy(name));
        mode.policy = launch_absolute(name);
    } else if (strcmp(name, "off") == 0) {
        mode.label = "off (native)";
    } else if (cshim_word_find(CSHIM_CODECS, name, &codec) != NULL && codec != CSHIM_CODEC_NONE) {
        mode.codec = codec;
        mode.label =
            tool_format("%s (%zu bit)", name,
                        8 * cshim_encoded_bytes(codec, CSHIM_FLOAT32, CSHIM_GRAIN) / CSHIM_GRAIN);
    } else {
        tool_misuse("compare", "--modes: '%s' is neither off, nor a codec, nor a file.ini%s", name,
                    tool_hint("", name, modes.names, modes.count));
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
                tool_misuse("compare", "the mode '%s' is given twice", names[i]);
        const struct compare_mode mode = make_mode(names[i], is_policy);
        plan->modes = tool_append(plan->modes, &plan->mode_count, sizeof mode, &mode);
    }
}

static uint32_t parse_ranks(const char *text)
{
    char *end = NULL;
    unsigned long ranks = strtoul(text, &end, 10);
    if (strspn(text, "0123456789") != strlen(text) || end == text || ranks < 1 || ranks > 1000000)
        tool_misuse("compare", "--ranks: '%s' is not a number of ranks", text);
    return (uint32_t)ranks;
}

/* Takes the numbers of ranks asked for, and makes the cells. The serial run stands in the column of
 * one rank, which is added if it was not asked for. */
static void add_ranks(struct compare_plan *plan, const char *list)
{
    size_t count = 0;
    char **texts = tool_split(list, &count);
    uint32_t *ranks = tool_allocate(count + 1, sizeof *ranks);
    bool is_added = plan->options->serial != NULL;
    ranks[0] = 1;
    for (size_t i = 0; i < count; i++) {
        ranks[i + 1] = parse_ranks(texts[i]);
        is_added &= ranks[i + 1] != 1;
    }
    plan->ranks = is_added ? ranks : ranks + 1;
    plan->rank_count = count + is_added;
    if (count > 1 && !compare_has(plan->command, "{ranks}"))
        tool_misuse("compare", "several --ranks, but no {ranks} in the command");
    plan->cell_count = plan->mode_count * plan->rank_count;
    plan->cells = tool_allocate(plan->cell_count, sizeof *plan->cells);
    for (size_t i = 0; i < plan->cell_count; i++) {
        const struct compare_mode *mode = &plan->modes[i / plan->rank_count];
        size_t rank = i % plan->rank_count;
        bool one = plan->ranks[rank] == 1;
        plan->cells[i].is_wanted =
            mode->is_serial ? one : !(is_added && rank == 0) && !(one && mode->has_shim);
        plan->cells[i].runs = json_array();
    }
}

static void check_writable(const char *path)
{
    if (path == NULL)
        return;
    FILE *file = fopen(path, "ae");
    if (file == NULL || fclose(file) != 0)
        tool_fail(TOOL_SYSTEM, "%s: %s", path, strerror(errno));
}

/* Writes the policy of a codec's mode, which has a single rule. */
static void write_policy(const struct compare_plan *plan, struct compare_mode *mode)
{
    mode->policy = tool_format("%s/%s.ini", plan->folder, mode->name);
    FILE *file = fopen(mode->policy, "we");
    if (file == NULL)
        tool_fail(TOOL_SYSTEM, "%s: %s", mode->policy, strerror(errno));
    fprintf(file, "[rule %s]\nmin_size = %" PRIu64 "\ndtype = float32\nop = sum, avg\ncodec = %s\n",
            mode->name, plan->options->min_size, mode->name);
    if (fclose(file) != 0)
        tool_fail(TOOL_SYSTEM, "%s: %s", mode->policy, strerror(errno));
}

static void make_files(struct compare_plan *plan)
{
    const char *parent = getenv("TMPDIR");
    plan->folder = tool_format("%s/compshim-XXXXXX", parent != NULL && *parent ? parent : "/tmp");
    if (mkdtemp(plan->folder) == NULL)
        tool_fail(TOOL_SYSTEM, "cannot make a folder %s: %s", plan->folder, strerror(errno));
    for (size_t mode = 0; mode < plan->mode_count; mode++)
        if (plan->modes[mode].codec != CSHIM_CODEC_NONE)
            write_policy(plan, &plan->modes[mode]);
}

void compare_plan_make(struct compare_plan *plan, const struct compare_options *options,
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
    check_writable(options->json);
    check_writable(options->markdown);
    check_writable(options->html);
    make_files(plan);
    plan->environment = compare_environment(options->link);
}

void compare_plan_clean(const struct compare_plan *plan)
{
    for (size_t mode = 0; mode < plan->mode_count; mode++)
        if (plan->modes[mode].codec != CSHIM_CODEC_NONE)
            unlink(plan->modes[mode].policy);
    rmdir(plan->folder);
}

struct compare_cell *compare_cell(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return &plan->cells[mode * plan->rank_count + rank];
}

bool compare_has(char *const *command, const char *part)
{
    while (*command != NULL && strstr(*command, part) == NULL)
        command++;
    return *command != NULL;
}
