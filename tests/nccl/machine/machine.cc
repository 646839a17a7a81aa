/* SPDX-License-Identifier: Apache-2.0 */
/* A machine (tests/nccl/kernels/machine.h) that runs the shipped kernels' compiled code, which
 * translate.py has translated to C++. Ends the program with a message at the first error of a
 * kernel, for example an access that is unaligned, outside an array, or a race with another lane; a
 * warp-wide instruction that not all lanes reach; an endless wait.
 *
 * A warp runs as groups of lanes that are at the same instruction. A warp runs to its end before
 * the next begins. Conflicting accesses of several warps (at least one writes, neither is volatile
 * or atomic) are reported as races, not interleaved. Chosen at random: the group that continues,
 * the order of the warps, the number of blocks, the initial contents of registers and local memory,
 * the arrays' addresses, and the errors of reciprocals.
 *
 *   MACHINE_SEED=N              seed of the random choices (1)
 *   MACHINE_DELETE=KERNEL:N     skips instruction N of a kernel
 *   MACHINE_WATCH=KERNEL:N      reports at the end if the instruction never changed a register or
 *                               predicate
 *   MACHINE_COUNTS=FILE         writes for each instruction: KERNEL N ISSUED EXECUTED TEXT */
extern "C" {
#include "kernels/kernels.h"
}
#include "tests/nccl/kernels/machine.h"

#include <fenv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/nccl/kernels/sizes.h"
#include "tests/nccl/kernels/sparse.h"
#include "tests/nccl/machine/lanes.h"

enum { BANK_BYTES = 4096, OWN_BYTES = 8192, STACK_TOP = 4096, BARRIERS = 16, ALL_LANES_MEET = -1 };
enum { PAGE_BYTES = 4096 };
enum {
    ZERO_ROWS = 4,
    FIRST_REGISTER = 8,
    TRUE_MASK = 0,
    FIRST_PREDICATE = 2,
    STEPS_MAX = 20000000
};
static const uint64_t WINDOW = 0x7e000000; /* generic address of the lanes' local memory */

/* Layout of constant bank 0. */
struct layout {
    const char *program;
    uint32_t grid, window, stack, descriptor;
    /* `base` is the offset of the bank's own address; 0: the bank has the parameters' address
     * instead, at offset `parameters`. */
    uint32_t base, parameters;
};
static const struct layout layouts[] = {
    {"ptx_90", 0xc, 0x20, 0x28, 0x118, 0x40, 0},
    {"sm_75", 0xc, 0x20, 0x28, 0x118, 0x40, 0},
    {"sm_80", 0xc, 0x20, 0x28, 0x118, 0x40, 0},
    {"sm_90", 0xc, 0x20, 0x28, 0x208, 0, 0x198},
    {"sm_100", 0x370, 0x2f8, 0x37c, 0x358, 0, 0x348},
    {"sm_120", 0x370, 0x2f8, 0x37c, 0x358, 0, 0x348},
};

extern const struct program program;
row *rows;
uint32_t *masks;
uint32_t lane_block, warp_of_block;

static const struct layout *layout;
static const struct kernel *kernel;
/* Number of times that groups of lanes reached an instruction (issued), and that at least one of
 * the lanes executed it, by its guard (executed). */
struct count {
    uint64_t issued, executed;
};
static std::vector<std::vector<struct count>> counts;
static std::mt19937 chance;
static uint32_t first_seed, launch_number, warp_number, epoch, place;
static uint64_t descriptor; /* memory descriptor; its bits have no meaning here */
static bool is_ptx;

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("not ok - %s ", program.name);
    if (kernel != NULL)
        printf("%s, warp %u, %s: ", kernel->name, warp_number, kernel->code[place].text);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    exit(2);
}

/* Arithmetic ----------------------------------------------------------------------------------- */
uint32_t permute(uint32_t a, uint32_t b, uint32_t selector)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (unsigned i = 0; i < 4; i++) {
        const unsigned which = selector >> 4 * i & 15;
        const uint8_t byte = (uint8_t)(bytes >> 8 * (which & 7));
        result |= (uint32_t)(which & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << 8 * i;
    }
    return result;
}

