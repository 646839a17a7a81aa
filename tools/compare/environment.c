/* SPDX-License-Identifier: Apache-2.0 */
/* What a comparison was measured on: the machine, its software and its load. */
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "codecs/codec.h"
#include "tools/compare/compare.h"
#include "tools/html/page.h"
#include "version.h"

/* Returns the first line that a command prints, or NULL. The caller frees it. */
static char *first_line(const char *command)
{
    FILE *pipe = popen(command, "re");
    char *line = NULL;
    size_t room = 0;
    if (pipe == NULL)
        return NULL;
    if (getline(&line, &room, pipe) <= 0) {
        free(line);
        line = NULL;
    } else {
        line[strcspn(line, "\n")] = '\0';
    }
    pclose(pipe);
    return line;
}

static void set(json_t *environment, const char *name, char *text)
{
    json_object_set_new(environment, name, page_text(text != NULL ? text : "unknown"));
    free(text);
}

static char *processor(void)
{
    char *model = first_line("sed -n '/^model name/{s/.*: *//p;q}' /proc/cpuinfo 2>/dev/null");
    char *text = tool_format("%s, %ld online, %s", model != NULL ? model : "unknown model",
                             sysconf(_SC_NPROCESSORS_ONLN), cshim_simd_name(cshim_simd_level()));
    free(model);
    return text;
}

/* Reads the driver's files, because its tools may be missing. */
static char *cards(void)
{
    char *driver = first_line("ls /proc/driver/nvidia/gpus 2>/dev/null | wc -l");
    long count = driver != NULL ? strtol(driver, NULL, 10) : 0;
    free(driver);
    if (count == 0)
        return tool_copy("none found");
    char *name = first_line("cat /proc/driver/nvidia/gpus/*/information 2>/dev/null");
    const char *model = name != NULL ? name + strcspn(name, ":") : "";
    char *text = tool_format("%ld x %s", count,
                             *model == ':' ? model + 1 + strspn(model + 1, " \t") : "NVIDIA");
    free(name);
    return text;
}

static char *date(void)
{
    char text[64];
    time_t now = time(NULL);
    struct tm fields;
    if (gmtime_r(&now, &fields) == NULL ||
        strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &fields) == 0)
        return NULL;
    return tool_copy(text);
}

json_t *compare_environment(const char *link)
{
    json_t *environment = json_object();
    struct utsname kernel;
    uname(&kernel);
    set(environment, "servers", tool_copy(kernel.nodename));
    set(environment, "processors", processor());
    set(environment, "cards", cards());
    set(environment, "links", tool_copy(link));
    char *system =
        first_line("sed -n '/^PRETTY_NAME=/{s/[^=]*=//;s/\"//g;p;q}' /etc/os-release 2>/dev/null");
    set(environment, "operating system",
        tool_format("%s, %s %s %s", system != NULL ? system : "unknown", kernel.sysname,
                    kernel.release, kernel.machine));
    free(system);
    set(environment, "framework", first_line("mpirun --version 2>/dev/null"));
    set(environment, "compshim", tool_copy(CSHIM_VERSION));
    set(environment, "date", date());
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
