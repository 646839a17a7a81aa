/* SPDX-License-Identifier: Apache-2.0 */
/* State and functions that the files of the policy parser share. Not for use outside policy/. */
#ifndef CSHIM_PARSER_H
#define CSHIM_PARSER_H

#include "policy/policy.h"

/* Current section. Keys in a section with a wrong header are ignored. */
enum cshim_section {
    CSHIM_SECTION_NONE,
    CSHIM_SECTION_WRONG,
    CSHIM_SECTION_GENERAL,
    CSHIM_SECTION_RULE
};

/* State of one cshim_policy_parse(). */
struct cshim_parser {
    const char *next; /* unread text, up to `end` */
    const char *end;
    const char *source;
    unsigned line; /* last line read, from 1; while a rule is checked, its header's line */
    struct cshim_policy *policy;
    enum cshim_section section;
    bool general_seen;     /* a section [compshim] was read */
    uint32_t keys_seen;    /* keys of the current section: a bit for each */
    const char *algorithm; /* word of the last `algorithm` key, a static string; NULL: none */
    bool failed;           /* some section has an error */
    bool section_failed;   /* the current section has an error, so it is not checked as a whole */
    char *message;         /* CSHIM_MESSAGE_MAX bytes for the errors, a line for each */
    size_t used;           /* bytes of `message` in use */
};

/* Appends the error "source:line: ..." to the message. If there is no room for that, appends "and
 * more errors" once, or nothing if the first error has filled the message. The parse continues.
 * Returns false, for the caller to return. */
bool cshim_parser_fail(struct cshim_parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets a key of the current section. Returns false after an error. */
bool cshim_set_key(struct cshim_parser *parser, const char *key, const char *value);

/* Returns true if the newest rule has the key for the field at this offset in struct cshim_rule. */
bool cshim_has_key(const struct cshim_parser *parser, size_t field);

/* Checks the newest rule after all its keys were read: the keys against each other, and the rule
 * against the earlier ones. Returns false after an error. */
bool cshim_check_rule(struct cshim_parser *parser);

#endif