float fma_towards(float a, float b, float c, int direction)
{
    fesetround(direction == 0 ? FE_TOWARDZERO : direction > 0 ? FE_UPWARD : FE_DOWNWARD);
    volatile float x = a, result = fmaf(x, b, c);
    fesetround(FE_TONEAREST);
    return result;
}

float float_above(uint64_t value)
{
    const float nearest = (float)value;
    return (long double)nearest < (long double)value ? nextafterf(nearest, INFINITY) : nearest;
}

/* Returns the reciprocal; flushes subnormal numbers to zero. A result between the smallest normal
 * number and 2^127 has a random error of up to one unit in the last place, which the manual allows.
 */
uint32_t reciprocal(uint32_t bits)
{
    const uint32_t flushed = flush(bits);
    const float value = F32(flushed);
    if (value == 0)
        return (flushed & 0x80000000u) | 0x7f800000u;
    const uint32_t near = flush(R32((float)(1.0 / (double)value)));
    const bool is_ordinary =
        (near & 0x7fffffffu) > 0x00800000u && (near & 0x7fffffffu) < 0x7f000000u;
    return is_ordinary ? near + (uint32_t)(chance() % 3) - 1 : near;
}

int32_t to_int32(float value)
{
    return value != value            ? 0
           : value >= 2147483648.0f  ? INT32_MAX
           : value <= -2147483648.0f ? INT32_MIN
                                     : (int32_t)value;
}

uint32_t to_uint32(uint32_t bits)
{
    const float value = F32(flush(bits));
    return !(value > 0) ? 0 : value >= 4294967296.0f ? ~0u : (uint32_t)value;
}

uint64_t to_uint64(float value)
{
    return !(value > 0) ? 0 : value >= 18446744073709551616.0f ? ~0ull : (uint64_t)value;
}

/* Returns the magnitude of a finite code. */
static double code_value(uint32_t code, int mantissa, int bias)
{
    const int exponent = (int)(code >> mantissa), one = 1 << mantissa;
    const int digits = (int)(code & (uint32_t)(one - 1));
    return exponent == 0 ? ldexp(digits, 1 - bias - mantissa)
                         : ldexp(digits + one, exponent - bias - mantissa);
}

/* Returns the code of the nearest magnitude, ties to even; top + 1 if the value rounds beyond the
 * largest code `top`. */
static uint32_t nearest_code(double value, uint32_t top, int mantissa, int bias)
{
    uint32_t low = 0, high = top + 1;
    while (low + 1 < high) {
        const uint32_t middle = (low + high) / 2;
        (code_value(middle, mantissa, bias) <= value ? low : high) = middle;
    }
    const double below = value - code_value(low, mantissa, bias);
    const double above = code_value(low + 1, mantissa, bias) - value;
    return below < above || (below == above && low % 2 == 0) ? low : low + 1;
}

uint32_t half_of(float value)
{
    const uint32_t sign = bits32(value) >> 16 & 0x8000;
    return value != value ? 0x7fff
           : isinf(value) ? sign | 0x7c00
                          : sign | nearest_code(fabs((double)value), 0x7bff, 10, 15);
}

uint32_t float_of_half(uint32_t code)
{
    const uint32_t magnitude = code & 0x7fff, sign = (code & 0x8000) << 16;
    return magnitude > 0x7c00    ? 0x7fffffff
           : magnitude == 0x7c00 ? sign | 0x7f800000
                                 : sign | bits32((float)code_value(magnitude, 10, 15));
}

static uint32_t fp8_of(float value, uint32_t top, int mantissa, int bias)
{
    const uint32_t sign = bits32(value) >> 24 & 0x80;
    if (value != value)
        return 0x7f;
    const double magnitude = fabs((double)value), most_value = code_value(top, mantissa, bias);
    return sign | (magnitude >= most_value ? top : nearest_code(magnitude, top, mantissa, bias));
}

