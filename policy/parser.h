/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the policy parser share. Not for use outside policy/. */
#ifndef CSHIM_PARSER_H
#define CSHIM_PARSER_H

#include "policy/policy.h"

enum cshim_section { CSHIM_SECTION_NONE, CSHIM_SECTION_GENERAL, CSHIM_SECTION_RULE };

/* The state of one cshim_policy_parse. */
struct cshim_parser {
    const char *next; /* text not yet read, up to end */
    const char *end;
    const char *source;
    unsigned line; /* the last one read, from 1 */
    struct cshim_policy *policy;
    enum cshim_section section;
    bool general_seen;     /* [compshim] */
    uint32_t keys_seen;    /* in this section, a bit for each of its keys */
    const char *algorithm; /* the newest rule's, by the name that it uses; static */
    bool failed;
    char *message; /* of CSHIM_MESSAGE_MAX bytes; the first failure */
};

/* Writes "source:line: ..." as the parse's outcome, unless something failed before. Returns false,
 * so that a caller can return it. */
bool cshim_parser_fail(struct cshim_parser *parser, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Fails at the parser's line: "unknown WHAT 'WORD'", with the nearest of the names or all of them.
 */
bool cshim_parser_unknown(struct cshim_parser *parser, const char *what, const char *word,
                          const char *const *names, size_t count);

/* Sets a key of the section that is open. Returns false if it failed. */
bool cshim_set_key(struct cshim_parser *parser, const char *key, const char *value);

/* Whether the newest rule has the key that fills this field of struct cshim_rule (its offset). */
bool cshim_has_key(const struct cshim_parser *parser, size_t field);

/* Checks the newest rule, when its last key is read: by itself, and against all before it. Returns
 * false if it failed. */
bool cshim_check_rule(struct cshim_parser *parser);

#endif
