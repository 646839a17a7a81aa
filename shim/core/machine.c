/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/machine.h"

#include <errno.h>
#include <ini.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "policy/numbers.h"

/* No such file is that large. */
#define FILE_LIMIT ((size_t)64 << 10)
#define NAME_LIMIT 32

struct fact {
    char name[NAME_LIMIT];
    const char *help;
    size_t offset; /* of a double in struct cshim_machine */
};

#define FACT(member) #member, offsetof(struct cshim_machine, member)
static const struct {
    const char *name;
    size_t offset;
    const char *help;
} links[] = {
    {FACT(latency_between), "seconds of a step in which two nodes send each other a short message"},
    {FACT(bandwidth_between),
     "bytes per second of a node, both ways at once, in messages of 60 KiB with several others"},
    {FACT(bandwidth_pair), "the same with one other node"},
    {FACT(bandwidth_short), "the same of one message each way before the link is busy"},
    {FACT(bandwidth_long), "the same as bandwidth_pair in messages of 2 MiB"},
    {FACT(latency_inside), "seconds of such a step between two ranks of a node"},
    {FACT(bandwidth_inside),
     "bytes per second between two ranks of a node, both ways at once, like all"},
    {FACT(message), "seconds of processor time for one message more"},
    {FACT(busy_between), "share of an exchange between nodes in which the processor works for it"},
    {FACT(cores), "cores that each rank has while all compute"},
    {FACT(add), "bytes of float32 per second that a core adds to others"},
};
#define LINKS (sizeof links / sizeof *links)
/* Of each codec. */
static const struct {
    const char *name;
    size_t offset; /* of an array by codec */
} speeds[] = {{FACT(encode)}, {FACT(decode)}, {FACT(reduce)}};
#define SPEEDS (sizeof speeds / sizeof *speeds)
#define FACTS (LINKS + SPEEDS * (CSHIM_CODEC_COUNT - 1))

/* The fact at an index below FACTS: first the links, then some for each codec. */
static struct fact fact_at(size_t index)
{
    struct fact fact = {.help = NULL};
    if (index < LINKS) {
        snprintf(fact.name, sizeof fact.name, "%s", links[index].name);
        fact.help = links[index].help;
        fact.offset = links[index].offset;
        return fact;
    }
    const size_t codec = 1 + (index - LINKS) / SPEEDS, speed = (index - LINKS) % SPEEDS;
    snprintf(fact.name, sizeof fact.name, "%s_%s", speeds[speed].name,
             cshim_codec_name((enum cshim_codec_id)codec));
    fact.offset = speeds[speed].offset + codec * sizeof(double);
    return fact;
}

static const char *const natives[] = {"openmpi", "mpich", "gloo"};

const char *cshim_native_name(enum cshim_native native)
{
    return natives[native];
}

/* What inih has come to. */
struct reading {
    struct cshim_machine *machine;
    char *problem; /* of the first line that is wrong; empty if there is none */
    size_t size;
};

static bool set_native(struct reading *reading, const char *value)
{
    for (unsigned i = 0; i < sizeof natives / sizeof *natives; i++)
        if (strcmp(value, natives[i]) == 0) {
            reading->machine->native = (enum cshim_native)i;
            return true;
        }
    snprintf(reading->problem, reading->size, "unknown native '%s' (known: openmpi, mpich, gloo)",
             value);
    return false;
}

static bool set_fact(struct reading *reading, const char *name, const char *value)
{
    const char *names[FACTS];
    struct fact facts[FACTS];
    for (size_t i = 0; i < FACTS; i++) {
        facts[i] = fact_at(i);
        names[i] = facts[i].name;
        if (strcmp(name, facts[i].name) != 0)
            continue;
        char *end;
        const locale_t locale = cshim_numbers_begin();
        const double number = strtod(value, &end);
        cshim_numbers_end(locale);
        memcpy((char *)reading->machine + facts[i].offset, &number, sizeof number);
        if (end != value && *end == '\0' && number > 0 && isfinite(number))
            return true;
        snprintf(reading->problem, reading->size, "%s '%s' is not a number above 0", name, value);
        return false;
    }
    const char *nearest = cshim_nearest_name(name, names, FACTS);
    snprintf(reading->problem, reading->size, "unknown fact '%.60s'%s%s%s", name,
             nearest != NULL ? " (did you mean '" : "", nearest != NULL ? nearest : "",
             nearest != NULL ? "'?)" : "");
    return false;
}