uint32_t e4m3_of(float value)
{
    return fp8_of(value, 0x7e, 3, 7);
}

uint32_t e5m2_of(float value)
{
    return fp8_of(value, 0x7b, 2, 15);
}

uint32_t half_of_e4m3(uint32_t code)
{
    const uint32_t magnitude = code & 0x7f, sign = (code & 0x80) << 8;
    return magnitude == 0x7f ? 0x7fff : sign | half_of((float)code_value(magnitude, 3, 7));
}

uint32_t shuffle(bool is_butterfly, uint32_t active, uint32_t *to, const uint32_t *from,
                 const uint32_t *which, const uint32_t *limits)
{
    row got;
    uint32_t have = 0;
    for (unsigned l = 0; l < LANES; l++) {
        const unsigned segment = limits[l] >> 8 & 31,
                       last = (l & segment) | (limits[l] & 31 & ~segment);
        const unsigned asked =
            is_butterfly ? l ^ (which[l] & 31) : (l & segment) | (which[l] & 31 & ~segment);
        have |= (uint32_t)(asked <= last) << l;
        got[l] = from[asked <= last ? asked : l];
    }
    for (unsigned l = 0; l < LANES; l++)
        to[l] = active >> l & 1 ? got[l] : to[l];
    return have & active;
}

uint32_t common_value(uint32_t active, const uint32_t *from)
{
    const uint32_t value = from[__builtin_ctz(active)];
    for (unsigned l = 0; l < LANES; l++)
        if ((active >> l & 1) && from[l] != value)
            fail("lanes have different values where the warp has one");
    return value;
}

/* Memory --------------------------------------------------------------------------------------- */
/* The last ordinary write or read of a byte: launch, warp, lane and epoch. */
struct visit {
    uint32_t launch;
    uint16_t warp, lane;
    uint32_t epoch;
};
static const uint16_t SEVERAL = 0xffff;

struct block {
    uint8_t *begin, *end, *from, *to; /* from, to: range that may be accessed */
    struct visit *written, *read;
    size_t mapping; /* bytes of the mmap; 0: from aligned_alloc */
};

static std::vector<struct block *> all_blocks;
static uint8_t bank0[BANK_BYTES], own[LANES][OWN_BYTES];
static bool is_set[BANK_BYTES];

static struct block *block_of(const uint8_t *at)
{
    for (size_t i = 0; i < all_blocks.size(); i++) {
        if (at >= all_blocks[i]->begin && at < all_blocks[i]->end) {
            std::swap(all_blocks[i], all_blocks[0]);
            return all_blocks[0];
        }
    }
    return NULL;
}

static bool is_of_others(const struct visit &visit, unsigned lane)
{
    return visit.launch == launch_number &&
           (visit.warp != warp_number || (visit.epoch == epoch && visit.lane != lane));
}

static void note_visit(struct visit &visit, unsigned lane)
{
    const bool again = visit.launch == launch_number;
    const bool joins = again && visit.warp == warp_number && visit.epoch == epoch;
    visit = {launch_number, again && visit.warp != warp_number ? SEVERAL : (uint16_t)warp_number,
             joins && visit.lane != lane ? SEVERAL : (uint16_t)lane, epoch};
}

/* For each byte of local memory the end of its range; 0: it may not be used. */
static uint32_t frame_end[OWN_BYTES];

static void map_frames()
{
    memset(frame_end, 0, sizeof frame_end);
    for (uint32_t i = 0; i < kernel->frame_count; i++) {
        const struct frame &frame = kernel->frames[i];
        std::fill(frame_end + frame.begin, frame_end + frame.end, frame.end);
    }
}

static uint8_t *own_memory(uint64_t at, unsigned bytes, unsigned lane)
{
    if (at + bytes <= frame_end[at])
        return &own[lane][at];
    fail("lane %u accesses %u bytes at %#llx of its own memory", lane, bytes,
         (unsigned long long)at);
}

