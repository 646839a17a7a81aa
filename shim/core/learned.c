/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/learned.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "policy/lines.h"
#include "policy/word.h"
#include "shim/core/words.h"

/* Maximum bytes of a file of choices. */
#define FILE_LIMIT (((size_t)1 << 20) - 1)
#define LINE_LIMIT 256

/* Finds the value of a word. Returns false if the word is not in the set. */
static bool read_word(enum cshim_word_set set, const char *text, unsigned *value)
{
    return cshim_word_find(set, text, value) != NULL;
}

/* Reads the part of a line before '=': the class of calls. Returns false if it is malformed. */
static bool read_class(const char *text, struct cshim_learned_choice *choice)
{
    char library[16], dtype[16], codec[16];
    unsigned long long bytes;
    unsigned values[3];
    int end = 0; /* end of the rule's name, whose characters are those that policies allow */
    if (sscanf(text, "%15s %u/%u %15s %15s %llu %63[-A-Za-z0-9_.]%n", library, &choice->ranks,
               &choice->nodes, dtype, codec, &bytes, choice->rule, &end) != 7 ||
        text[end] != '\0' || bytes == 0 || !read_word(CSHIM_LIBRARIES, library, &values[0]) ||
        !read_word(CSHIM_DTYPES, dtype, &values[1]) || !read_word(CSHIM_CODECS, codec, &values[2]))
        return false;
    choice->library = (enum cshim_library)values[0];
    choice->dtype = (enum cshim_dtype)values[1];
    choice->rule_codec = (enum cshim_codec_id)values[2];
    choice->size_class = cshim_size_class(bytes);
    return true;
}

/* Reads the part of a line after '=': how calls of the class are made. Returns false if it is
 * malformed. */
static bool read_way(const char *text, struct cshim_learned_choice *choice)
{
    char algorithm[16], codec[16], more;
    unsigned values[2];
    choice->is_native = strcmp(text, "native") == 0;
    if (choice->is_native)
        return true;
    if (sscanf(text, "%15s %15s %c", algorithm, codec, &more) != 2 ||
        !read_word(CSHIM_ALGORITHMS, algorithm, &values[0]) ||
        !read_word(CSHIM_CODECS, codec, &values[1]) || values[0] == CSHIM_ALGORITHM_AUTO ||
        values[1] == CSHIM_CODEC_NONE)
        return false;
    choice->algorithm = (enum cshim_algorithm)values[0];
    choice->codec = (enum cshim_codec_id)values[1];
    return true;
}

/* Reads a line. Returns NULL, or what is wrong with the line. Leaves *choice unchanged for a
 * property of a machine, which old versions wrote. */
static const char *parse_line(const char *line, size_t length, struct cshim_learned_choice *choice)
{
    char text[LINE_LIMIT];
    if (length >= sizeof text)
        return "a line is too long";
    snprintf(text, sizeof text, "%.*s", (int)length, line);
    char *equals = strrchr(text, '=');
    if (equals == NULL)
        return "not a line 'LIBRARY RANKS/NODES DTYPE CODEC BYTES RULE = ALGORITHM CODEC'";
    char *end = equals;
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    if (strpbrk(text, " \t") == NULL) /* "name = number": a machine's property */
        return NULL;
    for (equals++; isspace((unsigned char)*equals);)
        equals++;
    if (!read_class(text, choice))
        return "no class of calls 'LIBRARY RANKS/NODES DTYPE CODEC BYTES RULE'";
    return read_way(equals, choice) ? NULL : "a way is 'native' or 'ALGORITHM CODEC'";
}

struct cshim_learned *cshim_learned_parse(const char *text, size_t length, const char *source,
                                          char message[CSHIM_MESSAGE_MAX])
{
    size_t lines = 1, line_length;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    struct cshim_learned *learned = calloc(1, sizeof *learned + lines * sizeof *learned->choices);
    if (learned == NULL) {
        snprintf(message, CSHIM_MESSAGE_MAX, "%.200s: no memory for its choices", source);
        return NULL;
    }
    const char *end = text + length, *next = cshim_lines_begin(text, end), *line;
    for (unsigned number = 1; (line = cshim_lines_next(&next, end, &line_length)) != NULL;
         number++) {
        struct cshim_learned_choice *choice = &learned->choices[learned->count];
        const char *problem = line_length > 0 ? parse_line(line, line_length, choice) : NULL;
        if (problem != NULL) {
            snprintf(message, CSHIM_MESSAGE_MAX,
                     "%.200s:%u: %s; COMPSHIM_MACHINE takes what 'compshim report --learned' "
                     "writes",
                     source, number, problem);
            free(learned);
            return NULL;
        }
        learned->count += choice->rule[0] != '\0';
    }
    return learned;
}

