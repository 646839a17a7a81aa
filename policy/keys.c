/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of policy.ini: a table for each type of section, with a row for each key. */
#include "policy/parser.h"

#include <ctype.h>
#include <errno.h>
#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/list.h"
#include "policy/numbers.h"
#include "policy/word.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A line "key = value". */
struct setting {
    struct cshim_parser *parser;
    const struct key *key;
    const char *value;
    void *field; /* destination of the value */
};

/* A key of a section. compshim-policy(5) contains the strings, too: docs/man/page.awk reads them
 * from the tables of keys below. */
struct key {
    const char *name;
    bool (*read)(const struct setting *set); /* false, with an error, for a wrong value */
    enum cshim_word_set words;
    size_t offset;     /* offset of the field in struct cshim_policy or struct cshim_rule */
    const char *value; /* form of the value, for help */
    const char *help;  /* one line */
};

static struct cshim_rule *newest_rule(const struct cshim_parser *parser)
{
    return &parser->policy->rules[parser->policy->rule_count - 1];
}

/* Reports a malformed value; `write` is the expected form. Returns false. */
static bool refuse_value(const struct setting *set, const char *what, const char *write)
{
    return cshim_parser_fail(set->parser, "malformed %s '%s' (write %s)", what, set->value, write);
}

/* Reports an unknown word, with the nearest name, or with all names if none is near. Returns false.
 */
static bool refuse_word(struct cshim_parser *parser, const char *what, const char *word,
                        const char *const *names, size_t count)
{
    const char *nearest = cshim_nearest_name(word, names, count);
    if (nearest != NULL)
        return cshim_parser_fail(parser, "unknown %s '%s' (did you mean '%s'?)", what, word,
                                 nearest);
    char known[256] = "";
    for (size_t i = 0; i < count; i++)
        cshim_list_add(known, sizeof known, ", ", "%s", names[i]);
    return cshim_parser_fail(parser, "unknown %s '%s' (known: %s)", what, word, known);
}

static bool find_word(const struct setting *set, const char *text, unsigned *place)
{
    const enum cshim_word_set among = set->key->words;
    const char *found = cshim_word_find(among, text, place);
    if (among == CSHIM_ALGORITHMS)
        set->parser->algorithm = found;
    if (found != NULL)
        return true;
    const struct cshim_words words = cshim_words(among);
    return refuse_word(set->parser, words.what, text, words.names, words.count);
}

/* Reads an enumeration, whose values are the words' indices. */
static bool read_word(const struct setting *set)
{
    unsigned place;
    if (!find_word(set, set->value, &place))
        return false;
    memcpy(set->field, &place, sizeof place);
    return true;
}

/* Reads a bool from one of two words, the first of which means false. */
static bool read_switch(const struct setting *set)
{
    unsigned place;
    if (!find_word(set, set->value, &place))
        return false;
    *(bool *)set->field = place == 1;
    return true;
}

/* Reads a comma-separated list of words into a uint32_t, with bit 1 << index set for each word. */
static bool read_list(const struct setting *set)
{
    uint32_t *mask = set->field;
    *mask = 0;
    for (const char *item = set->value;; item++) {
        char word[CSHIM_MESSAGE_MAX];
        unsigned place;
        item += strspn(item, " \t");
        size_t span = strcspn(item, ",");
        size_t length = span;
        while (length > 0 && isspace((unsigned char)item[length - 1]))
            length--;
        if (length == 0)
            return cshim_parser_fail(set->parser, "'%s' has an empty item", set->value);
        snprintf(word, sizeof word, "%.*s", (int)length, item);
        if (!find_word(set, word, &place))
            return false;
        *mask |= 1u << place;
        item += span;
        if (*item == '\0')
            return true;
    }
}

bool cshim_has_known_braces(const char *name)
{
    for (; (name = strchr(name, '{')) != NULL; name++)
        if (strncmp(name, "{rank}", 6) != 0 && strncmp(name, "{jobid}", 7) != 0)
            return false;
    return true;
}

/* Reads a word or a file name into a char[CSHIM_PATH_MAX]. A file name must contain '.', '/' or
 * '{': other text is taken for a misspelt word. */
static bool read_report(const struct setting *set)
{
    static const char *const known[] = {"off", "summary", "or a file, as in ./run.json"};
    unsigned place;
    const bool is_file = strpbrk(set->value, "./{") != NULL;
    const char *value = is_file ? set->value : cshim_word_find(CSHIM_REPORTS, set->value, &place);
    if (value == NULL)
        return refuse_word(set->parser, "report", set->value, known, 3);
    snprintf(set->field, CSHIM_PATH_MAX, "%s", value);
    return cshim_has_known_braces(set->value) ||
           cshim_parser_fail(set->parser, "'%s' may hold {rank} and {jobid} only in braces",
                             set->value);
}

/* Reads a number, and moves *text after it. Returns false if there is none, or if it exceeds
 * `most`. */
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

