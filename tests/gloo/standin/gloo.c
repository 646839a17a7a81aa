/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for libgloo: its all-reduce counts its calls and remembers the last one's options.
 * What an engine that is deceived would call ends the program. */
#include <stdio.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED unsigned standin_calls;
EXPORTED const void *standin_options;

EXPORTED void
standin_allreduce(const void *options) __asm__("_ZN4gloo9allreduceERKNS_16AllreduceOptionsE");
EXPORTED void standin_create_buffer(void) __asm__("_ZN4gloo7Context19createUnboundBufferEPvm");

void standin_allreduce(const void *options)
{
    standin_calls++;
    standin_options = options;
}

void standin_create_buffer(void)
{
    fprintf(stderr, "a buffer is made\n");
    abort();
}
