/* SPDX-License-Identifier: Apache-2.0 */
/* What a comparison was measured on: the machine, its software and its load. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/codec.h"
#include "tools/compare/compare.h"
#include "tools/lib/json.h"
#include "version.h"

/* Returns the first line that a command prints, or NULL. */
static char *first_line(const char *command)
{
    FILE *pipe = popen(command, "re");
    char *line = NULL;
    size_t room = 0;
    if (pipe == NULL)
        return NULL;
    const bool is_there = getline(&line, &room, pipe) > 0;
    pclose(pipe);
    return is_there ? strsep(&line, "\n") : NULL;
}

static void set(json_t *environment, const char *name, const char *text)
{
    json_object_set_new(environment, name, tool_json_text(text != NULL ? text : "unknown"));
}

static char *processor(void)
{
    const char *model =
        first_line("sed -n '/^model name/{s/.*: *//p;q}' /proc/cpuinfo 2>/dev/null");
    return tool_format("%s, %ld online, %s", model != NULL ? model : "unknown model",
                       sysconf(_SC_NPROCESSORS_ONLN), cshim_simd_name(cshim_simd_level()));
}

/* Reads the driver's files, because its tools may be missing. */
static char *cards(void)
{
    const char *counted = first_line("ls /proc/driver/nvidia/gpus 2>/dev/null | wc -l");
    long count = counted != NULL ? strtol(counted, NULL, 10) : 0;
    if (count == 0)
        return tool_copy("none found");
    const char *name = first_line("cat /proc/driver/nvidia/gpus/*/information 2>/dev/null");
    const char *model = name != NULL ? strchr(name, ':') : NULL;
    return tool_format("%ld x %s", count,
                       model != NULL ? model + 1 + strspn(model + 1, " \t") : "NVIDIA");
}

json_t *compare_environment(const char *link)
{
    json_t *environment = json_object();
    set(environment, "servers", first_line("uname -n"));
    set(environment, "processors", processor());
    set(environment, "cards", cards());
    set(environment, "links", link);
    set(environment, "operating system",
        first_line("name=$(sed -n '/^PRETTY_NAME=/{s/[^=]*=//;s/\"//g;p;q}' /etc/os-release "
                   "2>/dev/null); echo \"${name:-unknown}, $(uname -srm)\""));
    set(environment, "framework", first_line("mpirun --version 2>/dev/null"));
    set(environment, "compshim", CSHIM_VERSION);
    set(environment, "date", first_line("date -u '+%Y-%m-%d %H:%M UTC'"));
    return environment;
}

/* Load averages of one minute; negative while none was read. */
static double load_at_start = -1;
static double load_highest = -1;

void compare_watch_load(void)
{
    double load = 0;
    if (getloadavg(&load, 1) != 1)
        return;
    if (load_at_start < 0)
        load_at_start = load;
    if (load > load_highest)
        load_highest = load;
}

void compare_add_load(json_t *environment)
{
    set(environment, "load",
        load_at_start < 0
            ? NULL
            : tool_format("%.1f at the start, at most %.1f with the runs, on %ld "
                          "processors (average of a minute)",
                          load_at_start, load_highest, sysconf(_SC_NPROCESSORS_ONLN)));
}
