/* SPDX-License-Identifier: Apache-2.0 */
/* State and functions that the files of the policy parser share. Not for use outside policy/. */
#ifndef CSHIM_PARSER_H
#define CSHIM_PARSER_H

#include "policy/policy.h"

/* The keys of a section whose header is wrong are not looked at. */
enum cshim_section {
    CSHIM_SECTION_NONE,
    CSHIM_SECTION_WRONG,
    CSHIM_SECTION_GENERAL,
    CSHIM_SECTION_RULE
};

/* The state of one cshim_policy_parse. */
struct cshim_parser {
    const char *next; /* the text that is not yet read, up to `end` */
    const char *end;
    const char *source;
    unsigned line; /* the last one read, from 1; while a rule is checked, that of its header */
    struct cshim_policy *policy;
    enum cshim_section section;
    bool general_seen;     /* whether there was a section [compshim] */
    uint32_t keys_seen;    /* in this section, a bit for each of its keys */
    const char *algorithm; /* of the newest rule, as the policy calls it; a static string */
    bool failed;           /* somewhere */
    bool section_failed;   /* in this section: it is not checked as a whole */
    char *message;         /* of CSHIM_MESSAGE_MAX bytes; the failures, a line for each */
    size_t used;           /* of it */
};

/* Notes the failure "source:line: ...", or that there are more than the message can hold. The parse
 * goes on. Returns false, for the caller to return. */
bool cshim_parser_fail(struct cshim_parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets a key of the section that is open. Returns false if it failed. */
bool cshim_set_key(struct cshim_parser *parser, const char *key, const char *value);

/* Returns true if the newest rule has the key that fills this field of struct cshim_rule (its
 * offset). */
bool cshim_has_key(const struct cshim_parser *parser, size_t field);

/* Checks the newest rule, whose keys have all been read: its keys against each other, and the rule
 * against those before it. Returns false if it failed. */
bool cshim_check_rule(struct cshim_parser *parser);

#endif