uint8_t *access_memory(enum space space, enum access access, uint64_t address, unsigned bytes,
                       unsigned lane)
{
    const bool writes = access == WRITE || access == STRONG_WRITE;
    if (address % bytes != 0)
        fail("lane %u accesses %u bytes unaligned at %#llx", lane, bytes,
             (unsigned long long)address);
    if (space == LOCAL && address < OWN_BYTES)
        return own_memory(address, bytes, lane);
    if (space == GENERIC && address >= WINDOW && address < WINDOW + OWN_BYTES)
        return own_memory(address - WINDOW, bytes, lane);
    uint8_t *const at = (uint8_t *)address, *const parameters = bank0 + kernel->parameters_at;
    if (space == GENERIC && !writes && at >= parameters &&
        at + bytes <= parameters + kernel->parameter_bytes)
        return at;
    struct block *const block = space == LOCAL ? NULL : block_of(at);
    if (block == NULL)
        fail("lane %u accesses %#llx, where nothing is", lane, (unsigned long long)address);
    if (at < block->from || at + bytes > block->to)
        fail("lane %u %s %u bytes %lld bytes into an array of %lld", lane,
             writes ? "writes" : "reads", bytes, (long long)(at - block->from),
             (long long)(block->to - block->from));
    const size_t first = (size_t)(at - block->begin);
    for (size_t i = first; i < first + bytes && (access == READ || access == WRITE); i++) {
        if (is_of_others(block->written[i], lane) || (writes && is_of_others(block->read[i], lane)))
            fail("lane %u %s what another has accessed, in no order", lane,
                 writes ? "writes" : "reads");
        note_visit(writes ? block->written[i] : block->read[i], lane);
    }
    return at;
}

void check_descriptor(uint64_t given)
{
    if (given != descriptor)
        fail("accesses memory by %#llx, which is no descriptor", (unsigned long long)given);
}

uint32_t bank_word(unsigned bank, uint32_t offset)
{
    uint32_t word;
    const uint8_t *const from = bank == 0 ? bank0 : kernel->bank2;
    const uint32_t bytes = bank == 0 ? (uint32_t)BANK_BYTES : kernel->bank2_bytes;
    if ((bank != 0 && bank != 2) || offset % 4 != 0 || offset + 4 > bytes ||
        (bank == 0 && !is_set[offset]))
        fail("reads constant c[%#x][%#x], which nothing has set", bank, offset);
    memcpy(&word, from + offset, sizeof word);
    return word;
}

static void set_bank(uint32_t at, const void *from, uint32_t bytes)
{
    memcpy(bank0 + at, from, bytes);
    std::fill(is_set + at, is_set + at + bytes, true);
}

/* Warps ---------------------------------------------------------------------------------------- */
struct lane_group {
    uint32_t lanes, at;
};
static std::vector<struct lane_group> ready;
static uint32_t ended, waiting, wait_at[LANES], barriers[BARRIERS][LANES];
static int wait_for[LANES];

static unsigned draw_below(unsigned below)
{
    return (unsigned)(chance() % below);
}

unsigned draw_lane(void)
{
    return draw_below(LANES);
}

static unsigned first_lane(uint32_t lanes)
{
    return (unsigned)__builtin_ctz(lanes);
}

/* Removes lanes from a convergence barrier; does nothing if `barrier` is negative. The lanes need
 * another GATHER before their next JOIN. */
static void let_go(uint32_t lanes, int barrier)
{
    for (unsigned l = 0; l < LANES && barrier >= 0; l++)
        barriers[barrier][l] = lanes >> l & 1 ? 0 : barriers[barrier][l];
}

/* Releases lanes that wait for each other, if all of them have arrived. */
static void release_lanes()
{
    for (uint32_t rest = waiting; rest != 0; rest &= rest - 1) {
        const unsigned l = first_lane(rest);
        const uint32_t all = (wait_for[l] < 0 ? ~0u : barriers[wait_for[l]][l]) & ~ended;
        uint32_t here = 0;
        for (unsigned i = 0; i < LANES; i++)
            here |= (uint32_t)((waiting >> i & 1) && wait_for[i] == wait_for[l] &&
                               wait_at[i] == wait_at[l])
                    << i;
        if (all == 0 || (all & ~here) != 0)
            continue;
        let_go(all, wait_for[l]);
        waiting &= ~all;
        rest = waiting | 1u << l;
        ready.push_back({all, wait_at[l]});
    }
}

