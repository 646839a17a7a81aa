/* SPDX-License-Identifier: Apache-2.0 */
/* A library as Implib.so makes them, and JAX's plugin has one inside: its own hidden ncclAllReduce
 * jumps through a table to NCCL's, which it opens at run time. The name of NCCL's file is nowhere
 * in it. */
#include <dlfcn.h>
#include <stdio.h>

__attribute__((visibility("hidden"))) int (*_nccl_tramp_table[1])(void);

__attribute__((visibility("hidden"))) int ncclAllReduce(void)
{
    if (_nccl_tramp_table[0] == NULL) {
        char name[32];
        snprintf(name, sizeof name, "lib%s.so.%d", "nccl", 2);
        void *library = dlopen(name, RTLD_LAZY);
        *(void **)&_nccl_tramp_table[0] = library != NULL ? dlsym(library, "ncclAllReduce") : NULL;
    }
    return _nccl_tramp_table[0] != NULL ? _nccl_tramp_table[0]() : -1;
}

int calls(void);
int calls(void)
{
    return ncclAllReduce();
}
