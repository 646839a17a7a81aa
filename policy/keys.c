/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of policy.ini: a table for each kind of section, with a row for each key. */
#include "policy/parser.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/numbers.h"

#define KEY_LIMIT 16
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What a key's value is, and the type of the field that it fills. */
enum kind {
    WORD,     /* one of the key's words: an enumeration, whose values are the words' places */
    SWITCH,   /* one of two words: bool, whether it is the second */
    LIST,     /* some of the words: uint32_t, with bit 1 << place set for each of them */
    RANGE,    /* two of uint32_t, the least and the most, one behind the other */
    LIMIT,    /* uint64_t: bytes of a buffer */
    MEMORY,   /* uint64_t: bytes of memory */
    CALLS,    /* uint32_t: one call in so many, 0 for "off" */
    FRACTION, /* double above 0 and below 1 */
    NUMBER,   /* uint64_t */
    REPORT,   /* char[CSHIM_PATH_MAX]: one of the words, or a file's name */
};

/* A key of a section. The strings are also its description in compshim-policy(5): docs/man/page.awk
 * reads the tables of keys below. */
struct key {
    const char *name;
    enum kind kind;
    enum cshim_word_set words;
    size_t offset;     /* of the field, in struct cshim_policy or struct cshim_rule */
    const char *value; /* what it takes */
    const char *help;  /* one line */
};

#define POLICY(field) offsetof(struct cshim_policy, field)
#define RULE(field) offsetof(struct cshim_rule, field)

static const struct key general_keys[] = {
    {"report", REPORT, CSHIM_REPORTS, POLICY(report), "WHERE",
     "what is told at the end (default summary), or a JSON file"},
    {"log", WORD, CSHIM_LEVELS, POLICY(log), "LEVEL",
     "what is said on standard error (default warn)"},
    {"seed", NUMBER, CSHIM_NO_WORDS, POLICY(seed), "N",
     "a whole number, for stochastic rounding (default 0)"},
    {"feedback_memory", MEMORY, CSHIM_NO_WORDS, POLICY(feedback_memory), "SIZE",
     "what error feedback may take on each rank (default 1GiB)"},
};

static const struct key rule_keys[] = {
    {"library", LIST, CSHIM_LIBRARIES, RULE(libraries), "LIST", "libraries that are called"},
    {"collective", LIST, CSHIM_COLLECTIVES, RULE(collectives), "LIST",
     "functions that are called (default all but allgather)"},
    {"dtype", LIST, CSHIM_DTYPES, RULE(dtypes), "LIST", "types of the elements"},
    {"op", LIST, CSHIM_OPS, RULE(ops), "LIST", "operations on them"},
    {"ranks", RANGE, CSHIM_NO_WORDS, RULE(min_ranks), "RANGE",
     "ranks of the communicator: 4, 2-8 or 2-"},
    {"nodes", RANGE, CSHIM_NO_WORDS, RULE(min_nodes), "RANGE",
     "nodes that hold these ranks, in the same form"},
    {"min_size", LIMIT, CSHIM_NO_WORDS, RULE(min_size), "SIZE",
     "the least bytes of the caller's buffer, such as 64KiB"},
    {"max_size", LIMIT, CSHIM_NO_WORDS, RULE(max_size), "SIZE", "the most, such as 25MB"},
    {"codec", WORD, CSHIM_CODECS, RULE(codec), "NAME", "what elements are sent as (required)"},
    {"algorithm", WORD, CSHIM_ALGORITHMS, RULE(algorithm), "NAME",
     "who sends what to whom (default auto)"},
    {"error_feedback", SWITCH, CSHIM_SWITCHES, RULE(error_feedback), "SWITCH",
     "what rounding took is added the next time (default off)"},
    {"rounding", SWITCH, CSHIM_ROUNDINGS, RULE(stochastic), "NAME",
     "of encoded elements (default nearest)"},
    {"max_rel_error", FRACTION, CSHIM_NO_WORDS, RULE(max_rel_error), "X",
     "where encoding loses more than this, take a more precise codec"},
    {"verify", CALLS, CSHIM_NO_WORDS, RULE(verify), "CALLS",
     "make one call in so many natively too, and report the error (default off)"},
    {"check_ranks", CALLS, CSHIM_NO_WORDS, RULE(check_ranks), "CALLS",
     "compare one result in so many across ranks (default off)"},
};

