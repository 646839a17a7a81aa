/* SPDX-License-Identifier: Apache-2.0 */
/* Parses arbitrary text as the choices of an earlier job, the file that COMPSHIM_MACHINE names. The
 * explanation of a rejection must begin with the file's name and a line number. Accepted choices
 * must be within the ranges of their types, be found, and be the same after writing and parsing. */
#include <stdlib.h>
#include <string.h>

#include "shim/core/learned.h"
#include "tests/fuzz/fuzz.h"

/* Writes a choice as a line, and parses it. Checks that the line has one choice. */
static struct cshim_learned *write_and_parse(const struct cshim_learned_choice *choice)
{
    char line[512], message[CSHIM_MESSAGE_MAX];
    cshim_learned_line(choice, line, sizeof line);
    struct cshim_learned *again = cshim_learned_parse(line, strlen(line), "again", message);
    FUZZ_CHECK(again != NULL && again->count == 1);
    return again;
}

static void check_choice(const struct cshim_learned *learned,
                         const struct cshim_learned_choice *choice)
{
    FUZZ_CHECK((unsigned)choice->library < CSHIM_LIBRARY_COUNT);
    FUZZ_CHECK((unsigned)choice->dtype < CSHIM_DTYPE_COUNT);
    FUZZ_CHECK((unsigned)choice->rule_codec < CSHIM_CODEC_COUNT);
    FUZZ_CHECK(strnlen(choice->rule, sizeof choice->rule) < sizeof choice->rule);
    if (!choice->is_native)
        FUZZ_CHECK((unsigned)choice->algorithm < CSHIM_ALGORITHM_COUNT &&
                   (unsigned)choice->codec < CSHIM_CODEC_COUNT);

    const struct cshim_learned_choice *found = cshim_learned_find(learned, choice);
    FUZZ_CHECK(found != NULL && found <= choice);
    struct cshim_learned *again = write_and_parse(choice);
    FUZZ_CHECK(cshim_learned_is_same_class(&again->choices[0], choice));
    FUZZ_CHECK(again->choices[0].is_native == choice->is_native);
    if (!choice->is_native)
        FUZZ_CHECK(again->choices[0].algorithm == choice->algorithm &&
                   again->choices[0].codec == choice->codec);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char message[CSHIM_MESSAGE_MAX];
    char *text = malloc(size + 1); /* exactly as long as the reader of files makes it */
    FUZZ_CHECK(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    memset(message, 'x', sizeof message);
    struct cshim_learned *learned =
        memchr(text, '\0', size) == NULL ? cshim_learned_parse(text, size, "f", message) : NULL;
    if (learned == NULL && memchr(text, '\0', size) == NULL) {
        char *end = message;
        fuzz_check_line(message, sizeof message, "f:");
        FUZZ_CHECK(strtoul(message + strlen("f:"), &end, 10) >= 1 && strncmp(end, ": ", 2) == 0);
    }
    for (size_t i = 0; learned != NULL && i < learned->count; i++)
        check_choice(learned, &learned->choices[i]);
    free(learned);
    free(text);
    return 0;
}
