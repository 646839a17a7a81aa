/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON. compshim-report(5) describes its fields. */
#include "shim/report/json.h"

#include <math.h>

#include "shim/report/table.h"
#include "version.h"

/* Returns the number of bytes of the UTF-8 character at text; 0 if it is invalid, which includes
 * overlong forms, surrogates and numbers above U+10FFFF. */
static size_t utf8_length(const unsigned char *text)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least;
    } forms[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};
    for (size_t more = 0; more < sizeof forms / sizeof *forms; more++) {
        if ((text[0] & forms[more].mask) != forms[more].lead)
            continue;
        uint32_t point = text[0] & ~(uint32_t)forms[more].mask;
        for (size_t i = 1; i <= more; i++) {
            if ((text[i] & 0xc0) != 0x80)
                return 0;
            point = point << 6 | (text[i] & 0x3fu);
        }
        const bool is_character =
            point >= forms[more].least && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff);
        return is_character ? more + 1 : 0;
    }
    return 0;
}

void cshim_report_string(FILE *stream, const char *text)
{
    fputc('"', stream);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0';) {
        const size_t length = utf8_length(c);
        if (length == 0)
            fputc('?', stream);
        else if (*c == '"' || *c == '\\')
            fprintf(stream, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(stream, "\\u%04x", *c);
        else
            fwrite(c, 1, length, stream);
        c += length > 0 ? length : 1;
    }
    fputc('"', stream);
}

/* Writes a number; null for infinities and NaN, which JSON lacks. */
static void json_number(FILE *stream, double value)
{
    if (isfinite(value))
        fprintf(stream, "%.6e", value);
    else
        fprintf(stream, "null");
}

/* Writes the named fields of a row; if in_totals is true, only the fields that totals have. */
static void json_figures(FILE *stream, const struct cshim_row *row, bool in_totals)
{
    const char *separator = "";
    for (const struct cshim_row_field *field = cshim_row_fields; field->name != NULL; field++) {
        const void *figure = (const char *)row + field->offset;
        if (in_totals && !field->in_totals)
            continue;
        fprintf(stream, "%s\"%s\": ", separator, field->name);
        if (field->kind == CSHIM_FIELD_COUNT)
            fprintf(stream, "%llu", (unsigned long long)*(const uint64_t *)figure);
        else
            fprintf(stream, "%.6f", *(const double *)figure);
        separator = ", ";
    }
}

/* Writes the measured savings as further members of an object; nothing if they were not measured.
 */
static void json_saving(FILE *stream, const struct cshim_row *row)
{
    const struct cshim_saving saving = cshim_row_saving(row);
    if (row->compared_calls + row->native_calls == 0)
        return;
    fprintf(stream,
            ", \"compared_calls\": %llu, \"seconds_compared\": %.6f, "
            "\"seconds_native_estimate\": %.6f, \"native_calls\": %llu, "
            "\"seconds_native\": %.6f, \"seconds_saved\": %.6f",
            (unsigned long long)row->compared_calls, row->seconds_compared,
            row->seconds_native_estimate, (unsigned long long)row->native_calls,
            row->seconds_native, saving.natively - saving.took);
    if (saving.speedup > 0)
        fprintf(stream, ", \"speedup\": %.3f, \"speedup_low\": %.3f, \"speedup_high\": %.3f",
                saving.speedup, saving.low, saving.high);
}

static void json_row(FILE *stream, const struct cshim_row_key *key, const struct cshim_row *row)
{
    const double error = cshim_row_error(row);
    fprintf(stream,
            "    {\"collective\": \"%s\", \"rule\": ", cshim_collective_name(key->collective));
    cshim_report_string(stream, key->rule->name);
    fprintf(stream, ", \"codec\": \"%s\", \"algorithm\": \"%s\", \"dtype\": \"%s\", ",
            cshim_codec_name(key->codec), cshim_algorithm_name(key->algorithm),
            cshim_dtype_name(key->dtype));
    json_figures(stream, row, false);
    fprintf(stream, ", \"rel_error\": ");
    json_number(stream, error >= 0 ? error : NAN);
    if (cshim_report_is_exact(key))
        fprintf(stream, ", \"exact\": true");
    json_saving(stream, row);
    if (row->verified > 0) {
        const struct cshim_verdict verdict = cshim_row_verdict(row);
        fprintf(stream, ", \"verified\": {\"calls\": %llu, \"rel_l2\": ",
                (unsigned long long)row->verified);
        json_number(stream, verdict.rel_l2);
        fprintf(stream, ", \"largest\": ");
        json_number(stream, verdict.largest);
        fprintf(stream, ", \"bias\": ");
        json_number(stream, verdict.bias);
        fputc('}', stream);
    }
    if (row->checked > 0)
        fprintf(stream, ", \"ranks_checked\": {\"calls\": %llu, \"different\": %llu}",
                (unsigned long long)row->checked, (unsigned long long)row->differing);
    fputc('}', stream);
}

