/* SPDX-License-Identifier: Apache-2.0 */
/* compshim tune: measures, decides, and writes a policy. */
#include "tools/tune/tune.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "policy/policy.h"
#include "shim/core/output.h"
#include "tools/lib/json.h"
#include "tools/lib/tool.h"

#define SECONDS 120
#define SIZES "4KiB,16KiB-1MiB,4MiB,16MiB,64MiB" /* default of --sizes */
/* Beginning of the file of --machine, as in versions that wrote measurements into it. */
#define MACHINE_MARK "; Facts of a machine"

static struct {
    const char *output, *max_rel_error, *sizes, *save, *from, *machine;
    bool force;
    uint32_t time; /* 0: SECONDS */
} chosen = {.output = "policy.ini", .max_rel_error = "0.01"};

static const struct tool_option options[] = {
    {"output", 'o', TOOL_TEXT, &chosen.output, "FILE", "the policy to write (default policy.ini)"},
    {"force", 'f', TOOL_FLAG, &chosen.force, NULL,
     "replace an existing file, whatever it contains"},
    {"time", 't', TOOL_COUNT, &chosen.time, "SECONDS", "approximate duration (default 120)"},
    {"max-rel-error", 'e', TOOL_TEXT, &chosen.max_rel_error, "X",
     "largest relative error of a result (default 0.01)"},
    {"sizes", 0, TOOL_TEXT, &chosen.sizes, "LIST",
     "sizes to measure: 64KiB-64MiB (doubling) or 1MiB,25MiB"},
    {"save", 0, TOOL_TEXT, &chosen.save, "FILE", "write the measurements as JSON, too"},
    {"machine", 0, TOOL_TEXT, &chosen.machine, "FILE",
     "for COMPSHIM_MACHINE: contains no choices, so that jobs try nothing"},
    {"from", 0, TOOL_TEXT, &chosen.from, "FILE", "measure nothing: decide by saved measurements"},
    {0},
};

