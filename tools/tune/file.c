/* SPDX-License-Identifier: Apache-2.0 */
/* Writes and reads the measurements of compshim tune as JSON. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/lib/tool.h"
#include "tools/tune/tune.h"

/* {"ranks", "nodes", "ways": [{"codec", "algorithm"}], "sizes": [{"bytes", "native", "seconds":
 * [one for each way, or null]}]} */
void tune_save(const struct tune_measured *measured, const char *path)
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
            json_array_append_new(seconds, isfinite(size->ways[way]) ? json_real(size->ways[way])
                                                                     : json_null());
        json_array_append_new(sizes, json_pack("{sI sf so}", "bytes", (json_int_t)size->bytes,
                                               "native", size->native, "seconds", seconds));
    }
    json_t *root = json_pack("{sI sI so so}", "ranks", (json_int_t)measured->ranks, "nodes",
                             (json_int_t)measured->nodes, "ways", ways, "sizes", sizes);
    if (json_dump_file(root, path, JSON_INDENT(1)) != 0)
        tool_fail(TOOL_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    json_decref(root);
}

static _Noreturn void refuse(const char *path, const char *what)
{
    tool_fail(TOOL_NOT_SO, "%s: not measurements of compshim tune: %s", path, what);
}

static struct tune_way read_way(const char *path, const json_t *value)
{
    const char *codec = json_string_value(json_object_get(value, "codec"));
    const char *algorithm = json_string_value(json_object_get(value, "algorithm"));
    unsigned codec_id = CSHIM_CODEC_NONE, algorithm_id = CSHIM_ALGORITHM_AUTO;
    if (codec == NULL || cshim_word_find(CSHIM_CODECS, codec, &codec_id) == NULL ||
        codec_id == CSHIM_CODEC_NONE || algorithm == NULL ||
        cshim_word_find(CSHIM_ALGORITHMS, algorithm, &algorithm_id) == NULL ||
        algorithm_id == CSHIM_ALGORITHM_AUTO)
        refuse(path, "a way without a codec or an algorithm that is known");
    return (struct tune_way){(enum cshim_codec_id)codec_id, (enum cshim_algorithm)algorithm_id};
}

static void read_size(const char *path, const json_t *value, size_t ways, uint64_t above,
                      struct tune_size *size)
{
    const json_t *seconds = json_object_get(value, "seconds");
    const json_int_t bytes = json_integer_value(json_object_get(value, "bytes"));
    size->native = json_number_value(json_object_get(value, "native"));
    if (bytes <= 0 || (uint64_t)bytes <= above || !(size->native > 0) ||
        json_array_size(seconds) != ways)
        refuse(path, "sizes have to rise, with a native time and one for each way");
    size->bytes = (uint64_t)bytes;
    for (size_t way = 0; way < ways; way++) {
        const json_t *time = json_array_get(seconds, way);
        size->ways[way] = json_is_number(time) ? json_number_value(time) : NAN;
        if (json_is_number(time) && !(size->ways[way] > 0))
            refuse(path, "a time that is not above 0");
    }
}

void tune_load(const char *path, struct tune_measured *measured)
{
    size_t length = 0;
    json_error_t error;
    char *text = tool_read_file(path, &length);
    if (text == NULL)
        tool_fail(TOOL_SYSTEM, "%s: %s", path, strerror(errno));
    json_t *root = json_loadb(text, length, 0, &error);
    free(text);
    if (root == NULL)
        tool_fail(TOOL_NOT_SO, "%s:%d: not JSON", path, error.line);
    const json_t *ways = json_object_get(root, "ways"), *sizes = json_object_get(root, "sizes");
    const json_int_t ranks = json_integer_value(json_object_get(root, "ranks"));
    const json_int_t nodes = json_integer_value(json_object_get(root, "nodes"));
    if (ranks < 2 || ranks > INT32_MAX || nodes < 1 || nodes > ranks)
        refuse(path, "'ranks' or 'nodes' is missing or odd");
    if (json_array_size(ways) > TUNE_WAYS_MAX || json_array_size(sizes) > TUNE_SIZES_MAX ||
        json_array_size(sizes) == 0)
        refuse(path, "no sizes, or too many sizes or ways");
    *measured = (struct tune_measured){.ranks = (uint32_t)ranks, .nodes = (uint32_t)nodes};
    for (; measured->way_count < json_array_size(ways); measured->way_count++)
        measured->ways[measured->way_count] =
            read_way(path, json_array_get(ways, measured->way_count));
    for (uint64_t above = 0; measured->size_count < json_array_size(sizes);) {
        struct tune_size *size = &measured->sizes[measured->size_count];
        read_size(path, json_array_get(sizes, measured->size_count++), measured->way_count, above,
                  size);
        above = size->bytes;
    }
    json_decref(root);
}