/* inih calls this for each line. 0 is an error. */
static int handle_line(void *user, const char *section, const char *name, const char *value)
{
    struct reading *reading = user;
    if (reading->problem[0] != '\0')
        return 1;
    if (*section != '\0') {
        snprintf(reading->problem, reading->size, "facts of a machine have no sections");
        return 0;
    }
    return strcmp(name, "native") == 0 ? set_native(reading, value)
                                       : set_fact(reading, name, value);
}

bool cshim_machine_parse(struct cshim_machine *machine, const char *text, const char *source,
                         char message[CSHIM_MESSAGE_MAX])
{
    char problem[256] = "";
    *machine = (struct cshim_machine){.native = CSHIM_NATIVE_OPENMPI};
    snprintf(machine->source, sizeof machine->source, "%s", source);
    struct reading reading = {machine, problem, sizeof problem};
    const int line = ini_parse_string(text, handle_line, &reading);
    if (line == 0)
        return true;
    snprintf(message, CSHIM_MESSAGE_MAX,
             "%.200s:%d: %.200s; COMPSHIM_MACHINE takes what 'compshim tune --machine FILE' writes",
             source, line,
             line < 0             ? "out of memory"
             : problem[0] != '\0' ? problem
                                  : "not a line 'name = number'");
    return false;
}

bool cshim_machine_load(struct cshim_machine *machine, const char *path,
                        char message[CSHIM_MESSAGE_MAX])
{
    char *text = malloc(FILE_LIMIT + 1);
    FILE *file = text != NULL ? fopen(path, "re") : NULL;
    const size_t length = file != NULL ? fread(text, 1, FILE_LIMIT, file) : 0;
    bool good = false;
    if (file == NULL || ferror(file) != 0)
        snprintf(message, CSHIM_MESSAGE_MAX,
                 "%.200s: cannot read the facts that COMPSHIM_MACHINE names: %s", path,
                 strerror(errno));
    else if (length == FILE_LIMIT || memchr(text, '\0', length) != NULL)
        snprintf(
            message, CSHIM_MESSAGE_MAX,
            "%.200s: these are not the facts of a machine; COMPSHIM_MACHINE takes what 'compshim "
            "tune --machine FILE' writes",
            path);
    else {
        text[length] = '\0';
        good = cshim_machine_parse(machine, text, path, message);
    }
    if (file != NULL)
        fclose(file);
    free(text);
    return good;
}

void cshim_machine_each(const struct cshim_machine *machine,
                        void (*tell)(void *to, const char *name, double value), void *to)
{
    for (size_t i = 0; i < FACTS; i++) {
        const struct fact fact = fact_at(i);
        double value;
        memcpy(&value, (const char *)machine + fact.offset, sizeof value);
        if (value > 0)
            tell(to, fact.name, value);
    }
}

static void print_fact(void *to, const char *name, double value)
{
    for (size_t i = 0; i < LINKS; i++)
        if (strcmp(links[i].name, name) == 0)
            fprintf(to, "; %s\n", links[i].help);
    fprintf(to, "%-18s = %.6g\n", name, value);
}

void cshim_machine_print(FILE *stream, const struct cshim_machine *machine)
{
    const locale_t locale = cshim_numbers_begin();
    fprintf(stream,
            "; Facts of a machine, for COMPSHIM_MACHINE. What has no line is not known.\n"
            "; whose choice of algorithms a call natively gets: openmpi, mpich, gloo\n"
            "native             = %s\n",
            cshim_native_name(machine->native));
    cshim_machine_each(machine, print_fact, stream);
    cshim_numbers_end(locale);
}
