/* SPDX-License-Identifier: Apache-2.0 */
/* The table that is printed at the end of a run. */

#include "shim/report/table.h"

#include <string.h>

#include "shim/core/words.h"
#include "version.h"

static double ratio(uint64_t native, uint64_t wire)
{
    return wire > 0 ? (double)native / (double)wire : 0.0;
}

/* Return texts that are valid until the end of the enclosing block. */
#define BYTES(bytes) cshim_bytes_words((double)(bytes), (char[CSHIM_WORDS_MAX]){""})
#define SECONDS(seconds) cshim_seconds_words(seconds, (char[CSHIM_WORDS_MAX]){""})
#define FACTOR(native, wire)                                                                       \
    cshim_factor_words((double)(native), (double)(wire), (char[CSHIM_WORDS_MAX]){""})

/* Returns the text of the column "algorithm": for an all-reduce the algorithm, for other
 * collectives the name of the collective. */
static const char *row_way(const struct cshim_row_key *key)
{
    return key->collective == CSHIM_ALLREDUCE ? cshim_algorithm_name(key->algorithm)
                                              : cshim_collective_name(key->collective);
}

static void table_passed(FILE *stream, const struct cshim_ledger *ledger)
{
    const uint64_t total = cshim_ledger_passed(ledger);
    fprintf(stream, "compshim: passed through %llu calls%s\n", (unsigned long long)total,
            total > 0 ? ":" : "");
    for (unsigned i = 0; i < CSHIM_REASON_COUNT; i++)
        if (ledger->passed[i] > 0)
            fprintf(stream, "compshim: %8llu  %s\n", (unsigned long long)ledger->passed[i],
                    cshim_reason_words((enum cshim_reason)i));
}

/* Writes one line for all functions that the policy never compresses; the JSON lists each. */
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
            (unsigned long long)total.calls, BYTES(total.bytes));
    if (ledger->tally.counted[most].bytes > 0)
        fprintf(stream, ", most of it in %s", cshim_counted_name(most));
    fputc('\n', stream);
}

/* Writes the results of verify and check_ranks, and the tensors that max_rel_error has moved to
 * another codec. */
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
    for (uint64_t i = 0; i < ledger->tally.changes && i < CSHIM_CODEC_CHANGES_MAX; i++) {
        const struct cshim_codec_change *change = &ledger->tally.change[i];
        const struct cshim_rule *rule = &ledger->policy->rules[change->rule];
        fprintf(stream,
                "compshim: %s: %llu x %s went from %s to %s after call %u: error %.1e, allowed "
                "%.1e\n",
                rule->name, (unsigned long long)change->count,
                cshim_dtype_name((enum cshim_dtype)change->dtype),
                cshim_codec_name((enum cshim_codec_id)change->from),
                cshim_codec_name((enum cshim_codec_id)change->to), change->call,
                (double)change->error, rule->max_rel_error);
    }
    if (ledger->tally.changes > CSHIM_CODEC_CHANGES_MAX)
        fprintf(stream, "compshim: and %llu more like these\n",
                (unsigned long long)(ledger->tally.changes - CSHIM_CODEC_CHANGES_MAX));
}

/* Writes the time saved, relative to native calls measured in the same job. */
static void table_saved(FILE *stream, const struct cshim_row *total)
{
    const struct cshim_saving saving = cshim_row_saving(total);
    const double saved = saving.natively - saving.took;
    if (total->compared_calls + total->native_calls == 0)
        return;
    if (total->compared_calls == 0 || saved <= 0)
        fprintf(stream,
                "compshim: saved nothing: compressing was measured to gain less than a tenth of "
                "the time\n");
    else
        fprintf(stream,
                "compshim: saved %s of %s in all-reduces: %.1fx (%llu native calls measured)\n",
                SECONDS(saved), SECONDS(saving.natively), saving.natively / saving.took,
                (unsigned long long)total->native_calls);
}

#define KINDS_SHOWN 8

static void table_observed(FILE *stream, const struct cshim_observed *observed)
{
    if (observed->count > 0)
        fprintf(stream, "compshim: %6s %-14s %9s %-8s %-5s %-7s %7s %7s\n", "calls", "collective",
                "size", "dtype", "op", "ranks", "time", "waiting");
    for (size_t i = 0; i < observed->count && i < KINDS_SHOWN; i++) {
        const struct cshim_kind *kind = &observed->kinds[i];
        char place[CSHIM_WORDS_MAX];
        snprintf(place, sizeof place, "%u on %u", kind->ranks, kind->nodes);
        fprintf(stream, "compshim: %6llu %-14s %8s%s %-8s %-5s %-7s %7s %7s\n",
                (unsigned long long)kind->calls,
                cshim_collective_name((enum cshim_collective)kind->collective), BYTES(kind->bytes),
                kind->is_class ? "+" : " ", cshim_dtype_name((enum cshim_dtype)kind->dtype),
                cshim_op_name((enum cshim_op)kind->op), place, SECONDS(kind->seconds),
                kind->seconds_wait > 0 ? SECONDS(kind->seconds_wait) : "-");
    }
    if (observed->count > KINDS_SHOWN)
        fprintf(stream, "compshim: and %zu more kinds\n", observed->count - KINDS_SHOWN);
}

bool cshim_report_is_exact(const struct cshim_row_key *key)
{
    const enum cshim_codec_id gather = key->rule->gather_codec;
    return cshim_plan_leaves_root(key->codec) &&
           (gather == CSHIM_CODEC_NONE || cshim_plan_leaves_root(gather));
}

