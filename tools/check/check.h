/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of compshim check: what a program's files say about its collectives, and the verdict.
 *
 * program.c finds the file of a name, uses.c finds the uses of wrapped functions in that file and
 * its libraries, verdict.c judges them, and check.c prints the verdict as text or as JSON.
 * Everything that these functions return lives until the tool ends. One thread only. */
#ifndef TOOL_CHECK_H
#define TOOL_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/elf/elf.h"

#define CHECK_SCRIPTS_MAX 5 /* Linux's limit for a chain of scripts */

/* The file that the system runs for a name. */
struct check_program {
    char *path;
    size_t scripts; /* number of scripts that lead to it; the user has named the first one */
    char *script_paths[CHECK_SCRIPTS_MAX];
};

/* Finds a program by its path or in PATH (empty entries are skipped), else the file at the path
 * `name`, which need not be executable. Follows the #! lines of scripts (and env in them). Returns
 * NULL, or an error text if there is no such file or interpreter. */
char *check_program_find(struct check_program *program, const char *name);

/* Type of a program, by its file's name. */
enum check_calling {
    CHECK_PROGRAM,
    CHECK_INTERPRETER, /* interpreter of a language, or Python source: loads libraries at run time
                        */
    CHECK_STARTER      /* a shell or launcher: starts other programs */
};

enum check_calling check_calling(const char *path);

/* Returns the program in a command line: its first word or, after launchers, the first word that is
 * no option and no launcher, and names a program. If there is none, the result points to the NULL
 * at the end. */
char **check_behind_launchers(char **words);

enum check_library { CHECK_MPI, CHECK_NCCL, CHECK_GLOO, CHECK_LIBRARY_COUNT };

/* Texts about a library. */
struct check_library_facts {
    const char *key;      /* name in JSON output */
    const char *name;     /* name in text output */
    const char *files;    /* prefixes of its file names, separated by blanks */
    const char *own_copy; /* advice about a copy of the library; %s: the object that has the copy */
};

extern const struct check_library_facts check_libraries[CHECK_LIBRARY_COUNT];

enum check_use_kind {
    CHECK_CALLS,    /* calls the function through the dynamic linker, so a preload comes first */
    CHECK_PROVIDES, /* is a file of the library, and defines the function */
    CHECK_EMBEDS,   /* has a copy of the function, and calls it through the dynamic linker */
    CHECK_BINDS,    /* has a copy of the function, to which its calls are bound */
    CHECK_HIDES,    /* has a copy of the function, which the dynamic linker does not know */
    CHECK_FETCHES,  /* defines the function as a jump to one that it finds at run time */
    CHECK_HOLDS,    /* is stripped and contains a text that only the library's code has */
    CHECK_NAMES     /* opens libraries at run time, and contains this library's name */
};

/* One object's use of one of the functions, or of a library's name. */
struct check_use {
    size_t object;      /* index in the closure */
    const char *symbol; /* the object's symbol, or the text; lives as long as the closure */
    const char
        *function;     /* the symbol's function, such as "MPI_Allreduce"; NULL for a name or text */
    const char *shown; /* symbol for readers: a C++ function's demangled name */
    enum check_library library;
    enum check_use_kind kind;
    bool fortran;
    bool internal; /* the object is part of the library, and calls on behalf of others */
};

struct check_findings {
    struct check_program program;
    struct closure closure;
    struct object front; /* libcompshim.so */
    char *front_path;
    struct check_use *uses;
    size_t use_count;
    bool copies;      /* the program has copy relocations for handles of the MPI library */
    bool namespaces;  /* an object imports dlmopen */
    const char *asan; /* shared runtime of the address sanitizer that the program needs, or NULL */
    bool has_asan_options; /* the program also defines __asan_default_options */
};

/* Examines a program and everything it needs. Returns NULL, or an error text if the program or its
 * interpreter is not found, the program cannot be read, or libcompshim.so cannot be read or is
 * damaged. Exits as launch_find_library() does. */
char *check_find(struct check_findings *findings, const char *name);

/* Type of an MPI library, NCCL or gloo, by its binary interface. */
struct check_abi {
    const char *name;
    const char *engine; /* file name; NULL: no engine can serve it */
};

enum check_verdict { CHECK_CAUGHT, CHECK_MAYBE, CHECK_NOT_CAUGHT };

enum check_reason {
    CHECK_INTERPOSED,
    CHECK_DAMAGED,
    CHECK_NO_PROGRAM,
    CHECK_MACHINE,
    CHECK_STATIC,
    CHECK_C_LIBRARY,
    CHECK_SECURE,
    CHECK_NO_ENGINE,
    CHECK_NOT_WRAPPED,
    CHECK_EMBEDDED,
    CHECK_OPENED,
    CHECK_INTERPRETS,
    CHECK_STARTS,
    CHECK_MISSING,
    CHECK_NO_CALL,
    CHECK_REASON_COUNT
};

/* Name of a reason, and its verdict. */
struct check_reason_facts {
    const char *name;
    enum check_verdict verdict;
    bool is_warned_of; /* compshim run warns of it */
};

extern const struct check_reason_facts check_reasons[CHECK_REASON_COUNT];

struct check_judgement {
    enum check_reason reason;
    const char *explanation; /* a sentence without its full stop */
    const char *remedy;
    const struct check_abi *abi; /* type of the called library; NULL: it was not found */
    size_t provider;             /* index of that library in struct closure; SIZE_MAX: none */
    const char *engine;          /* path of the engine that serves caught calls, or NULL */
};

/* Verdict on the program, and on its use of each library. */
struct check_result {
    struct check_findings findings;
    struct check_judgement program;
    struct check_judgement libraries[CHECK_LIBRARY_COUNT];
};

/* Fills in the verdicts from the findings. `name` is the program as the user names it. */
void check_judge(struct check_result *result, const char *name);

/* Returns "caught", "maybe" or "not caught". */
const char *check_verdict_name(enum check_reason reason);

/* For compshim run: warns about the program in a command line if the reason of its verdict has
 * is_warned_of, unless it is an interpreter, shell or launcher. Prints nothing about a program that
 * cannot be found or read. quiet: prints nothing; verbose: prints the verdict on any other program,
 * too. Returns true if the program's address sanitizer refuses to start after a preloaded object,
 * unless ASAN_OPTIONS allows it. */
bool check_warn(char **words, bool quiet, bool verbose);

/* Returns true if the launchers in a command line, or their options, may start processes on other
 * hosts, in other network namespaces, in containers, or later. `words` ends with NULL. */
bool check_leads_away(char **words);

/* Returns true if all processes that a command line starts run on this host and share its network
 * namespace, by its launchers, their options and the environment. Returns false in doubt. `words`
 * ends with NULL. */
bool locality_is_certain(char **words);

#endif