static double parse_error(const char *text)
{
    char *end = NULL;
    const double error = strtod(text, &end);
    if (end == text || *end != '\0' || !(error >= 0 && error <= 1))
        tool_misuse("--max-rel-error: '%s' is not a number from 0 to 1", text);
    return error;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void set_sizes(const char *text, struct tune_measured *measured)
{
    uint64_t sizes[TUNE_SIZES_MAX];
    const size_t count = tool_parse_sizes(text, sizes, TUNE_SIZES_MAX);
    qsort(sizes, count, sizeof *sizes, by_value);
    for (size_t i = 0; i < count; i++) {
        /* the benchmark gets sizes slightly above these, one per combination */
        if (sizes[i] < 1024 || sizes[i] % sizeof(float) != 0 || sizes[i] > (uint64_t)1 << 30)
            tool_misuse("--sizes: %llu bytes: take whole float32 from 1KiB to 1GiB",
                        (unsigned long long)sizes[i]);
        if (measured->size_count > 0 && sizes[i] < sizes[i - 1] + 1024)
            tool_misuse("--sizes: %llu and %llu bytes are less than 1KiB apart",
                        (unsigned long long)sizes[i - 1], (unsigned long long)sizes[i]);
        measured->sizes[measured->size_count++].bytes = sizes[i];
    }
}

static void write_policy(const char *path, const char *text)
{
    char message[CSHIM_MESSAGE_MAX];
    struct cshim_output output;
    if (cshim_policy_parse(text, strlen(text), path, message) == NULL)
        errx(TOOL_SYSTEM, "the policy came out wrong, please report this: %s", message);
    tool_open_output(&output, path);
    fputs(text, output.stream);
    tool_close_output(&output);
}

/* Writes the measurements as JSON: {"ranks", "nodes", "ways": [{"codec", "algorithm"}], "sizes":
 * [{"bytes", "native", "seconds": [number or null for each way]}]} */
static void save(const struct tune_measured *measured, const char *path)
{
    json_t *ways = json_array(), *sizes = json_array();
    for (size_t i = 0; i < measured->way_count; i++)
        json_array_append_new(
            ways, json_pack("{ss ss}", "codec", cshim_codec_name(measured->ways[i].codec),
                            "algorithm", cshim_algorithm_name(measured->ways[i].algorithm)));
    for (size_t i = 0; i < measured->size_count; i++) {
        const struct tune_size *size = &measured->sizes[i];
        json_t *seconds = json_array();
        for (size_t way = 0; way < measured->way_count; way++)
            json_array_append_new(seconds, tool_json_number(size->ways[way]));
        json_array_append_new(sizes, json_pack("{sI sf so}", "bytes", (json_int_t)size->bytes,
                                               "native", size->native, "seconds", seconds));
    }
    const json_t *root = json_pack("{sI sI so so}", "ranks", (json_int_t)measured->ranks, "nodes",
                                   (json_int_t)measured->nodes, "ways", ways, "sizes", sizes);
    struct cshim_output output;
    tool_open_output(&output, path);
    if (json_dumpf(root, output.stream, JSON_INDENT(1)) != 0)
        err(TOOL_SYSTEM, "cannot write %s", path);
    tool_close_output(&output);
}

/* Writes a file for COMPSHIM_MACHINE, without choices. */
static void save_machine(const char *path)
{
    struct cshim_output output;
    tool_open_output(&output, path);
    fputs(MACHINE_MARK ": no choices. Jobs with this file try nothing, and follow their policy.\n",
          output.stream);
    tool_close_output(&output);
}

static _Noreturn void refuse_measurements(const char *path, const char *what)
{
    errx(TOOL_NOT_SO, "%s: not measurements of compshim tune: %s", path, what);
}

static struct tune_way read_way(const char *path, const json_t *value,
                                const struct tune_measured *measured)
{
    unsigned codec, algorithm;
    const char *codec_name = ledger_text(value, "codec");
    const char *algorithm_name = ledger_text(value, "algorithm");
    if (cshim_word_find(CSHIM_CODECS, codec_name, &codec) == NULL ||
        cshim_word_find(CSHIM_ALGORITHMS, algorithm_name, &algorithm) == NULL)
        refuse_measurements(path, "a way without a codec or an algorithm that is known");
    if (!tune_is_measured(measured, codec, algorithm))
        refuse_measurements(
            path, tool_format("codec '%s' by algorithm '%s' on %u ranks and %u nodes is never "
                              "measured",
                              codec_name, algorithm_name, measured->ranks, measured->nodes));
    return (struct tune_way){(enum cshim_codec_id)codec, (enum cshim_algorithm)algorithm};
}

static void read_size(const char *path, const json_t *value, size_t ways, uint64_t above,
                      struct tune_size *size)
{
    const json_t *seconds = json_object_get(value, "seconds");
    const json_int_t bytes = json_integer_value(json_object_get(value, "bytes"));
    size->native = json_number_value(json_object_get(value, "native"));
    if (bytes <= 0 || (uint64_t)bytes <= above || !(size->native > 0) ||
        json_array_size(seconds) != ways)
        refuse_measurements(path, "sizes have to rise, with a native time and one for each way");
    size->bytes = (uint64_t)bytes;
    for (size_t way = 0; way < ways; way++) {
        const json_t *time = json_array_get(seconds, way);
        size->ways[way] = json_is_number(time) ? json_number_value(time) : NAN;
        if (json_is_number(time) && !(size->ways[way] > 0))
            refuse_measurements(path, "a time that is not above 0");
    }
}

static void load(const char *path, struct tune_measured *measured)
{
    bool is_unreadable;
    char message[TOOL_JSON_MESSAGE_MAX];
    const json_t *root = tool_json_read(path, &is_unreadable, message);
    if (root == NULL)
        errx(is_unreadable ? TOOL_SYSTEM : TOOL_NOT_SO, "%s", message);
    const json_t *ways = json_object_get(root, "ways"), *sizes = json_object_get(root, "sizes");
    const json_int_t ranks = json_integer_value(json_object_get(root, "ranks"));
    const json_int_t nodes = json_integer_value(json_object_get(root, "nodes"));
    if (ranks < 2 || ranks > INT32_MAX || nodes < 1 || nodes > ranks)
        refuse_measurements(path, "'ranks' or 'nodes' is missing or odd");
    if (json_array_size(ways) > TUNE_WAYS_MAX || json_array_size(sizes) > TUNE_SIZES_MAX ||
        json_array_size(sizes) == 0)
        refuse_measurements(path, "no sizes, or too many sizes or ways");
    *measured = (struct tune_measured){.ranks = (uint32_t)ranks, .nodes = (uint32_t)nodes};
    for (size_t i = 0; i < json_array_size(ways); i++)
        measured->ways[measured->way_count++] = read_way(path, json_array_get(ways, i), measured);
    for (size_t i = 0; i < json_array_size(sizes); i++, measured->size_count++)
        read_size(path, json_array_get(sizes, i), measured->way_count,
                  i > 0 ? measured->sizes[i - 1].bytes : 0, &measured->sizes[i]);
}

static int run_tune(char **words)
{
    static struct tune_measured measured;
    const double max_rel_error = parse_error(chosen.max_rel_error);
    if ((*words == NULL) == (chosen.from == NULL))
        tool_misuse(*words == NULL ? "no command that starts ranks, such as 'mpirun -n 4'"
                                   : "--from needs no command: nothing is run");
    if (chosen.from != NULL && (chosen.sizes != NULL || chosen.machine != NULL || chosen.time > 0))
        tool_misuse("--from takes what was measured: leave out --sizes, --machine and --time");
    if (chosen.from == NULL)
        set_sizes(chosen.sizes != NULL ? chosen.sizes : SIZES, &measured);
    if (!chosen.force && access(chosen.output, F_OK) == 0)
        errx(TOOL_NOT_SO, "%s exists already: use --force, or another --output", chosen.output);
    tool_check_writable("--save", chosen.save, "\"ways\"");
    tool_check_writable("--machine", chosen.machine, MACHINE_MARK);
    if (chosen.from != NULL)
        load(chosen.from, &measured);
    else
        tune_measure(words, chosen.time > 0 ? chosen.time : SECONDS, chosen.output, &measured);
    char *text = tune_policy(&measured, max_rel_error);
    signal(SIGPIPE, SIG_IGN); /* the files are written even if nobody reads the policy here */
    fputs(text, stdout);      /* first, so that it is not lost if a file cannot be written */
    if (chosen.save != NULL)
        save(&measured, chosen.save);
    if (chosen.machine != NULL)
        save_machine(chosen.machine);
    write_policy(chosen.output, text);
    return tool_finish(TOOL_GOOD);
}

const struct tool_command tool_tune = {
    .name = "tune",
    .summary = "measure this machine or cluster and write a policy for it",
    .usage = "[OPTION...] [--] LAUNCHER [ARGUMENT...]",
    .details =
        "LAUNCHER starts ranks as for the program; a benchmark of all-reduces is added to it and "
        "run without the library and with each codec and algorithm that suits its nodes. Sizes for "
        "which nothing was faster than native are passed through; on one node also those below "
        "1 MiB, and those for which nothing was 1.5 times as fast. The policy contains the "
        "measurements; it is also printed.\n\n  compshim tune -- mpirun -n 4\n  compshim "
        "tune --max-rel-error 0.05 --time 300 -- mpirun --hostfile hosts -n 32\n",
    .takes_command = true,
    .options = options,
    .run = run_tune,
};
