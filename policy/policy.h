/* SPDX-License-Identifier: Apache-2.0 */
/* Finds, parses, checks and matches policy.ini.
 *
 * Needs neither MPI nor CUDA, and has no global state; only cshim_policy_load() reads files and the
 * environment. A parsed policy is immutable and may be read by any thread. compshim-policy(5)
 * documents the grammar. */
#ifndef CSHIM_POLICY_H
#define CSHIM_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "codecs/codec.h"

enum cshim_library { CSHIM_MPI = 0, CSHIM_NCCL = 1, CSHIM_GLOO = 2, CSHIM_LIBRARY_COUNT };

enum cshim_collective {
    CSHIM_ALLREDUCE = 0,
    CSHIM_REDUCE_SCATTER = 1,
    CSHIM_REDUCE = 2,
    CSHIM_ALLGATHER = 3,
    CSHIM_ALLTOALL = 4,
    CSHIM_BROADCAST = 5,
    CSHIM_COLLECTIVE_COUNT,
};
/* Data-movement collectives: matched only by rules that name them, because they often carry
 * parameters instead of gradients, or data that is only declared as floats. */
#define CSHIM_MOVES (1u << CSHIM_ALLGATHER | 1u << CSHIM_ALLTOALL | 1u << CSHIM_BROADCAST)

enum cshim_op {
#define REDUCTION(NAME, ...) CSHIM_##NAME,
#include "policy/reductions.def"
    CSHIM_OP_COUNT,
    CSHIM_OP_OTHER = 255 /* any other operation, such as min and max: never compressed */
};
/* Reductions that a rule without the key `op` takes. */
#define CSHIM_SUMS (1u << CSHIM_SUM | 1u << CSHIM_AVG)

enum cshim_algorithm {
#define ALGORITHM(NAME, ...) CSHIM_ALGORITHM_##NAME,
#include "policy/algorithms.def"
    CSHIM_ALGORITHM_COUNT
};

enum cshim_log_level { CSHIM_LOG_ERROR, CSHIM_LOG_WARN, CSHIM_LOG_INFO, CSHIM_LOG_DEBUG };

#define CSHIM_RULE_NAME_MAX 64
#define CSHIM_PATH_MAX 1024
#define CSHIM_MESSAGE_MAX 512

/* Calls of a rule that are compressed. Unless this is ALWAYS, or COMPSHIM_MACHINE is set, a few
 * all-reduces of a class are usually made natively, and a few compressed, to time them; with MPI
 * only blocking ones. */
enum cshim_worth {
    CSHIM_WORTH_MEASURED, /* all calls, except those of classes that do not gain: as measured or,
                             before that, as assumed (cshim_plan_is_native_first()) */
    CSHIM_WORTH_ALWAYS,   /* all calls; nothing is measured */
    CSHIM_WORTH_FORETOLD  /* only calls of classes that were measured to gain */
};

/* One [rule NAME] section. Masks have bit 1 << value set for each value that matches. */
struct cshim_rule {
    char name[CSHIM_RULE_NAME_MAX];
    unsigned line; /* line of the section's header */
    uint32_t libraries;
    uint32_t collectives;
    uint32_t dtypes;
    uint32_t ops;
    uint64_t min_size; /* bytes of the call's larger buffer (struct cshim_call), inclusive */
    uint64_t max_size; /* inclusive */
    uint32_t min_ranks;
    uint32_t max_ranks;
    uint32_t min_nodes;
    uint32_t max_nodes;
    enum cshim_codec_id codec;
    enum cshim_codec_id gather_codec; /* codec of an all-reduce's sums; none: as `codec` */
    enum cshim_algorithm algorithm;
    bool error_feedback;
    bool stochastic; /* rounding = stochastic */
    enum cshim_worth worth;
    uint32_t keep; /* for codec or gather_codec topk: maximum number of finite elements sent of each
                      256 */
    double abs_error; /* for codec or gather_codec bounded: largest error per rank; else 0 */
    /* Limit of the relative L2 error of an encoding: above it, later calls use a more precise
     * codec. 0: no limit. */
    double max_rel_error;
    /* MPI and gloo: one of this many compressed calls is also made natively, if it is a blocking
     * reduction. 0: none. */
    uint32_t verify;
    /* MPI and gloo: one of this many results is compared across ranks, if the call is blocking and
     * all ranks get the same. 0: none. */
    uint32_t check_ranks;
};

