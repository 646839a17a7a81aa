/* SPDX-License-Identifier: Apache-2.0 */
/* A stand-in for libgloo. Its all-reduce counts calls and stores the last call's options. Its other
 * functions have gloo's names and abort the program, because only an engine that mistook the layout
 * calls them. */
#include <stdio.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED unsigned standin_calls;
EXPORTED const void *standin_options;

EXPORTED void
standin_allreduce(const void *options) __asm__("_ZN4gloo9allreduceERKNS_16AllreduceOptionsE");

void standin_allreduce(const void *options)
{
    standin_calls++;
    standin_options = options;
}

#define NEVER(function, name)                                                                      \
    EXPORTED void function(void) __asm__(name);                                                    \
    void function(void)                                                                            \
    {                                                                                              \
        fprintf(stderr, "called: %s\n", name);                                                     \
        abort();                                                                                   \
    }
#define BUFFER "_ZN4gloo9transport7standin13UnboundBuffer"
NEVER(make_buffer, "_ZN4gloo7Context19createUnboundBufferEPvm")
NEVER(destroy, BUFFER "D1Ev")
NEVER(destroy_and_free, BUFFER "D0Ev")
NEVER(wait_receive, BUFFER "8waitRecvEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE")
NEVER(wait_send, BUFFER "8waitSendEPiNSt6chrono8durationIlSt5ratioILl1ELl1000EEEE")
NEVER(abort_wait_receive, BUFFER "13abortWaitRecvEv")
NEVER(abort_wait_send, BUFFER "13abortWaitSendEv")
NEVER(send_bytes, BUFFER "4sendEimmm")
NEVER(receive, BUFFER "4recvEimmm")
NEVER(receive_from_any, BUFFER "4recvESt6vectorIiSaIiEEmmm")

/* The virtual functions of a buffer, in gloo's order. */
EXPORTED void (*const standin_buffer_functions[])(void) = {
    destroy,         destroy_and_free, wait_receive, wait_send,       abort_wait_receive,
    abort_wait_send, send_bytes,       receive,      receive_from_any};