_Static_assert(RULE(max_ranks) == RULE(min_ranks) + sizeof(uint32_t) &&
                   RULE(max_nodes) == RULE(min_nodes) + sizeof(uint32_t),
               "RANGE");
_Static_assert(sizeof(enum cshim_codec_id) == sizeof(unsigned) &&
                   sizeof(enum cshim_algorithm) == sizeof(unsigned) &&
                   sizeof(enum cshim_log_level) == sizeof(unsigned),
               "WORD");

static bool find_word(struct cshim_parser *parser, enum cshim_word_set set, const char *value,
                      unsigned *place)
{
    const char *found = cshim_word_find(set, value, place);
    if (set == CSHIM_ALGORITHMS)
        parser->algorithm = found;
    if (found != NULL)
        return true;
    const struct cshim_words words = cshim_words(set);
    return cshim_parser_unknown(parser, words.what, value, words.names, words.count);
}

/* Words are separated by commas, with blanks around them. */
static bool parse_list(struct cshim_parser *parser, enum cshim_word_set words, const char *value,
                       uint32_t *mask)
{
    *mask = 0;
    for (const char *item = value;; item++) {
        char word[CSHIM_MESSAGE_MAX];
        unsigned place;
        item += strspn(item, " \t");
        size_t span = strcspn(item, ",");
        size_t length = span;
        while (length > 0 && isspace((unsigned char)item[length - 1]))
            length--;
        if (length == 0)
            return cshim_parser_fail(parser, parser->line, "'%s' has an empty item", value);
        snprintf(word, sizeof word, "%.*s", (int)length, item);
        if (!find_word(parser, words, word, &place))
            return false;
        *mask |= 1u << place;
        item += span;
        if (*item == '\0')
            return true;
    }
}

/* A misspelt word must not turn into a file. In braces a file's name has {rank} and {jobid} only.
 */
static bool parse_report(struct cshim_parser *parser, const char *value, char *report)
{
    unsigned place;
    if (strpbrk(value, "./{") == NULL && !find_word(parser, CSHIM_REPORTS, value, &place))
        return false;
    snprintf(report, CSHIM_PATH_MAX, "%s", value);
    for (const char *brace = strchr(value, '{'); brace != NULL; brace = strchr(brace + 1, '{'))
        if (strncmp(brace, "{rank}", 6) != 0 && strncmp(brace, "{jobid}", 7) != 0)
            return cshim_parser_fail(parser, parser->line,
                                     "'%s' may hold {rank} and {jobid} only in braces", value);
    return true;
}

/* Reads a number up to `most` and moves *text behind it. */
static bool parse_number(const char **text, unsigned long long most, unsigned long long *number)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    errno = 0;
    *number = strtoull(*text, &end, 10);
    *text = end;
    return errno == 0 && *number <= most;
}

static bool parse_seed(const char *value, void *field)
{
    unsigned long long number = 0;
    const bool good = parse_number(&value, UINT64_MAX, &number) && *value == '\0';
    *(uint64_t *)field = number;
    return good;
}

static bool parse_range(const char *value, void *field)
{
    uint32_t *range = field;
    unsigned long long least, most = UINT32_MAX;
    if (!parse_number(&value, UINT32_MAX, &least) || least < 1)
        return false;
    if (*value != '-')
        most = least;
    else if (*++value != '\0' && (!parse_number(&value, UINT32_MAX, &most) || most < 1))
        return false;
    range[0] = (uint32_t)least;
    range[1] = (uint32_t)most;
    return *value == '\0';
}

static bool parse_calls(const char *value, void *field)
{
    unsigned long long calls = 0;
    const bool good = strcmp(value, "off") == 0 ||
                      (parse_number(&value, UINT32_MAX, &calls) && calls >= 1 && *value == '\0');
    *(uint32_t *)field = (uint32_t)calls;
    return good;
}

static bool parse_fraction(const char *value, void *field)
{
    char *end;
    const locale_t locale = cshim_numbers_begin();
    const double fraction = strtod(value, &end);
    cshim_numbers_end(locale);
    *(double *)field = fraction;
    return end != value && *end == '\0' && fraction > 0 && fraction < 1;
}