/* A whole policy. Created by cshim_policy_parse, freed by cshim_policy_free. */
struct cshim_policy {
    char source[CSHIM_PATH_MAX]; /* file it came from, "@NAME", or "built-in default" */
    char report[CSHIM_PATH_MAX]; /* "off", "summary", or a file; may contain {rank} and {jobid} */
    enum cshim_log_level log;
    uint64_t seed;            /* seed of stochastic rounding */
    uint64_t feedback_memory; /* maximum bytes of residuals on each rank */
    /* Bit 1 << dtype for each element type that some rule may compress, by library and collective.
     */
    uint32_t compressed_types[CSHIM_LIBRARY_COUNT][CSHIM_COLLECTIVE_COUNT];
    size_t rule_count;
    struct cshim_rule *rules;
};

/* Returns the index of a rule in its policy, for arrays with an entry for each rule. */
static inline size_t cshim_rule_index(const struct cshim_policy *policy,
                                      const struct cshim_rule *rule)
{
    return (size_t)(rule - policy->rules);
}

/* Properties of a call that rules and plans use; equal on all ranks of the communicator, except
 * is_apart on different nodes. */
struct cshim_call {
    enum cshim_library library;
    enum cshim_collective collective;
    enum cshim_dtype dtype;
    enum cshim_op op;
    /* Size of the call's larger buffer. With blocks, the size of all ranks' blocks; in an
     * all-to-all, as if all blocks were as long as the longest. */
    uint64_t bytes;
    uint32_t ranks;
    uint32_t nodes;              /* nodes that hold the ranks; 0: unknown, matches any number */
    uint32_t ranks_per_node;     /* smallest number of ranks on a node; 0: not hierarchical */
    enum cshim_codec_id instead; /* replaces the rule's codec, unless CSHIM_CODEC_NONE */
    bool nonblocking;
    uint32_t root;  /* root of a reduce or broadcast */
    uint64_t block; /* elements of the largest block; 0: all blocks are equal, or there are none */
    uint32_t partners; /* largest number of ranks that a rank may exchange with; 0: no limit */
    bool is_apart;     /* MPI: ranks of a node do not read each other's memory */
    bool lacks_native; /* MPI: the library may have no function that takes so many elements */
};

/* Parses text[0..length) (need not end in NUL). `source` is the name in errors. On success returns
 * the policy, which the caller frees. On failure returns NULL, and writes a line for each error to
 * `message`: "source:LINE: what is wrong (did you mean 'x'?)"; the last one is "and more errors" if
 * there is no room for all. Lines after the first begin with "compshim: ", which the log prints
 * before the first; the last line has no newline. */
struct cshim_policy *cshim_policy_parse(const char *text, size_t length, const char *source,
                                        char message[CSHIM_MESSAGE_MAX]);

void cshim_policy_free(struct cshim_policy *policy);

/* A built-in policy, from a file of policy/. "@NAME" denotes it wherever a policy's file can be
 * named. The strings are static. */
struct cshim_named_policy {
    const char *name; /* "@default" */
    const char *text;
};

/* Returns the built-in policy at an index from 0 on; both members are NULL after the last one. */
struct cshim_named_policy cshim_policy_named(size_t index);

/* Returns true if a name denotes a built-in policy; "./@name" is a file. */
static inline bool cshim_policy_is_named(const char *name)
{
    return name[0] == '@';
}

/* Returns the text of "@default", the built-in default policy. */
const char *cshim_policy_default_text(void);

/* Source of a policy that was found in the working folder without being named. It may have come
 * with any unpacked archive, so the file names in it (`report`) are ignored. */
#define CSHIM_POLICY_HERE "./policy.ini"

/* Finds the policy's file as documented: $COMPSHIM_POLICY, ./policy.ini,
 * $XDG_CONFIG_HOME/compshim/policy.ini (or $HOME/.config), /etc/compshim/policy.ini, else the
 * built-in default, and reads it. On success returns malloc'ed text (NUL-terminated; caller frees),
 * its length, and in source the file's name as the user would write it ("built-in default"); the
 * message has the warnings, or is empty. A file at a default path is used only if it belongs to the
 * user or to root and nobody else may write it; otherwise a warning is stored and the next path is
 * tried. If a named file fails, returns NULL with the error in the message. `explicit_path` (may be
 * NULL) takes precedence over the environment. Either may name a built-in policy, which is then the
 * source, too. A set-user-ID process takes nothing from the environment. */
char *cshim_policy_load(const char *explicit_path, size_t *length, char source[CSHIM_PATH_MAX],
                        char message[CSHIM_MESSAGE_MAX]);

