/* SPDX-License-Identifier: Apache-2.0 */
/* From the options of `compshim compare` to the matrix of runs. */
#include <errno.h>
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

static bool ends_in(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length > strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static _Noreturn void refuse_mode(const char *name)
{
    const char *names[CSHIM_CODEC_COUNT] = {"off"};
    for (int id = 1; id < CSHIM_CODEC_COUNT; id++)
        names[id] = cshim_codec_name((enum cshim_codec_id)id);
    tool_misuse("compare", "--modes: '%s' is neither off, nor a codec, nor a file.ini%s", name,
                tool_hint("", name, names, CSHIM_CODEC_COUNT));
}

/* Makes the mode of a name. `is_policy`: --policy names it, so that it is a file whatever its end.
 */
static struct compare_mode make_mode(const char *name, bool is_policy)
{
    struct compare_mode mode = {.name = tool_copy(name)};
    if (is_policy || ends_in(name, ".ini")) {
        cshim_policy_free(launch_load_policy(name));
        mode.policy = launch_absolute(name);
        mode.label = tool_copy(name);
    } else if (strcmp(name, "off") == 0) {
        mode.label = tool_copy("off (native)");
    } else if (cshim_codec_by_name(name, &mode.codec) && mode.codec != CSHIM_CODEC_NONE) {
        size_t bits = 8 * cshim_encoded_bytes(mode.codec, CSHIM_FLOAT32, CSHIM_GRAIN) / CSHIM_GRAIN;
        mode.label = tool_format("%s (%zu bit)", name, bits);
    } else {
        refuse_mode(name);
    }
    mode.has_shim = mode.policy != NULL || mode.codec != CSHIM_CODEC_NONE;
    return mode;
}

static void add_modes(struct compare_plan *plan, const char *list, bool is_policy)
{
    if (list == NULL)
        return;
    size_t count = 0;
    char **names = tool_split(list, &count);
    struct compare_mode *modes = tool_allocate(plan->mode_count + count, sizeof *modes);
    if (plan->mode_count > 0)
        memcpy(modes, plan->modes, plan->mode_count * sizeof *modes);
    free(plan->modes);
    plan->modes = modes;
    for (size_t i = 0; i < count; i++) {
        for (size_t known = 0; known < plan->mode_count; known++)
            if (strcmp(modes[known].name, names[i]) == 0)
                tool_misuse("compare", "the mode '%s' is given twice", names[i]);
        modes[plan->mode_count++] = make_mode(names[i], is_policy);
    }
    tool_split_free(names);
}

static uint32_t parse_ranks(const char *text)
{
    char *end = NULL;
    unsigned long ranks = strtoul(text, &end, 10);
    if (strspn(text, "0123456789") != strlen(text) || end == text || ranks < 1 || ranks > 1000000)
        tool_misuse("compare", "--ranks: '%s' is not a number of ranks", text);
    return (uint32_t)ranks;
}

static bool has_placeholder(char *const *command)
{
    for (; *command != NULL; command++)
        if (strstr(*command, "{ranks}") != NULL)
            return true;
    return false;
}

/* Takes the numbers of ranks asked for, and makes the cells. The serial run stands in the column of
 * one rank, which is added if it was not asked for. */
static void add_ranks(struct compare_plan *plan, const char *list)
{
    size_t count = 0;
    char **texts = tool_split(list, &count);
    plan->ranks = tool_allocate(count + 1, sizeof *plan->ranks);
    bool has_one = false;
    for (size_t i = 0; i < count; i++)
        has_one = has_one || parse_ranks(texts[i]) == 1;
    if (plan->options->serial != NULL && !has_one)
        plan->ranks[plan->rank_count++] = 1;
    size_t made = plan->rank_count;
    for (size_t i = 0; i < count; i++)
        plan->ranks[plan->rank_count++] = parse_ranks(texts[i]);
    if (count > 1 && !has_placeholder(plan->command))
        tool_misuse("compare", "several --ranks, but no {ranks} in the command");
    plan->cells = tool_allocate(plan->mode_count * plan->rank_count, sizeof *plan->cells);
    for (size_t i = 0; i < plan->mode_count * plan->rank_count; i++) {
        const struct compare_mode *mode = &plan->modes[i / plan->rank_count];
        size_t rank = i % plan->rank_count;
        bool one = plan->ranks[rank] == 1;
        plan->cells[i].is_wanted = mode->is_serial ? one : rank >= made && !(one && mode->has_shim);
        plan->cells[i].runs = json_array();
    }
    tool_split_free(texts);
}

static void add_serial(struct compare_plan *plan)
{
    if (plan->options->serial == NULL)
        return;
    plan->modes = tool_allocate(1, sizeof *plan->modes);
    plan->modes[0] = (struct compare_mode){
        .name = tool_copy("serial"), .label = tool_copy("serial"), .is_serial = true};
    plan->mode_count = 1;
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
    add_serial(plan);
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

void compare_plan_free(struct compare_plan *plan)
{
    for (size_t i = 0; i < plan->mode_count * plan->rank_count; i++)
        json_decref(plan->cells[i].runs);
    for (size_t mode = 0; mode < plan->mode_count; mode++) {
        if (plan->modes[mode].codec != CSHIM_CODEC_NONE)
            unlink(plan->modes[mode].policy);
        free(plan->modes[mode].name);
        free(plan->modes[mode].label);
        free(plan->modes[mode].policy);
    }
    rmdir(plan->folder);
    for (size_t i = 0; i < COMPARE_METRIC_COUNT; i++)
        regfree(&plan->metrics[i]);
    json_decref(plan->environment);
    free(plan->cells);
    free(plan->modes);
    free(plan->ranks);
    free(plan->library);
    free(plan->folder);
}

struct compare_cell *compare_cell(const struct compare_plan *plan, size_t mode, size_t rank)
{
    return &plan->cells[mode * plan->rank_count + rank];
}
