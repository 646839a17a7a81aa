/* SPDX-License-Identifier: Apache-2.0 */
/* A program without MPI that opens a library that uses MPI, as interpreters do, and calls its
 * function run_sums: host LIBRARY local|deep */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: host LIBRARY local|deep\n", stderr);
        return 2;
    }
    int deep = strcmp(argv[2], "deep") == 0 ? RTLD_DEEPBIND : 0;
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | deep);
    int (*run)(int, char **) = NULL;
    if (library != NULL)
        *(void **)&run = dlsym(library, "run_sums");
    if (run == NULL) {
        fprintf(stderr, "host: %s\n", dlerror());
        return 1;
    }
    return run(1, argv);
}
