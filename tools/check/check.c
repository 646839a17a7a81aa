/* SPDX-License-Identifier: Apache-2.0 */
/* compshim check: tells whether a program's all-reduces can be caught, without running it. */
#include "tools/check/check.h"
#include "tools/lib/tool.h"

struct check_options {
    bool json;
};

static const struct tool_option options[] = {
    {"json", 0, TOOL_FLAG, offsetof(struct check_options, json), NULL, "print the same as JSON"},
    {0},
};

static int run(int argc, char **argv)
{
    struct check_options chosen = {0};
    struct check_result result = {0};
    int first = tool_parse(&tool_check, argc, argv, &chosen);
    if (first == argc)
        tool_misuse("check", "no program to check");
    if (first + 1 < argc)
        tool_misuse("check", "'%s' is one word too many", argv[first + 1]);
    char *problem = check_find(&result.findings, argv[first]);
    if (problem != NULL)
        tool_fail(TOOL_SYSTEM, "%s", problem);
    check_judge(&result, argv[first]);
    if (chosen.json)
        check_print_json(&result, argv[first]);
    else
        check_print_text(&result, argv[first]);
    return tool_finish(result.program.reason == CHECK_INTERPOSED ? TOOL_GOOD : TOOL_NOT_SO);
}

void check_warn(char **words, bool verbose)
{
    struct check_result result = {0};
    const char *name = *check_behind_launchers(words);
    if (name == NULL || check_find(&result.findings, name) != NULL)
        return;
    check_judge(&result, name);
    if (check_reasons[result.program.reason].is_warned_of &&
        check_calling(result.findings.program.path) == CHECK_PROGRAM)
        tool_warn("%s: its all-reduces are not caught: %s ('compshim check %s' tells more)", name,
                  result.program.explanation, name);
    else if (verbose)
        tool_warn("%s: %s: %s", name, check_verdict_name(result.program.reason),
                  result.program.explanation);
}

const struct tool_command tool_check = {
    .name = "check",
    .summary = "say whether a program's all-reduces can be caught, and why",
    .usage = "[--json] PROGRAM",
    .details =
        "Nothing is run. PROGRAM is a name in PATH, a path, a script or a shared library; all "
        "libraries\nthat it needs are looked at too. The answer is 'caught', 'not caught' or "
        "'maybe', with a reason\nand what to do.\n\n"
        "exit status: 0 caught, 1 not caught or maybe, 2 wrong use, 3 the system failed\n\n"
        "  compshim check ./train\n",
    .options = options,
    .run = run,
};
