/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/machine.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "policy/lines.h"
#include "policy/numbers.h"

/* No such file is that large. */
#define FILE_LIMIT ((size_t)64 << 10)
#define NAME_LIMIT 32
/* No machine takes so many seconds, or has so many bytes per second. */
#define MUCH 1e18

struct fact {
    char name[NAME_LIMIT];
    const char *help;
    size_t offset; /* of a double in struct cshim_machine */
    double most;
};

#define FACT(member) #member, offsetof(struct cshim_machine, member)
static const struct {
    const char *name;
    size_t offset;
    double most;
    const char *help;
} links[] = {
    {FACT(latency_between), MUCH,
     "seconds of a step in which two nodes send each other a short message"},
    {FACT(bandwidth_between), MUCH,
     "bytes per second of a node, both ways at once, in messages of 60 KiB with several others"},
    {FACT(bandwidth_pair), MUCH, "the same with one other node"},
    {FACT(bandwidth_short), MUCH, "the same of one message each way before the link is busy"},
    {FACT(bandwidth_long), MUCH, "the same as bandwidth_pair in messages of 2 MiB"},
    {FACT(latency_inside), MUCH, "seconds of such a step between two ranks of a node"},
    {FACT(bandwidth_inside), MUCH,
     "bytes per second between two ranks of a node, both ways at once, like all"},
    {FACT(message), MUCH, "seconds of processor time for one message more"},
    {FACT(busy_between), 1,
     "share of an exchange between nodes in which the processor works for it"},
    {FACT(cores), 1e6, "cores that each rank has while all compute"},
    {FACT(add), MUCH, "bytes of float32 per second that a core adds to others"},
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
        fact.most = links[index].most;
        return fact;
    }
    const size_t codec = 1 + (index - LINKS) / SPEEDS, speed = (index - LINKS) % SPEEDS;
    snprintf(fact.name, sizeof fact.name, "%s_%s", speeds[speed].name,
             cshim_codec_name((enum cshim_codec_id)codec));
    fact.offset = speeds[speed].offset + codec * sizeof(double);
    fact.most = MUCH;
    return fact;
}

static const char *const natives[] = {"openmpi", "mpich", "gloo"};

const char *cshim_native_name(enum cshim_native native)
{
    return natives[native];
}

static double value_of(const struct cshim_machine *machine, const struct fact *fact)
{
    double value;
    memcpy(&value, (const char *)machine + fact->offset, sizeof value);
    return value;
}

/* What has been read. */
struct reading {
    struct cshim_machine *machine;
    bool has_native;
    char problem[256]; /* of the first line that is wrong; empty if there is none */
};

__attribute__((format(printf, 2, 3))) static void fail(struct reading *reading, const char *format,
                                                       ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reading->problem, sizeof reading->problem, format, arguments);
    va_end(arguments);
}

static void set_native(struct reading *reading, const char *value)
{
    if (reading->has_native) {
        fail(reading, "a second line for 'native'");
        return;
    }
    for (unsigned i = 0; i < sizeof natives / sizeof *natives; i++)
        if (strcmp(value, natives[i]) == 0) {
            reading->machine->native = (enum cshim_native)i;
            reading->has_native = true;
            return;
        }
    fail(reading, "unknown native '%.60s' (known: openmpi, mpich, gloo)", value);
}

static void set_value(struct reading *reading, const struct fact *fact, const char *value)
{
    char *end;
    const locale_t locale = cshim_numbers_begin();
    const double number = strtod(value, &end);
    cshim_numbers_end(locale);
    if (value_of(reading->machine, fact) > 0)
        fail(reading, "a second line for '%s'", fact->name);
    else if (end == value || *end != '\0' || !(number > 0 && number <= fact->most))
        fail(reading, "%s '%.60s' is not a number above 0 and up to %g", fact->name, value,
             fact->most);
    memcpy((char *)reading->machine + fact->offset, &number, sizeof number);
}

static void set_fact(struct reading *reading, const char *name, const char *value)
{
    const char *names[FACTS];
    struct fact facts[FACTS];
    for (size_t i = 0; i < FACTS; i++) {
        facts[i] = fact_at(i);
        names[i] = facts[i].name;
        if (strcmp(name, names[i]) == 0) {
            set_value(reading, &facts[i], value);
            return;
        }
    }
    const char *nearest = cshim_nearest_name(name, names, FACTS);
    fail(reading, "unknown fact '%.60s'%s%s%s", name, nearest != NULL ? " (did you mean '" : "",
         nearest != NULL ? nearest : "", nearest != NULL ? "'?)" : "");
}

static void read_line(struct reading *reading, const char *line, size_t length)
{
    char text[256], name[256], value[256];
    snprintf(text, sizeof text, "%.*s", (int)length, line);
    if (length >= sizeof text || sscanf(text, "%255[^=: \t] %*1[=:] %255[^\n]", name, value) != 2)
        fail(reading, "not a line 'name = number'");
    else if (strcmp(name, "native") == 0)
        set_native(reading, value);
    else
        set_fact(reading, name, value);
}

/* Nothing is foretold without these facts; without its latency a link would be too fast. */
static void check_end(struct reading *reading)
{
    const struct cshim_machine *machine = reading->machine;
    const char *missing =
        machine->cores == 0                                               ? "cores"
        : machine->add == 0                                               ? "add"
        : machine->bandwidth_between > 0 && machine->latency_between == 0 ? "latency_between"
        : machine->bandwidth_inside > 0 && machine->latency_inside == 0   ? "latency_inside"
        : machine->bandwidth_between == 0 && machine->bandwidth_inside == 0
            ? "bandwidth_between' or 'bandwidth_inside"
            : NULL;
    if (missing != NULL)
        fail(reading, "the file ends without '%s'", missing);
}

bool cshim_machine_parse(struct cshim_machine *machine, const char *text, const char *source,
                         char message[CSHIM_MESSAGE_MAX])
{
    struct reading reading = {.machine = machine};
    const char *end = text + strlen(text), *next = cshim_lines_begin(text, end), *line;
    size_t length;
    unsigned number = 0;
    *machine = (struct cshim_machine){.native = CSHIM_NATIVE_OPENMPI};
    snprintf(machine->source, sizeof machine->source, "%s", source);
    do {
        number++;
        line = cshim_lines_next(&next, end, &length);
        if (line == NULL)
            check_end(&reading);
        else if (length > 0)
            read_line(&reading, line, length);
    } while (line != NULL && reading.problem[0] == '\0');
    if (reading.problem[0] == '\0')
        return true;
    snprintf(message, CSHIM_MESSAGE_MAX,
             "%.200s:%u: %.200s; COMPSHIM_MACHINE takes what 'compshim tune --machine FILE' writes",
             source, number, reading.problem);
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
        const double value = value_of(machine, &fact);
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
