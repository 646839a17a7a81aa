/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the subcommands of compshim(1): exit statuses, messages, options, tables, memory.
 *
 * Messages, except those of tool_misuse(), are printed by warnx, errx, warn and err of err.h, as
 * "compshim: ...": main() sets that program name. err and errx exit with a status of enum
 * tool_status, or after a signal with 128 plus its number.
 *
 * The tool has one thread. A function that cannot continue, and returns no error, prints what is
 * wrong and what to do, and exits with the status for that. */
#ifndef TOOL_H
#define TOOL_H

#include <err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum tool_status {
    TOOL_GOOD = 0,
    TOOL_NOT_SO = 1, /* the answer is no: a wrong policy, a failed run */
    TOOL_USAGE = 2,
    TOOL_SYSTEM = 3 /* a system call failed: no file, process or memory */
};

/* Type of an option's argument, and of the variable that it sets. */
enum tool_option_kind {
    TOOL_FLAG, /* bool, no argument */
    TOOL_TEXT, /* const char *, pointing into argv */
    TOOL_SIZE, /* uint64_t, "25MiB" */
    TOOL_COUNT /* uint32_t, 1 to 1000000 */
};

/* One option. The parser and --help use this table; docs/man/page.awk reads its text for
 * compshim(1). The last entry of a table has a NULL name. */
struct tool_option {
    const char *name;
    char letter; /* 0: none */
    enum tool_option_kind kind;
    void *field;          /* variable of that type; has the default until tool_parse() */
    const char *argument; /* name of the argument in --help; two options with "FILE" must name
                             different files */
    const char *help;     /* one line */
};

struct tool_command {
    const char *name;
    const char *summary; /* one line, for the list of commands */
    const char *usage;   /* the words after "compshim NAME", also in compshim(1) */
    const char *details; /* text that --help prints below the options, or NULL */
    const char *advice;  /* added to the message about an unknown option; NULL: none */
    bool takes_command;  /* the operands are a command line, which may have its own options */
    const struct tool_option *options;
    int (*run)(char **words); /* called with the operands, up to a NULL; returns the exit status */
};

extern const struct tool_command tool_check;
extern const struct tool_command tool_explain;
extern const struct tool_command tool_run;
extern const struct tool_command tool_report;
extern const struct tool_command tool_compare;
extern const struct tool_command tool_tune;
extern const struct tool_command tool_top;

/* Parses argv by the command's table and sets its variables. Returns the operands, up to a NULL.
 * --help prints the help and exits 0; wrong use exits 2. */
char **tool_parse(const struct tool_command *command, int argc, char **argv);

/* Reads a number as TOOL_COUNT does. Exits with TOOL_USAGE for any other text. */
uint32_t tool_parse_count(const char *option, const char *text);

/* Reads a list such as "1MiB,64KiB-64MiB" into sizes, in its order, and returns their number. A
 * range means its first size, the doubles of that, and its last size. Exits with TOOL_USAGE, naming
 * --sizes, for any other text, or more than `room` sizes. */
size_t tool_parse_sizes(const char *text, uint64_t *sizes, size_t room);

/* Prints the help of one command to stdout. */
void tool_help(const struct tool_command *command);

/* Returns " (did you mean 'x'?)" if a name is similar to `word`, else " (known: x, y)"; each name
 * with the prefix. */
const char *tool_hint(const char *prefix, const char *word, const char *const *names, size_t count);

/* Prints "compshim NAME: ..." for the command whose options tool_parse() parses or has parsed, and
 * a hint to its --help, and exits with status 2. */
void tool_misuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Returns zeroed memory. The tool leaves most of its memory to the system: callers free the results
 * of the functions here only if these pile up while a command runs, as the outputs of many runs do.
 */
void *tool_allocate(size_t count, size_t size);
/* Appends an element of `size` bytes to a malloc'ed array (NULL: none yet) of *count elements.
 * Returns the array, which may have moved. */
void *tool_append(void *array, size_t *count, size_t size, const void *element);
/* Like strdup and asprintf, but exit if there is no memory. */
char *tool_copy(const char *text);
char *tool_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Returns the text with all occurrences of `from` replaced. */
char *tool_replace(const char *text, const char *from, const char *to);

