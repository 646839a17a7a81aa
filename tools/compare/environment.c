/* SPDX-License-Identifier: Apache-2.0 */
/* Describes what a comparison was measured on: the machine, its software and its load. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codecs/codec.h"
#include "tools/compare/compare.h"
#include "tools/lib/json.h"
#include "version.h"

static const char script[] =
#include "environment_sh.h"
    ;

static void set_property(json_t *environment, const char *name, const char *text)
{
    json_object_set_new(environment, name, tool_json_text(text != NULL ? text : "unknown"));
}

json_t *compare_environment(const char *link)
{
    json_t *environment = json_object();
    char *line = NULL;
    size_t room = 0;
    FILE *facts =
        popen(tool_format("simd=%s\n%s", cshim_simd_name(cshim_simd_level()), script), "re");
    if (facts == NULL)
        err(TOOL_SYSTEM, "cannot start a shell");
    while (getline(&line, &room, facts) > 0) {
        char *text = line;
        const char *name = strsep(&text, "\t");
        set_property(environment, name, strsep(&text, "\n"));
    }
    pclose(facts);
    set_property(environment, "links", link);
    set_property(environment, "compshim", CSHIM_VERSION);
    return environment;
}

/* One-minute load averages; negative until one is read. */
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
    set_property(environment, "load",
                 load_at_start < 0
                     ? NULL
                     : tool_format("%.1f at the start, at most %.1f with the runs, on %ld "
                                   "processors (average of a minute)",
                                   load_at_start, load_highest, sysconf(_SC_NPROCESSORS_ONLN)));
}
