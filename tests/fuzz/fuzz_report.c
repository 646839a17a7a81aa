/* SPDX-License-Identifier: Apache-2.0 */
/* Gives compshim report an arbitrary file. A report must be shown in every form, anything else
 * rejected in one line. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tools/lib/json.h"
#include "tools/lib/tool.h"

/* Discards the tables on stdout (libFuzzer prints to stderr), and makes the file. */
static struct fuzz_file start_target(void)
{
    FUZZ_CHECK(freopen("/dev/null", "w", stdout) != NULL);
    return fuzz_file_make();
}

static void check_report(const json_t *report)
{
    static const char *const totals[] = {"calls",      "compressed_calls", "bytes_in",
                                         "bytes_wire", "bytes_native",     "seconds"};
    for (size_t i = 0; i < sizeof totals / sizeof *totals; i++)
        FUZZ_CHECK(isfinite(ledger_total(report, totals[i])));
    FUZZ_CHECK(json_is_array(json_object_get(report, "rows")));
    FUZZ_CHECK(ledger_text(report, "library") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_file file;
    if (file.path[0] == '\0')
        file = start_target();
    fuzz_file_write(&file, data, size);

    bool is_unreadable = true;
    char message[TOOL_JSON_MESSAGE_MAX];
    memset(message, 'x', sizeof message);
    json_t *report = ledger_open(file.path, &is_unreadable, message);
    if (report == NULL) {
        FUZZ_CHECK(!is_unreadable);
        fuzz_check_line(message, sizeof message, file.path);
        return 0;
    }
    check_report(report);
    json_decref(report);
    char *words[] = {file.path, file.path, NULL};
    FUZZ_CHECK(tool_report.run(words) == TOOL_GOOD);
    for (const struct tool_option *form = tool_report.options; form->name != NULL; form++) {
        if (form->kind == TOOL_TEXT)
            *(const char **)form->field = "/dev/null"; /* discards the page */
        else
            *(bool *)form->field = true;
        FUZZ_CHECK(tool_report.run(words) == TOOL_GOOD);
        if (form->kind == TOOL_TEXT)
            *(const char **)form->field = NULL;
        else
            *(bool *)form->field = false;
    }
    return 0;
}
