/* SPDX-License-Identifier: Apache-2.0 */
/* What the subcommands of compshim(1) share: exit statuses, messages, options, tables, memory.
 *
 * Messages are printed by warnx, errx, warn and err of err.h, as "compshim: ...": main() gives the
 * program this name. err and errx exit with a status of enum tool_status.
 *
 * The tool has one thread, and ends soon. A function that cannot go on prints what is wrong and
 * what to do, and exits with the status for that: its callers need no error paths.
 */
#ifndef TOOL_H
#define TOOL_H

#include <err.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum tool_status {
    TOOL_GOOD = 0,
    TOOL_NOT_SO = 1, /* the answer is no: a bad policy, a run that failed */
    TOOL_USAGE = 2,
    TOOL_SYSTEM = 3 /* no file, process or memory, as the system says */
};

/* What an option's argument is, and the type of the variable that it sets. */
enum tool_option_kind {
    TOOL_FLAG, /* bool, no argument */
    TOOL_TEXT, /* const char *, pointing into argv */
    TOOL_SIZE, /* uint64_t, "25MiB" */
    TOOL_COUNT /* uint32_t, 1 to 1000000 */
};

/* One option. The parser and --help read this table, and docs/man/page.awk reads its text for
 * compshim(1). The last entry of a table has a NULL name. */
struct tool_option {
    const char *name;
    char letter; /* 0 for none */
    enum tool_option_kind kind;
    void *field;          /* of that type; holds the default until tool_parse */
    const char *argument; /* its name in --help; no two options have the same "FILE" */
    const char *help;     /* one line */
};

struct tool_command {
    const char *name;
    const char *summary; /* one line, for the list of commands */
    const char *usage;   /* what follows "compshim NAME", also in compshim(1) */
    const char *details; /* what --help prints below the options, or NULL */
    const char *advice;  /* behind the message of an option that it has not; NULL: none */
    bool takes_command;  /* its operands are a command line, which may have options of its own */
    const struct tool_option *options;
    int (*run)(char **words); /* the operands, up to a NULL; returns the exit status */
};

extern const struct tool_command tool_check;
extern const struct tool_command tool_explain;
extern const struct tool_command tool_run;
extern const struct tool_command tool_report;
extern const struct tool_command tool_compare;
extern const struct tool_command tool_tune;
extern const struct tool_command tool_top;

/* Parses argv by the command's table and sets its variables; returns the operands, up to a NULL.
 * --help prints the help and exits 0; wrong use exits 2. */
char **tool_parse(const struct tool_command *command, int argc, char **argv);

/* Reads a number as TOOL_COUNT does; any other text is wrong use of the option. */
uint32_t tool_parse_count(const char *option, const char *text);

/* Reads a list such as "1MiB,64KiB-64MiB" into sizes, in its order, and returns how many there are.
 * A range stands for its first size, the doubles of that, and its last size. Any other text, or
 * more than `room` sizes, is wrong use of the option --sizes. */
size_t tool_parse_sizes(const char *text, uint64_t *sizes, size_t room);

/* Prints the help of one command to stdout. */
void tool_help(const struct tool_command *command);

/* " (did you mean 'x'?)" if a name is near to word, else " (known: x, y)"; each with the prefix. */
const char *tool_hint(const char *prefix, const char *word, const char *const *names, size_t count);

/* Prints "compshim NAME: ..." of the command that tool_parse has got, and a hint to its --help, and
 * exits with status 2. */
void tool_misuse(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Zeroed memory. The tool ends soon: nothing has to be freed but what grows while a command runs,
 * as the output of many runs. That holds for all functions here. */
void *tool_allocate(size_t count, size_t size);
/* Appends an element of `size` bytes to a malloc'ed array (NULL: none yet) of *count elements, and
 * returns the array, which may have moved. */
void *tool_append(void *array, size_t *count, size_t size, const void *element);
/* strdup and asprintf. */
char *tool_copy(const char *text);
char *tool_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Exits with TOOL_NOT_SO if an option's file holds something else than what the option writes,
 * which has the mark in its first 63 bytes. A NULL path is no file. */
void tool_spare_file(const char *option, const char *path, const char *mark);

struct cshim_output;
/* Open and close a file that is to be replaced as a whole (shim/core/output.h), whatever it holds.
 * They exit with TOOL_SYSTEM if it cannot be written. */
void tool_open_output(struct cshim_output *output, const char *path);
void tool_close_output(struct cshim_output *output);

/* Whether a path leads to a regular file: opening another one, such as a pipe, may never end. */
bool tool_is_regular(const char *path);

/* Flushes stdout; returns the status, or TOOL_SYSTEM with a message if the output was lost. */
int tool_finish(int status);

/* The list "a,b,c" as an array of at least one string; the caller frees the first string, which has
 * the others behind it, and the array. Empty items are kept, for the caller to complain about. */
char **tool_split(const char *list, size_t *count);

/* Whether the first `length` characters of a word are a name in a list. A name in it ends at the
 * separator, at '=' or with the list. */
bool tool_is_listed(const char *list, char separator, const char *word, size_t length);
/* Whether the last part of a path is one of the names, which blanks separate. */
bool tool_is_program(const char *path, const char *names);
/* Whether a text begins with one of the prefixes in a list, which blanks separate. */
bool tool_starts_with(const char *text, const char *prefixes);
/* Replaces control characters, which a terminal must not see, and returns the text. */
char *tool_printable(char *text);

/* Writes the text so that Markdown takes nothing in it for markup or for the end of a cell. */
void tool_print_markdown(const char *text, FILE *file);

/* Prints lines, each broken at blanks where it would be too wide for a terminal; what
 * follows a break is indented by so many columns. */
void tool_print(FILE *file, size_t indent, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A table of text, printed with aligned columns, as CSV or as Markdown. Where there are two rows of
 * headings, an empty cell of the first belongs to the one left of it. */
struct tool_table {
    const char *name;  /* by which a page's script finds it */
    const char *title; /* above it, where one is printed */
    size_t columns;
    size_t numeric_from; /* columns from this one on are aligned right */
    size_t headings;     /* rows above the line */
    size_t keys;         /* columns that each part of a wide table begins with; 0: one */
    const char *prefix;  /* of each printed line; NULL: none */
    size_t rows;
    char **cells; /* rows * columns, owned */
};

/* Appends a row of `columns` cells, taking ownership of the strings; NULL is an empty cell. */
void tool_table_add(struct tool_table *table, char **cells);
/* A table with a row of headings, given as "a,b,c". */
struct tool_table tool_table_of(const char *headings, size_t numeric_from);
/* A table that is too wide for a terminal is printed in parts, where possible between columns with
 * headings of their own; of names and texts (two columns without headings), the texts go on below.
 */
void tool_table_print(const struct tool_table *table, FILE *file);
void tool_table_print_csv(const struct tool_table *table, FILE *file);
/* Prints the table, as Markdown or as tool_table_print does, below an empty line and its title.
 * Prints nothing if the table has only headings. */
void tool_table_print_titled(const struct tool_table *table, bool markdown, FILE *file);
void tool_table_free(struct tool_table *table);

/* "25.0 MiB", "12.3 ms" for readers. */
char *tool_bytes(double bytes);
char *tool_seconds(double seconds);
/* "1 rank", "2 ranks". */
char *tool_plural(uint64_t count, const char *noun);

#endif