/* Width of the column of rules. Longer names get a line of their own. */
#define RULE_WIDTH 8

static void table_row(FILE *stream, const struct cshim_row_key *key, const struct cshim_row *row)
{
    const char *rule = key->rule->name;
    const double error = cshim_row_error(row);
    char error_text[CSHIM_WORDS_MAX] = "-"; /* no samples */
    if (cshim_report_is_exact(key))
        snprintf(error_text, sizeof error_text, "exact");
    else if (error >= 0)
        snprintf(error_text, sizeof error_text, "%.1e", error);
    if (strlen(rule) > RULE_WIDTH) {
        fprintf(stream, "compshim: %s\n", rule);
        rule = "";
    }
    fprintf(stream, "compshim: %-*s %-8s %-14s %6llu %8s %4.1fx %7s %7s\n", RULE_WIDTH, rule,
            cshim_codec_name(key->codec), row_way(key), (unsigned long long)row->calls,
            BYTES(row->bytes_wire), ratio(row->bytes_native, row->bytes_wire),
            SECONDS(row->seconds), error_text);
}

/* If a third or more of the bytes matched no rule, writes a command that prints a rule for the type
 * with most of these bytes. */
static void table_unruled(FILE *stream, const struct cshim_ledger *ledger,
                          const struct cshim_row *total)
{
    /* The command must fit in a line of 80 columns: fold() (file.c) would break a longer one. */
    static const struct {
        const char *name, *codec;
    } rules[CSHIM_DTYPE_COUNT] = {[CSHIM_FLOAT32] = {"float32", "fp16"},
                                  [CSHIM_FLOAT64] = {"float64", "lossless"},
                                  [CSHIM_FLOAT16] = {"float16", "fp8_e4m3"},
                                  [CSHIM_BFLOAT16] = {"bf16", "fp8_e4m3"}};
    const uint64_t *unruled = ledger->tally.unruled;
    uint64_t bytes = 0;
    enum cshim_dtype most = CSHIM_FLOAT32;
    for (unsigned i = 0; i < CSHIM_DTYPE_COUNT; i++) {
        bytes += unruled[i];
        most = unruled[i] > unruled[most] ? (enum cshim_dtype)i : most;
    }
    if (bytes == 0 || bytes < (total->bytes_in + ledger->tally.ruled_out + bytes) / 3)
        return;
    fprintf(stream,
            "compshim: %s matched no rule, most of it %s; a rule for it, to add to a policy "
            "(compshim explain --policy @default prints one to begin with):\n",
            BYTES(bytes), cshim_dtype_name(most));
    fprintf(stream, "compshim: printf '[rule %s]\\ndtype=%s\\nmin_size=64K\\ncodec=%s\\n'\n",
            rules[most].name, cshim_dtype_name(most), rules[most].codec);
}

void cshim_report_table(FILE *stream, const struct cshim_job *job)
{
    const struct cshim_ledger *ledger = &job->ledger;
    const struct cshim_row total = cshim_ledger_total(ledger);
    char nodes[32] = ""; /* unknown before ranks have agreed */
    if (job->nodes > 0)
        snprintf(nodes, sizeof nodes, " on %u node%s", job->nodes, job->nodes == 1 ? "" : "s");
    fprintf(stream, "compshim %s: %s, %d rank%s%s, policy %s\n", CSHIM_VERSION, job->library,
            job->ranks, job->ranks == 1 ? "" : "s", nodes, job->policy->source);
    if (job->observed != NULL)
        fprintf(stream, "compshim: COMPSHIM=observe: nothing was compressed\n");
    else if (total.calls == 0)
        fprintf(stream, "compshim: nothing was compressed%s%s\n",
                job->unreported > 0 ? " in this process" : "",
                ledger->policy->rule_count == 0 ? ": the policy has no rules"
                                                : "; COMPSHIM_POLICY=FILE takes another policy");
    else
        fprintf(stream, "compshim: %-*s %-8s %-14s %6s %8s %5s %7s %7s\n", RULE_WIDTH, "rule",
                "codec", "algorithm", "calls", "sent", "less", "time", "error");
    for (size_t i = 0; i < ledger->row_count; i++) {
        const struct cshim_row_key key = cshim_ledger_key(ledger, i);
        if (ledger->rows[i].calls > 0)
            table_row(stream, &key, &ledger->rows[i]);
    }
    table_passed(stream, ledger);
    table_counted(stream, ledger);
    if (job->unreported > 0)
        fprintf(stream,
                "compshim: not known: the calls of %u process%s forked from this one, which ended "
                "by _exit or a signal or still run%s\n",
                job->unreported, job->unreported == 1 ? "" : "es", job->unreported == 1 ? "s" : "");
    if (job->observed != NULL)
        table_observed(stream, job->observed);
    table_checks(stream, ledger, &total);
    if (total.calls > 0)
        fprintf(stream, "compshim: sent %s where a ring sends %s: %s\n", BYTES(total.bytes_wire),
                BYTES(total.bytes_native), FACTOR(total.bytes_native, total.bytes_wire));
    if (total.bytes_network > 0 && total.bytes_network < total.bytes_wire)
        fprintf(stream, "compshim: %s of it between nodes\n", BYTES(total.bytes_network));
    table_saved(stream, &total);
    if (job->observed == NULL)
        table_unruled(stream, ledger, &total);
}
