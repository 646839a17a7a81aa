/* SPDX-License-Identifier: Apache-2.0 */
/* compshim(1): finds the subcommand and runs it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/tool.h"
#include "version.h"

#define COMMAND_COUNT 7

static const struct tool_command *const commands[COMMAND_COUNT] = {
    &tool_run, &tool_check, &tool_explain, &tool_report, &tool_compare, &tool_tune, &tool_top,
};

static void print_help(void)
{
    printf("usage: compshim COMMAND [OPTION...] [ARGUMENT...]\n\n"
           "Compresses the all-reduces of unmodified MPI and NCCL programs, and shows what that "
           "does.\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-8s  %s\n", commands[i]->name, commands[i]->summary);
    printf("\n'compshim COMMAND --help' or 'compshim help COMMAND' tells more about one;\n"
           "'compshim help policy' lists the keys of policy.ini;\n"
           "'compshim --version' prints the version.\n\n"
           "exit status: 0 good, 1 the thing asked about is not so, 2 wrong use, 3 the system "
           "failed\n");
}

static const struct tool_command *find_command(const char *name)
{
    const char *names[COMMAND_COUNT];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i]->name;
        if (strcmp(name, names[i]) == 0)
            return commands[i];
    }
    tool_fail(TOOL_USAGE, "unknown command '%s'%s; 'compshim --help' lists them", name,
              tool_hint("", name, names, COMMAND_COUNT));
}

int main(int argc, char **argv)
{
    static char name[] = "compshim";
    program_invocation_short_name = name;
    if (argc < 2)
        tool_fail(TOOL_USAGE, "no command given; 'compshim --help' lists them");
    const char *word = argv[1];
    if (strcmp(word, "--version") == 0) {
        printf("compshim %s\n", CSHIM_VERSION);
        return tool_finish(TOOL_GOOD);
    }
    bool help = strcmp(word, "help") == 0;
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || (help && argc == 2)) {
        print_help();
        return tool_finish(TOOL_GOOD);
    }
    if (help) {
        if (strcmp(argv[2], "policy") == 0)
            tool_help_policy();
        else
            tool_help(find_command(argv[2]));
        return tool_finish(TOOL_GOOD);
    }
    return find_command(word)->run(argc - 1, argv + 1);
}
