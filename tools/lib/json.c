/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/lib/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy.h"
#include "tools/lib/tool.h"

json_t *tool_json_text(const char *text)
{
    json_t *string = text != NULL ? json_string(text) : json_null();
    if (string != NULL)
        return string;
    char *ascii = tool_copy(text);
    for (char *at = ascii; *at != '\0'; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    string = json_string(ascii);
    free(ascii);
    return string;
}

json_t *tool_json_number(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

void tool_json_print(json_t *value)
{
    json_dumpf(value, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(value);
}

json_t *tool_json_read(const char *path, bool *unreadable, char message[TOOL_JSON_MESSAGE_MAX])
{
    json_error_t error;
    FILE *file = fopen(path, "re");
    json_t *root = file != NULL ? json_loadf(file, 0, &error) : NULL;
    const int reason = errno;
    *unreadable = file == NULL || ferror(file) != 0;
    if (file != NULL)
        fclose(file);
    if (*unreadable)
        snprintf(message, TOOL_JSON_MESSAGE_MAX, "%s: %s", path, strerror(reason));
    else if (root == NULL) /* jansson quotes the unreadable text, with control characters */
        snprintf(message, TOOL_JSON_MESSAGE_MAX, "%s:%d: not JSON: %s", path, error.line,
                 tool_printable(error.text));
    return root;
}

/* Replaces the former names of two algorithms in reports of older versions. */
static void rename_algorithms(const json_t *rows)
{
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row)
    {
        const char *word = json_string_value(json_object_get(row, "algorithm"));
        unsigned algorithm;
        if (word != NULL && cshim_word_find(CSHIM_ALGORITHMS, word, &algorithm) != NULL)
            json_object_set_new(row, "algorithm",
                                json_string(cshim_algorithm_name((enum cshim_algorithm)algorithm)));
    }
}

/* Types of a report's members. JSON_REAL is a number; JSON_NULL is a number that may not be finite,
 * and is null then. */
static const struct {
    json_type type;
    const char *names;
} members[] = {
    {JSON_STRING, "library source sha256 native collective rule codec algorithm dtype op from to"},
    {JSON_ARRAY, "rows moved kinds exchange"},
    {JSON_OBJECT, "policy machine totals passed_through not_compressed observed unlisted verified "
                  "ranks_checked"},
    {JSON_NULL, "rel_error rel_l2 largest bias error"},
    {JSON_REAL,
     "ranks nodes ranks_per_node wall_seconds calls compressed_calls bytes bytes_in "
     "bytes_wire bytes_network bytes_native bytes_below bytes_total seconds "
     "seconds_encode seconds_exchange seconds_decode seconds_foretold seconds_wait "
     "compared_calls seconds_compared seconds_native_estimate native_calls seconds_native "
     "seconds_saved speedup speedup_low speedup_high "
     "different count after_call max_rel_error"},
};

/* Returns the type of a member; JSON_TRUE: any, because a later version may have added it. */
static json_type type_of(const char *name)
{
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (tool_is_listed(members[i].names, ' ', name, strlen(name)))
            return members[i].type;
    return JSON_TRUE;
}

static bool is_sound(json_type type, const char *name, const json_t *value)
{
    if (json_is_number(value) && (type == JSON_REAL || type == JSON_NULL))
        return json_number_value(value) >= 0 ||
               tool_is_listed("bias seconds_saved", ' ', name, strlen(name));
    return type == JSON_TRUE || json_typeof(value) == type;
}

#define WHERE_MAX 128

/* Returns true if a value has a known member, at any depth, whose value compshim would not have
 * written. `where` is the path of the value, and becomes the path of this member; it is unchanged
 * if there is none. */
static bool find_unsound(json_t *value, const char *name, char where[WHERE_MAX])
{
    const size_t used = strlen(where);
    const char *key = NULL;
    json_t *member = NULL;
    size_t i;
    json_array_foreach(value, i, member)
    {
        snprintf(where + used, WHERE_MAX - used, "[%zu]", i);
        if (!json_is_object(member) || find_unsound(member, "", where))
            return true;
    }
    json_object_foreach(value, key, member)
    {
        /* passed_through has a member for each reason, not_compressed one for each function */
        const char *known = strcmp(name, "passed_through") == 0   ? "calls"
                            : strcmp(name, "not_compressed") == 0 ? "unlisted"
                                                                  : key;
        const json_type type = type_of(known);
        snprintf(where + used, WHERE_MAX - used, "%s%s", used > 0 ? "." : "", key);
        if (!is_sound(type, known, member) ||
            (type != JSON_TRUE && find_unsound(member, known, where)))
            return true;
    }
    where[used] = '\0';
    return false;
}

json_t *ledger_open(const char *path, bool *unreadable, char message[TOOL_JSON_MESSAGE_MAX])
{
    char where[WHERE_MAX] = "";
    json_t *root = tool_json_read(path, unreadable, message);
    if (root == NULL) {
        const size_t used = strlen(message);
        if (!*unreadable)
            snprintf(message + used, TOOL_JSON_MESSAGE_MAX - used,
                     "; COMPSHIM_REPORT=FILE writes a report");
        return NULL;
    }
    /* Parts other than these three may be missing, but not have another type. */
    const char *missing = !json_is_string(json_object_get(root, "compshim")) ? "compshim"
                          : !json_is_object(json_object_get(root, "totals")) ? "totals"
                          : !json_is_array(json_object_get(root, "rows"))    ? "rows"
                                                                             : NULL;
    if (missing != NULL)
        snprintf(message, TOOL_JSON_MESSAGE_MAX,
                 "%s: not a compshim report: it has no '%s'; COMPSHIM_REPORT=FILE writes one", path,
                 missing);
    else if (find_unsound(root, "", where))
        snprintf(message, TOOL_JSON_MESSAGE_MAX, "%s: %s is not as compshim writes it", path,
                 tool_printable(where));
    if (missing != NULL || where[0] != '\0') {
        json_decref(root);
        return NULL;
    }
    rename_algorithms(json_object_get(root, "rows"));
    return root;
}

json_t *ledger_load(const char *path)
{
    bool unreadable = false;
    char message[TOOL_JSON_MESSAGE_MAX];
    json_t *report = ledger_open(path, &unreadable, message);
    if (report == NULL)
        errx(unreadable ? TOOL_SYSTEM : TOOL_NOT_SO, "%s", message);
    return report;
}

double ledger_number(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

double ledger_total(const json_t *report, const char *key)
{
    return ledger_number(json_object_get(report, "totals"), key);
}

const char *ledger_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}
