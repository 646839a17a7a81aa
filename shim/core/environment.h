/* SPDX-License-Identifier: Apache-2.0 */
/* Variables of the environment that the library and compshim run read, and checks of output files,
 * for the library and the tools. */
#ifndef CSHIM_ENVIRONMENT_H
#define CSHIM_ENVIRONMENT_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "policy/word.h"

struct cshim_policy;

/* Variable with the names, separated by commas, of datagram sockets in Linux's abstract namespace:
 * one for each enclosing `compshim run`, because a run may start another. A process sends a
 * datagram to each of them when it begins to use MPI, NCCL or gloo through the library. */
#define CSHIM_PRESENCE_VARIABLE "COMPSHIM_RUN"

/* Values of a switch such as COMPSHIM, in upper or lower case. NULL and "" are on. */
enum cshim_mode { CSHIM_MODE_ON, CSHIM_MODE_OFF, CSHIM_MODE_OBSERVE, CSHIM_MODE_UNKNOWN };
static inline enum cshim_mode cshim_mode_of(const char *value)
{
    static const struct {
        const char *word;
        enum cshim_mode mode;
    } words[] = {{"", CSHIM_MODE_ON},       {"on", CSHIM_MODE_ON},
                 {"1", CSHIM_MODE_ON},      {"yes", CSHIM_MODE_ON},
                 {"true", CSHIM_MODE_ON},   {"off", CSHIM_MODE_OFF},
                 {"0", CSHIM_MODE_OFF},     {"no", CSHIM_MODE_OFF},
                 {"false", CSHIM_MODE_OFF}, {"observe", CSHIM_MODE_OBSERVE}};
    for (size_t i = 0; value != NULL && i < sizeof words / sizeof *words; i++)
        if (cshim_is_word(words[i].word, value))
            return words[i].mode;
    return value == NULL ? CSHIM_MODE_ON : CSHIM_MODE_UNKNOWN;
}

static inline enum cshim_mode cshim_mode(void)
{
    return cshim_mode_of(secure_getenv("COMPSHIM"));
}

/* Returns true if COMPSHIM switches the shim off. */
static inline bool cshim_is_off(void)
{
    return cshim_mode() == CSHIM_MODE_OFF;
}

/* Returns the value of the first variable of `names`, up to NULL, that is set and not empty; or
 * NULL. */
const char *cshim_environment_first(const char *const *names);

/* Returns "off", "summary" or a file's name, by COMPSHIM_REPORT; NULL if it is not set or empty. */
const char *cshim_environment_report(void);

/* Returns the file that COMPSHIM_TRACE names; NULL if it is not set, empty or off. */
const char *cshim_environment_trace(void);

/* Checks the environment for variables COMPSHIM_* that do not exist, for unknown values of
 * COMPSHIM, COMPSHIM_REPORT, _LOG and _LIVE, and for a report and a trace that cannot be written,
 * are one file, or would replace a file that compshim has not written. Checks the policy's report,
 * too, unless the policy was found in the working folder. Returns false, with an error of up to
 * `size` bytes in the message, if the job must not begin, because the user may have meant something
 * else. Otherwise the message has the warnings, or is empty. */
bool cshim_environment_check(const struct cshim_policy *policy, char *message, size_t size);

/* Returns true if two paths lead to the same regular file, or will once the file is written;
 * dangling links are not followed. */
bool cshim_is_same_file(const char *a, const char *b);

/* Texts that every report, and every trace, has in its first 63 bytes. */
#define CSHIM_REPORT_MARK "\"library\""
#define CSHIM_TRACE_MARK "\"traceEvents\""

/* Option that lets the address sanitizer start although a preloaded object precedes its runtime. */
#define CSHIM_ASAN_OPTION "verify_asan_link_order=0"

/* Returns true if an entry of environ, "NAME=value", belongs to the shim, so that a launcher has to
 * forward it to all ranks: LD_PRELOAD, COMPSHIM, COMPSHIM_* (of which COMPSHIM_RUN matters on this
 * host only), and ASAN_OPTIONS with the option above. */
static inline bool cshim_is_forwarded(const char *entry)
{
    return strncmp(entry, "LD_PRELOAD=", 11) == 0 ||
           (strncmp(entry, "ASAN_OPTIONS=", 13) == 0 && strstr(entry, CSHIM_ASAN_OPTION) != NULL) ||
           (strncmp(entry, "COMPSHIM", 8) == 0 && (entry[8] == '=' || entry[8] == '_'));
}

#endif
