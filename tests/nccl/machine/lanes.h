/* SPDX-License-Identifier: Apache-2.0 */
/* Included by the translated kernels (program.py): a warp's registers as rows of 32 lanes, its
 * predicates as masks, and the arithmetic of the instructions.
 *
 * Taken from NVIDIA's manuals and not checked on a GPU: the results of conversions to and from
 * binary16 and fp8 (cvt; F2FP, F2F, HADD2.F32); the error of MUFU.RCP of up to one unit in the last
 * place; and the NaNs that arithmetic makes, 0x7fffffff in float32 and a quiet one in float64. */
#ifndef TESTS_NCCL_MACHINE_LANES_H
#define TESTS_NCCL_MACHINE_LANES_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 32, OPERANDS_MAX = 10 };
typedef uint32_t row[LANES];
extern row *rows;
extern uint32_t *masks;
extern uint32_t lane_block, warp_of_block; /* indices of the running block and warp */

enum control {
    PLAIN,
    UNIFORM_MEET, /* barrier that all lanes of the warp must reach together; in PTX they may wait
                     for each other */
    MEET,         /* barrier at which lanes wait for each other; orders their accesses to memory */
    BRANCH,
    JUMP,   /* jump to the address in a register, plus the target */
    GATHER, /* BSSY: sets the lanes that will join at a convergence barrier */
    JOIN,   /* BSYNC */
    LEAVE,  /* BREAK */
    FORGET, /* BMOV.CLEAR */
    IF_DIVERGED,
    IF_CONVERGED,
    END,
    YIELDS,
    NEVER /* code for warps that have diverged, which must not be reached */
};

struct instruction {
    void (*run)(uint32_t active, const uint16_t *operands);
    enum control kind;
    bool is_uniform; /* runs for all lanes, if its guard is true in at least one of the group */
    bool is_negated;
    uint16_t guard;
    uint16_t operands[OPERANDS_MAX];
    uint32_t target; /* of a branch: index of an instruction; of a JUMP: bytes to add */
    const char *text;
};

struct constant {
    uint32_t row;
    int bank; /* constant bank; -1: `value` is an immediate */
    uint32_t value;
};

/* A range of each lane's local memory that may be used. */
struct frame {
    uint32_t begin, end;
};

struct kernel {
    const char *name;
    const struct instruction *code;
    uint32_t length;
    const struct constant *constants;
    uint32_t constant_count;
    const struct frame *frames;
    uint32_t frame_count;
    const uint8_t *bank2;
    uint32_t bank2_bytes;
    uint32_t rows, masks;
    uint32_t parameters_at, parameter_bytes;
};

struct program {
    const char *name;
    const struct kernel *kernels;
    uint32_t kernel_count;
};

enum space { GLOBAL, LOCAL, GENERIC };
enum access { READ, WRITE, STRONG_READ, STRONG_WRITE };

/* Returns the host's address of a lane's access; ends the program if the access is not allowed. */
uint8_t *access_memory(enum space space, enum access access, uint64_t address, unsigned bytes,
                       unsigned lane);
/* Ends the program unless this is the descriptor for a kernel's memory accesses. */
void check_descriptor(uint64_t descriptor);
/* Returns a word of a constant bank. */
uint32_t bank_word(unsigned bank, uint32_t offset);
unsigned draw_lane(void);
[[noreturn]] void fail(const char *format, ...);

