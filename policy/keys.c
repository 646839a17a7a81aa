/* SPDX-License-Identifier: Apache-2.0 */
/* policy.ini's keys and their values. */
#include "policy/parser.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A key of a section and what takes its value, which is not empty. */
struct key {
    const char *name;
    bool (*set)(struct cshim_parser *parser, const char *value);
};

#define KEY_LIMIT 16
#define VALUE_LIMIT 16

/* The words a key takes; the value of each is its place. */
struct words {
    const char *what; /* for errors */
    const char *names[VALUE_LIMIT];
    size_t count;
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

static bool set_library(struct cshim_parser *parser, const char *value)
{
    struct words words = {.what = "library", .count = CSHIM_LIBRARY_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_library_name((enum cshim_library)i);
    return parse_list(parser, &words, value, &newest_rule(parser)->libraries);
}

static bool set_collective(struct cshim_parser *parser, const char *value)
{
    struct words words = {.what = "collective", .count = CSHIM_COLLECTIVE_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_collective_name((enum cshim_collective)i);
    return parse_list(parser, &words, value, &newest_rule(parser)->collectives);
}

static bool set_dtype(struct cshim_parser *parser, const char *value)
{
    struct words words = {.what = "dtype", .count = CSHIM_DTYPE_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_dtype_name((enum cshim_dtype)i);
    parser->dtype_seen = true;
    return parse_list(parser, &words, value, &newest_rule(parser)->dtypes);
}

static bool set_op(struct cshim_parser *parser, const char *value)
{
    struct words words = {.what = "op", .count = CSHIM_OP_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_op_name((enum cshim_op)i);
    return parse_list(parser, &words, value, &newest_rule(parser)->ops);
}

static bool set_codec(struct cshim_parser *parser, const char *value)
{
    unsigned place;
    struct words words = {.what = "codec", .count = CSHIM_CODEC_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_codec_name((enum cshim_codec_id)i);
    if (!find_word(parser, &words, value, &place))
        return false;
    newest_rule(parser)->codec = (enum cshim_codec_id)place;
    parser->codec_seen = true;
    return true;
}

static bool set_algorithm(struct cshim_parser *parser, const char *value)
{
    unsigned place;
    struct words words = {.what = "algorithm", .count = CSHIM_ALGORITHM_COUNT};
    for (unsigned i = 0; i < words.count; i++)
        words.names[i] = cshim_algorithm_name((enum cshim_algorithm)i);
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
    rule->max_rel_error = strtod(value, &end);
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

static bool set_error_feedback(struct cshim_parser *parser, const char *value)
{
    static const struct words words = {"error_feedback", {"off", "on"}, 2};
    return set_choice(parser, &words, value, &newest_rule(parser)->error_feedback);
}

static bool set_rounding(struct cshim_parser *parser, const char *value)
{
    static const struct words words = {"rounding", {"nearest", "stochastic"}, 2};
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

static bool set_report(struct cshim_parser *parser, const char *value)
{
    static const struct words words = {"report", {"off", "summary"}, 2};
    unsigned place;
    /* A misspelt word must not turn into a file. */
    if (strpbrk(value, "./{") == NULL && !find_word(parser, &words, value, &place))
        return false;
    snprintf(parser->policy->report, sizeof parser->policy->report, "%s", value);
    return check_placeholders(parser, value);
}

static bool set_log(struct cshim_parser *parser, const char *value)
{
    static const struct words words = {"log level", {"error", "warn", "info", "debug"}, 4};
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
    static const struct key keys[] = {
        {"report", set_report},
        {"log", set_log},
        {"seed", set_seed},
        {"feedback_memory", set_feedback_memory},
    };
    return set_key(parser, keys, sizeof keys / sizeof *keys, key, value);
}

bool cshim_set_rule_key(struct cshim_parser *parser, const char *key, const char *value)
{
    static const struct key keys[] = {
        {"library", set_library},
        {"collective", set_collective},
        {"dtype", set_dtype},
        {"op", set_op},
        {"ranks", set_ranks},
        {"nodes", set_nodes},
        {"min_size", set_min_size},
        {"max_size", set_max_size},
        {"codec", set_codec},
        {"algorithm", set_algorithm},
        {"error_feedback", set_error_feedback},
        {"rounding", set_rounding},
        {"max_rel_error", set_max_rel_error},
        {"verify", set_verify},
        {"check_ranks", set_check_ranks},
    };
    return set_key(parser, keys, sizeof keys / sizeof *keys, key, value);
}
