/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a report with arbitrary names and figures. compshim report must read it, and get the same
 * ranks, number of rows, policy file (if its name is UTF-8), and totals of compressed calls, bytes
 * sent, native bytes and, within a millionth, seconds. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/report/json.h"
#include "tests/fuzz/fuzz.h"
#include "tools/lib/json.h"

enum { NAME_MAX_BYTES = 40 };

/* Takes a name of any bytes but NUL, as a path may have. */
static void take_name(struct fuzz_input *input, char name[NAME_MAX_BYTES + 1])
{
    size_t length = (size_t)fuzz_take(input, 1) % (NAME_MAX_BYTES + 1);
    memset(name, 0, NAME_MAX_BYTES + 1);
    for (size_t i = 0; i < length; i++)
        name[i] = (char)fuzz_take(input, 1);
}

/* Takes a figure of at most 56 bits, so that totals stay below 2^63, which JSON readers support. */
static uint64_t take_figure(struct fuzz_input *input)
{
    return fuzz_take_any_length(input, 56);
}

static double take_seconds(struct fuzz_input *input)
{
    return (double)fuzz_take_any_length(input, 60) * 1e-6;
}

static struct cshim_row take_row(struct fuzz_input *input)
{
    struct cshim_row row = {
        .calls = 1 + fuzz_take_any_length(input, 40),
        .bytes_in = take_figure(input),
        .bytes_wire = take_figure(input),
        .bytes_network = take_figure(input),
        .bytes_native = take_figure(input),
        .seconds = take_seconds(input),
        .samples = fuzz_take(input, 1),
    };
    /* Takes any bits, NaN and Inf too. */
    uint64_t squares[2] = {fuzz_take(input, 8), fuzz_take(input, 8)};
    memcpy(&row.error_squares, &squares[0], sizeof squares[0]);
    memcpy(&row.sum_squares, &squares[1], sizeof squares[1]);
    return row;
}

/* Adds a row of compressed calls. */
static void add_row(struct fuzz_input *input, struct cshim_ledger *ledger)
{
    const struct cshim_plan plan = {
        .rule = &ledger->policy->rules[0],
        .codec = ledger->policy->rules[0].codec,
        .dtype = (enum cshim_dtype)(fuzz_take(input, 1) % CSHIM_DTYPE_COUNT),
        .algorithm = (enum cshim_algorithm)(1 + fuzz_take(input, 1) % (CSHIM_ALGORITHM_COUNT - 1)),
    };
    const struct cshim_row row = take_row(input);
    cshim_ledger_add(ledger, &plan, &row);
}

static void write_report(const struct cshim_job *job, const struct fuzz_file *file)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    FUZZ_CHECK(stream != NULL);
    cshim_report_json(stream, job);
    fclose(stream);
    fuzz_file_write(file, text, length);
    free(text);
}

static void check_read(const struct cshim_job *job, const struct fuzz_file *file)
{
    const struct cshim_ledger *ledger = &job->ledger;
    bool is_unreadable;
    char message[TOOL_JSON_MESSAGE_MAX] = "";
    json_t *read = ledger_open(file->path, &is_unreadable, message);
    if (read == NULL)
        fprintf(stderr, "%s\n", message);
    FUZZ_CHECK(read != NULL);
    const struct cshim_row total = cshim_ledger_total(ledger);
    FUZZ_CHECK(ledger_total(read, "compressed_calls") == (double)total.calls);
    FUZZ_CHECK(ledger_total(read, "bytes_wire") == (double)total.bytes_wire);
    FUZZ_CHECK(ledger_total(read, "bytes_native") == (double)total.bytes_native);
    FUZZ_CHECK(fabs(ledger_total(read, "seconds") - total.seconds) <= 1e-6 * (1 + total.seconds));
    FUZZ_CHECK(ledger_number(read, "ranks") == job->ranks);
    size_t rows = 0;
    for (size_t i = 0; i < ledger->row_count; i++)
        rows += ledger->rows[i].calls > 0;
    FUZZ_CHECK(json_array_size(json_object_get(read, "rows")) == rows);
    const json_t *policy = json_object_get(read, "policy");
    /* Text must be unchanged (json_string() returns NULL if it is not valid UTF-8). */
    json_t *source = json_string(job->policy->source);
    if (source != NULL)
        FUZZ_CHECK(strcmp(ledger_text(policy, "source"), job->policy->source) == 0);
    json_decref(source);
    json_decref(read);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_file file;
    if (file.path[0] == '\0')
        file = fuzz_file_make();
    struct fuzz_input input = {data, size};
    char library[NAME_MAX_BYTES + 1];
    take_name(&input, library);
    struct cshim_rule rule = {
        .name = "a",
        .codec = (enum cshim_codec_id)(1 + fuzz_take(&input, 1) % (CSHIM_CODEC_COUNT - 1)),
    };
    struct cshim_policy policy = {.rule_count = 1, .rules = &rule};
    take_name(&input, policy.source);
    struct cshim_job job = {
        .policy = &policy,
        .policy_sha256 = "00",
        .library = library,
        .ranks = (int)(fuzz_take(&input, 4) & INT_MAX), /* cannot be negative */
        .nodes = (uint32_t)fuzz_take(&input, 4),
        .stopped = take_seconds(&input),
    };
    struct cshim_ledger *ledger = &job.ledger;
    FUZZ_CHECK(cshim_ledger_init(ledger, &policy));
    for (uint64_t rows = fuzz_take(&input, 1) % 4; rows > 0; rows--)
        add_row(&input, ledger);
    for (uint64_t passed = fuzz_take(&input, 1) % 4; passed > 0; passed--)
        cshim_ledger_pass(ledger, (enum cshim_reason)(fuzz_take(&input, 1) % CSHIM_REASON_COUNT));
    write_report(&job, &file);
    check_read(&job, &file);
    cshim_ledger_free(ledger);
    return 0;
}
