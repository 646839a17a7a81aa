/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/warp.h"

struct dim threadIdx, blockIdx, gridDim;
uint32_t warp_values[WARP_LANES];
const char *warp_places[WARP_LANES];
unsigned warp_lane;

static ucontext_t scheduler, lanes[WARP_LANES];
static bool done[WARP_LANES];
static void (*running)(const void *);
static const void *argument;

/* Waits at a barrier, named by `place`: runs the other lanes until they have reached it, too. */
void warp_meet(const char *place)
{
    warp_places[warp_lane] = place;
    swapcontext(&lanes[warp_lane], &scheduler);
}

static void run_lane()
{
    running(argument);
    done[warp_lane] = true;
    warp_places[warp_lane] = "the end";
    swapcontext(&lanes[warp_lane], &scheduler);
}

/* A function of its own, because the compiler must assume that getcontext returns twice. */
static void make_lane(ucontext_t *lane, char *stack)
{
    getcontext(lane);
    lane->uc_stack.ss_sp = stack;
    lane->uc_stack.ss_size = WARP_STACK;
    lane->uc_link = NULL;
    makecontext(lane, run_lane, 0);
}

static void run_warp(unsigned first_thread)
{
    static char stacks[WARP_LANES][WARP_STACK];
    for (unsigned lane = 0; lane < WARP_LANES; lane++) {
        done[lane] = false;
        make_lane(&lanes[lane], stacks[lane]);
    }
    while (!done[0]) {
        for (warp_lane = 0; warp_lane < WARP_LANES; warp_lane++) {
            threadIdx.x = first_thread + warp_lane;
            swapcontext(&scheduler, &lanes[warp_lane]);
        }
        for (unsigned lane = 1; lane < WARP_LANES; lane++) {
            if (strcmp(warp_places[lane], warp_places[0]) != 0) {
                fprintf(stderr, "lane %u is at %s, lane 0 at %s\n", lane, warp_places[lane],
                        warp_places[0]);
                abort();
            }
        }
    }
}

void warp_launch(void (*kernel)(const void *), const void *parameters, unsigned blocks,
                 unsigned run)
{
    running = kernel;
    argument = parameters;
    gridDim.x = blocks;
    for (blockIdx.x = 0; blockIdx.x < run; blockIdx.x++)
        for (unsigned first = 0; first < 256; first += WARP_LANES)
            run_warp(first);
}