#define EACH_LANE(...)                                                                             \
    if (active == ~0u) {                                                                           \
        _Pragma("GCC ivdep") for (unsigned l = 0; l < LANES; l++)                                  \
        {                                                                                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    } else {                                                                                       \
        for (uint32_t rest = active; rest != 0; rest &= rest - 1) {                                \
            const unsigned l = (unsigned)__builtin_ctz(rest);                                      \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }

/* Runs the statement for each active lane in turn, from a random lane on, for atomics. */
#define EACH_LANE_DRAWN(...)                                                                       \
    for (unsigned drawn = draw_lane(), k = 0; k < LANES; k++) {                                    \
        const unsigned l = (drawn + k) % LANES;                                                    \
        if (!(active >> l & 1))                                                                    \
            continue;                                                                              \
        __VA_ARGS__                                                                                \
    }

static inline void nothing(uint32_t, const uint16_t *)
{
}

static inline uint64_t join(const uint32_t *low, unsigned lane)
{
    return (uint64_t)low[LANES + lane] << 32 | low[lane];
}
static inline void split(uint32_t *low, unsigned lane, uint64_t value)
{
    low[lane] = (uint32_t)value;
    low[LANES + lane] = (uint32_t)(value >> 32);
}
static inline float F32(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline double F64(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static inline uint32_t bits32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
/* Returns the bits of a result of arithmetic; NaNs are canonical. */
static inline uint32_t R32(float value)
{
    return value != value ? 0x7fffffffu : bits32(value);
}
static inline uint64_t R64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value != value ? 0x7ff8000000000000ull : bits;
}
static inline uint32_t flush(uint32_t bits)
{
    return (bits & 0x7f800000u) == 0 ? bits & 0x80000000u : bits;
}
static inline uint32_t left32(uint32_t value, uint32_t shift)
{
    return shift > 31 ? 0 : value << shift;
}
static inline uint32_t right32(uint32_t value, uint32_t shift)
{
    return shift > 31 ? 0 : value >> shift;
}
static inline uint32_t signed_right32(int32_t value, uint32_t shift)
{
    return (uint32_t)(value >> (shift > 31 ? 31 : shift));
}
static inline uint64_t left64(uint64_t value, uint32_t shift)
{
    return shift > 63 ? 0 : value << shift;
}
static inline uint64_t right64(uint64_t value, uint32_t shift)
{
    return shift > 63 ? 0 : value >> shift;
}
template <unsigned TABLE> static inline uint32_t lop3(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t result = 0;
    for (unsigned i = 0; i < 8; i++)
        result |= TABLE >> i & 1 ? (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c) : 0;
    return result;
}
static inline uint32_t sign_extend(uint32_t value, uint32_t bits)
{
    return bits > 31 ? value : (uint32_t)((int32_t)(value << (32 - bits)) >> (32 - bits));
}
static inline uint64_t insert(uint64_t field, uint64_t into, unsigned at, unsigned bits)
{
    const uint64_t mask = (bits > 63 ? ~0ull : (1ull << bits) - 1) << at;
    return (into & ~mask) | (field << at & mask);
}
static inline uint32_t reverse(uint32_t value)
{
    uint32_t result = 0;
    for (unsigned i = 0; i < 32; i++)
        result |= (value >> i & 1) << (31 - i);
    return result;
}
/* Returns the index of the highest bit set or, if is_shift, its distance from bit 31; ~0 if none is
 * set. */
static inline uint32_t leading(uint32_t value, bool is_shift)
{
    if (value == 0)
        return ~0u;
    const uint32_t zeros = (uint32_t)__builtin_clz(value);
    return is_shift ? zeros : 31 - zeros;
}
template <typename T> static inline T least(T a, T b)
{
    return a < b ? a : b;
}
template <typename T> static inline T most(T a, T b)
{
    return a > b ? a : b;
}

uint32_t permute(uint32_t a, uint32_t b, uint32_t selector);
float fma_towards(float a, float b, float c, int direction);
float float_above(uint64_t value);
uint32_t reciprocal(uint32_t bits);
/* Returns true if a quotient needs the general routine. The manual gives no bounds: these are
 * narrow enough for the short routine. */
static inline bool is_hard_division(float a, float b)
{
    return !(a * a > 0x1p-120f && a * a < 0x1p120f && b * b > 0x1p-120f && b * b < 0x1p120f);
}
/* Returns the larger one; if one is a NaN, the canonical NaN. */
static inline uint32_t most_float(float a, float b)
{
    return a != a || b != b ? 0x7fffffffu : bits32(a > b ? a : b);
}
int32_t to_int32(float value);
uint32_t to_uint32(uint32_t bits);
uint64_t to_uint64(float value);
template <typename T> static inline T divide(T a, T b)
{
    return b == 0 ? fail("divides by zero"), a : a / b;
}
template <typename T> static inline T remainder_of(T a, T b)
{
    return b == 0 ? fail("divides by zero"), a : a % b;
}

/* Convert to and from binary16 and fp8 by the formats' definitions, independently of codecs/. */
uint32_t half_of(float value);
uint32_t float_of_half(uint32_t code);
uint32_t e4m3_of(float value);
uint32_t e5m2_of(float value);
uint32_t half_of_e4m3(uint32_t code);
static inline uint32_t pair(uint32_t upper, uint32_t lower, unsigned bits)
{
    return upper << bits | lower;
}

template <typename T, int WORDS>
static inline void load(enum space space, enum access access, uint64_t address, uint32_t *to,
                        unsigned lane)
{
    T values[WORDS];
    memcpy(values, access_memory(space, access, address, sizeof values, lane), sizeof values);
    for (int i = 0; i < WORDS; i++)
        to[LANES * i + lane] = (uint32_t)values[i];
}
template <typename T, int WORDS>
static inline void store(enum space space, enum access access, uint64_t address,
                         const uint32_t *from, unsigned lane)
{
    T values[WORDS];
    for (int i = 0; i < WORDS; i++)
        values[i] = (T)from[LANES * i + lane];
    memcpy(access_memory(space, access, address, sizeof values, lane), values, sizeof values);
}
static inline uint32_t atomic_max(uint64_t address, uint32_t value, unsigned lane)
{
    uint32_t *at = (uint32_t *)(void *)access_memory(GLOBAL, STRONG_WRITE, address, 4, lane);
    const uint32_t before = *at;
    *at = most(before, value);
    return before;
}
static inline uint32_t atomic_swap(uint64_t address, uint32_t expected, uint32_t value,
                                   unsigned lane)
{
    uint32_t *at = (uint32_t *)(void *)access_memory(GLOBAL, STRONG_WRITE, address, 4, lane);
    const uint32_t before = *at;
    *at = before == expected ? value : before;
    return before;
}

/* Exchanges values among the lanes; returns the mask of lanes whose source lane exists. */
uint32_t shuffle(bool is_butterfly, uint32_t active, uint32_t *to, const uint32_t *from,
                 const uint32_t *which, const uint32_t *limits);
/* Sets the value in all lanes of the warp. */
static inline void give_all(uint32_t *to, uint32_t value)
{
    for (unsigned l = 0; l < LANES; l++)
        to[l] = value;
}
/* Returns the value, which must be equal in all active lanes. */
uint32_t common_value(uint32_t active, const uint32_t *from);
/* Ends the program unless the mask of each active lane names all lanes of the warp. */
static inline void all_named(uint32_t active, const uint32_t *named)
{
    if (common_value(active, named) != ~0u)
        fail("names part of the warp");
}
static inline uint32_t largest_of(uint32_t active, const uint32_t *from)
{
    uint32_t largest = 0;
    for (unsigned l = 0; l < LANES; l++)
        largest = active >> l & 1 ? most(largest, from[l]) : largest;
    return largest;
}

#endif
