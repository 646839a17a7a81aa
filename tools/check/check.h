/* SPDX-License-Identifier: Apache-2.0 */
/* Inside compshim check: what a program's files tell of its all-reduces, and the verdict on it.
 *
 * program.c finds the file of a name, uses.c the uses of the functions in the file and its
 * libraries, verdict.c judges, and check.c prints the verdict as text and as JSON.
 * Everything that these functions return lives until the tool ends.
 */
#ifndef TOOL_CHECK_H
#define TOOL_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/elf/elf.h"

#define CHECK_SCRIPTS_MAX 5 /* Linux follows so many scripts whose interpreter is a script */

/* The file that the system runs for a name. */
struct check_program {
    char *path;
    size_t scripts; /* scripts that lead to it; the user has named the first one */
    char *script_paths[CHECK_SCRIPTS_MAX];
};

/* Finds a program as execvp(3) does, else a file of that name in this folder, and follows the #!
 * lines of scripts (and env in them). Returns NULL, or what is wrong if there is no such file or
 * interpreter. */
char *check_program_find(struct check_program *program, const char *name);

/* What a file's name tells of its program. */
enum check_calling {
    CHECK_PROGRAM,
    CHECK_INTERPRETER, /* of a language, or Python's source: libraries are loaded at run time */
    CHECK_STARTER      /* a shell or launcher: it starts other programs */
};

enum check_calling check_calling(const char *path);

/* The program of a command line: its first word or, if that is a launcher, the first word behind it
 * that is no option and names a program. If there is none, the NULL behind the last word. */
char **check_behind_launchers(char **words);

enum check_library { CHECK_MPI, CHECK_NCCL, CHECK_GLOO, CHECK_LIBRARY_COUNT };

/* What is said of a library. */
struct check_library_facts {
    const char *key;      /* in JSON */
    const char *name;     /* for readers */
    const char *files;    /* beginnings of the names of its files */
    const char *own_copy; /* what to do about a copy of it; %s: the object that has the copy */
};

extern const struct check_library_facts check_libraries[CHECK_LIBRARY_COUNT];

enum check_use_kind {
    CHECK_CALLS,    /* it calls the function through the loader: a preload comes first */
    CHECK_PROVIDES, /* it is a file of the library, and defines the function */
    CHECK_EMBEDS,   /* it has a copy of the function, and calls it through the loader */
    CHECK_BINDS,    /* it has a copy of the function, to which its calls are bound */
    CHECK_HIDES,    /* it has a copy of the function, which the loader does not know */
    CHECK_FETCHES,  /* its function of that name jumps to what it fetches at run time */
    CHECK_HOLDS,    /* it is stripped and has a text in it that only the library's code has */
    CHECK_NAMES     /* it opens libraries at run time, and has this library's name in it */
};

/* How one object uses one of the functions, or a library's name. */
struct check_use {
    size_t object;        /* index in the closure */
    const char *symbol;   /* as the object spells it, or the text; lives as long as the closure */
    const char *function; /* the function behind it: "MPI_Allreduce"; NULL for a name or text */
    const char *shown;    /* the symbol for readers: a C++ function by its name */
    enum check_library library;
    enum check_use_kind kind;
    bool fortran;
    bool internal; /* the object is a file of the library, and calls for its callers */
};

struct check_findings {
    struct check_program program;
    struct closure closure;
    struct object front; /* libcompshim.so */
    char *front_path;
    struct check_use *uses;
    size_t use_count;
    bool copies;           /* the program has copy relocations for handles of the MPI library */
    bool namespaces;       /* something imports dlmopen */
    const char *asan;      /* the shared runtime of the address sanitizer that it needs, or NULL */
    bool has_asan_options; /* and it sets options for that by a function of its own */
};

/* Looks at a program and all it needs. Returns NULL, or what is wrong if a file that it takes
 * cannot be read. Exits with TOOL_SYSTEM if there is no libcompshim.so. */
char *check_find(struct check_findings *findings, const char *name);

/* A kind of MPI library, or NCCL, or gloo, by its binary interface. */
struct check_abi {
    const char *name;
    const char *engine; /* file name, or NULL if no engine could serve it */
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

/* What a reason is called, and to which verdict it leads. */
struct check_reason_facts {
    const char *name;
    enum check_verdict verdict;
    bool is_warned_of; /* by compshim run */
};

extern const struct check_reason_facts check_reasons[CHECK_REASON_COUNT];

struct check_judgement {
    enum check_reason reason;
    const char *explanation; /* a sentence without its full stop */
    const char *remedy;
    const struct check_abi *abi; /* NULL if no such library was found */
    size_t provider;             /* index in the closure of the library, SIZE_MAX if none */
    const char *engine;          /* path of the engine that serves it, NULL if none */
};

/* The verdicts on the program, and on its use of each library. */
struct check_result {
    struct check_findings findings;
    struct check_judgement program;
    struct check_judgement libraries[CHECK_LIBRARY_COUNT];
};

/* Fills in the judgements from the findings. `name` is what the user calls the program. */
void check_judge(struct check_result *result, const char *name);

/* "caught", "maybe" or "not caught". */
const char *check_verdict_name(enum check_reason reason);

/* For compshim run: warns if the preload cannot catch the calls of the program in a command line.
 * Says nothing of a program without calls, or one that cannot be found or read. quiet: says nothing
 * at all; verbose: prints the verdict on any program that can be read. Returns true if the
 * program's address sanitizer refuses to start behind a preloaded object unless ASAN_OPTIONS allows
 * that. */
bool check_warn(char **words, bool quiet, bool verbose);

/* Returns true if the launchers in a command line, or their options, may start processes on other
 * hosts, or in other network namespaces or containers. The words end with NULL. */
bool check_leads_away(char **words);

/* Whether all processes that a command line starts run on this host and share its
 * network names, as far as its launchers, their options and the environment tell. False in doubt.
 * The words end with NULL. */
bool locality_is_certain(char **words);

#endif
