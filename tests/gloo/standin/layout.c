/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the stand-in's gloo::allreduce with options, a context and a buffer built from words, in
 * gloo's memory layout or with one word inserted, which shifts the following ones by 8 bytes. Each
 * object ends where readable memory ends. Each call must reach the library once, and no function in
 * the objects but the reduction may be called.
 *
 *   gloo_layout          gloo's layout, in a context of one rank
 *   gloo_layout NUMBER   with an inserted word, in a context of two ranks; NUMBER is 0 to 45 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern unsigned standin_calls;
extern const void *standin_options;
extern void (*const standin_buffer_functions[])(void);
void gloo_allreduce(const void *options) __asm__("_ZN4gloo9allreduceERKNS_16AllreduceOptionsE");

/* The inserted word, all bits 0 or all bits 1, and the object and index it is inserted at. */
enum object { OPTIONS, CONTEXT, BUFFER, OBJECTS };
static struct {
    enum object object;
    size_t place;
    uint64_t word;
} more = {.object = OBJECTS};

/* Returns a copy of the words that ends at the end of a page, between two unreadable pages. */
static uintptr_t guarded(const uint64_t *words, size_t count)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + page, page, PROT_READ | PROT_WRITE) != 0)
        exit(3);
    memcpy(memory + 2 * page - count * sizeof *words, words, count * sizeof *words);
    return (uintptr_t)memory + 2 * page - count * sizeof *words;
}

static uintptr_t laid_out(enum object object, const uint64_t *words, size_t count)
{
    uint64_t all[32];
    if (object != more.object)
        return guarded(words, count);
    memcpy(all, words, more.place * sizeof *words);
    all[more.place] = more.word;
    memcpy(all + more.place + 1, words + more.place, (count - more.place) * sizeof *words);
    return guarded(all, count + 1);
}

/* The functions of a std::function: the first copies or destroys it, the second is the call, with
 * arguments by reference. */
static void manage(void)
{
    fprintf(stderr, "the reduction is copied\n");
    abort();
}

static void reduce(const void *function, float *const *result, const float *const *a,
                   const float *const *b, const size_t *count)
{
    (void)function;
    for (size_t i = 0; i < *count; i++)
        (*result)[i] = (*a)[i] + (*b)[i];
}

#define OPTIONS_WORDS 18
#define CONTEXT_WORDS 9
#define BUFFER_WORDS 3

static uintptr_t make_options(uint64_t ranks)
{
    static const uint64_t data[100]; /* 200 floats */
    const uint64_t functions =
        (uintptr_t)standin_buffer_functions; /* used for the context, too; none of them is called */
    const uint64_t context[CONTEXT_WORDS] = {functions, ranks << 32 /* rank: 0 */, 2};
    const uint64_t buffer[BUFFER_WORDS] = {functions, guarded(data, 100), sizeof data};
    const uint64_t output = laid_out(BUFFER, buffer, BUFFER_WORDS);
    const uintptr_t outputs = guarded(&output, 1);
    const uint64_t options[OPTIONS_WORDS] = {
        laid_out(CONTEXT, context, CONTEXT_WORDS),
        0, /* no reference count of the context */
        30000 /* timeout in ms */,
        0 /* algorithm */,
        0 /* vector of inputs: begin, end, end of its storage */,
        0,
        0,
        outputs,
        outputs + sizeof output,
        outputs + sizeof output,
        200,
        sizeof(float),
        0 /* reduction: two words of storage, manager, invoker */,
        0,
        (uintptr_t)manage,
        (uintptr_t)reduce,
        7 /* tag */,
        1 << 20 /* largest segment in bytes */,
    };
    return laid_out(OPTIONS, options, OPTIONS_WORDS);
}

int main(int argc, char **argv)
{
    static const size_t places[OBJECTS] = {OPTIONS_WORDS, 2 /* words that the engine reads */,
                                           BUFFER_WORDS};
    size_t number = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    more.word = number % 2 != 0 ? UINT64_MAX : 0;
    more.object = argc > 1 ? OPTIONS : OBJECTS;
    for (more.place = number / 2; more.object < BUFFER && more.place >= places[more.object];)
        more.place -= places[more.object++];
    const void *options = (const void *)make_options(argc > 1 ? 2 : 1);
    gloo_allreduce(options);
    printf("%u calls\n", standin_calls);
    return standin_calls != 1 || standin_options != options;
}
