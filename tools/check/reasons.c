/* SPDX-License-Identifier: Apache-2.0 */
/* The reasons of verdicts, and the names of both. */
#include "tools/check/check.h"
#include "tools/lib/tool.h"

static const struct {
    const char *name;
    enum check_verdict verdict;
} reasons[CHECK_REASON_COUNT] = {
    [CHECK_INTERPOSED] = {"interposed", CHECK_CAUGHT},
    [CHECK_DAMAGED] = {"damaged", CHECK_NOT_CAUGHT},
    [CHECK_NO_PROGRAM] = {"no_program", CHECK_NOT_CAUGHT},
    [CHECK_MACHINE] = {"machine", CHECK_NOT_CAUGHT},
    [CHECK_STATIC] = {"static", CHECK_NOT_CAUGHT},
    [CHECK_C_LIBRARY] = {"c_library", CHECK_NOT_CAUGHT},
    [CHECK_SECURE] = {"secure", CHECK_NOT_CAUGHT},
    [CHECK_NO_ENGINE] = {"no_engine", CHECK_NOT_CAUGHT},
    [CHECK_NOT_WRAPPED] = {"not_wrapped", CHECK_NOT_CAUGHT},
    [CHECK_EMBEDDED] = {"embedded", CHECK_NOT_CAUGHT},
    [CHECK_OPENED] = {"opened", CHECK_MAYBE},
    [CHECK_INTERPRETS] = {"interprets", CHECK_MAYBE},
    [CHECK_STARTS] = {"starts", CHECK_MAYBE},
    [CHECK_MISSING] = {"missing", CHECK_MAYBE},
    [CHECK_NO_CALL] = {"no_call", CHECK_NOT_CAUGHT},
};

void check_set(struct check_judgement *judgement, enum check_reason reason, const char *remedy,
               const char *explanation, ...)
{
    va_list arguments;
    va_start(arguments, explanation);
    judgement->reason = reason;
    judgement->remedy = remedy;
    judgement->explanation = tool_format_list(explanation, arguments);
    va_end(arguments);
}

enum check_verdict check_verdict(enum check_reason reason)
{
    return reasons[reason].verdict;
}

const char *check_verdict_name(enum check_reason reason)
{
    static const char *const names[] = {
        [CHECK_CAUGHT] = "caught", [CHECK_MAYBE] = "maybe", [CHECK_NOT_CAUGHT] = "not caught"};
    return names[reasons[reason].verdict];
}

const char *check_reason_name(enum check_reason reason)
{
    return reasons[reason].name;
}

const char *check_library_name(enum check_library library)
{
    return library == CHECK_MPI ? "mpi" : "nccl";
}