static void wait(uint32_t lanes, uint32_t at, int barrier)
{
    for (unsigned l = 0; l < LANES; l++) {
        if (lanes >> l & 1) {
            wait_at[l] = at;
            wait_for[l] = barrier;
        }
    }
    waiting |= lanes;
    release_lanes();
}

/* Returns the next group to run. In PTX, which has no convergence barriers, groups that are behind
 * run more often, and merge with those at the same instruction. */
static struct lane_group next_group()
{
    size_t chosen = draw_below((unsigned)ready.size());
    for (size_t i = 0; i < ready.size() && is_ptx && draw_below(8) != 0; i++)
        chosen = ready[i].at < ready[chosen].at ? i : chosen;
    struct lane_group group = ready[chosen];
    ready.erase(ready.begin() + (ptrdiff_t)chosen);
    for (size_t i = 0; i < ready.size() && is_ptx;) {
        if (ready[i].at == group.at) {
            group.lanes |= ready[i].lanes;
            ready.erase(ready.begin() + (ptrdiff_t)i);
        } else {
            i++;
        }
    }
    return group;
}

/* Splits a group whose lanes branch differently; which part continues first is random. */
static void split_group(struct lane_group &group, uint32_t lanes, uint32_t at)
{
    struct lane_group other = {lanes, at};
    group.lanes &= ~lanes;
    if (group.lanes == 0 || draw_below(2) == 0)
        std::swap(group, other);
    if (other.lanes != 0)
        ready.push_back(other);
}

static void jump(struct lane_group &group, const struct instruction &code, uint32_t lanes)
{
    group.at++;
    std::vector<struct lane_group> parts;
    for (; lanes != 0;) {
        const uint32_t *const to = rows[code.operands[0]];
        const uint32_t address = to[first_lane(lanes)] + code.target;
        uint32_t same = 0;
        for (unsigned l = 0; l < LANES; l++)
            same |= (uint32_t)((lanes >> l & 1) && to[l] + code.target == address) << l;
        for (unsigned l = 0; l < LANES; l++)
            if ((same >> l & 1) && !is_ptx && to[LANES + l] != 0)
                fail("goes to an address above 2^32");
        if (address % 16 != 0 || address / 16 >= kernel->length)
            fail("goes to %#x, where no code is", address);
        parts.push_back({same, address / 16});
        lanes &= ~same;
        group.lanes &= ~same;
    }
    ready.insert(ready.end(), parts.begin(), parts.end());
    if (group.lanes == 0) {
        group = ready.back();
        ready.pop_back();
    }
}

/* Returns the mask of lanes in which a predicate is true; in which it is false, if the highest bit
 * of `predicate` is set. */
static uint32_t condition(uint16_t predicate)
{
    return predicate & 0x8000 ? ~masks[predicate & 0x7fff] : masks[predicate];
}

/* Runs a group until it waits, ends or, at random, lets others run first. If it splits, continues
 * with one of its parts. */
