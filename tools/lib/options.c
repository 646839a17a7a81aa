/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a command's options and prints its --help, both by the command's table of options; parses
 * lists of sizes. */
#include "tools/lib/tool.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "shim/core/environment.h"

#define OPTIONS_MAX 32 /* options per command */
#define COUNT_MAX 1000000ul

static const char *command_name; /* the command whose options are parsed */

void tool_misuse(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "compshim %s: ", command_name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\nSee 'compshim %s --help'.\n", command_name);
    va_end(arguments);
    exit(TOOL_USAGE);
}

const char *tool_hint(const char *prefix, const char *word, const char *const *names, size_t count)
{
    const char *nearest = cshim_nearest_name(word, names, count), *known = "";
    if (nearest != NULL)
        return tool_format(" (did you mean '%s%s'?)", prefix, nearest);
    for (size_t i = 0; i < count; i++)
        known = tool_format("%s%s%s%s", known, i > 0 ? ", " : "", prefix, names[i]);
    return tool_format(" (known: %s)", known);
}

/* Returns the code of an option in getopt_long(): its letter, or a larger number by its index. */
static int code_of(const struct tool_option *options, size_t index)
{
    return options[index].letter != 0 ? options[index].letter : 256 + (int)index;
}

static bool has_code(const struct tool_option *options, int code)
{
    size_t index = 0;
    while (options[index].name != NULL && code_of(options, index) != code)
        index++;
    return options[index].name != NULL || code == 'h';
}

/* Describes the table to getopt_long(): its long options and its letters. */
static void describe(const struct tool_command *command, struct option *longs, char *letters)
{
    const struct tool_option *options = command->options;
    letters = stpcpy(letters, command->takes_command ? "+:h" : ":h");
    *longs++ = (struct option){"help", no_argument, NULL, 'h'};
    for (size_t i = 0; options[i].name != NULL; i++) {
        bool flag = options[i].kind == TOOL_FLAG;
        *longs++ = (struct option){options[i].name, flag ? no_argument : required_argument, NULL,
                                   code_of(options, i)};
        if (options[i].letter == 0)
            continue;
        *letters++ = options[i].letter;
        if (!flag)
            *letters++ = ':';
    }
    *longs = (struct option){0};
    *letters = '\0';
}

uint32_t tool_parse_count(const char *option, const char *text)
{
    char *end = NULL;
    const unsigned long count = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || count < 1 || count > COUNT_MAX)
        tool_misuse("--%s: '%s' is not a whole number from 1 to %lu", option, text, COUNT_MAX);
    return (uint32_t)count;
}

static void store(const struct tool_option *option, const char *text)
{
    switch (option->kind) {
    case TOOL_FLAG:
        *(bool *)option->field = true;
        break;
    case TOOL_TEXT:
        *(const char **)option->field = text;
        break;
    case TOOL_SIZE:
        if (!cshim_parse_size(text, option->field))
            tool_misuse("--%s: '%s' is not a size (such as 65536, 64KiB or 25MB)", option->name,
                        text);
        break;
    case TOOL_COUNT:
        *(uint32_t *)option->field = tool_parse_count(option->name, text);
        break;
    }
}

static _Noreturn void refuse(const struct tool_command *command, const char *word)
{
    const char *advice = command->advice != NULL ? command->advice : "";
    if (optopt != 0 && !has_code(command->options, optopt))
        tool_misuse("unknown option '-%c'%s", optopt, advice);
    if (optopt != 0)
        tool_misuse("option '%s': it takes no argument", word);
    const char *names[OPTIONS_MAX + 1] = {"help"};
    size_t count = 1;
    for (; command->options[count - 1].name != NULL; count++)
        names[count] = command->options[count - 1].name;
    char *name = tool_format("%.*s", (int)strcspn(word + 2, "="), word + 2);
    tool_misuse("unknown option '--%s'%s%s", name, tool_hint("--", name, names, count), advice);
}

static bool names_file(const struct tool_option *option)
{
    return option->argument != NULL && strcmp(option->argument, "FILE") == 0 &&
           *(const char **)option->field != NULL;
}

