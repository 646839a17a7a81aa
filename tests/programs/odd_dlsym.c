/* SPDX-License-Identifier: Apache-2.0 */
/* Unusual uses of dlsym, which a wrapper of dlsym easily breaks. Prints the result of each. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void lookup(const char *what, void *handle, const char *name)
{
    dlerror();
    void *address = dlsym(handle, name);
    const char *error = dlerror();
    Dl_info info = {0};
    if (address != NULL)
        dladdr(address, &info);
    const char *slash = info.dli_fname != NULL ? strrchr(info.dli_fname, '/') : NULL;
    printf("%s: %s, %s\n", what,
           slash != NULL     ? slash + 1
           : address != NULL ? "here"
                             : "nothing",
           error != NULL ? error : "no error");
}

/* A wrapper, as many programs have them: RTLD_NEXT must find the function after this program's. */
char *getenv(const char *name)
{
    char *(*real)(const char *) = (char *(*)(const char *))dlsym(RTLD_NEXT, "getenv");
    return real != NULL ? real(name) : NULL;
}

int main(void)
{
    void *math = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL), *own = dlopen(NULL, RTLD_NOW);
    lookup("a function", math, "cos");
    lookup("none of that name", math, "MPI_Allreduce");
    lookup("a long name", math, "MPI_Allreduce_that_nobody_has");
    lookup("an empty name", own, "");
    lookup("by default", RTLD_DEFAULT, "printf");
    lookup("the next", RTLD_NEXT, "getenv");
    lookup("the own", own, "getenv");
    lookup("none by default", RTLD_DEFAULT, "no_such_function");
    printf("path: %d\n", getenv("PATH") != NULL);
    return 0;
}
