/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the stand-in's gloo::allreduce with options that are laid out otherwise than in gloo: from
 * one member on, all are 8 bytes further behind. Each object ends where readable memory ends. Each
 * call must reach the library once, and none of the functions in the objects may be called.
 *
 *   gloo_layout right      as in gloo, in a context of one rank
 *   gloo_layout moved      from each of the members on
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern unsigned standin_calls;
extern const void *standin_options;
void gloo_allreduce(const void *options) __asm__("_ZN4gloo9allreduceERKNS_16AllreduceOptionsE");

/* The members of the three objects, and where gloo has them. A vector is three pointers, a
 * std::function 16 bytes and two pointers. */
enum object { OPTIONS, CONTEXT, BUFFER, OBJECTS };
enum member {
    OPTIONS_CONTEXT,
    TIMEOUT,
    ALGORITHM,
    INPUTS,
    OUTPUTS,
    ELEMENTS,
    ELEMENT_SIZE,
    REDUCE,
    TAG,
    SEGMENT,
    RANK,
    SIZE,
    BUFFER_POINTER,
    BUFFER_SIZE,
    MEMBERS
};
static const struct {
    enum object object;
    size_t offset;
} members[MEMBERS] = {
    {OPTIONS, 0},  {OPTIONS, 16}, {OPTIONS, 24}, {OPTIONS, 32},  {OPTIONS, 56},
    {OPTIONS, 80}, {OPTIONS, 88}, {OPTIONS, 96}, {OPTIONS, 128}, {OPTIONS, 136},
    {CONTEXT, 8},  {CONTEXT, 12}, {BUFFER, 8},   {BUFFER, 16},
};
static const size_t object_bytes[OBJECTS] = {144, 72, 24};

static enum member moved_from;
static unsigned char *objects[OBJECTS];

/* Memory behind which there is a page that cannot be read, and before it another. */
static unsigned char *guarded(size_t bytes, int fill)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *memory = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory + page, page, PROT_READ | PROT_WRITE) != 0)
        exit(3);
    memset(memory + page, fill, page);
    return memory + 2 * page - bytes;
}

static bool is_moved(enum object object, size_t offset)
{
    return moved_from < MEMBERS && members[moved_from].object == object &&
           offset >= members[moved_from].offset;
}

static void put(enum member member, size_t behind, const void *value, size_t bytes)
{
    const size_t offset = members[member].offset;
    const enum object object = members[member].object;
    memcpy(objects[object] + offset + behind + (is_moved(object, offset) ? 8 : 0), value, bytes);
}

static void put_pointer(enum member member, size_t behind, const void *pointer)
{
    put(member, behind, &pointer, sizeof pointer);
}

static void put_number(enum member member, uint64_t number, size_t bytes)
{
    put(member, 0, &number, bytes);
}

static void never(void)
{
    fprintf(stderr, "a function of an object is called\n");
    abort();
}

/* What std::function calls: the stored function's arguments by reference. */
static void reduce(const void *function, void **result, const void **a, const void **b,
                   const size_t *count)
{
    (void)function;
    for (size_t i = 0; i < *count; i++)
        ((float *)*result)[i] = ((const float *)*a)[i] + ((const float *)*b)[i];
}

static void put_vector(enum member member, void *first, size_t count)
{
    void **elements = (void *)guarded(count * sizeof *elements, 0);
    if (count > 0)
        elements[0] = first;
    put_pointer(member, 0, elements);
    put_pointer(member, 8, elements + count);
    put_pointer(member, 16, elements + count);
}

static void lay_out(uint64_t ranks, int fill)
{
    const uint64_t count = 1000;
    void (*table[24])(void);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        table[i] = never;
    void *functions = guarded(sizeof table, 0);
    memcpy(functions, table, sizeof table);
    for (int object = 0; object < OBJECTS; object++)
        objects[object] =
            guarded(object_bytes[object] + (is_moved((enum object)object, SIZE_MAX) ? 8 : 0), fill);
    memcpy(objects[CONTEXT], &functions, sizeof functions);
    memcpy(objects[BUFFER], &functions, sizeof functions);
    put_number(RANK, 0, 4);
    put_number(SIZE, ranks, 4);
    put_pointer(BUFFER_POINTER, 0, guarded(count * sizeof(float), 0));
    put_number(BUFFER_SIZE, count * sizeof(float), 8);
    put_pointer(OPTIONS_CONTEXT, 0, objects[CONTEXT]);
    put_pointer(OPTIONS_CONTEXT, 8, NULL); /* nobody counts who shares the context */
    put_number(TIMEOUT, 30000, 8);
    put_number(ALGORITHM, 0, 4);
    put_vector(INPUTS, NULL, 0);
    put_vector(OUTPUTS, objects[BUFFER], 1);
    put_number(ELEMENTS, count, 8);
    put_number(ELEMENT_SIZE, sizeof(float), 8);
    put_pointer(REDUCE, 16, (void *)(uintptr_t)never); /* copies or destroys the function */
    put_pointer(REDUCE, 24, (void *)(uintptr_t)reduce);
    put_number(TAG, 7, 4);
    put_number(SEGMENT, 1 << 20, 8);
}

static int call(uint64_t ranks, int fill)
{
    const unsigned before = standin_calls;
    lay_out(ranks, fill);
    gloo_allreduce(objects[OPTIONS]);
    if (standin_calls == before + 1 && standin_options == objects[OPTIONS])
        return 0;
    fprintf(stderr, "moved from member %d: %u calls\n", (int)moved_from, standin_calls - before);
    return 1;
}

int main(int argc, char **argv)
{
    int failures = 0;
    moved_from = MEMBERS;
    if (argc > 1 && strcmp(argv[1], "right") == 0) {
        failures = call(1, 0);
    } else {
        for (moved_from = 0; moved_from < MEMBERS; moved_from++)
            if (moved_from != SIZE) /* an int: 8 bytes further it would not be behind the rank */
                failures += call(2, 0) + call(2, 0xff);
    }
    printf("%u calls, %d failures\n", standin_calls, failures);
    return failures != 0;
}
