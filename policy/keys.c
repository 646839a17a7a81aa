/* SPDX-License-Identifier: Apache-2.0 */
/* policy.ini's keys and their values. */
#include "policy/parser.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/numbers.h"

#define KEY_LIMIT 16

/* The words a key takes; the value of each is its place. */
struct words {
    const char *what; /* for errors */
    const char *names[CSHIM_KEY_WORDS_MAX];
    size_t count;
};

/* A key of a section. The strings are also its description in compshim-policy(5): docs/man/page.awk
 * reads the tables of keys below. */
struct key {
    const char *name;
    /* Takes the value, which is not empty. */
    bool (*set)(struct cshim_parser *parser, const char *value);
    struct words (*words)(void); /* or NULL: it takes none */
    const char *value;           /* what it takes */
    const char *help;            /* one line */
};

static struct cshim_rule *newest_rule(struct cshim_parser *parser)
{
    return &parser->policy->rules[parser->policy->rule_count - 1];
}

/* Finds value among the words. */
static bool find_word(struct cshim_parser *parser, const struct words *words, const char *value,
                      unsigned *place)
{
    for (size_t i = 0; i < words->count; i++)
        if (strcmp(words->names[i], value) == 0) {
            *place = (unsigned)i;
            return true;
        }
    cshim_parser_unknown(parser, words->what, value, words->names, words->count);
    return false;
}