static void run_group(struct lane_group group, struct count *count, uint32_t *steps)
{
    while (group.lanes != 0) {
        place = group.at;
        if (place >= kernel->length)
            fail("runs past the end of %s", kernel->name);
        const struct instruction &code = kernel->code[place];
        if (++*steps > STEPS_MAX)
            fail("does not come to an end");
        const uint32_t guard = code.is_negated ? ~masks[code.guard] : masks[code.guard];
        const uint32_t lanes = group.lanes & guard;
        count[place].issued++;
        count[place].executed += lanes != 0;
        const uint32_t warp_lanes = ~ended;
        const unsigned barrier = code.operands[0] % BARRIERS;
        switch (code.kind) {
        case PLAIN:
            if (lanes != 0)
                code.run(code.is_uniform ? ~0u : lanes, code.operands);
            group.at++;
            break;
        case MEET:
        case UNIFORM_MEET:
            if (group.lanes != warp_lanes && !is_ptx && code.kind == UNIFORM_MEET)
                fail("part of a warp comes here alone");
            if (group.lanes != warp_lanes) {
                wait(group.lanes, group.at, ALL_LANES_MEET);
                return;
            }
            code.run(lanes, code.operands);
            epoch += code.kind == MEET;
            group.at++;
            break;
        case BRANCH: {
            const uint32_t go = lanes & condition(code.operands[0]);
            group.at++;
            if (go != 0)
                split_group(group, go, code.target);
            break;
        }
        case JUMP:
            jump(group, code, lanes & condition(code.operands[1]));
            break;
        case GATHER:
            for (unsigned l = 0; l < LANES; l++) {
                if ((lanes >> l & 1) && barriers[barrier][l] != 0)
                    fail("lanes gather that have not joined");
                barriers[barrier][l] = lanes >> l & 1 ? group.lanes : barriers[barrier][l];
            }
            group.at++;
            break;
        case JOIN: {
            const uint32_t all = barriers[barrier][first_lane(group.lanes)] & ~ended;
            if (lanes != group.lanes || (group.lanes & ~all) != 0)
                fail("lanes join that did not gather");
            if (all != group.lanes) {
                wait(group.lanes, group.at + 1, (int)barrier);
                return;
            }
            let_go(all, (int)barrier);
            group.at++;
            break;
        }
        case LEAVE:
            for (unsigned l = 0; l < LANES; l++)
                barriers[barrier][l] &= barriers[barrier][l] & lanes ? ~lanes : ~0u;
            let_go(lanes, (int)barrier);
            release_lanes();
            group.at++;
            break;
        case FORGET:
            let_go(lanes, (int)barrier);
            group.at++;
            break;
        case IF_DIVERGED:
            if (group.lanes != warp_lanes)
                fail("part of a warp comes here alone");
            group.at++;
            break;
        case IF_CONVERGED:
            group.at = lanes != 0 && group.lanes == warp_lanes ? code.target : group.at + 1;
            break;
        case END:
            ended |= lanes;
            group.lanes &= ~lanes;
            group.at++;
            release_lanes();
            break;
        case YIELDS:
            group.at++;
            if (draw_below(2) == 0) {
                ready.push_back(group);
                return;
            }
            break;
        case NEVER:
            fail("part of a warp comes here alone");
        }
    }
}

static void poison()
{
    for (uint32_t i = FIRST_REGISTER; i < kernel->rows; i++)
        std::fill(rows[i], rows[i] + LANES, (uint32_t)chance());
    for (uint32_t i = FIRST_PREDICATE; i < kernel->masks; i++)
        masks[i] = draw_below(2) ? ~0u : 0;
    for (auto &lane : own)
        memset(lane, (int)draw_below(256), sizeof lane);
    for (uint32_t i = 0; i < kernel->constant_count; i++) {
        const struct constant &constant = kernel->constants[i];
        const uint32_t word =
            constant.bank < 0 ? constant.value : bank_word((unsigned)constant.bank, constant.value);
        std::fill(rows[constant.row], rows[constant.row] + LANES, word);
    }
}

static void run_warp(uint32_t number, struct count *count)
{
    uint32_t steps = 0;
    warp_number = number;
    lane_block = number / (CSHIM_KERNEL_THREADS / LANES);
    warp_of_block = number % (CSHIM_KERNEL_THREADS / LANES);
    ended = waiting = 0;
    epoch++;
    memset(barriers, 0, sizeof barriers);
    ready.assign(1, {~0u, 0});
    while (!ready.empty())
        run_group(next_group(), count, &steps);
    if (ended != ~0u)
        fail("lanes %#x wait for others that never come", waiting);
}