/* Reads a whole number into a uint64_t. */
static bool read_number(const struct setting *set)
{
    const char *rest = set->value;
    unsigned long long number;
    if (!parse_number(&rest, UINT64_MAX, &number) || *rest != '\0')
        return refuse_value(set, set->key->name, "a whole number");
    *(uint64_t *)set->field = number;
    return true;
}

/* Reads a range into two consecutive uint32_t, the least and the most. */
static bool read_range(const struct setting *set)
{
    const char *rest = set->value;
    uint32_t *range = set->field;
    unsigned long long least, most = UINT32_MAX;
    bool good = parse_number(&rest, UINT32_MAX, &least) && least >= 1;
    if (good && *rest != '-')
        most = least;
    else if (good && *++rest != '\0')
        good = parse_number(&rest, UINT32_MAX, &most) && most >= 1;
    if (!good || *rest != '\0')
        return refuse_value(set, set->key->name, "4, 2-8 or 2-");
    if (least > most)
        return cshim_parser_fail(set->parser, "%s '%s' run backwards", set->key->name, set->value);
    range[0] = (uint32_t)least;
    range[1] = (uint32_t)most;
    return true;
}

/* Reads min_size or max_size into a uint64_t, and checks them against each other. */
static bool read_limit(const struct setting *set)
{
    const struct cshim_rule *rule = newest_rule(set->parser);
    if (!cshim_parse_size(set->value, set->field))
        return refuse_value(set, "size", "bytes, or B, KB, KiB, MB, MiB, GB, GiB, as in 64KiB");
    if (rule->min_size > rule->max_size)
        return cshim_parser_fail(set->parser, "min_size is above max_size");
    return true;
}

/* Reads bytes of memory into a uint64_t. */
static bool read_memory(const struct setting *set)
{
    return cshim_parse_size(set->value, set->field) ||
           refuse_value(set, set->key->name, "a size, as in 1GiB");
}

/* Reads N ("one call in N") into a uint32_t: a number, or "off" for 0. */
static bool read_calls(const struct setting *set)
{
    const char *rest = set->value;
    unsigned long long calls = 0;
    if (!cshim_is_word(set->value, "off") &&
        (!parse_number(&rest, UINT32_MAX, &calls) || calls < 1 || *rest != '\0'))
        return refuse_value(set, set->key->name, "off, or 100 for every 100th call");
    *(uint32_t *)set->field = (uint32_t)calls;
    return true;
}

/* Reads a number of elements, at most a quarter of a grain, into a uint32_t. */
static bool read_few(const struct setting *set)
{
    const char *rest = set->value;
    unsigned long long few;
    if (!parse_number(&rest, CSHIM_GRAIN / 4, &few) || few < 1 || *rest != '\0')
        return refuse_value(set, set->key->name, "a number from 1 to 64");
    *(uint32_t *)set->field = (uint32_t)few;
    return true;
}

/* Reads a double from `least` to `most`. */
static bool read_real(const struct setting *set, double least, double most, const char *write)
{
    char *end;
    const locale_t locale = cshim_numbers_begin();
    const double real = strtod(set->value, &end);
    cshim_numbers_end(locale);
    *(double *)set->field = real;
    if (end == set->value || *end != '\0' || !(real >= least && real <= most))
        return refuse_value(set, set->key->name, write);
    return true;
}

/* Reads a double above 0 and below 1. */
static bool read_fraction(const struct setting *set)
{
    return read_real(set, DBL_TRUE_MIN, 1 - DBL_EPSILON / 2,
                     "a number between 0 and 1, as in 0.01");
}

/* Reads an absolute error for codec bounded, whose step float32 can represent. */
static bool read_error(const struct setting *set)
{
    return read_real(set, 1e-30, 1e30, "a number from 1e-30 to 1e30, as in 1e-4");
}

#define POLICY(field) offsetof(struct cshim_policy, field)
#define RULE(field) offsetof(struct cshim_rule, field)

static const struct key general_keys[] = {
    {"report", read_report, CSHIM_REPORTS, POLICY(report), "WHERE",
     "report at the end of the job (default summary), or a JSON file"},
    {"log", read_word, CSHIM_LEVELS, POLICY(log), "LEVEL",
     "level of the messages on standard error (default warn)"},
    {"seed", read_number, CSHIM_NO_WORDS, POLICY(seed), "N",
     "a whole number, for stochastic rounding (default 0)"},
    {"feedback_memory", read_memory, CSHIM_NO_WORDS, POLICY(feedback_memory), "SIZE",
     "memory for error feedback on each rank (default 1GiB)"},
};

