/* SPDX-License-Identifier: Apache-2.0 */
/* A library like those of Implib.so, such as the one in JAX's plugin: its hidden ncclAllReduce
 * jumps through a table to that of NCCL, which it opens at run time. It does not contain the name
 * of NCCL's file. */
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
