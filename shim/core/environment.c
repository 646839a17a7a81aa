/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/environment.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/list.h"
#include "policy/policy.h"
#include "shim/core/output.h"

/* Returns true if a name of `length` bytes, without "COMPSHIM_", is one of the shim's variables.
 * Otherwise sets *nearest to the variable that may be meant, or to NULL. */
static bool is_known(const char *name, size_t length, const char **nearest)
{
    static const char *const known[] = {"FORWARDED", "LIVE",   "LOG", "MACHINE",
                                        "POLICY",    "REPORT", "RUN", "TRACE"};
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i], word) == 0)
            return true;
    *nearest = cshim_nearest_name(word, known, sizeof known / sizeof *known);
    return false;
}

const char *cshim_environment_first(const char *const *names)
{
    const char *value = NULL;
    for (; *names != NULL && (value == NULL || *value == '\0'); names++)
        value = getenv(*names);
    return value != NULL && *value != '\0' ? value : NULL;
}

const char *cshim_environment_report(void)
{
    const char *wanted = secure_getenv("COMPSHIM_REPORT");
    if (wanted == NULL || *wanted == '\0')
        return NULL;
    const enum cshim_mode mode = cshim_mode_of(wanted);
    if (mode == CSHIM_MODE_ON || cshim_is_word(wanted, "summary"))
        return "summary";
    return mode == CSHIM_MODE_OFF ? "off" : wanted;
}

const char *cshim_environment_trace(void)
{
    const char *wanted = secure_getenv("COMPSHIM_TRACE");
    const bool is_set = wanted != NULL && *wanted != '\0';
    return is_set && cshim_mode_of(wanted) != CSHIM_MODE_OFF ? wanted : NULL;
}

/* Writes the folder of a path to `folder`, and returns the file's name without it. */
static const char *split_path(const char *path, char folder[CSHIM_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    snprintf(folder, CSHIM_PATH_MAX, "%.*s", slash != NULL ? (int)(name - path) : 1,
             slash != NULL ? path : ".");
    return name;
}

static bool lead_to_one(const char *a, const char *b, struct stat *facts)
{
    struct stat others;
    return stat(a, facts) == 0 && stat(b, &others) == 0 && facts->st_dev == others.st_dev &&
           facts->st_ino == others.st_ino;
}

bool cshim_is_same_file(const char *a, const char *b)
{
    char folder[CSHIM_PATH_MAX], other[CSHIM_PATH_MAX];
    struct stat facts;
    if (lead_to_one(a, b, &facts))
        return S_ISREG(facts.st_mode);
    return strcmp(split_path(a, folder), split_path(b, other)) == 0 &&
           (strcmp(folder, other) == 0 || lead_to_one(folder, other, &facts));
}

/* Checks the path of an output file. Warns if the path is a folder or cannot be written; skips this
 * check if the folder's name has braces. Returns false with a message if the path has unknown
 * braces, or names a file of this user that compshim has not written. */
static bool check_file(const char *kind, const char *variable, const char *path, const char *mark,
                       char *message, size_t size)
{
    char folder[CSHIM_PATH_MAX];
    struct stat facts;
    if (!cshim_has_known_braces(path)) {
        snprintf(message, size, "%s=%.200s may hold {rank} and {jobid} only in braces", variable,
                 path);
        return false;
    }
    split_path(path, folder);
    const bool exists = stat(path, &facts) == 0, is_folder = exists && S_ISDIR(facts.st_mode);
    if (strchr(folder, '{') == NULL && (is_folder || access(exists ? path : folder, W_OK) != 0))
        cshim_list_add(message, size, "; ", "cannot write the %s %.200s: %s: name another by %s",
                       kind, path, strerror(is_folder ? EISDIR : errno), variable);
    /* Another user's file is refused later, when it is opened. An error here would let its owner
     * end jobs. */
    const bool is_own = lstat(path, &facts) != 0 || facts.st_uid == geteuid();
    if (!is_own || cshim_output_is_direct(path) || !cshim_is_foreign(path, mark))
        return true;
    snprintf(message, size,
             "the %s would take the place of %.200s, which is no %s: name another file by %s, or "
             "remove this one",
             kind, path, kind, variable);
    return false;
}

bool cshim_environment_check(const struct cshim_policy *policy, char *message, size_t size)
{
    const char *log = secure_getenv("COMPSHIM_LOG"), *live = secure_getenv("COMPSHIM_LIVE");
    const char *trace = cshim_environment_trace(), *nearest;
    unsigned level;
    const bool is_named = strcmp(policy->source, CSHIM_POLICY_HERE) != 0;
    message[0] = '\0';
    if (cshim_mode() == CSHIM_MODE_UNKNOWN) {
        snprintf(message, size, "COMPSHIM=%.60s is not known: take on, off or observe",
                 secure_getenv("COMPSHIM"));
        return false;
    }
    const char *report = cshim_environment_report();
    if (report == NULL && is_named)
        report = policy->report;
    const bool is_file =
        report != NULL && strcmp(report, "off") != 0 && strcmp(report, "summary") != 0;
    if (is_file && strpbrk(report, "./{") == NULL) {
        snprintf(
            message, size,
            "COMPSHIM_REPORT=%.60s is not known: take summary, off or a file, as in ./%.60s.json",
            report, report);
        return false;
    }
    if (is_file && trace != NULL && cshim_is_same_file(report, trace)) {
        snprintf(message, size,
                 "the report and the trace are both to be written to %.200s: name another file by "
                 "COMPSHIM_TRACE",
                 trace);
        return false;
    }
    if (is_file &&
        !check_file("report", "COMPSHIM_REPORT", report, CSHIM_REPORT_MARK, message, size))
        return false;
    if (trace != NULL &&
        !check_file("trace", "COMPSHIM_TRACE", trace, CSHIM_TRACE_MARK, message, size))
        return false;
    if (log != NULL && *log != '\0' && cshim_word_find(CSHIM_LEVELS, log, &level) == NULL)
        cshim_list_add(message, size, "; ",
                       "COMPSHIM_LOG=%.60s is not known: error, warn, info or debug", log);
    if (cshim_mode_of(live) > CSHIM_MODE_OFF)
        cshim_list_add(message, size, "; ", "COMPSHIM_LIVE=%.60s is not known: take on or off",
                       live);
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "="), prefix = strlen("COMPSHIM_");
        if (strncmp(*entry, "COMPSHIM_", prefix) != 0 ||
            is_known(*entry + prefix, length - prefix, &nearest))
            continue;
        cshim_list_add(
            message, size, "; ", "%.*s is not known (%s%s%s): it has no effect",
            (int)(length < 60 ? length : 60), *entry,
            nearest != NULL ? "did you mean COMPSHIM_" : "known: COMPSHIM, COMPSHIM_LIVE, ",
            nearest != NULL ? nearest : "COMPSHIM_LOG, COMPSHIM_MACHINE, COMPSHIM_POLICY, ",
            nearest != NULL ? "?" : "COMPSHIM_REPORT, COMPSHIM_TRACE");
    }
    return true;
}
