/* SPDX-License-Identifier: Apache-2.0 */
/* Choices that an earlier job has learned (shim/core/choice.h), in the file that COMPSHIM_MACHINE
 * names. A job with such a file tries no candidates, so that the same file gives the same bits.
 *
 * The file has a line for each class of calls: the properties of the calls, then how they are made:
 *
 *     mpi 4/2 float32 fp16 262144 large = two_shot fp16   ; 0.56 ms, natively 4.14 ms
 *     gloo 4/4 float32 fp16 8192 medium = native
 *
 * The properties are library, ranks/nodes, element type, the codec of the rule or of its
 * max_rel_error, the least bytes of the caller's buffer in the class, and the rule's name. They are
 * followed by algorithm and codec, or "native". A line is for calls of every operation: of classes
 * that differ only in the operation, the one decided last is kept.
 *
 * Pure except for cshim_learned_load(). Parsed choices are constant, and may be read by any thread.
 */
#ifndef CSHIM_LEARNED_H
#define CSHIM_LEARNED_H

#include <stddef.h>
#include <stdio.h>

#include "policy/policy.h"
#include "shim/core/choice.h"

struct cshim_learned_choice {
    enum cshim_library library;
    uint32_t ranks;
    uint32_t nodes;
    enum cshim_dtype dtype;
    enum cshim_codec_id rule_codec; /* the rule's codec, or its replacement by max_rel_error */
    uint32_t size_class;
    char rule[CSHIM_RULE_NAME_MAX];
    bool is_native;
    enum cshim_algorithm algorithm; /* unused if is_native, as is `codec` */
    enum cshim_codec_id codec;
    double seconds; /* duration of a call; 0: unknown */
    double seconds_native;
};

struct cshim_learned {
    size_t count;
    struct cshim_learned_choice choices[];
};

/* Reads the choices that COMPSHIM_MACHINE names. `*text` becomes NULL if the variable is not set or
 * empty (the job measures its calls), and empty for "off" (nothing is tried and nothing was
 * learned). Returns false with a message if the file cannot be read or is wrong. The caller frees
 * the text. */
bool cshim_learned_load(char **text, size_t *length, char message[CSHIM_MESSAGE_MAX]);

/* Returns the choices in a text; the caller frees them. Returns NULL if the text is wrong, with
 * "SOURCE:LINE: ..." in the message, or without memory, with "SOURCE: ...". Ignores lines with
 * properties of a machine, which older versions wrote. */
struct cshim_learned *cshim_learned_parse(const char *text, size_t length, const char *source,
                                          char message[CSHIM_MESSAGE_MAX]);

/* Returns the class of a call that `rule` compresses. Leaves unset how calls of the class are
 * made. */
struct cshim_learned_choice cshim_learned_key(const struct cshim_rule *rule,
                                              const struct cshim_call *call);
/* Returns the choice for the class of calls that `wanted` describes, or NULL. */
const struct cshim_learned_choice *cshim_learned_find(const struct cshim_learned *learned,
                                                      const struct cshim_learned_choice *wanted);

/* Returns true if `a` and `b` are choices for the same class of calls. */
bool cshim_learned_is_same_class(const struct cshim_learned_choice *a,
                                 const struct cshim_learned_choice *b);

/* Writes a choice as a line of the file, without a line end, in at most `size` bytes. */
void cshim_learned_line(const struct cshim_learned_choice *choice, char *line, size_t size);

#endif