/* Reads a file as a text that ends with a zero byte; the caller frees it. If that fails, returns
 * NULL with a message. */
static char *read_file(const char *path, size_t *length, char message[CSHIM_MESSAGE_MAX])
{
    struct stat facts;
    if (stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode)) {
        snprintf(message, CSHIM_MESSAGE_MAX,
                 "%.200s: a pipe, which cannot be read again: have %s name a file", path,
                 "COMPSHIM_MACHINE");
        return NULL;
    }
    FILE *file = fopen(path, "re");
    char *text = file != NULL ? cshim_lines_read(file, FILE_LIMIT, length) : NULL;
    if (text != NULL && memchr(text, '\0', *length) == NULL)
        return text;
    snprintf(message, CSHIM_MESSAGE_MAX,
             "%.200s: cannot read the choices that COMPSHIM_MACHINE names: %s", path,
             text != NULL || errno == EFBIG ? "it is no text of choices" : strerror(errno));
    free(text);
    return NULL;
}

bool cshim_learned_load(char **text, size_t *length, char message[CSHIM_MESSAGE_MAX])
{
    const char *file = secure_getenv("COMPSHIM_MACHINE");
    *text = NULL;
    *length = 0;
    if (file == NULL || *file == '\0')
        return true;
    const bool is_off = cshim_is_word(file, "off");
    *text = is_off ? strdup("") : read_file(file, length, message);
    if (*text == NULL && is_off)
        snprintf(message, CSHIM_MESSAGE_MAX, "no memory for COMPSHIM_MACHINE");
    if (*text == NULL)
        return false;
    struct cshim_learned *learned = cshim_learned_parse(*text, *length, file, message);
    if (learned == NULL) {
        free(*text);
        *text = NULL;
    }
    free(learned);
    return *text != NULL;
}

bool cshim_learned_is_same_class(const struct cshim_learned_choice *a,
                                 const struct cshim_learned_choice *b)
{
    return a->library == b->library && a->ranks == b->ranks && a->nodes == b->nodes &&
           a->dtype == b->dtype && a->rule_codec == b->rule_codec &&
           a->size_class == b->size_class && strcmp(a->rule, b->rule) == 0;
}

struct cshim_learned_choice cshim_learned_key(const struct cshim_rule *rule,
                                              const struct cshim_call *call)
{
    struct cshim_learned_choice key = {
        .library = call->library,
        .ranks = call->ranks,
        .nodes = call->nodes,
        .dtype = call->dtype,
        .rule_codec = call->instead != CSHIM_CODEC_NONE ? call->instead : rule->codec,
        .size_class = cshim_size_class(call->bytes),
    };
    memcpy(key.rule, rule->name, sizeof key.rule);
    return key;
}

const struct cshim_learned_choice *cshim_learned_find(const struct cshim_learned *learned,
                                                      const struct cshim_learned_choice *wanted)
{
    for (size_t i = 0; i < learned->count; i++)
        if (cshim_learned_is_same_class(&learned->choices[i], wanted))
            return &learned->choices[i];
    return NULL;
}

/* Writes seconds in words, as a text that is valid until the end of the enclosing block. */
#define SECONDS(seconds) cshim_seconds_words(seconds, (char[CSHIM_WORDS_MAX]){""})

void cshim_learned_line(const struct cshim_learned_choice *choice, char *line, size_t size)
{
    char way[64] = "native", took[96] = "";
    if (!choice->is_native)
        snprintf(way, sizeof way, "%s %s", cshim_algorithm_name(choice->algorithm),
                 cshim_codec_name(choice->codec));
    if (choice->seconds_native > 0 && choice->is_native)
        snprintf(took, sizeof took, "  ; %s", SECONDS(choice->seconds_native));
    else if (choice->seconds_native > 0)
        snprintf(took, sizeof took, "  ; %s, natively %s", SECONDS(choice->seconds),
                 SECONDS(choice->seconds_native));
    snprintf(line, size, "%s %u/%u %s %s %llu %s = %s%s", cshim_library_name(choice->library),
             choice->ranks, choice->nodes, cshim_dtype_name(choice->dtype),
             cshim_codec_name(choice->rule_codec),
             (unsigned long long)cshim_size_class_begin(choice->size_class), choice->rule, way,
             took);
}
