/* SPDX-License-Identifier: Apache-2.0 */
/* compshim(1): finds the subcommand and runs it, or prints help. */
#include <dlfcn.h>
#include <errno.h>
#include <string.h>

#include "policy/policy.h"
#include "tools/lib/tool.h"
#include "version.h"

#define COMMAND_COUNT 7

static const struct tool_command *const commands[COMMAND_COUNT] = {
    &tool_run, &tool_check, &tool_explain, &tool_report, &tool_compare, &tool_tune, &tool_top,
};

static void print_help(void)
{
    tool_print(stdout, 0,
               "usage: compshim COMMAND [OPTION...] [ARGUMENT...]\n\n"
               "Compresses the all-reduces of unmodified MPI, NCCL and gloo programs, and shows "
               "what that does.\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-8s  %s\n", commands[i]->name, commands[i]->summary);
    tool_print(stdout, 0,
               "\n'compshim COMMAND --help' or 'compshim help COMMAND' describes a command;\n"
               "'compshim help policy' lists the keys of policy.ini, 'compshim help policies' the "
               "policies that are built in;\n"
               "'compshim --version' prints the version.\n\n"
               "exit status: 0 success, 1 the answer is no, 2 wrong use, 3 a system error\n");
}

static void add_keys(struct tool_table *table, const char *section, bool of_rules)
{
    struct cshim_policy_key key;
    tool_table_add(table, (char *[]){tool_copy(section), NULL});
    for (size_t i = 0; cshim_policy_key(of_rules, i, &key); i++) {
        char *help = tool_copy(key.help);
        for (size_t k = 0; k < key.words.count; k++)
            help = tool_format("%s%s%s", help, k == 0 ? ": " : ", ", key.words.names[k]);
        tool_table_add(table, (char *[]){tool_format("  %s %s", key.name, key.value), help});
    }
}

/* Prints the parser's tables of keys. */
static void help_policy(void)
{
    struct tool_table table = {.columns = 2};
    add_keys(&table, "[compshim]", false);
    add_keys(&table, "\n[rule NAME]", true);
    tool_print(stdout, 0,
               "A policy is a file of sections with lines 'key = value'. The rules are tried in "
               "order, and the first that matches a call decides; calls that no rule "
               "matches are passed through.\n\n");
    tool_table_print(&table, stdout);
    tool_print(stdout, 0,
               "\nA LIST is separated by commas. compshim-policy(5) describes each key, and "
               "where the file is looked for; 'compshim explain' shows what a policy does.\n\n"
               "  [rule large]\n"
               "  dtype    = float32\n"
               "  min_size = 64KiB\n"
               "  codec    = fp8_e4m3\n");
}

/* Returns the description in a policy's text: the lines of its comment after the first, which is
 * its licence, up to an empty one. */
static char *describe_policy(const char *text)
{
    char *description = tool_copy("");
    for (const char *line = strchr(text, '\n') + 1; strncmp(line, "; ", 2) == 0;) {
        const size_t length = strcspn(line, "\n");
        description = tool_format("%s%s%.*s", description, *description != '\0' ? " " : "",
                                  (int)length - 2, line + 2);
        line += length + 1;
    }
    return description;
}

static void help_policies(void)
{
    struct tool_table table = {.columns = 2};
    struct cshim_named_policy policy;
    for (size_t i = 0; (policy = cshim_policy_named(i)).name != NULL; i++)
        tool_table_add(&table,
                       (char *[]){tool_format("  %s", policy.name), describe_policy(policy.text)});
    tool_print(
        stdout, 0,
        "These policies are built in. Their names can be used wherever a policy file is named; "
        "a file with such a name is ./@name.\n\n");
    tool_table_print(&table, stdout);
    tool_print(stdout, 0,
               "\n  compshim run --policy @exact -- mpirun -n 4 ./solve\n"
               "  COMPSHIM_POLICY=@fp8 compshim run -- torchrun --nproc_per_node 4 train.py\n"
               "  compshim compare --modes off,@exact,@fp8 -- mpirun -n 4 ./train\n"
               "  compshim explain --policy @fp8           prints the policy\n");
}

/* Finds a command by its name. If there is none, ends the tool with a hint at the right name.
 * `others`: words that are allowed in place of a command, and that the hint may name. */
static const struct tool_command *find_command(const char *name, const char *const others[2])
{
    const char *names[COMMAND_COUNT + 2] = {others[0], others[1]};
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i + 2] = commands[i]->name;
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    }
    errx(TOOL_USAGE, "unknown command '%s'%s; see 'compshim --help'", name,
         tool_hint("", name, names, COMMAND_COUNT + 2));
}

static bool is_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* Keeps a leak checker that is preloaded for the started program from reporting this tool, which
 * leaves its memory to the system. */
static void leave_leaks(void)
{
    void (*disable)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "__lsan_disable");
    if (disable != NULL)
        disable();
}

int main(int argc, char **argv)
{
    static char name[] = "compshim";
    program_invocation_short_name = name;
    leave_leaks();
    if (argc < 2)
        errx(TOOL_USAGE, "no command given; 'compshim --help' lists them");
    const char *word = argv[1];
    const bool help = is_help(word), version = strcmp(word, "--version") == 0;
    if ((help || version) && argc > 2 + help)
        errx(TOOL_USAGE, "unexpected argument '%s'", argv[2 + help]);
    if (version)
        printf("compshim %s\n", CSHIM_VERSION);
    else if (help && (argc == 2 || is_help(argv[2])))
        print_help();
    else if (help && strcmp(argv[2], "policy") == 0)
        help_policy();
    else if (help && strcmp(argv[2], "policies") == 0)
        help_policies();
    else if (help)
        tool_help(find_command(argv[2], (const char *[]){"policy", "policies"}));
    else {
        const struct tool_command *command =
            find_command(word, (const char *[]){"help", "--version"});
        return command->run(tool_parse(command, argc - 1, argv + 1));
    }
    return tool_finish(TOOL_GOOD);
}
