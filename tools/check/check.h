/* SPDX-License-Identifier: Apache-2.0 */
/* Inside compshim check: what a program's files say about its all-reduces, and the verdict on it.
 *
 * From a name to a file (program.c), to the uses of the functions in its closure (uses.c), to a
 * verdict (file.c, verdict.c), to text and JSON (print.c). Whatever these functions return lives
 * until the tool ends.
 */
#ifndef TOOL_CHECK_H
#define TOOL_CHECK_H

#include <stdbool.h>
#include <stddef.h>

#include "tools/elf/closure.h"

#define CHECK_SCRIPTS_MAX 5 /* interpreters in a row that are scripts themselves: Linux has 5 */

/* The part of a path behind its last slash. */
const char *check_base_name(const char *path);

bool check_starts_with(const char *text, const char *prefix);

/* What a name leads to. */
struct check_program {
    char *path;     /* of the file that the system runs in the end */
    size_t scripts; /* the scripts on the way there, the first one named by the user */
    char *script_paths[CHECK_SCRIPTS_MAX];
};

/* Finds a program as execvp(3) does, else a file of that name in this folder, and follows the #!
 * lines of scripts (and env in them). Returns NULL, or what is wrong if there is no such file or
 * interpreter. */
char *check_program_find(struct check_program *program, const char *name);

/* Why the loader ignores LD_PRELOAD when this user runs the file: "is set-user-ID root", or that it
 * is set-group-ID or has capabilities. NULL if it does not. */
char *check_secure_mode(const char *path);

/* What is known of a file's name alone. */
enum check_calling {
    CHECK_PROGRAM,
    CHECK_INTERPRETER, /* of a language: it loads libraries as its programs ask for them */
    CHECK_STARTER      /* a shell or launcher: it starts other programs */
};

enum check_calling check_calling(const char *path);

/* The program in a command line: its first word, or behind launchers the first word that is no
 * option and names a program. NULL if there is none to be sure of. */
const char *check_behind_launchers(char **words);

/* How many words of a command line stand before that program; *all: how many there are. */
size_t check_launchers_words(char **words, size_t *all);

enum check_library { CHECK_MPI, CHECK_NCCL, CHECK_LIBRARY_COUNT };

enum check_use_kind {
    CHECK_CALLS,    /* through a place that the loader fills in: a preload comes first */
    CHECK_PROVIDES, /* the MPI or NCCL library itself */
    CHECK_EMBEDS,   /* has its own copy, reached through the loader */
    CHECK_BINDS,    /* has its own copy, and its calls are bound to that */
    CHECK_HIDES     /* the same; the loader does not know of the function */
};

/* One of the functions in one object. */
struct check_use {
    size_t object;        /* index in the closure */
    const char *symbol;   /* as the object spells it; lives as long as the closure */
    const char *function; /* the C function that it comes to: "MPI_Allreduce" */
    enum check_library library;
    enum check_use_kind kind;
    bool fortran;
    bool internal; /* the object is part of the MPI or NCCL library */
};

/* An object that opens libraries at run time and names one of those in question. */
struct check_hint {
    size_t object;
    enum check_library library;
    const char *text;
};

struct check_findings {
    struct check_program program;
    struct closure closure;
    struct object front; /* libcompshim.so */
    char *front_path;
    struct check_use *uses;
    size_t use_count;
    struct check_hint *hints;
    size_t hint_count;
    bool copies;     /* the program has copy relocations for the MPI library's handles */
    bool namespaces; /* something imports dlmopen */
};

/* Looks at a program and all it needs. Returns NULL, or what is wrong if a file that it takes
 * cannot be read. Exits with TOOL_SYSTEM if there is no libcompshim.so. */
char *check_find(struct check_findings *findings, const char *name);

/* What the functions of the MPI or NCCL in the closure look like to their callers. */
struct check_abi {
    const char *name;
    const char *engine; /* file name, or NULL if no engine could serve it */
};

enum check_verdict { CHECK_CAUGHT, CHECK_MAYBE, CHECK_NOT_CAUGHT };

/* Each stands for one verdict. */
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

struct check_judgement {
    enum check_reason reason;
    const char *explanation; /* a sentence without its full stop, of the program's files */
    const char *remedy;
    const struct check_abi *abi; /* NULL if no library was found or named */
    size_t provider;             /* index in the closure of the library, SIZE_MAX if none */
    const char *engine;          /* path of the engine that serves it, NULL if none */
};

/* The verdict on the program, and on the MPI and the NCCL part of it by itself. */
struct check_result {
    struct check_findings findings;
    struct check_judgement program;
    struct check_judgement libraries[CHECK_LIBRARY_COUNT];
};

/* Fills in the judgements from the findings. `name` is what the user calls the program. */
void check_judge(struct check_result *result, const char *name);

/* Sets the reason, what to do and, as printf(3) does, why. */
void check_set(struct check_judgement *judgement, enum check_reason reason, const char *remedy,
               const char *explanation, ...) __attribute__((format(printf, 4, 5)));

/* Judges what keeps any preload out of a program; false if nothing does. */
bool check_judge_file(const struct check_findings *findings, struct check_judgement *judgement);

/* What a reason comes to; "caught", "maybe", "not caught"; a word for each reason; "mpi", "nccl".
 */
enum check_verdict check_verdict(enum check_reason reason);
const char *check_verdict_name(enum check_reason reason);
const char *check_reason_name(enum check_reason reason);
const char *check_library_name(enum check_library library);

void check_print_text(const struct check_result *result, const char *name);
void check_print_json(const struct check_result *result, const char *name);

/* For compshim run: warns if the program in a command line is one that the preload cannot reach.
 * Silent where nothing is to be caught, and about what cannot be found or read; verbose: tells the
 * verdict of any program that can be read. */
void check_warn(char **words, bool verbose);

#endif
