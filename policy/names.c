/* SPDX-License-Identifier: Apache-2.0 */
/* Names of values, and the name nearest to a misspelt one. */
#include "policy/policy.h"

#include <ctype.h>
#include <string.h>

#include "policy/word.h"

/* Longest name whose edit distance to a word is computed. */
#define NAME_LIMIT 63

static const struct cshim_words sets[] = {
    [CSHIM_NO_WORDS] = {"", 0, {NULL}},
    [CSHIM_LIBRARIES] = {"library", CSHIM_LIBRARY_COUNT, {"mpi", "nccl", "gloo"}},
    [CSHIM_COLLECTIVES] = {"collective",
                           CSHIM_COLLECTIVE_COUNT,
                           {"allreduce", "reduce_scatter", "reduce", "allgather", "alltoall",
                            "broadcast"}},
    [CSHIM_DTYPES] = {"dtype", CSHIM_DTYPE_COUNT, {NULL}},
    [CSHIM_OPS] = {"op",
                   CSHIM_OP_COUNT,
                   {
#define REDUCTION(NAME, name, ...) #name,
#include "policy/reductions.def"
                   }},
    [CSHIM_CODECS] = {"codec", CSHIM_CODEC_COUNT, {NULL}},
    [CSHIM_ALGORITHMS] = {"algorithm",
                          CSHIM_ALGORITHM_COUNT,
                          {
#define UNCOMPILED(NAME, name) #name,
#define ALGORITHM(NAME, name, ...) #name,
#include "policy/algorithms.def"
                          }},
    [CSHIM_LEVELS] = {"log level", 4, {"error", "warn", "info", "debug"}},
    [CSHIM_SWITCHES] = {"error_feedback", 2, {"off", "on"}},
    [CSHIM_ROUNDINGS] = {"rounding", 2, {"nearest", "stochastic"}},
    [CSHIM_REPORTS] = {"report", 2, {"off", "summary"}},
    [CSHIM_WORTHS] = {"worth", 3, {"measured", "always", "foretold"}},
};

struct cshim_words cshim_words(enum cshim_word_set set)
{
    struct cshim_words words = sets[set];
    for (unsigned i = 0; i < words.count; i++)
        if (set == CSHIM_DTYPES)
            words.names[i] = cshim_dtype_name((enum cshim_dtype)i);
        else if (set == CSHIM_CODECS)
            words.names[i] = cshim_codec_name((enum cshim_codec_id)i);
    return words;
}

static const char *name_of(enum cshim_word_set set, unsigned value)
{
    return value < sets[set].count ? sets[set].names[value] : "?";
}

const char *cshim_library_name(enum cshim_library library)
{
    return name_of(CSHIM_LIBRARIES, library);
}

const char *cshim_collective_name(enum cshim_collective collective)
{
    return name_of(CSHIM_COLLECTIVES, collective);
}

const char *cshim_op_name(enum cshim_op op)
{
    return op == CSHIM_OP_OTHER ? "other" : name_of(CSHIM_OPS, op);
}

const char *cshim_algorithm_name(enum cshim_algorithm algorithm)
{
    return name_of(CSHIM_ALGORITHMS, algorithm);
}

const char *cshim_word_find(enum cshim_word_set set, const char *text, unsigned *value)
{
    static const struct {
        enum cshim_word_set set;
        const char *name;
        unsigned value;
    } older[] = {{CSHIM_ALGORITHMS, "allreduce", CSHIM_ALGORITHM_CAST},
                 {CSHIM_ALGORITHMS, "allgather", CSHIM_ALGORITHM_ONE_SHOT},
                 {CSHIM_WORTHS, "gain", CSHIM_WORTH_MEASURED}};
    const struct cshim_words words = cshim_words(set);
    for (*value = 0; *value < words.count; ++*value)
        if (cshim_is_word(words.names[*value], text))
            return words.names[*value];
    for (size_t i = 0; i < sizeof older / sizeof *older; i++) {
        *value = older[i].value;
        if (older[i].set == set && cshim_is_word(older[i].name, text))
            return older[i].name;
    }
    return NULL;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Returns the Levenshtein distance, ignoring case. Keeps one row of the table at a time. */
static size_t edit_distance(const char *word, const char *name)
{
    size_t row[NAME_LIMIT + 1];
    size_t length = strlen(name);
    for (size_t i = 0; i <= length; i++)
        row[i] = i;
    for (size_t w = 0; word[w] != '\0'; w++) {
        size_t diagonal = row[0];
        row[0] = w + 1;
        for (size_t i = 0; i < length; i++) {
            size_t substituted =
                diagonal + (tolower((unsigned char)word[w]) != tolower((unsigned char)name[i]));
            diagonal = row[i + 1];
            row[i + 1] = smaller(substituted, 1 + smaller(diagonal, row[i]));
        }
    }
    return row[length];
}

const char *cshim_nearest_name(const char *word, const char *const *names, size_t count)
{
    size_t length = strlen(word);
    size_t limit = length <= 3 ? 1 : (length + 2) / 3;
    const char *nearest = NULL;
    size_t best = limit + 1;
    for (size_t i = 0; i < count; i++) {
        size_t distance = strlen(names[i]) <= NAME_LIMIT ? edit_distance(word, names[i]) : best;
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    for (size_t i = 0; nearest == NULL && length > 0 && i < count; i++)
        if (cshim_has_letters(word, names[i], length))
            nearest = names[i];
    return nearest;
}
