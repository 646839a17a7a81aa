/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/core/log.h"
#include "shim/report/trace.h"

const char *cshim_trace_wanted(void)
{
    const char *wanted = getenv("COMPSHIM_TRACE");
    const bool is_wanted = wanted != NULL && *wanted != '\0' && strcmp(wanted, "off") != 0;
    return is_wanted ? wanted : NULL;
}

bool cshim_trace_open(struct cshim_trace_file *file, const char *path)
{
    file->stream = fopen(path, "we");
    if (file->stream == NULL) {
        cshim_log(CSHIM_LOG_ERROR, "cannot write the trace %s: %s", path, strerror(errno));
        return false;
    }
    cshim_trace_begin(file);
    return true;
}

void cshim_trace_close(struct cshim_trace_file *file, const char *path)
{
    if (file->stream == NULL)
        return;
    cshim_trace_end(file);
    const bool lost = ferror(file->stream) != 0;
    if (fclose(file->stream) != 0 || lost)
        cshim_log(CSHIM_LOG_ERROR, "cannot write all of the trace %s", path);
    if (file->dropped > 0)
        cshim_log(CSHIM_LOG_WARN, "the trace %s has the beginning only: %llu events were too many",
                  path, (unsigned long long)file->dropped);
}