/* Sets the bits of a list of words, separated by commas and blanks around them. */
static bool parse_list(struct cshim_parser *parser, const struct words *words, const char *value,
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

static struct words library_words(void)
{
    struct words words = {.what = "library", .count = CSHIM_LIBRARY_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_library_name((enum cshim_library)i);
    return words;
}

static bool set_library(struct cshim_parser *parser, const char *value)
{
    const struct words words = library_words();
    return parse_list(parser, &words, value, &newest_rule(parser)->libraries);
}

static struct words collective_words(void)
{
    struct words words = {.what = "collective", .count = CSHIM_COLLECTIVE_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_collective_name((enum cshim_collective)i);
    return words;
}

static bool set_collective(struct cshim_parser *parser, const char *value)
{
    const struct words words = collective_words();
    return parse_list(parser, &words, value, &newest_rule(parser)->collectives);
}

static struct words dtype_words(void)
{
    struct words words = {.what = "dtype", .count = CSHIM_DTYPE_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_dtype_name((enum cshim_dtype)i);
    return words;
}

static bool set_dtype(struct cshim_parser *parser, const char *value)
{
    const struct words words = dtype_words();
    parser->dtype_seen = true;
    return parse_list(parser, &words, value, &newest_rule(parser)->dtypes);
}

static struct words op_words(void)
{
    struct words words = {.what = "op", .count = CSHIM_OP_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_op_name((enum cshim_op)i);
    return words;
}

static bool set_op(struct cshim_parser *parser, const char *value)
{
    const struct words words = op_words();
    return parse_list(parser, &words, value, &newest_rule(parser)->ops);
}

static struct words codec_words(void)
{
    struct words words = {.what = "codec", .count = CSHIM_CODEC_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_codec_name((enum cshim_codec_id)i);
    return words;
}

static bool set_codec(struct cshim_parser *parser, const char *value)
{
    unsigned place;
    const struct words words = codec_words();
    if (!find_word(parser, &words, value, &place))
        return false;
    newest_rule(parser)->codec = (enum cshim_codec_id)place;
    parser->codec_seen = true;
    return true;
}

static struct words algorithm_words(void)
{
    struct words words = {.what = "algorithm", .count = CSHIM_ALGORITHM_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_algorithm_name((enum cshim_algorithm)i);
    return words;
}

static bool set_algorithm(struct cshim_parser *parser, const char *value)
{
    unsigned place;
    const struct words words = algorithm_words();
    if (!find_word(parser, &words, value, &place))
        return false;
    newest_rule(parser)->algorithm = (enum cshim_algorithm)place;
    return true;
}

/* Reads a number from 1 on and moves *text behind it. */
static bool parse_number(const char **text, uint32_t *number)
{
    char *end;
    if (!isdigit((unsigned char)**text))
        return false;
    errno = 0;
    unsigned long long parsed = strtoull(*text, &end, 10);
    if (errno != 0 || parsed < 1 || parsed > UINT32_MAX)
        return false;
    *number = (uint32_t)parsed;
    *text = end;
    return true;
}

/* "4", "2-8" or "2-" of what is named. */
static bool parse_range(struct cshim_parser *parser, const char *what, const char *value,
                        uint32_t *least, uint32_t *most)
{
    const char *rest = value;
    bool good = parse_number(&rest, least);
    if (good && *rest != '-') {
        *most = *least;
    } else if (good) {
        rest++;
        good = *rest == '\0' || parse_number(&rest, most);
    }
    if (!good || *rest != '\0')
        return cshim_parser_fail(parser, parser->line, "malformed %s '%s' (write 4, 2-8 or 2-)",
                                 what, value);
    if (*least > *most)
        return cshim_parser_fail(parser, parser->line, "%s '%s' run backwards", what, value);
    return true;
}

static bool set_ranks(struct cshim_parser *parser, const char *value)
{
    struct cshim_rule *rule = newest_rule(parser);
    return parse_range(parser, "ranks", value, &rule->min_ranks, &rule->max_ranks);
}

static bool set_nodes(struct cshim_parser *parser, const char *value)
{
    struct cshim_rule *rule = newest_rule(parser);
    return parse_range(parser, "nodes", value, &rule->min_nodes, &rule->max_nodes);
}

/* "off", or a number of calls from 1 on. */
static bool set_calls(struct cshim_parser *parser, const char *what, const char *value,
                      uint32_t *calls)
{
    const char *rest = value;
    *calls = 0;
    if (strcmp(value, "off") == 0 || (parse_number(&rest, calls) && *rest == '\0'))
        return true;
    return cshim_parser_fail(parser, parser->line,
                             "malformed %s '%s' (write off, or 100 for every 100th call)", what,
                             value);
}

static bool set_verify(struct cshim_parser *parser, const char *value)
{
    return set_calls(parser, "verify", value, &newest_rule(parser)->verify);
}

static bool set_check_ranks(struct cshim_parser *parser, const char *value)
{
    return set_calls(parser, "check_ranks", value, &newest_rule(parser)->check_ranks);
}

static bool set_max_rel_error(struct cshim_parser *parser, const char *value)
{
    struct cshim_rule *rule = newest_rule(parser);
    char *end;
    const locale_t locale = cshim_numbers_begin();
    rule->max_rel_error = strtod(value, &end);
    cshim_numbers_end(locale);
    if (end != value && *end == '\0' && rule->max_rel_error > 0 && rule->max_rel_error < 1)
        return true;
    return cshim_parser_fail(parser, parser->line,
                             "malformed max_rel_error '%s' (write a number between 0 and 1, as in "
                             "0.01)",
                             value);
}

static bool set_size(struct cshim_parser *parser, const char *value, uint64_t *size)
{
    const struct cshim_rule *rule = newest_rule(parser);
    if (!cshim_parse_size(value, size))
        return cshim_parser_fail(
            parser, parser->line,
            "malformed size '%s' (write bytes, or B, KB, KiB, MB, MiB, GB, GiB, as in 64KiB)",
            value);
    if (rule->min_size > rule->max_size)
        return cshim_parser_fail(parser, parser->line, "min_size is above max_size");
    return true;
}

static bool set_min_size(struct cshim_parser *parser, const char *value)
{
    return set_size(parser, value, &newest_rule(parser)->min_size);
}

static bool set_max_size(struct cshim_parser *parser, const char *value)
{
    return set_size(parser, value, &newest_rule(parser)->max_size);
}

/* Sets what has two values to whether it is the second of the words. */
static bool set_choice(struct cshim_parser *parser, const struct words *words, const char *value,
                       bool *second)
{
    unsigned place = 0;
    if (!find_word(parser, words, value, &place))
        return false;
    *second = place == 1;
    return true;
}

static struct words error_feedback_words(void)
{
    return (struct words){"error_feedback", {"off", "on"}, 2};
}

static bool set_error_feedback(struct cshim_parser *parser, const char *value)
{
    const struct words words = error_feedback_words();
    return set_choice(parser, &words, value, &newest_rule(parser)->error_feedback);
}

static struct words rounding_words(void)
{
    return (struct words){"rounding", {"nearest", "stochastic"}, 2};
}

static bool set_rounding(struct cshim_parser *parser, const char *value)
{
    const struct words words = rounding_words();
    return set_choice(parser, &words, value, &newest_rule(parser)->stochastic);
}

/* "{rank}" and "{jobid}" are what the report's name may hold in braces. */
static bool check_placeholders(struct cshim_parser *parser, const char *value)
{
    for (const char *brace = strchr(value, '{'); brace != NULL; brace = strchr(brace + 1, '{'))
        if (strncmp(brace, "{rank}", 6) != 0 && strncmp(brace, "{jobid}", 7) != 0)
            return cshim_parser_fail(parser, parser->line,
                                     "'%s' may hold {rank} and {jobid} only in braces", value);
    return true;
}

static struct words report_words(void)
{
    return (struct words){"report", {"off", "summary"}, 2};
}

static bool set_report(struct cshim_parser *parser, const char *value)
{
    const struct words words = report_words();
    unsigned place;
    /* A misspelt word must not turn into a file. */
    if (strpbrk(value, "./{") == NULL && !find_word(parser, &words, value, &place))
        return false;
    snprintf(parser->policy->report, sizeof parser->policy->report, "%s", value);
    return check_placeholders(parser, value);
}

static struct words log_words(void)
{
    return (struct words){"log level", {"error", "warn", "info", "debug"}, 4};
}

static bool set_log(struct cshim_parser *parser, const char *value)
{
    const struct words words = log_words();
    unsigned place;
    if (!find_word(parser, &words, value, &place))
        return false;
    parser->policy->log = (enum cshim_log_level)place;
    return true;
}

static bool set_seed(struct cshim_parser *parser, const char *value)
{
    char *end;
    errno = 0;
    parser->policy->seed = strtoull(value, &end, 10);
    if (isdigit((unsigned char)*value) && *end == '\0' && errno == 0)
        return true;
    return cshim_parser_fail(parser, parser->line, "malformed seed '%s' (write a whole number)",
                             value);
}

static bool set_feedback_memory(struct cshim_parser *parser, const char *value)
{
    if (cshim_parse_size(value, &parser->policy->feedback_memory))
        return true;
    return cshim_parser_fail(parser, parser->line,
                             "malformed feedback_memory '%s' (write a size, as in 1GiB)", value);
}

static const struct key general_keys[] = {
    {"report", set_report, report_words, "WHERE",
     "what is told at the end (default summary), or a JSON file"},
    {"log", set_log, log_words, "LEVEL", "what is said on standard error (default warn)"},
    {"seed", set_seed, NULL, "N", "a whole number, for stochastic rounding (default 0)"},
    {"feedback_memory", set_feedback_memory, NULL, "SIZE",
     "what error feedback may take on each rank (default 1GiB)"},
};

static const struct key rule_keys[] = {
    {"library", set_library, library_words, "LIST", "libraries that are called"},
    {"collective", set_collective, collective_words, "LIST",
     "functions that are called (default all but allgather)"},
    {"dtype", set_dtype, dtype_words, "LIST", "types of the elements"},
    {"op", set_op, op_words, "LIST", "operations on them"},
    {"ranks", set_ranks, NULL, "RANGE", "ranks of the communicator: 4, 2-8 or 2-"},
    {"nodes", set_nodes, NULL, "RANGE", "nodes that hold these ranks, in the same form"},
    {"min_size", set_min_size, NULL, "SIZE",
     "the least bytes of the caller's buffer, such as 64KiB"},
    {"max_size", set_max_size, NULL, "SIZE", "the most, such as 25MB"},
    {"codec", set_codec, codec_words, "NAME", "what elements are sent as (required)"},
    {"algorithm", set_algorithm, algorithm_words, "NAME", "who sends what to whom (default auto)"},
    {"error_feedback", set_error_feedback, error_feedback_words, "SWITCH",
     "what rounding took is added the next time (default off)"},
    {"rounding", set_rounding, rounding_words, "NAME", "of encoded elements (default nearest)"},
    {"max_rel_error", set_max_rel_error, NULL, "X",
     "where encoding loses more than this, take a more precise codec"},
    {"verify", set_verify, NULL, "CALLS",
     "make one call in so many natively too, and report the error (default off)"},
    {"check_ranks", set_check_ranks, NULL, "CALLS",
     "compare one result in so many across ranks (default off)"},
};

#define COUNT(keys) (sizeof(keys) / sizeof *(keys))

static bool set_key(struct cshim_parser *parser, const struct key *keys, size_t count,
                    const char *name, const char *value)
{
    const char *names[KEY_LIMIT];
    for (size_t i = 0; i < count; i++) {
        names[i] = keys[i].name;
        if (strcmp(names[i], name) != 0)
            continue;
        if ((parser->keys_seen >> i & 1) != 0)
            return cshim_parser_fail(parser, parser->line, "duplicate key '%s' in this section",
                                     name);
        parser->keys_seen |= 1u << i;
        return keys[i].set(parser, value);
    }
    return cshim_parser_unknown(parser, "key", name, names, count);
}

bool cshim_set_general_key(struct cshim_parser *parser, const char *key, const char *value)
{
    return set_key(parser, general_keys, COUNT(general_keys), key, value);
}

bool cshim_set_rule_key(struct cshim_parser *parser, const char *key, const char *value)
{
    return set_key(parser, rule_keys, COUNT(rule_keys), key, value);
}

static bool describe(const struct key *keys, size_t count, size_t index,
                     struct cshim_policy_key *description)
{
    if (index >= count)
        return false;
    const struct key *key = &keys[index];
    const struct words words = key->words != NULL ? key->words() : (struct words){0};
    *description = (struct cshim_policy_key){
        .name = key->name, .value = key->value, .help = key->help, .word_count = words.count};
    memcpy(description->words, words.names, sizeof description->words);
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
