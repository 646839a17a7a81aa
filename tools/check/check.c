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
    const bool caught = check_verdict(result.program.reason) == CHECK_CAUGHT;
    return tool_finish(caught ? TOOL_GOOD : TOOL_NOT_SO);
}

/* A program without calls is not worth a warning: it may start another program that has some. */
static bool is_worth_a_warning(const struct check_result *result)
{
    switch (result->program.reason) {
    case CHECK_MACHINE:
    case CHECK_STATIC:
    case CHECK_C_LIBRARY:
    case CHECK_SECURE:
    case CHECK_NO_ENGINE:
    case CHECK_NOT_WRAPPED:
    case CHECK_EMBEDDED:
        return check_calling(result->findings.program.path) == CHECK_PROGRAM;
    default:
        return false;
    }
}

void check_warn(char **words, bool verbose)
{
    struct check_result result = {0};
    const char *name = check_behind_launchers(words);
    if (name == NULL)
        return;
    if (check_find(&result.findings, name) != NULL)
        return;
    check_judge(&result, name);
    if (is_worth_a_warning(&result))
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
