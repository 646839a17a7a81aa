/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/report.h"

#include <math.h>
#include <string.h>

#include "version.h"

static double ratio(uint64_t native, uint64_t wire)
{
    return wire > 0 ? (double)native / (double)wire : 0.0;
}

/* "1.50 MiB": four figures at most, in a buffer that is good until the next call but one. */
static const char *human_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    static __thread char text[4][32];
    static __thread unsigned next;
    char *out = text[next++ % 4];
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(out, sizeof text[0], unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
    return out;
}

static const char *human_error(const struct cshim_row *row)
{
    static __thread char text[32];
    const double error = cshim_row_error(row);
    if (error < 0)
        return "-";
    snprintf(text, sizeof text, "%.1e", error);
    return text;
}

static uint64_t total_passed(const struct cshim_ledger *ledger)
{
    uint64_t total = 0;
    for (size_t i = 0; i < CSHIM_REASON_COUNT; i++)
        total += ledger->passed[i];
    return total;
}

static void table_passed(FILE *stream, const struct cshim_ledger *ledger)
{
    const uint64_t total = total_passed(ledger);
    const char *separator = ": ";
    fprintf(stream, "compshim: passed through %llu calls", (unsigned long long)total);
    for (unsigned i = 0; i < CSHIM_REASON_COUNT; i++) {
        if (ledger->passed[i] == 0)
            continue;
        fprintf(stream, "%s%llu %s", separator, (unsigned long long)ledger->passed[i],
                cshim_reason_name((enum cshim_reason)i));
        separator = ", ";
    }
    fputc('\n', stream);
}

void cshim_report_table(FILE *stream, const struct cshim_ledger *ledger,
                        const struct cshim_report_facts *facts)
{
    const struct cshim_row total = cshim_ledger_total(ledger);
    fprintf(stream, "compshim %s: %s, %u rank%s on %u node%s, policy %s\n", CSHIM_VERSION,
            facts->library, facts->ranks, facts->ranks == 1 ? "" : "s", facts->nodes,
            facts->nodes == 1 ? "" : "s", facts->policy_source);
    if (total.calls == 0)
        fprintf(stream, "compshim: nothing was compressed\n");
    else
        fprintf(stream, "compshim: %-12s %-9s %-12s %-8s %8s %11s %11s %11s %6s %9s %8s\n", "rule",
                "codec", "algorithm", "dtype", "calls", "bytes in", "native", "wire", "ratio",
                "seconds", "error");
    for (size_t i = 0; i < ledger->row_count; i++) {
        const struct cshim_row *row = &ledger->rows[i];
        const struct cshim_row_key key = cshim_ledger_key(ledger, i);
        if (row->calls == 0)
            continue;
        fprintf(stream, "compshim: %-12s %-9s %-12s %-8s %8llu %11s %11s %11s %5.2fx %9.3f %8s\n",
                key.rule->name, cshim_codec_name(key.rule->codec),
                cshim_algorithm_name(key.algorithm), cshim_dtype_name(key.dtype),
                (unsigned long long)row->calls, human_bytes(row->bytes_in),
                human_bytes(row->bytes_native), human_bytes(row->bytes_wire),
                ratio(row->bytes_native, row->bytes_wire), row->seconds, human_error(row));
    }
    table_passed(stream, ledger);
    if (total.calls > 0)
        fprintf(stream, "compshim: sent %s where a ring sends %s: %.2fx less\n",
                human_bytes(total.bytes_wire), human_bytes(total.bytes_native),
                ratio(total.bytes_native, total.bytes_wire));
    if (total.bytes_network > 0 && total.bytes_network < total.bytes_wire)
        fprintf(stream, "compshim: %s of it between nodes\n", human_bytes(total.bytes_network));
}

/* Bytes of the UTF-8 character at text, or 0 if there is none: its length and first bits, no longer
 * form than needed, no surrogate, nothing above U+10FFFF. */
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

/* JSON is UTF-8, a file's name may be any bytes: those that are not UTF-8 become '?'. */
static void json_string(FILE *stream, const char *text)
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

