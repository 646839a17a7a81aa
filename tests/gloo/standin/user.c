/* SPDX-License-Identifier: Apache-2.0 */
/* A library linked to the stand-in, like PyTorch's CUDA library, which has its own gloo. */
#define EXPORTED __attribute__((visibility("default")))

extern void
gloo_allreduce(const void *options) __asm__("_ZN4gloo9allreduceERKNS_16AllreduceOptionsE");

EXPORTED unsigned calls_of_second;
EXPORTED void call_second_gloo(void);

void call_second_gloo(void)
{
    gloo_allreduce(0);
    calls_of_second++; /* not a tail call, so that gloo returns to this library */
}