static bool parse_bytes(const char *value, void *field)
{
    return cshim_parse_size(value, field);
}

/* Values that are not words: how they are read, and what an error says to write instead. */
static const struct {
    bool (*parse)(const char *value, void *field);
    const char *write;
} forms[] = {
    [RANGE] = {parse_range, "4, 2-8 or 2-"},
    [LIMIT] = {parse_bytes, "bytes, or B, KB, KiB, MB, MiB, GB, GiB, as in 64KiB"},
    [MEMORY] = {parse_bytes, "a size, as in 1GiB"},
    [CALLS] = {parse_calls, "off, or 100 for every 100th call"},
    [FRACTION] = {parse_fraction, "a number between 0 and 1, as in 0.01"},
    [NUMBER] = {parse_seed, "a whole number"},
};

static struct cshim_rule *newest_rule(const struct cshim_parser *parser)
{
    return &parser->policy->rules[parser->policy->rule_count - 1];
}

static bool parse_form(struct cshim_parser *parser, const struct key *key, const char *value,
                       void *field)
{
    const uint32_t *range = field;
    if (!forms[key->kind].parse(value, field))
        return cshim_parser_fail(parser, parser->line, "malformed %s '%s' (write %s)",
                                 key->kind == LIMIT ? "size" : key->name, value,
                                 forms[key->kind].write);
    if (key->kind == RANGE && range[0] > range[1])
        return cshim_parser_fail(parser, parser->line, "%s '%s' run backwards", key->name, value);
    if (key->kind == LIMIT && newest_rule(parser)->min_size > newest_rule(parser)->max_size)
        return cshim_parser_fail(parser, parser->line, "min_size is above max_size");
    return true;
}

static bool set_field(struct cshim_parser *parser, const struct key *key, const char *value,
                      void *field)
{
    unsigned place = 0;
    switch (key->kind) {
    case LIST:
        return parse_list(parser, key->words, value, field);
    case REPORT:
        return parse_report(parser, value, field);
    case WORD:
        if (!find_word(parser, key->words, value, &place))
            return false;
        memcpy(field, &place, sizeof place);
        return true;
    case SWITCH:
        if (!find_word(parser, key->words, value, &place))
            return false;
        *(bool *)field = place == 1;
        return true;
    default:
        return parse_form(parser, key, value, field);
    }
}

bool cshim_set_key(struct cshim_parser *parser, const char *name, const char *value)
{
    const bool in_rule = parser->section == CSHIM_SECTION_RULE;
    const struct key *keys = in_rule ? rule_keys : general_keys;
    const size_t count = in_rule ? COUNT(rule_keys) : COUNT(general_keys);
    char *fields = in_rule ? (char *)newest_rule(parser) : (char *)parser->policy;
    const char *names[KEY_LIMIT];
    for (size_t i = 0; i < count; i++) {
        names[i] = keys[i].name;
        if (strcmp(names[i], name) != 0)
            continue;
        if ((parser->keys_seen >> i & 1) != 0)
            return cshim_parser_fail(parser, parser->line, "duplicate key '%s' in this section",
                                     name);
        parser->keys_seen |= 1u << i;
        return set_field(parser, &keys[i], value, fields + keys[i].offset);
    }
    return cshim_parser_unknown(parser, "key", name, names, count);
}

bool cshim_has_key(const struct cshim_parser *parser, size_t field)
{
    for (size_t i = 0; i < COUNT(rule_keys); i++)
        if (rule_keys[i].offset == field)
            return (parser->keys_seen >> i & 1) != 0;
    return false;
}

static bool describe(const struct key *keys, size_t count, size_t index,
                     struct cshim_policy_key *description)
{
    if (index >= count)
        return false;
    *description = (struct cshim_policy_key){.name = keys[index].name,
                                             .value = keys[index].value,
                                             .help = keys[index].help,
                                             .words = cshim_words(keys[index].words)};
    return true;
}

bool cshim_policy_general_key(size_t index, struct cshim_policy_key *key)
{
    return describe(general_keys, COUNT(general_keys), index, key);
}

bool cshim_policy_rule_key(size_t index, struct cshim_policy_key *key)
{
    return describe(rule_keys, COUNT(rule_keys), index, key);
}