static void json_bytes(FILE *stream, const struct cshim_row *row)
{
    fprintf(stream,
            "\"bytes_in\": %llu, \"bytes_wire\": %llu, \"bytes_network\": %llu, "
            "\"bytes_native\": %llu, ",
            (unsigned long long)row->bytes_in, (unsigned long long)row->bytes_wire,
            (unsigned long long)row->bytes_network, (unsigned long long)row->bytes_native);
}

static void json_row(FILE *stream, const struct cshim_row_key *key, const struct cshim_row *row)
{
    const double error = cshim_row_error(row);
    fprintf(stream, "    {\"collective\": \"allreduce\", \"rule\": ");
    json_string(stream, key->rule->name);
    fprintf(stream, ", \"codec\": \"%s\", \"algorithm\": \"%s\", \"dtype\": \"%s\", ",
            cshim_codec_name(key->rule->codec), cshim_algorithm_name(key->algorithm),
            cshim_dtype_name(key->dtype));
    fprintf(stream, "\"calls\": %llu, ", (unsigned long long)row->calls);
    json_bytes(stream, row);
    fprintf(stream,
            "\"seconds\": %.6f, \"seconds_encode\": %.6f, \"seconds_exchange\": %.6f, "
            "\"seconds_decode\": %.6f, \"rel_error\": ",
            row->seconds, row->seconds_encode, row->seconds_exchange, row->seconds_decode);
    if (error >= 0 && isfinite(error))
        fprintf(stream, "%.6e}", error);
    else
        fprintf(stream, "null}");
}

static void json_facts(FILE *stream, const struct cshim_report_facts *facts)
{
    fprintf(stream, "{\n  \"compshim\": \"%s\",\n  \"library\": ", CSHIM_VERSION);
    json_string(stream, facts->library);
    fprintf(stream,
            ",\n  \"ranks\": %u,\n  \"nodes\": %u,\n  \"policy\": {\"source\": ", facts->ranks,
            facts->nodes);
    json_string(stream, facts->policy_source);
    fprintf(stream, ", \"sha256\": \"%s\"},\n  \"wall_seconds\": %.6f,\n", facts->policy_sha256,
            facts->wall_seconds);
}

void cshim_report_json(FILE *stream, const struct cshim_ledger *ledger,
                       const struct cshim_report_facts *facts)
{
    const struct cshim_row total = cshim_ledger_total(ledger);
    const char *separator = "";
    const unsigned long long calls = total.calls + total_passed(ledger);
    json_facts(stream, facts);
    fprintf(stream, "  \"totals\": {\"calls\": %llu, \"compressed_calls\": %llu, ", calls,
            (unsigned long long)total.calls);
    json_bytes(stream, &total);
    fprintf(stream, "\"seconds\": %.6f},\n  \"rows\": [", total.seconds);
    for (size_t i = 0; i < ledger->row_count; i++) {
        const struct cshim_row_key key = cshim_ledger_key(ledger, i);
        if (ledger->rows[i].calls == 0)
            continue;
        fprintf(stream, "%s\n", separator);
        json_row(stream, &key, &ledger->rows[i]);
        separator = ",";
    }
    fprintf(stream, "\n  ],\n  \"passed_through\": {");
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

bool cshim_report_path(const char *pattern, int rank, const char *jobid, char *path, size_t size)
{
    char number[16];
    size_t length = 0;
    snprintf(number, sizeof number, "%d", rank);
    while (*pattern != '\0') {
        const char *text = NULL;
        size_t skip = 1;
        if (strncmp(pattern, "{rank}", 6) == 0)
            text = number, skip = 6;
        else if (strncmp(pattern, "{jobid}", 7) == 0)
            text = jobid, skip = 7;
        const size_t bytes = text != NULL ? strlen(text) : 1;
        if (length + bytes + 1 > size)
            return false;
        memcpy(path + length, text != NULL ? text : pattern, bytes);
        length += bytes;
        pattern += skip;
    }
    path[length] = '\0';
    return size > 0;
}
