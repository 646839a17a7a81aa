/* SPDX-License-Identifier: Apache-2.0 */
/* C interface to the classes of gloo that the engine needs. Only abi.cc knows their memory layout.
 * It uses no header of gloo: it knows the layouts of versions since 2019, and checks them
 * before the engine relies on them.
 *
 * Apart from std::bad_alloc, only cshim_gloo_throw() and cshim_gloo_pass() throw exceptions.
 * Functions with a parameter `void **exception` call gloo or the program's reduction. If that
 * throws, they store the exception in *exception, unless it has one already, and return 1, or NULL
 * instead of a buffer; otherwise they return 0, CSHIM_GLOO_WOKEN or the buffer. All functions
 * except cshim_gloo_open() are thread-safe. */
#ifndef CSHIM_GLOO_ABI_H
#define CSHIM_GLOO_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "shim/gloo/engine.h"

/* Arguments of a call, read from its options. */
struct cshim_gloo_arguments {
    enum cshim_gloo_index function; /* function that the program has called */
    enum cshim_collective collective;
    const void *options;
    const void *context; /* gloo::Context */
    int rank;
    int ranks;
    int64_t timeout;   /* time limit of each wait, in milliseconds; -1: that of the context */
    uint32_t tag;      /* equal on all ranks; concurrent calls of a function have different tags */
    uint64_t elements; /* number in all blocks; if `sent` is set, cshim_gloo_describe() sets this */
    size_t element_bytes;
    const void *input; /* data movement: this rank's elements; NULL: they lie in the output */
    void *output;      /* memory of the first output buffer */
    int root;          /* broadcast only */
    /* Lengths of the blocks that this rank receives from each rank and, in an all-to-all, sends to
     * each, in units of `length_bytes` bytes. NULL if the options do not list them. */
    const size_t *received, *sent;
    size_t length_bytes;
    bool is_empty; /* no rank has elements; with `sent` always false, as a rank cannot know */
    bool waits;    /* no rank ends a non-empty call before all ranks begin it; false: unknown */
};

/* Reduces the elements of `a` and `b` pairwise to `output`, which may equal an input. cshim_add()
 * has this type. */
typedef void (*cshim_gloo_reduction)(enum cshim_dtype dtype, void *output, const void *a,
                                     const void *b, size_t elements);

/* Finds the functions of the gloo that contains `allreduce`, and writes its name for reports to
 * `library`. Returns false if a needed function is missing. */
bool cshim_gloo_open(cshim_gloo_function allreduce, char *library, size_t size);

/* Returns true if the classes of this gloo have the layout that this engine expects, judged by the
 * contents of a call's options, by whether their memory can be read, and by the names of the
 * buffers' functions. Because that costs some system calls, it is called only as long as the call's
 * context or function is unknown. */
bool cshim_gloo_recognise(enum cshim_gloo_index function, const void *options);
/* Returns true if a call of a function has been recognised. */
bool cshim_gloo_is_recognised(enum cshim_gloo_index function);
/* Returns the gloo::Context of any options. */
const void *cshim_gloo_context_of(const void *options);
/* Reads the options of a call on a recognised context. Returns false if they are inconsistent or
 * not supported, such as blocks with gaps; the call is then left to gloo, which reports errors. */
bool cshim_gloo_read(enum cshim_gloo_index function, const void *options,
                     struct cshim_gloo_arguments *arguments);
/* Adds all input buffers of this rank (without any, its output buffers) into the first output, as
 * gloo does, and sets *sum to the result. A single buffer is not copied: *sum points to it. */
int cshim_gloo_add_inputs(const struct cshim_gloo_arguments *arguments, const void **sum,
                          void **exception);
/* Copies the first output buffer to the other output buffers. */
void cshim_gloo_copy_output(const struct cshim_gloo_arguments *arguments);
/* Calls the reduction function of the options. */
int cshim_gloo_reduce(const struct cshim_gloo_arguments *arguments, void *output, const void *a,
                      const void *b, size_t elements, void **exception);
/* Calls gloo's own all-reduce with the options of the arguments, except buffers and elements.
 * Unless `reduction` is NULL, it replaces the program's reduction function. */
int cshim_gloo_native(const struct cshim_gloo_arguments *arguments, const void *input, void *output,
                      uint64_t elements, enum cshim_dtype dtype, cshim_gloo_reduction reduction,
                      void **exception);

/* Makes the program's call by gloo's own function `real`, with another time limit. Throws gloo's
 * exceptions. */
void cshim_gloo_pass(const struct cshim_gloo_arguments *arguments, cshim_gloo_function real,
                     int64_t milliseconds);

/* Reads the options of a collective other than an all-reduce, to count it: rank and ranks of its
 * context, and the bytes of its larger buffer. Returns false if the options have an unexpected
 * layout. */
bool cshim_gloo_measure(const void *options, int *rank, int *ranks, uint64_t *bytes);

/* A weak reference to a context: it does not keep the context alive. `refer` makes it, for the
 * context of any options; `is_gone` returns true once gloo has freed the context; `forget` releases
 * the reference. */
struct cshim_gloo_reference {
    void *words[2]; /* std::weak_ptr<gloo::Context> */
};
void cshim_gloo_refer(struct cshim_gloo_reference *reference, const void *options);
bool cshim_gloo_is_gone(const struct cshim_gloo_reference *reference);
void cshim_gloo_forget(struct cshim_gloo_reference *reference);

/* A buffer of gloo: memory that messages are sent from and received into. */
struct cshim_gloo_buffer;
struct cshim_gloo_buffer *cshim_gloo_buffer_make(const void *context, void *memory, size_t bytes,
                                                 void **exception);
void cshim_gloo_buffer_free(struct cshim_gloo_buffer *buffer);
/* Start to send or receive a message of `bytes` bytes at an offset of the buffer. */
int cshim_gloo_send(struct cshim_gloo_buffer *buffer, int to, uint64_t slot, size_t offset,
                    size_t bytes, void **exception);
int cshim_gloo_receive(struct cshim_gloo_buffer *buffer, int from, uint64_t slot, size_t offset,
                       size_t bytes, void **exception);
/* Wait until one more of the started messages is complete. A longer wait than `milliseconds` (-1:
 * than the context's time limit) is an exception, and gloo closes the context's connections. Return
 * CSHIM_GLOO_WOKEN if cshim_gloo_wake() or gloo::abort() has ended the wait. */
#define CSHIM_GLOO_WOKEN 2
int cshim_gloo_wait_sent(struct cshim_gloo_buffer *buffer, int64_t milliseconds, void **exception);
int cshim_gloo_wait_received(struct cshim_gloo_buffer *buffer, int64_t milliseconds,
                             void **exception);
/* Ends another thread's wait on this buffer: for a received message if `receives`, else for a sent
 * one. If no thread waits, the next such wait returns at once. */
void cshim_gloo_wake(struct cshim_gloo_buffer *buffer, bool receives);
/* Checks without waiting whether the message being received can still arrive. Stores an exception
 * if not. */
int cshim_gloo_look(struct cshim_gloo_buffer *buffer, void **exception);

/* Closes a context's connections, as gloo does when a wait exceeds its time limit. Other ranks that
 * wait for this one then fail instead. */
void cshim_gloo_break(const void *context);

/* Returns a gloo::IoException with the text `why`. */
void *cshim_gloo_exception(const char *why);
/* Throws a stored exception, and frees it. */
void cshim_gloo_throw(void *exception) __attribute__((noreturn));
/* Frees a stored exception. */
void cshim_gloo_drop(void *exception);

#ifdef __cplusplus
}
#endif

#endif