static void json_moves(FILE *stream, const struct cshim_ledger *ledger)
{
    const char *separator = "";
    fprintf(stream, "  \"moved\": [");
    for (uint64_t i = 0; i < ledger->tally.changes && i < CSHIM_CODEC_CHANGES_MAX; i++) {
        const struct cshim_codec_change *change = &ledger->tally.change[i];
        const struct cshim_rule *rule = &ledger->policy->rules[change->rule];
        fprintf(stream, "%s\n    {\"rule\": ", separator);
        cshim_report_string(stream, rule->name);
        fprintf(stream,
                ", \"dtype\": \"%s\", \"count\": %llu, \"from\": \"%s\", \"to\": \"%s\", "
                "\"after_call\": %u, \"error\": ",
                cshim_dtype_name((enum cshim_dtype)change->dtype),
                (unsigned long long)change->count,
                cshim_codec_name((enum cshim_codec_id)change->from),
                cshim_codec_name((enum cshim_codec_id)change->to), change->call);
        json_number(stream, (double)change->error);
        fprintf(stream, ", \"max_rel_error\": %.6e}", rule->max_rel_error);
        separator = ",";
    }
    fprintf(stream, "%s],\n", ledger->tally.changes > 0 ? "\n  " : "");
}

/* Writes the lines of a file for COMPSHIM_MACHINE. compshim report --learned prints them. */
static void json_learned(FILE *stream, const struct cshim_ledger *ledger)
{
    char line[256];
    fprintf(stream, "  \"learned\": [");
    for (size_t i = 0; i < ledger->learned_count; i++) {
        cshim_learned_line(&ledger->learned[i], line, sizeof line);
        fprintf(stream, i > 0 ? ",\n    " : "\n    ");
        cshim_report_string(stream, line);
    }
    fprintf(stream, "%s],\n", ledger->learned_count > 0 ? "\n  " : "");
}

static void json_job(FILE *stream, const struct cshim_job *job)
{
    fprintf(stream, "{\n  \"compshim\": \"%s\",\n  \"library\": ", CSHIM_VERSION);
    cshim_report_string(stream, job->library);
    fprintf(stream,
            ",\n  \"ranks\": %d,\n  \"nodes\": %u,\n  \"policy\": {\"source\": ", job->ranks,
            job->nodes);
    cshim_report_string(stream, job->policy->source);
    fprintf(stream, ", \"sha256\": \"%s\"},\n  \"wall_seconds\": %.6f,\n", job->policy_sha256,
            job->stopped - job->started);
    if (job->decisions > 0)
        fprintf(stream, "  \"host_waits\": %llu,\n", (unsigned long long)job->host_waits);
    if (job->unreported > 0)
        fprintf(stream, "  \"unreported_processes\": %u,\n", job->unreported);
}

static void json_kind(FILE *stream, const struct cshim_kind *kind)
{
    fprintf(stream,
            "      {\"collective\": \"%s\", \"dtype\": \"%s\", \"op\": \"%s\", \"ranks\": %u, "
            "\"nodes\": %u, \"ranks_per_node\": %u, \"bytes\": %llu, ",
            cshim_collective_name((enum cshim_collective)kind->collective),
            cshim_dtype_name((enum cshim_dtype)kind->dtype), cshim_op_name((enum cshim_op)kind->op),
            kind->ranks, kind->nodes, kind->ranks_per_node, (unsigned long long)kind->bytes);
    if (kind->is_class)
        fprintf(stream, "\"bytes_below\": %llu, ",
                kind->bytes > 0 ? 2 * (unsigned long long)kind->bytes : 1);
    fprintf(stream,
            "\"calls\": %llu, \"bytes_total\": %llu, \"seconds\": %.6f, \"seconds_wait\": %.6f}",
            (unsigned long long)kind->calls, (unsigned long long)kind->bytes_total, kind->seconds,
            kind->seconds_wait);
}