/* Returns true if a rule matches the call, or would if its buffer had another size. */
bool cshim_rule_matches_but_size(const struct cshim_rule *rule, const struct cshim_call *call);

/* Returns true if a rule matches the call. */
bool cshim_rule_matches(const struct cshim_rule *rule, const struct cshim_call *call);

/* Returns true if some rule may match a collective of a library. */
bool cshim_policy_names(const struct cshim_policy *policy, enum cshim_library library,
                        enum cshim_collective collective);

/* Returns true if some rule may compress a collective of a library, with a buffer of `bytes` bytes;
 * UINT64_MAX: of any size. */
bool cshim_policy_compresses(const struct cshim_policy *policy, enum cshim_library library,
                             enum cshim_collective collective, uint64_t bytes);

/* Returns the first rule that matches the call, or NULL: then the call is passed through. */
const struct cshim_rule *cshim_policy_match(const struct cshim_policy *policy,
                                            const struct cshim_call *call);

/* Sets of words for values, in policies, on command lines and in reports. */
enum cshim_word_set {
    CSHIM_NO_WORDS,
    CSHIM_LIBRARIES,   /* enum cshim_library */
    CSHIM_COLLECTIVES, /* enum cshim_collective */
    CSHIM_DTYPES,      /* enum cshim_dtype */
    CSHIM_OPS,         /* enum cshim_op */
    CSHIM_CODECS,      /* enum cshim_codec_id */
    CSHIM_ALGORITHMS,  /* enum cshim_algorithm */
    CSHIM_LEVELS,      /* enum cshim_log_level */
    CSHIM_SWITCHES,    /* off, on */
    CSHIM_ROUNDINGS,   /* nearest, stochastic */
    CSHIM_REPORTS,     /* off, summary */
    CSHIM_WORTHS,      /* enum cshim_worth */
};

/* Words of a set, indexed by their values; all strings are static. `names` has room for one word
 * more than the codecs, the largest set, so that a caller can append a word of its own. */
struct cshim_words {
    const char *what; /* name of the set in errors: "codec" */
    size_t count;
    const char *names[CSHIM_CODEC_COUNT + 1];
};
struct cshim_words cshim_words(enum cshim_word_set set);

/* Finds the value of a word, ignoring case. Also knows older names of values: the algorithms
 * "allreduce" (cast) and "allgather" (one_shot), and "gain" (worth = measured). Returns the word, a
 * static string. If it is not in the set, returns NULL, and *value is undefined. */
const char *cshim_word_find(enum cshim_word_set set, const char *word, unsigned *value);

/* Describes a key of policy.ini for help texts. The strings are static. */
struct cshim_policy_key {
    const char *name;
    const char *value; /* form of the value, such as "LIST" or "SIZE" */
    const char *help;  /* one line, without the words */
    struct cshim_words words;
};

/* Describes the key of [compshim], or of a rule, at an index from 0 on. Returns false if there are
 * no more. */
bool cshim_policy_key(bool of_rules, size_t index, struct cshim_policy_key *key);

/* Return the names of values; "?" if out of range. cshim_op_name() returns "other" for
 * CSHIM_OP_OTHER. */
const char *cshim_library_name(enum cshim_library library);
const char *cshim_collective_name(enum cshim_collective collective);
const char *cshim_op_name(enum cshim_op op);
const char *cshim_algorithm_name(enum cshim_algorithm algorithm);

/* Returns the name in names[0..count) with the smallest edit distance to `word`, ignoring case, if
 * that distance is at most a third of the word's length, rounded up (at least 1). Otherwise returns
 * the first name that begins with `word`, or NULL. Ignores the distance of names longer than 63
 * bytes. */
const char *cshim_nearest_name(const char *word, const char *const *names, size_t count);

/* Parses "64KiB", "25MB", "1024": B, KB, KiB, MB, MiB, GB, GiB, and K, M, G for KiB, MiB, GiB, in
 * upper or lower case. A fraction of up to nine digits, not counting zeros at its end, is allowed
 * if the size is whole bytes. Returns false if the text is malformed or above 2^63. */
bool cshim_parse_size(const char *text, uint64_t *bytes);

/* Returns true if each "{" in the name of a report or trace begins {rank} or {jobid}. */
bool cshim_has_known_braces(const char *name);

/* Computes the SHA-256 of a text as 64 hex digits and NUL, for the report's policy.sha256. */
void cshim_policy_sha256(const char *text, size_t length, char digest[65]);

#endif