/* The machine ---------------------------------------------------------------------------------- */
static void write_counts()
{
    FILE *file = fopen(getenv("MACHINE_COUNTS"), "w");
    for (uint32_t k = 0; k < program.kernel_count; k++) {
        for (uint32_t i = 0; i < program.kernels[k].length; i++)
            fprintf(file, "%s %u %llu %llu %s\n", program.kernels[k].name, i,
                    (unsigned long long)counts[k][i].issued,
                    (unsigned long long)counts[k][i].executed, program.kernels[k].code[i].text);
    }
    fclose(file);
}

/* Returns instruction N of a kernel for the name KERNEL:N. */
static struct instruction *instruction_at(const char *name)
{
    for (uint32_t k = 0; k < program.kernel_count; k++) {
        const size_t length = strlen(program.kernels[k].name);
        if (strncmp(program.kernels[k].name, name, length) == 0 && name[length] == ':')
            return (struct instruction *)&program.kernels[k].code[atoi(name + length + 1)];
    }
    fail("has no instruction %s", name);
    return NULL;
}

static void delete_instruction(const char *name)
{
    struct instruction *const code = instruction_at(name);
    code->run = nothing;
    code->kind = PLAIN;
}

static void (*watched)(uint32_t active, const uint16_t *operands);
static bool has_changed;

static void run_watched(uint32_t active, const uint16_t *operands)
{
    const uint32_t *const first = rows[0], *const last = rows[kernel->rows];
    const std::vector<uint32_t> registers(first, last), predicates(masks, masks + kernel->masks);
    watched(active, operands);
    has_changed = has_changed || !std::equal(first, last, registers.begin()) ||
                  !std::equal(masks, masks + kernel->masks, predicates.begin());
}

static void say_unchanged()
{
    if (!has_changed)
        printf("the watched instruction never changed a register\n");
}

static void watch_instruction(const char *name)
{
    struct instruction *const code = instruction_at(name);
    watched = code->run;
    code->run = run_watched;
    atexit(say_unchanged);
}

void machine_open(void)
{
    for (const struct layout &one : layouts)
        layout = strcmp(one.program, program.name) == 0 ? &one : layout;
    if (layout == NULL)
        fail("is an architecture whose constant bank this machine does not know");
    is_ptx = program.name[0] == 'p';
    uint32_t most_rows = 0, most_masks = 0;
    for (uint32_t k = 0; k < program.kernel_count; k++) {
        most_rows = most(most_rows, program.kernels[k].rows);
        most_masks = most(most_masks, program.kernels[k].masks);
        counts.push_back(std::vector<struct count>(program.kernels[k].length));
    }
    rows = (row *)calloc(most_rows, sizeof *rows);
    masks = (uint32_t *)calloc(most_masks, sizeof *masks);
    masks[TRUE_MASK] = ~0u;
    first_seed = getenv("MACHINE_SEED") ? (uint32_t)atoi(getenv("MACHINE_SEED")) : 1;
    chance.seed(first_seed);
    if (getenv("MACHINE_DELETE"))
        delete_instruction(getenv("MACHINE_DELETE"));
    if (getenv("MACHINE_WATCH"))
        watch_instruction(getenv("MACHINE_WATCH"));
    if (getenv("MACHINE_COUNTS"))
        atexit(write_counts);
}

const char *machine_name(void)
{
    return program.name;
}

/* Returns memory that contains, or ends at, an address that is a multiple of 2^32, where sums of
 * 32-bit parts of addresses carry; NULL if the addresses are taken. In half of the calls, chosen at
 * random, an array without shift (arrays.c) begins at that address. */
