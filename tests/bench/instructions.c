/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the instructions of the codecs, for tests/bench/instructions.sh.
 *
 *   instructions codecs          prints the codecs' names, a line each, in the order of the counts
 *   instructions count LEVEL     counts at this SIMD level, by single-stepping a child process
 *   instructions trace LEVEL     does the same work, for an emulator that logs each instruction;
 *                                those between mark_begin and mark_end count
 *
 * `count` prints a number for each piece of work. A codec has eight pieces: encode, decode, reduce
 * (two encoded inputs to their sum) and reencode (two encoded inputs to their encoded sum), of
 * SHORTER elements of float32, then of LONGER. The difference of the two is the cost of the
 * additional elements. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codecs/codec.h"

enum { SHORTER = CSHIM_GRAIN, LONGER = 3 * CSHIM_GRAIN };
enum work { ENCODE, DECODE, REDUCE, REENCODE, WORK_COUNT };

static _Alignas(64) float input[LONGER], output[LONGER];
static _Alignas(64) uint8_t parts[2][LONGER * 5], reencoded[LONGER * 5];

/* Shared with the counting process: 1 while a piece of work runs in the stepped process. NULL in a
 * trace. */
static volatile sig_atomic_t *is_marked;

/* Fills the input with a slow wave for bounded, else with roughly normal numbers: sums of four
 * uniform ones. */
static void fill_input(enum cshim_codec_id id)
{
    uint32_t random = 1;
    for (size_t i = 0; i < LONGER; i++) {
        int32_t sum = 0;
        for (int k = 0; k < 4; k++) {
            random = random * 1664525u + 1013904223u;
            sum += (int32_t)(random >> 16) - 32768;
        }
        input[i] = id == CSHIM_CODEC_BOUNDED ? sinf((float)i * 0.01f) : (float)sum * 1e-6f;
    }
}

static void do_work(enum cshim_codec_id id, enum work work, size_t count)
{
    const void *const both[2] = {parts[0], parts[1]};
    const struct cshim_encoding bounded = {.step = 0x1p-14f};
    const struct cshim_encoding *const encoding = id == CSHIM_CODEC_BOUNDED ? &bounded : NULL;
    if (work == ENCODE)
        cshim_encode_with(id, CSHIM_FLOAT32, input, count, encoding, parts[0]);
    else if (work == DECODE)
        cshim_decode(id, CSHIM_FLOAT32, parts[0], count, output);
    else if (work == REDUCE)
        cshim_reduce(id, CSHIM_FLOAT32, both, 2, count, output, NULL);
    else
        cshim_reduce_with(id, CSHIM_FLOAT32, both, 2, count, NULL, reencoded, encoding);
}

/* Not static: instructions.sh finds these names in the emulator's trace. */
void mark_begin(void);
void mark_end(void);

/* Begins a piece of work: stops this process, so that the counting process notices. */
__attribute__((noinline)) void mark_begin(void)
{
    if (is_marked == NULL)
        return;
    *is_marked = 1;
    raise(SIGTRAP);
}

__attribute__((noinline)) void mark_end(void)
{
    if (is_marked != NULL)
        *is_marked = 0;
}

/* Runs the pieces of work of all codecs. */
static void do_codecs(void)
{
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        const enum cshim_codec_id codec = (enum cshim_codec_id)id;
        fill_input(codec);
        for (size_t count = SHORTER; count <= LONGER; count += LONGER - SHORTER) {
            do_work(codec, ENCODE, count);
            memcpy(parts[1], parts[0], sizeof parts[1]);
            for (int work = ENCODE; work < WORK_COUNT; work++) {
                mark_begin();
                do_work(codec, (enum work)work, count);
                mark_end();
            }
        }
    }
}

/* Runs the pieces of work in a child process, and single-steps each of them from mark_begin's
 * signal until mark_end. Returns an exit status. */
static int count_pieces(void)
{
    is_marked =
        mmap(NULL, sizeof *is_marked, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const pid_t process = is_marked != MAP_FAILED ? fork() : -1;
    if (process == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0)
            do_codecs();
        _exit(0);
    }
    int status = 0, pieces = 0;
    while (process > 0 && waitpid(process, &status, 0) == process && WIFSTOPPED(status)) {
        unsigned long steps = 0;
        while (*is_marked && ptrace(PTRACE_SINGLESTEP, process, NULL, NULL) == 0 &&
               waitpid(process, &status, 0) == process && WIFSTOPPED(status))
            steps++;
        printf("%lu\n", steps);
        pieces++;
        if (ptrace(PTRACE_CONT, process, NULL, NULL) != 0)
            break;
    }
    const bool is_whole = pieces == 2 * WORK_COUNT * (CSHIM_CODEC_COUNT - CSHIM_CODEC_RAW);
    if (!is_whole)
        fprintf(stderr, "instructions: this system lets no process be stepped through\n");
    return is_whole ? 0 : 3;
}

/* Returns true if the processor, or the emulator, has the level, which is then in use. */
static bool use_level(const char *name)
{
    for (int level = CSHIM_SIMD_SCALAR; level <= CSHIM_SIMD_AVX512; level++)
        if (strcmp(name, cshim_simd_name((enum cshim_simd)level)) == 0)
            return cshim_simd_limit((enum cshim_simd)level) == (enum cshim_simd)level;
    return false;
}

int main(int argc, char **argv)
{
    const char *const command = argc > 1 ? argv[1] : "";
    if (strcmp(command, "codecs") == 0) {
        for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++)
            printf("%s\n", cshim_codec_name((enum cshim_codec_id)id));
        return 0;
    }
    const bool counts = strcmp(command, "count") == 0;
    if (argc != 3 || (!counts && strcmp(command, "trace") != 0)) {
        fprintf(stderr, "usage: instructions codecs | count LEVEL | trace LEVEL\n");
        return 2;
    }
    if (!use_level(argv[2])) {
        fprintf(stderr, "instructions: this processor has no level '%s'\n", argv[2]);
        return 2;
    }
    if (counts)
        return count_pieces();
    do_codecs();
    return 0;
}
