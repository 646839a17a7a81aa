/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/environment.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "policy/policy.h"

/* Whether a name of so many bytes is one of the shim's variables. Else *nearest is the one that may
 * be meant, or NULL. */
static bool is_known(const char *name, size_t length, const char **nearest)
{
    static const char *const known[] = {"COMPSHIM_FORWARDED", "COMPSHIM_LIVE",   "COMPSHIM_LOG",
                                        "COMPSHIM_MACHINE",   "COMPSHIM_POLICY", "COMPSHIM_REPORT",
                                        "COMPSHIM_RUN",       "COMPSHIM_TRACE"};
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
    static const char *const words[][2] = {
        {"summary", "summary"}, {"on", "summary"}, {"yes", "summary"},
        {"true", "summary"},    {"1", "summary"},  {"off", "off"},
        {"no", "off"},          {"false", "off"},  {"0", "off"}};
    const char *wanted = secure_getenv("COMPSHIM_REPORT");
    for (size_t i = 0; wanted != NULL && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(words[i][0], wanted) == 0)
            return words[i][1];
    return wanted != NULL && *wanted != '\0' ? wanted : NULL;
}

/* Looks whether the report can be written, where it has one name for all ranks and jobs. */
static bool check_report(const char *wanted, char *message, size_t size)
{
    const char *slash = strrchr(wanted, '/');
    char folder[CSHIM_PATH_MAX] = ".";
    if (strcmp(wanted, "off") == 0 || strcmp(wanted, "summary") == 0)
        return true;
    if (strpbrk(wanted, "./{") == NULL) {
        snprintf(
            message, size,
            "COMPSHIM_REPORT=%.60s is not known: take summary, off or a file, as in ./%.60s.json",
            wanted, wanted);
        return false;
    }
    if (slash != NULL)
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - wanted) + 1, wanted);
    const bool is_there = access(wanted, F_OK) == 0;
    if (strchr(folder, '{') == NULL && access(is_there ? wanted : folder, W_OK) != 0)
        snprintf(message, size,
                 "cannot write the report %.200s: %s: name another by COMPSHIM_REPORT", wanted,
                 strerror(errno));
    return true;
}

bool cshim_environment_check(const struct cshim_policy *policy, char *message, size_t size)
{
    const char *nearest;
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
    if (report != NULL && !check_report(report, message, size))
        return false;
    for (char **entry = environ; *entry != NULL; entry++) {
        const size_t length = strcspn(*entry, "=");
        if (strncmp(*entry, "COMPSHIM", 8) != 0 || (*entry)[8] != '_' ||
            is_known(*entry, length, &nearest))
            continue;
        const size_t used = strlen(message);
        snprintf(message + used, size - used, "%s%.*s is not known%s%s%s: it has no effect",
                 used > 0 ? "; " : "", (int)(length < 60 ? length : 60), *entry,
                 nearest != NULL ? " (did you mean " : "", nearest != NULL ? nearest : "",
                 nearest != NULL ? "?)" : "");
    }
    return true;
}