static const struct key rule_keys[] = {
    {"library", read_list, CSHIM_LIBRARIES, RULE(libraries), "LIST",
     "libraries of the calls (default all)"},
    {"collective", read_list, CSHIM_COLLECTIVES, RULE(collectives), "LIST",
     "collectives (default those that add)"},
    {"dtype", read_list, CSHIM_DTYPES, RULE(dtypes), "LIST", "types of the elements (default all)"},
    {"op", read_list, CSHIM_OPS, RULE(ops), "LIST", "operations on the elements (default all)"},
    {"ranks", read_range, CSHIM_NO_WORDS, RULE(min_ranks), "RANGE",
     "ranks of the communicator: 4, 2-8 or 2- (default any)"},
    {"nodes", read_range, CSHIM_NO_WORDS, RULE(min_nodes), "RANGE",
     "nodes that hold these ranks, in the same form (default any)"},
    {"min_size", read_limit, CSHIM_NO_WORDS, RULE(min_size), "SIZE",
     "the least bytes of the call's larger buffer, such as 64KiB (default 0)"},
    {"max_size", read_limit, CSHIM_NO_WORDS, RULE(max_size), "SIZE",
     "the most bytes, such as 25MB (default any)"},
    {"codec", read_word, CSHIM_CODECS, RULE(codec), "NAME",
     "format of the elements sent, or none (required)"},
    {"gather_codec", read_word, CSHIM_CODECS, RULE(gather_codec), "NAME",
     "format of the sums that all-reduces send (default as codec)"},
    {"algorithm", read_word, CSHIM_ALGORITHMS, RULE(algorithm), "NAME",
     "who sends what to whom (default auto)"},
    {"worth", read_word, CSHIM_WORTHS, RULE(worth), "NAME",
     "whether calls are compressed only if measured to be faster (default measured)"},
    {"error_feedback", read_switch, CSHIM_SWITCHES, RULE(error_feedback), "SWITCH",
     "add the rounding error to the next call (default off)"},
    {"rounding", read_switch, CSHIM_ROUNDINGS, RULE(stochastic), "NAME",
     "rounding of encoded elements (default nearest)"},
    {"keep", read_few, CSHIM_NO_WORDS, RULE(keep), "N",
     "elements of each 256 that codec topk sends (default 4)"},
    {"abs_error", read_error, CSHIM_NO_WORDS, RULE(abs_error), "X",
     "error per rank that codec bounded may add to an element (required by it)"},
    {"max_rel_error", read_fraction, CSHIM_NO_WORDS, RULE(max_rel_error), "X",
     "if encoding loses more than this, use a more precise codec (default any)"},
    {"verify", read_calls, CSHIM_NO_WORDS, RULE(verify), "CALLS",
     "make one call in so many natively too, and report the error (default off)"},
    {"check_ranks", read_calls, CSHIM_NO_WORDS, RULE(check_ranks), "CALLS",
     "compare one result in so many across ranks (default off)"},
};

_Static_assert(RULE(max_ranks) == RULE(min_ranks) + sizeof(uint32_t) &&
                   RULE(max_nodes) == RULE(min_nodes) + sizeof(uint32_t),
               "RANGE");
_Static_assert(sizeof(enum cshim_codec_id) == sizeof(unsigned) &&
                   sizeof(enum cshim_algorithm) == sizeof(unsigned) &&
                   sizeof(enum cshim_worth) == sizeof(unsigned) &&
                   sizeof(enum cshim_log_level) == sizeof(unsigned),
               "WORD");

/* Tables of the keys of [compshim] and of a rule. */
static const struct {
    size_t count;
    const struct key *keys;
} sections[] = {{COUNT(general_keys), general_keys}, {COUNT(rule_keys), rule_keys}};

bool cshim_set_key(struct cshim_parser *parser, const char *name, const char *value)
{
    const bool in_rule = parser->section == CSHIM_SECTION_RULE;
    char *fields = in_rule ? (char *)newest_rule(parser) : (char *)parser->policy;
    const char *names[COUNT(rule_keys)];
    _Static_assert(COUNT(general_keys) <= COUNT(rule_keys), "names has room for either section's");
    for (size_t i = 0; i < sections[in_rule].count; i++) {
        const struct key *key = &sections[in_rule].keys[i];
        names[i] = key->name;
        if (!cshim_is_word(key->name, name))
            continue;
        if ((parser->keys_seen >> i & 1) != 0)
            return cshim_parser_fail(parser, "duplicate key '%s' in this section", name);
        parser->keys_seen |= 1u << i;
        return key->read(&(struct setting){parser, key, value, fields + key->offset});
    }
    return refuse_word(parser, "key", name, names, sections[in_rule].count);
}

bool cshim_has_key(const struct cshim_parser *parser, size_t field)
{
    for (size_t i = 0; i < COUNT(rule_keys); i++)
        if (rule_keys[i].offset == field)
            return (parser->keys_seen >> i & 1) != 0;
    return false;
}

bool cshim_policy_key(bool of_rules, size_t index, struct cshim_policy_key *description)
{
    if (index >= sections[of_rules].count)
        return false;
    const struct key *key = &sections[of_rules].keys[index];
    *description =
        (struct cshim_policy_key){key->name, key->value, key->help, cshim_words(key->words)};
    return true;
}
