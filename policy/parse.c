/* SPDX-License-Identifier: Apache-2.0 */
/* Parses policy.ini. inih splits each line into key and value. The reader that feeds inih counts
 * lines, refuses lines that inih would cut, removes comments, and handles section headers, because
 * inih reports neither empty sections nor names of more than 49 bytes. */
#include "policy/parser.h"

#include <ctype.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/library.h"
#include "policy/lines.h"
#include "policy/word.h"

/* Maximum number of rules: the check for unreachable rules takes longer with more of them. */
#define RULE_LIMIT 256u

/* Checks the current section, at the next header or at the end of the text. */
static void end_section(struct cshim_parser *parser)
{
    if (parser->section == CSHIM_SECTION_RULE && !parser->section_failed)
        cshim_check_rule(parser);
}

static bool check_rule_name(struct cshim_parser *parser, const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    if (*name == '\0')
        return cshim_parser_fail(parser, "a rule needs a name: [rule NAME]");
    if (strlen(name) >= CSHIM_RULE_NAME_MAX)
        return cshim_parser_fail(parser, "the rule's name is longer than %d characters",
                                 CSHIM_RULE_NAME_MAX - 1);
    if (name[strspn(name, letters)] != '\0')
        return cshim_parser_fail(
            parser, "rule name '%s' may hold letters, digits, '_', '-' and '.' only", name);
    for (size_t i = 0; i < parser->policy->rule_count; i++)
        if (strcmp(parser->policy->rules[i].name, name) == 0)
            return cshim_parser_fail(parser, "duplicate rule '%s' (the first is in line %u)", name,
                                     parser->policy->rules[i].line);
    return true;
}

/* Appends a rule with default values, which matches all sums and averages. Returns false after an
 * error. */
static bool begin_rule(struct cshim_parser *parser, const char *name)
{
    struct cshim_policy *policy = parser->policy;
    if (!check_rule_name(parser, name))
        return false;
    if (policy->rule_count == RULE_LIMIT)
        return cshim_parser_fail(parser, "more than %u rules", RULE_LIMIT);
    struct cshim_rule *rules = realloc(policy->rules, (policy->rule_count + 1) * sizeof *rules);
    if (rules == NULL)
        return cshim_parser_fail(parser, "out of memory");
    policy->rules = rules;
    struct cshim_rule *rule = &rules[policy->rule_count++];
    *rule = (struct cshim_rule){
        .line = parser->line,
        .libraries = (1u << CSHIM_LIBRARY_COUNT) - 1,
        .collectives = ((1u << CSHIM_COLLECTIVE_COUNT) - 1) & ~CSHIM_MOVES,
        .dtypes = (1u << CSHIM_DTYPE_COUNT) - 1,
        .ops = CSHIM_SUMS,
        .max_size = UINT64_MAX,
        .min_ranks = 1,
        .max_ranks = UINT32_MAX,
        .min_nodes = 1,
        .max_nodes = UINT32_MAX,
        .keep = 4,
    };
    memcpy(rule->name, name, strlen(name) + 1);
    parser->section = CSHIM_SECTION_RULE;
    return true;
}

static bool unknown_section(struct cshim_parser *parser, const char *title, const char *name)
{
    static const char *const kinds[] = {"compshim", "rule"};
    const char *nearest = cshim_nearest_name(title, kinds, 2);
    const char *space = *name != '\0' ? " " : "";
    if (nearest == NULL)
        return cshim_parser_fail(parser, "unknown section '%s%s%s' (known: compshim, rule NAME)",
                                 title, space, name);
    if (nearest == kinds[0])
        return cshim_parser_fail(parser, "unknown section '%s%s%s' (did you mean 'compshim'?)",
                                 title, space, name);
    return cshim_parser_fail(parser, "unknown section '%s%s%s' (did you mean 'rule %s'?)", title,
                             space, name, *name != '\0' ? name : "NAME");
}