/* Writes the calls that COMPSHIM=observe has recorded, which compshim explain --report reads, and
 * the exchanges that were measured. */
static void json_observed(FILE *stream, const struct cshim_observed *observed)
{
    fprintf(stream, "  \"observed\": {\n    \"kinds\": [");
    for (size_t i = 0; i < observed->count; i++) {
        fprintf(stream, i > 0 ? ",\n" : "\n");
        json_kind(stream, &observed->kinds[i]);
    }
    fprintf(stream,
            "\n    ],\n    \"unlisted\": {\"calls\": %llu, \"bytes_total\": %llu, \"seconds\": "
            "%.6f},\n    \"exchange\": [",
            (unsigned long long)observed->unlisted.calls,
            (unsigned long long)observed->unlisted.bytes_total, observed->unlisted.seconds);
    for (size_t i = 0; i < observed->probe_count; i++) {
        const struct cshim_probe *probe = &observed->probes[i];
        fprintf(stream,
                "%s\n      {\"codec\": \"%s\", \"algorithm\": \"%s\", \"bytes\": %llu, "
                "\"bytes_wire\": %llu, \"seconds\": %.9f}",
                i > 0 ? "," : "", cshim_codec_name(probe->codec),
                cshim_algorithm_name(probe->algorithm), (unsigned long long)probe->bytes,
                (unsigned long long)probe->bytes_wire, probe->seconds);
    }
    fprintf(stream, "\n    ]\n  },\n");
}

/* Writes the calls and bytes of functions that the policy never compresses. */
static void json_counted(FILE *stream, const struct cshim_ledger *ledger)
{
    const char *separator = "";
    fprintf(stream, "  \"not_compressed\": {");
    for (unsigned i = 0; i < CSHIM_COUNTED_ALL; i++) {
        const struct cshim_counted *counted = &ledger->tally.counted[i];
        if (counted->calls == 0)
            continue;
        fprintf(stream, "%s\"%s\": {\"calls\": %llu, \"bytes\": %llu}", separator,
                cshim_counted_name(i), (unsigned long long)counted->calls,
                (unsigned long long)counted->bytes);
        separator = ", ";
    }
    fprintf(stream, "},\n");
}

void cshim_report_json(FILE *stream, const struct cshim_job *job)
{
    const struct cshim_ledger *ledger = &job->ledger;
    const struct cshim_row total = cshim_ledger_total(ledger);
    const char *separator = "";
    const unsigned long long calls = total.calls + cshim_ledger_passed(ledger);
    json_job(stream, job);
    fprintf(stream, "  \"totals\": {\"calls\": %llu, \"compressed_calls\": %llu, ", calls,
            (unsigned long long)total.calls);
    json_figures(stream, &total, true);
    json_saving(stream, &total);
    fprintf(stream, "},\n  \"rows\": [");
    for (size_t i = 0; i < ledger->row_count; i++) {
        const struct cshim_row_key key = cshim_ledger_key(ledger, i);
        if (ledger->rows[i].calls == 0)
            continue;
        fprintf(stream, "%s\n", separator);
        json_row(stream, &key, &ledger->rows[i]);
        separator = ",";
    }
    fprintf(stream, "\n  ],\n");
    json_moves(stream, ledger);
    if (ledger->learned_count > 0)
        json_learned(stream, ledger);
    if (job->observed != NULL)
        json_observed(stream, job->observed);
    json_counted(stream, ledger);
    fprintf(stream, "  \"passed_through\": {");
    separator = "";
    for (unsigned i = 0; i < CSHIM_REASON_COUNT; i++) {
        if (ledger->passed[i] == 0)
            continue;
        fprintf(stream, "%s\"%s\": %llu", separator, cshim_reason_name((enum cshim_reason)i),
                (unsigned long long)ledger->passed[i]);
        separator = ", ";
    }
    fprintf(stream, "}\n}\n");
}
