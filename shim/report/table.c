/* SPDX-License-Identifier: Apache-2.0 */
/* The table that ends a run. */
#include "shim/report/report.h"

#include <string.h>

#include "version.h"

static double ratio(uint64_t native, uint64_t wire)
{
    return wire > 0 ? (double)native / (double)wire : 0.0;
}

/* "1.50 MiB", in one of four buffers that are used in turn. */
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

/* The column "algorithm": for other collectives than the all-reduce it names the collective. */
static const char *row_way(const struct cshim_row_key *key)
{
    return key->collective == CSHIM_ALLREDUCE ? cshim_algorithm_name(key->algorithm)
                                              : cshim_collective_name(key->collective);
}

static void table_passed(FILE *stream, const struct cshim_ledger *ledger)
{
    const uint64_t total = cshim_ledger_passed(ledger);
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

/* One line for all functions that are never compressed. The JSON has them one by one. */
static void table_counted(FILE *stream, const struct cshim_ledger *ledger)
{
    struct cshim_counted total = {0, 0};
    unsigned most = 0;
    for (unsigned i = 0; i < CSHIM_COUNTED_ALL; i++) {
        total.calls += ledger->tally.counted[i].calls;
        total.bytes += ledger->tally.counted[i].bytes;
        if (ledger->tally.counted[i].bytes > ledger->tally.counted[most].bytes)
            most = i;
    }
    if (total.calls == 0)
        return;
    fprintf(stream, "compshim: %llu calls of other collectives, %s",
            (unsigned long long)total.calls, human_bytes(total.bytes));
    if (ledger->tally.counted[most].bytes > 0)
        fprintf(stream, ", most of it in %s", cshim_counted_name(most));
    fputc('\n', stream);
}

/* Writes what verify and check_ranks have found, and which tensors max_rel_error has moved. */
static void table_checks(FILE *stream, const struct cshim_ledger *ledger,
                         const struct cshim_row *total)
{
    const struct cshim_verdict verdict = cshim_row_verdict(total);
    if (total->verified > 0)
        fprintf(
            stream,
            "compshim: %llu calls verified natively: relative L2 error %.1e, largest %.1e, bias "
            "%.1e\n",
            (unsigned long long)total->verified, verdict.rel_l2, verdict.largest, verdict.bias);
    if (total->checked > 0)
        fprintf(stream, "compshim: %llu results compared across ranks, %llu differed\n",
                (unsigned long long)total->checked, (unsigned long long)total->differing);
    for (uint64_t i = 0; i < ledger->tally.moves && i < CSHIM_MOVES_MAX; i++) {
        const struct cshim_move *move = &ledger->tally.move[i];
        const struct cshim_rule *rule = &ledger->policy->rules[move->rule];
        fprintf(stream,
                "compshim: %s: %llu x %s went from %s to %s after call %u: error %.1e, allowed "
                "%.1e\n",
                rule->name, (unsigned long long)move->count,
                cshim_dtype_name((enum cshim_dtype)move->dtype),
                cshim_codec_name((enum cshim_codec_id)move->from),
                cshim_codec_name((enum cshim_codec_id)move->to), move->call, (double)move->error,
                rule->max_rel_error);
    }
    if (ledger->tally.moves > CSHIM_MOVES_MAX)
        fprintf(stream, "compshim: and %llu more like these\n",
                (unsigned long long)(ledger->tally.moves - CSHIM_MOVES_MAX));
}

/* A row's time is told beside the foretold one if they differ by this factor. */
#define FORETOLD_WRONG 1.5

/* Writes what the calls took beside what the facts of the machine foretold. */
static void table_foretold(FILE *stream, const struct cshim_ledger *ledger,
                           const struct cshim_row *total)
{
    if (total->seconds_foretold <= 0)
        return;
    fprintf(stream, "compshim: foretold %.3f s, took %.3f s\n", total->seconds_foretold,
            total->seconds);
    for (size_t i = 0; i < ledger->row_count; i++) {
        const struct cshim_row *row = &ledger->rows[i];
        const struct cshim_row_key key = cshim_ledger_key(ledger, i);
        if (row->seconds_foretold > 0 && (row->seconds > FORETOLD_WRONG * row->seconds_foretold ||
                                          row->seconds_foretold > FORETOLD_WRONG * row->seconds))
            fprintf(stream, "compshim: %s, %s: foretold %.3f s, took %.3f s\n", key.rule->name,
                    cshim_algorithm_name(key.algorithm), row->seconds_foretold, row->seconds);
    }
}

#define KINDS_SHOWN 8

static void table_observed(FILE *stream, const struct cshim_observed *observed)
{
    for (size_t i = 0; i < observed->count && i < KINDS_SHOWN; i++) {
        const struct cshim_kind *kind = &observed->kinds[i];
        fprintf(stream,
                "compshim: %8llu x %s of %s%s %s, %s, ranks %u, nodes %u: %.3f s, and %.3f s "
                "waited\n",
                (unsigned long long)kind->calls,
                cshim_collective_name((enum cshim_collective)kind->collective),
                kind->is_class ? "from " : "", human_bytes(kind->bytes),
                cshim_dtype_name((enum cshim_dtype)kind->dtype),
                cshim_op_name((enum cshim_op)kind->op), kind->ranks, kind->nodes, kind->seconds,
                kind->seconds_wait);
    }
    if (observed->count > KINDS_SHOWN)
        fprintf(stream, "compshim: and %zu more kinds\n", observed->count - KINDS_SHOWN);
}

void cshim_report_table(FILE *stream, const struct cshim_ledger *ledger,
                        const struct cshim_report_facts *facts)
{
    const struct cshim_row total = cshim_ledger_total(ledger);
    fprintf(stream, "compshim %s: %s, %u rank%s on %u node%s, policy %s\n", CSHIM_VERSION,
            facts->library, facts->ranks, facts->ranks == 1 ? "" : "s", facts->nodes,
            facts->nodes == 1 ? "" : "s", facts->policy_source);
    if (facts->observed != NULL)
        fprintf(stream, "compshim: COMPSHIM=observe: nothing was compressed\n");
    else if (total.calls == 0)
        fprintf(stream, "compshim: nothing was compressed\n");
    else
        fprintf(stream, "compshim: %-12s %-9s %-14s %-8s %8s %11s %11s %11s %6s %9s %8s\n", "rule",
                "codec", "algorithm", "dtype", "calls", "bytes in", "native", "wire", "ratio",
                "seconds", "error");
    for (size_t i = 0; i < ledger->row_count; i++) {
        const struct cshim_row *row = &ledger->rows[i];
        const struct cshim_row_key key = cshim_ledger_key(ledger, i);
        if (row->calls == 0)
            continue;
        fprintf(stream, "compshim: %-12s %-9s %-14s %-8s %8llu %11s %11s %11s %5.2fx %9.3f %8s\n",
                key.rule->name, cshim_codec_name(key.codec), row_way(&key),
                cshim_dtype_name(key.dtype), (unsigned long long)row->calls,
                human_bytes(row->bytes_in), human_bytes(row->bytes_native),
                human_bytes(row->bytes_wire), ratio(row->bytes_native, row->bytes_wire),
                row->seconds, human_error(row));
    }
    table_passed(stream, ledger);
    table_counted(stream, ledger);
    if (facts->observed != NULL)
        table_observed(stream, facts->observed);
    table_foretold(stream, ledger, &total);
    table_checks(stream, ledger, &total);
    if (total.calls > 0)
        fprintf(stream, "compshim: sent %s where a ring sends %s: %.2fx less\n",
                human_bytes(total.bytes_wire), human_bytes(total.bytes_native),
                ratio(total.bytes_native, total.bytes_wire));
    if (total.bytes_network > 0 && total.bytes_network < total.bytes_wire)
        fprintf(stream, "compshim: %s of it between nodes\n", human_bytes(total.bytes_network));
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
