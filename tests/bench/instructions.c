/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the operations of the codecs one by one, for tests/bench/instructions.sh, which counts their
 * instructions.
 *
 * An emulator runs this program and records every instruction. Each operation is enclosed in calls
 * of mark_begin and mark_end. Prints a line for each codec: its name, the SIMD level, and the
 * number of float32 elements by which its last four operations exceed its first four. The four are
 * encode, decode, reduce (two encoded inputs to their sum) and reencode (two encoded inputs to
 * their encoded sum). The optional argument is the SIMD level. */
#include <stdio.h>
#include <string.h>

#include "codecs/codec.h"

/* The difference between the two lengths gives the instructions per element without the fixed cost.
 */
enum { SHORTER = CSHIM_GRAIN, LONGER = 3 * CSHIM_GRAIN };
enum work { ENCODE, DECODE, REDUCE, REENCODE, WORK_COUNT };

static _Alignas(64) float input[LONGER], output[LONGER];
static _Alignas(64) uint8_t parts[2][LONGER * 5], reencoded[LONGER * 5];

/* Fills in approximately normal numbers, each the sum of four uniform ones. */
static void fill_input(void)
{
    uint32_t random = 1;
    for (size_t i = 0; i < LONGER; i++) {
        int32_t sum = 0;
        for (int k = 0; k < 4; k++) {
            random = random * 1664525u + 1013904223u;
            sum += (int32_t)(random >> 16) - 32768;
        }
        input[i] = (float)sum * 1e-6f;
    }
}

static void do_work(enum cshim_codec_id id, enum work work, size_t count)
{
    const void *const both[2] = {parts[0], parts[1]};
    if (work == ENCODE)
        cshim_encode(id, CSHIM_FLOAT32, input, count, parts[0]);
    else if (work == DECODE)
        cshim_decode(id, CSHIM_FLOAT32, parts[0], count, output);
    else if (work == REDUCE)
        cshim_reduce(id, CSHIM_FLOAT32, both, 2, count, output, NULL);
    else
        cshim_reduce(id, CSHIM_FLOAT32, both, 2, count, NULL, reencoded);
}

/* Symbols that instructions.sh looks for in the trace. */
void mark_begin(void);
void mark_end(void);
__attribute__((noinline)) void mark_begin(void)
{
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void mark_end(void)
{
    __asm__ volatile("" ::: "memory");
}

/* Runs a codec's operations on the shorter array, then on the longer one. */
static void do_codec(enum cshim_codec_id id)
{
    for (size_t count = SHORTER; count <= LONGER; count += LONGER - SHORTER) {
        for (int part = 0; part < 2; part++)
            cshim_encode(id, CSHIM_FLOAT32, input, count, parts[part]);
        for (int work = ENCODE; work < WORK_COUNT; work++) {
            mark_begin();
            do_work(id, (enum work)work, count);
            mark_end();
        }
    }
}

int main(int argc, char **argv)
{
    const enum cshim_simd best = cshim_simd_level();
    for (int level = 0; level <= (int)best; level++)
        if (argc == 1 || strcmp(argv[1], cshim_simd_name((enum cshim_simd)level)) == 0)
            cshim_simd_limit((enum cshim_simd)level);
    if (argc > 1 && strcmp(argv[1], cshim_simd_name(cshim_simd_level())) != 0) {
        fprintf(stderr, "instructions: this processor has no level %s, only up to %s\n", argv[1],
                cshim_simd_name(best));
        return 2;
    }
    fill_input();
    for (int id = CSHIM_CODEC_RAW; id < CSHIM_CODEC_COUNT; id++) {
        printf("%s %s %d\n", cshim_codec_name((enum cshim_codec_id)id),
               cshim_simd_name(cshim_simd_level()), LONGER - SHORTER);
        do_codec((enum cshim_codec_id)id);
    }
    return 0;
}
