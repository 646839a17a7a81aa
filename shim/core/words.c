/* SPDX-License-Identifier: Apache-2.0 */
#include "shim/core/words.h"

#include <stdio.h>

const char *cshim_bytes_words(double bytes, char text[CSHIM_WORDS_MAX])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    for (; bytes >= 1023.5 && unit + 1 < sizeof units / sizeof *units; unit++)
        bytes /= 1024;
    snprintf(text, CSHIM_WORDS_MAX, unit == 0 || bytes >= 99.95 ? "%.0f %s" : "%.1f %s", bytes,
             units[unit]);
    return text;
}

const char *cshim_seconds_words(double seconds, char text[CSHIM_WORDS_MAX])
{
    static const char *const units[] = {"us", "ms", "s"};
    size_t unit = seconds > 0 ? 0 : 2;
    for (seconds *= 1e6; seconds >= 999.5 && unit < 2; unit++)
        seconds /= 1e3;
    snprintf(text, CSHIM_WORDS_MAX, seconds >= 99.95 || seconds == 0 ? "%.0f %s" : "%.1f %s",
             seconds, units[unit]);
    return text;
}

const char *cshim_factor_words(double native, double wire, char text[CSHIM_WORDS_MAX])
{
    if (native <= 1.05 * wire && wire <= 1.05 * native) /* also if both are 0 */
        snprintf(text, CSHIM_WORDS_MAX, "about the same");
    else if (wire > native)
        snprintf(text, CSHIM_WORDS_MAX, "%.1fx more", wire / native);
    else
        snprintf(text, CSHIM_WORDS_MAX, "%.1fx less", native / wire);
    return text;
}

const char *cshim_reason_words(enum cshim_reason reason)
{
    static const char *const words[CSHIM_REASON_COUNT] = {
        [CSHIM_REASON_COMPRESS] = "the call is compressed",
        [CSHIM_REASON_DTYPE] = "an element type that the codec, or any codec, cannot carry",
        [CSHIM_REASON_OP] = "only sums are compressed, and NCCL's averages",
        [CSHIM_REASON_EMPTY] = "there are no elements",
        [CSHIM_REASON_TOO_SMALL] = "too small, by the sizes in the rules of the policy",
        [CSHIM_REASON_RULE_NONE] = "the rule says codec = none",
        [CSHIM_REASON_NO_RULE] = "no rule of the policy matches",
        [CSHIM_REASON_SINGLE_RANK] = "one rank alone sends nothing",
        [CSHIM_REASON_INTERCOMM] = "a communicator between two groups",
        [CSHIM_REASON_DEVICE_BUFFER] = "a buffer in a GPU's memory, given to MPI",
        [CSHIM_REASON_DERIVED_DATATYPE] = "an element type that the program made",
        [CSHIM_REASON_NOT_AGREED] = "the ranks had not agreed: some came late, or lack this shim",
        [CSHIM_REASON_CAPTURED] = "recorded into a CUDA graph",
        [CSHIM_REASON_NONBLOCKING] = "a nonblocking call that could not be compressed",
        [CSHIM_REASON_DISABLED] = "switched off: COMPSHIM=off or observe",
        [CSHIM_REASON_NO_MEMORY] = "no memory or tags for so many ranks or communicators",
        [CSHIM_REASON_NO_KERNELS] = "a GPU or driver cannot take the kernels",
        [CSHIM_REASON_OPTION] = "an option or a codec that is not there for this library",
        [CSHIM_REASON_UNKNOWN_LAYOUT] = "a gloo that is not known",
        [CSHIM_REASON_NO_GAIN] = "it would not save a tenth of the time (see worth)",
        [CSHIM_REASON_SECOND_LIBRARY] = "calls of a second gloo in the process",
        [CSHIM_REASON_NO_DESCRIPTORS] =
            "too few files may be open for the connections that it needs",
        [CSHIM_REASON_READ_ONLY] = "a broadcast from memory that its root may only read",
        [CSHIM_REASON_TOOL] = "a profiling tool made another call in its place",
    };
    return (unsigned)reason < CSHIM_REASON_COUNT ? words[reason] : "?";
}