/* Exits with TOOL_NOT_SO if an option's file contains something other than what the option writes,
 * which has the mark in its first 63 bytes. A NULL path is no file. */
void tool_spare_file(const char *option, const char *path, const char *mark);
/* Like tool_spare_file(); also exits, with TOOL_SYSTEM, if the file cannot be written. Does not
 * change the file. */
void tool_check_writable(const char *option, const char *path, const char *mark);

struct cshim_output;
/* Open and close a file that is replaced as a whole (shim/core/output.h), whatever it contains.
 * Exit with TOOL_SYSTEM if it cannot be written. */
void tool_open_output(struct cshim_output *output, const char *path);
void tool_close_output(struct cshim_output *output);

/* Returns true if a path leads to a regular file: opening any other, such as a pipe, may block
 * forever. */
bool tool_is_regular(const char *path);

/* Flushes stdout. Returns the status, or TOOL_SYSTEM, with a message, if the output was lost. */
int tool_finish(int status);

/* Splits the list "a,b,c" into an array of at least one string. The caller frees the first string,
 * which holds all of them, and the array. Empty items are kept, so that the caller can report them.
 */
char **tool_split(const char *list, size_t *count);

/* Returns true if the first `length` characters of a word are a name in a list. A name in it ends
 * at the separator, at '=' or with the list. */
bool tool_is_listed(const char *list, char separator, const char *word, size_t length);
/* Returns true if the last part of a path is one of the blank-separated names. */
bool tool_is_program(const char *path, const char *names);
/* Returns true if a text begins with one of the blank-separated prefixes. */
bool tool_starts_with(const char *text, const char *prefixes);
/* Replaces control characters, which must not reach a terminal, and returns the text. */
char *tool_printable(char *text);

/* Writes the text so that Markdown sees no markup and no end of a cell in it. */
void tool_print_markdown(const char *text, FILE *file);

/* Prints lines, each wrapped at blanks to CSHIM_LINE_WIDTH columns; continued lines are indented by
 * `indent` columns. */
void tool_print(FILE *file, size_t indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A table of text, printed with aligned columns, as CSV or as Markdown. With two rows of headings,
 * an empty cell of the first belongs to the one to its left. */
struct tool_table {
    const char *name;  /* key by which a page's script finds the table */
    const char *title; /* printed above the table, or NULL */
    size_t columns;
    size_t numeric_from; /* first column that is aligned right */
    size_t headings;     /* number of rows above the line */
    size_t keys;         /* number of columns that each part of a wide table begins with; 0: one */
    const char *prefix;  /* printed before each line; NULL: none */
    size_t rows;
    char **cells; /* rows * columns, owned */
};

/* Appends a row of `columns` cells, taking ownership of the strings; NULL is an empty cell. */
void tool_table_add(struct tool_table *table, char **cells);
/* Returns a table with a row of headings, given as "a,b,c". */
struct tool_table tool_table_of(const char *headings, size_t numeric_from);
/* Prints a table. One that is wider than CSHIM_LINE_WIDTH is printed in parts, if possible between
 * columns with headings of their own; in a table of names and texts (two columns without headings)
 * the texts are wrapped. */
void tool_table_print(const struct tool_table *table, FILE *file);
void tool_table_print_csv(const struct tool_table *table, FILE *file);
/* Prints the table, as Markdown or as tool_table_print() does, after an empty line and its title.
 * Prints nothing if the table has only headings. */
void tool_table_print_titled(const struct tool_table *table, bool markdown, FILE *file);
void tool_table_free(struct tool_table *table);

/* Return "25.0 MiB", "12.3 ms" for readers. */
char *tool_bytes(double bytes);
char *tool_seconds(double seconds);
/* Returns "1 rank", "2 ranks". */
char *tool_plural(uint64_t count, const char *noun);

/* Sets a variable of the environment; prints it if `is_told`. Exits with
 * TOOL_SYSTEM if that fails. */
void tool_set_variable(const char *name, const char *value, bool is_told);

#endif