/* Refuses two options with the same file: one may overwrite what the other writes or reads. */
static void check_files(const struct tool_option *options)
{
    for (const struct tool_option *last = options; last->name != NULL; last++)
        for (const struct tool_option *option = options; option < last; option++)
            if (names_file(option) && names_file(last) &&
                cshim_is_same_file(*(const char **)option->field, *(const char **)last->field))
                tool_misuse("--%s and --%s are the same file, %s: name another", option->name,
                            last->name, *(const char **)last->field);
}

char **tool_parse(const struct tool_command *command, int argc, char **argv)
{
    struct option longs[OPTIONS_MAX + 2];
    char letters[2 * OPTIONS_MAX + 4];
    command_name = command->name;
    describe(command, longs, letters);
    opterr = 0;
    optind = 1;
    int code = 0;
    while ((code = getopt_long(argc, argv, letters, longs, NULL)) != -1) {
        if (code == 'h') {
            tool_help(command);
            exit(tool_finish(TOOL_GOOD));
        }
        if (code == ':')
            tool_misuse("option '%s' needs an argument", argv[optind - 1]);
        if (code == '?')
            refuse(command, argv[optind - 1]);
        size_t index = 0;
        while (code_of(command->options, index) != code)
            index++;
        const struct tool_option *option = &command->options[index];
        /* A word that looks like an option is not taken as an argument; "-" alone is. */
        if (option->kind == TOOL_TEXT && optarg == argv[optind - 1] && optarg[0] == '-' &&
            optarg[1] != '\0')
            tool_misuse("option '--%s' needs an argument before '%s' (to mean that: --%s=%s)",
                        option->name, optarg, option->name, optarg);
        store(option, optarg);
    }
    check_files(command->options);
    return argv + optind;
}

static uint64_t parse_size(const char *text)
{
    uint64_t bytes = 0;
    if (!cshim_parse_size(text, &bytes))
        tool_misuse("--sizes: '%s' is not a size (such as 65536, 64KiB or 25MB), nor a range of "
                    "them (64KiB-64MiB)",
                    text);
    return bytes;
}

size_t tool_parse_sizes(const char *text, uint64_t *sizes, size_t room)
{
    size_t count = 0, ranges = 0;
    char **parts = tool_split(text, &ranges);
    for (size_t i = 0; i < ranges; i++) {
        const char *end = strchr(parts[i], '-');
        parts[i][strcspn(parts[i], "-")] = '\0';
        uint64_t bytes = parse_size(parts[i]);
        const uint64_t last = end != NULL ? parse_size(end + 1) : bytes;
        if (end != NULL && (bytes == 0 || bytes > last))
            tool_misuse("--sizes: '%s-%s' does not rise from a size above 0", parts[i], end + 1);
        for (bool more = true; more; bytes = bytes <= last / 2 ? 2 * bytes : last) {
            if (count == room)
                tool_misuse("--sizes: more than %zu sizes", room);
            sizes[count++] = bytes;
            more = bytes < last;
        }
    }
    return count;
}

static void add_option(struct tool_table *table, const struct tool_option *option)
{
    const bool flag = option->argument == NULL;
    char letter[] = "-x, ";
    letter[1] = option->letter;
    char *name = tool_format("  %4s--%s%s%s", option->letter != 0 ? letter : "", option->name,
                             flag ? "" : " ", flag ? "" : option->argument);
    tool_table_add(table, (char *[]){name, tool_copy(option->help)});
}

void tool_help(const struct tool_command *command)
{
    static const struct tool_option help = {"help", 'h', TOOL_FLAG, NULL, NULL, "print this help"};
    struct tool_table table = {.columns = 2};
    for (const struct tool_option *option = command->options; option->name != NULL; option++)
        add_option(&table, option);
    add_option(&table, &help);
    tool_print(stdout, 7, "usage: compshim %s %s\n", command->name, command->usage);
    tool_print(stdout, 0, "\n%s\n\noptions:\n", command->summary);
    tool_table_print(&table, stdout);
    if (command->details != NULL)
        tool_print(stdout, 0, "\n%s", command->details);
}