static uint8_t *across_a_carry(size_t bytes, size_t *mapping)
{
    const uintptr_t multiple = (uintptr_t)(0x100 + draw_below(0x4000)) << 32;
    const uintptr_t before =
        draw_below(2) ? 256 : 16 * (uintptr_t)draw_below((unsigned)(bytes / 16) + 1);
    const uintptr_t from = (multiple - before) / PAGE_BYTES * PAGE_BYTES;
    const size_t size = multiple - before - from + bytes;
    if (mmap((void *)from, size, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
        return NULL;
    *mapping = size;
    return (uint8_t *)(multiple - before);
}

bool machine_is_simulated(void)
{
    return true;
}

static struct visit *make_visits(size_t bytes)
{
    const size_t size = bytes * sizeof(struct visit);
    return (struct visit *)(bytes < SPARSE_FROM ? calloc(1, size) : sparse_allocate(size));
}

static void free_visits(struct visit *visits, size_t bytes)
{
    if (bytes < SPARSE_FROM)
        free(visits);
    else
        munmap(visits, bytes * sizeof *visits);
}

void *machine_allocate(size_t bytes)
{
    struct block *const block = new struct block();
    if (bytes >= SPARSE_FROM)
        block->begin = (uint8_t *)sparse_allocate(block->mapping = bytes);
    else if (draw_below(2) == 0)
        block->begin = across_a_carry(bytes, &block->mapping);
    if (block->begin == NULL)
        block->begin = (uint8_t *)aligned_alloc(256, (bytes + 255) / 256 * 256);
    block->end = block->begin + bytes;
    block->from = block->begin;
    block->to = block->end;
    block->written = make_visits(bytes);
    block->read = make_visits(bytes);
    all_blocks.push_back(block);
    return block->begin;
}

void machine_bounds(void *memory, void *from, size_t bytes)
{
    struct block *const block = block_of((uint8_t *)memory);
    block->from = (uint8_t *)from;
    block->to = block->from + bytes;
}

void machine_free(void *memory)
{
    struct block *const block = block_of((uint8_t *)memory);
    const size_t bytes = (size_t)(block->end - block->begin);
    all_blocks.erase(std::find(all_blocks.begin(), all_blocks.end(), block));
    if (block->mapping > 0)
        munmap((void *)((uintptr_t)block->begin / PAGE_BYTES * PAGE_BYTES), block->mapping);
    else
        free(block->begin);
    free_visits(block->written, bytes);
    free_visits(block->read, bytes);
    delete block;
}

void machine_write(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void machine_read(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void machine_launch(enum cshim_kernel_operation operation, enum cshim_codec_id codec,
                    uint64_t count, void *parameters)
{
    const char *const name = cshim_kernel_name(operation, codec);
    uint32_t number = 0;
    while (strcmp(program.kernels[number].name, name) != 0)
        number++;
    kernel = &program.kernels[number];
    if (kernel->parameter_bytes != kernel_parameter_bytes(operation))
        fail("takes %u bytes of parameters", kernel->parameter_bytes);
    cshim_kernel_set_codec(parameters, codec);
    /* A launch's random choices do not depend on those of earlier launches, so that counts
     * (MACHINE_COUNTS) can be compared. */
    chance.seed(0x9e3779b9u * first_seed + ++launch_number);
    const uint32_t few = 1 + draw_below(3), top = STACK_TOP;
    const bool is_large = count >> 32 != 0;
    const uint32_t grid = is_large ? (uint32_t)LARGE_BLOCKS : few,
                   blocks = is_large ? (uint32_t)LARGE_RUN : few;
    const uint64_t base = (uint64_t)bank0, at = base + kernel->parameters_at;
    descriptor = (uint64_t)chance() << 32 | chance();
    memset(is_set, 0, sizeof is_set);
    set_bank(kernel->parameters_at, parameters, kernel->parameter_bytes);
    set_bank(layout->grid, &grid, sizeof grid);
    set_bank(layout->window, &WINDOW, sizeof WINDOW);
    set_bank(layout->stack, &top, sizeof top);
    set_bank(layout->descriptor, &descriptor, sizeof descriptor);
    if (layout->base != 0)
        set_bank(layout->base, &base, sizeof base);
    else
        set_bank(layout->parameters, &at, sizeof at);
    map_frames();
    poison();
    std::vector<uint32_t> order(blocks * (CSHIM_KERNEL_THREADS / LANES));
    for (uint32_t i = 0; i < order.size(); i++)
        order[i] = i;
    std::shuffle(order.begin(), order.end(), chance);
    for (uint32_t warp : order) {
        if (draw_below(8) == 0)
            poison();
        run_warp(warp, counts[number].data());
    }
    kernel = NULL;
}
