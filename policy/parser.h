/* SPDX-License-Identifier: Apache-2.0 */
/* State and functions shared by the files of the policy parser. Not for use outside policy/. */
#ifndef CSHIM_PARSER_H
#define CSHIM_PARSER_H

#include "policy/policy.h"

/* Section that is being read. Keys of a section with an invalid header are ignored. */
enum cshim_section {
    CSHIM_SECTION_NONE,
    CSHIM_SECTION_WRONG,
    CSHIM_SECTION_GENERAL,
    CSHIM_SECTION_RULE
};

/* The state of one cshim_policy_parse. */
struct cshim_parser {
    const char *next; /* text not yet read, up to `end` */
    const char *end;
    const char *source;
    unsigned line; /* number of the last line read, from 1; while a rule is checked, that of its
                      header */
    struct cshim_policy *policy;
    enum cshim_section section;
    bool general_seen;     /* true after a section [compshim] */
    uint32_t keys_seen;    /* bit mask of the keys seen in this section */
    const char *algorithm; /* of the newest rule, as the policy names it; a static string */
    bool failed;           /* there was an error */
    bool section_failed;   /* there was an error in this section, so it is not checked as a whole */
    char *message;         /* the errors, a line for each; CSHIM_MESSAGE_MAX bytes */
    size_t used;           /* bytes of the message in use */
};

/* Adds the error "source:line: ..." to the message, or that there are more errors than fit. The
 * parse continues. Returns false, for the caller to return. */
bool cshim_parser_fail(struct cshim_parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets a key of the current section. Returns false after an error. */
bool cshim_set_key(struct cshim_parser *parser, const char *key, const char *value);

/* Returns true if the newest rule has the key that sets the field of struct cshim_rule at this
 * offset. */
bool cshim_has_key(const struct cshim_parser *parser, size_t field);

/* Checks the newest rule after all its keys are read: its keys against each other, and the rule
 * against earlier ones. Returns false after an error. */
bool cshim_check_rule(struct cshim_parser *parser);

#endif