/* Begins the section of a header, "[compshim]" or "[rule NAME]". Overwrites `header`. */
static bool begin_section(struct cshim_parser *parser, char *header)
{
    char *title = header + 1 + strspn(header + 1, " \t");
    size_t length = strlen(title);
    end_section(parser);
    parser->section = CSHIM_SECTION_WRONG;
    parser->section_failed = false;
    parser->keys_seen = 0;
    if (length == 0 || title[length - 1] != ']')
        return cshim_parser_fail(parser, "a section header is [compshim] or [rule NAME]");
    while (length > 1 && isspace((unsigned char)title[length - 2]))
        length--;
    title[length - 1] = '\0';
    char *name = title + strcspn(title, " \t");
    if (*name != '\0') {
        *name++ = '\0';
        name += strspn(name, " \t");
    }
    if (cshim_is_word(title, "rule"))
        return begin_rule(parser, name);
    if (!cshim_is_word(title, "compshim") || *name != '\0')
        return unknown_section(parser, title, name);
    if (parser->general_seen)
        return cshim_parser_fail(parser, "duplicate section [compshim]");
    parser->general_seen = true;
    parser->section = CSHIM_SECTION_GENERAL;
    return true;
}

/* Callback of inih: copies the next line to `buffer`; an empty one instead of a section header or a
 * line with an error. Returns NULL at the end of the text or at a NUL byte. */
static char *read_policy_line(char *buffer, int size, void *stream)
{
    struct cshim_parser *parser = stream;
    size_t length;
    /* The line comes without its indent: inih would append an indented line to the last value. */
    const char *line = cshim_lines_next(&parser->next, parser->end, &length);
    if (line == NULL)
        return NULL;
    parser->line++;
    if (memchr(line, '\0', length) != NULL) {
        cshim_parser_fail(parser, "a NUL byte: this is not a text file");
        return NULL;
    }
    /* Some versions of inih ignore the line after one that fills the buffer. */
    if (length + 2 > (size_t)size) {
        cshim_parser_fail(parser, "the line is longer than %d characters", size - 2);
        length = 0;
    }
    memcpy(buffer, line, length);
    buffer[length] = '\0';
    if (buffer[0] == '[') {
        begin_section(parser, buffer);
        buffer[0] = '\0'; /* an empty line for inih */
    } else if (length > 0 && strpbrk(buffer, "=:") == NULL) {
        cshim_parser_fail(parser, "neither '[section]' nor 'key = value'");
        buffer[0] = '\0';
    }
    return buffer;
}

/* Callback of inih for each key. Always returns nonzero, because 0 means a malformed line. */
static int handle_key(void *user, const char *section, const char *key, const char *value)
{
    (void)section;
    struct cshim_parser *parser = user;
    if (parser->section == CSHIM_SECTION_WRONG)
        return 1;
    if (parser->section == CSHIM_SECTION_NONE)
        cshim_parser_fail(
            parser, "key '%s' is outside a section (begin with [compshim] or [rule NAME])", key);
    else if (*value == '\0')
        cshim_parser_fail(parser, "key '%s' has no value", key);
    else
        cshim_set_key(parser, key, value);
    return 1;
}

/* Reads all lines into parser->policy. */
static bool parse_lines(struct cshim_parser *parser)
{
    parser->next = cshim_lines_begin(parser->next, parser->end);
    if (ini_parse_stream(read_policy_line, parser, handle_key, parser) < 0)
        cshim_parser_fail(parser, "out of memory");
    end_section(parser);
    return !parser->failed;
}

static void find_compressed_types(struct cshim_policy *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct cshim_rule *rule = &policy->rules[i];
        for (unsigned library = 0; library < CSHIM_LIBRARY_COUNT; library++)
            for (unsigned collective = 0; collective < CSHIM_COLLECTIVE_COUNT; collective++)
                if (rule->codec != CSHIM_CODEC_NONE && (rule->libraries >> library & 1) != 0 &&
                    (rule->collectives >> collective & 1) != 0)
                    policy->compressed_types[library][collective] |= rule->dtypes;
    }
}

struct cshim_policy *cshim_policy_parse(const char *text, size_t length, const char *source,
                                        char message[CSHIM_MESSAGE_MAX])
{
    struct cshim_parser parser = {.next = text, .end = text + length, .source = source};
    parser.message = message;
    parser.policy = calloc(1, sizeof *parser.policy);
    if (parser.policy == NULL) {
        cshim_parser_fail(&parser, "out of memory");
        return NULL;
    }
    snprintf(parser.policy->source, sizeof parser.policy->source, "%s", source);
    snprintf(parser.policy->report, sizeof parser.policy->report, "summary");
    parser.policy->log = CSHIM_LOG_WARN;
    parser.policy->feedback_memory = (uint64_t)1 << 30;
    if (parse_lines(&parser)) {
        find_compressed_types(parser.policy);
        return parser.policy;
    }
    cshim_policy_free(parser.policy);
    return NULL;
}
