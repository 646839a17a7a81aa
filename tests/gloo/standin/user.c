/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is linked to the stand-in, as PyTorch's for CUDA is to a gloo of its own. */
#define EXPORTED __attribute__((visibility("default")))

extern void
gloo_allreduce(const void *options) __asm__("_ZN4gloo9allreduceERKNS_16AllreduceOptionsE");

EXPORTED unsigned calls_of_second;
EXPORTED void call_second_gloo(void);

void call_second_gloo(void)
{
    gloo_allreduce(0);
    calls_of_second++; /* after the call, which thereby returns to this library */
}
