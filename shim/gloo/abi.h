/* SPDX-License-Identifier: Apache-2.0 */
/* gloo's classes, as far as the engine needs them, for C. abi.cc is the one file that knows how
 * they lie in memory. No header of gloo has been used: the layout is the same in all versions from
 * 2019 on, and is checked before anything relies on it.
 *
 * gloo's exceptions do not come out of these functions: they are kept, and thrown again by
 * cshim_gloo_throw. Functions that take `exception` return 0, or 1 with the exception in it; an
 * exception that is there already stays. All functions are thread-safe. */
#ifndef CSHIM_GLOO_ABI_H
#define CSHIM_GLOO_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "shim/gloo/engine.h"

/* A call of gloo::allreduce, as its options tell it. */
struct cshim_gloo_arguments {
    const void *options;
    const void *context; /* gloo::Context */
    int rank;
    int ranks;
    int64_t timeout; /* of each wait, in milliseconds */
    uint32_t tag;    /* the same on all ranks, and no other call under way has it */
    uint64_t elements;
    size_t element_bytes;
    void *output; /* the memory of the first output */
};

/* Adds elements of a type, as cshim_add does. output may equal an input. */
typedef void (*cshim_gloo_reduction)(enum cshim_dtype dtype, void *output, const void *a,
                                     const void *b, size_t elements);

/* Finds the functions of the gloo that allreduce is in, and writes what reports call it. Returns
 * false if it lacks a function that is needed. */
bool cshim_gloo_open(cshim_gloo_function allreduce, char *library, size_t size);

/* Returns true if the classes of this gloo have the layout that this engine expects, by the
 * contents of a call's options, by whether their memory can be read, and by the names of the
 * buffers' functions. Costs some system calls: made once, at the first call of a context. */
bool cshim_gloo_recognise(const void *options);
/* The gloo::Context of any options. */
const void *cshim_gloo_context_of(const void *options);
/* Reads the options of a call on a context that was recognised. Returns false if they do not fit
 * together; then gloo will say what is wrong. */
bool cshim_gloo_read(const void *options, struct cshim_gloo_arguments *arguments);
/* Adds all input buffers of this rank in the first output, as gloo does. *sum is then where the
 * input of the call lies; a single buffer stays where it is. */
int cshim_gloo_add_inputs(const struct cshim_gloo_arguments *arguments, const void **sum,
                          void **exception);
/* Copies the first output to the others. */
void cshim_gloo_copy_output(const struct cshim_gloo_arguments *arguments);
/* Calls the reduction function of the options. */
int cshim_gloo_reduce(const struct cshim_gloo_arguments *arguments, void *output, const void *a,
                      const void *b, size_t elements, void **exception);
/* gloo's own all-reduce, by the options of the arguments, but for the buffers, their elements and,
 * unless it is NULL, the reduction. */
int cshim_gloo_native(const struct cshim_gloo_arguments *arguments, const void *input, void *output,
                      uint64_t elements, enum cshim_dtype dtype, cshim_gloo_reduction reduction,
                      void **exception);

/* gloo's own all-reduce, by the options, with another limit. Throws what gloo throws. */
void cshim_gloo_pass(const void *options, int64_t milliseconds);

/* Any other call of gloo, which is counted: rank and ranks of its context, and the bytes of its
 * larger buffer. Returns false if its options are not laid out as expected. */
bool cshim_gloo_measure(const void *options, int *rank, int *ranks, uint64_t *bytes);

/* A reference to a context that does not keep it. */
struct cshim_gloo_reference {
    void *words[2]; /* std::weak_ptr<gloo::Context> */
};
void cshim_gloo_refer(struct cshim_gloo_reference *reference, const void *options);
bool cshim_gloo_is_gone(const struct cshim_gloo_reference *reference);
void cshim_gloo_forget(struct cshim_gloo_reference *reference);

/* gloo's own buffers: memory that messages are sent from and received into. */
struct cshim_gloo_buffer;
struct cshim_gloo_buffer *cshim_gloo_buffer_make(const void *context, void *memory, size_t bytes,
                                                 void **exception);
void cshim_gloo_buffer_free(struct cshim_gloo_buffer *buffer);
/* Start a message of `bytes` bytes at an offset of the buffer, to or from a rank. */
int cshim_gloo_send(struct cshim_gloo_buffer *buffer, int to, uint64_t slot, size_t offset,
                    size_t bytes, void **exception);
int cshim_gloo_receive(struct cshim_gloo_buffer *buffer, int from, uint64_t slot, size_t offset,
                       size_t bytes, void **exception);
/* Wait until one more of the messages that were started is complete. A wait that takes longer than
 * so many milliseconds is an exception, and breaks the connections of the context. Return
 * CSHIM_GLOO_WOKEN where cshim_gloo_wake was called meanwhile, or before. */
#define CSHIM_GLOO_WOKEN 2
int cshim_gloo_wait_sent(struct cshim_gloo_buffer *buffer, int64_t milliseconds, void **exception);
int cshim_gloo_wait_received(struct cshim_gloo_buffer *buffer, int64_t milliseconds,
                             void **exception);
/* Ends a wait of another thread, or the next one. */
void cshim_gloo_wake(struct cshim_gloo_buffer *buffer, bool receives);
/* Looks, without waiting, whether what is being received can still come: the exception says why
 * not. */
int cshim_gloo_look(struct cshim_gloo_buffer *buffer, void **exception);

/* Closes a context's connections, as gloo does when a wait takes too long: the other ranks wait for
 * nothing of this one any more. */
void cshim_gloo_break(const void *context);

/* Makes an exception of gloo's class for errors that end a context, with a text of ours. */
void *cshim_gloo_exception(const char *why);
/* Throws an exception that was kept, and frees it. */
void cshim_gloo_throw(void *exception) __attribute__((noreturn));
/* Frees it. */
void cshim_gloo_drop(void *exception);

#ifdef __cplusplus
}
#endif

#endif
