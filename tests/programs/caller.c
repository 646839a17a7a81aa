/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a stand-in's function and prints which library's was called: "preload" if it returned 1,
 * else "library". With OPENED, opens that library at run time with FLAGS and looks the function up
 * by dlsym. With ANSWER, the program itself has the function, which returns this value. */
#include <dlfcn.h>
#include <stdio.h>

#ifndef FUNCTION
#define FUNCTION MPI_Allreduce
#endif

#ifdef OPENED
#define TEXT_OF(word) #word
#define TEXT(macro) TEXT_OF(macro)

static int call(void)
{
    void *library = dlopen(OPENED, RTLD_NOW | FLAGS);
    int (*function)(void) = NULL;
    if (library != NULL)
        *(void **)&function = dlsym(library, TEXT(FUNCTION));
    return function != NULL ? function() : -1;
}
#else
int FUNCTION(void);

static int call(void)
{
    return FUNCTION();
}
#endif

#ifdef ANSWER
int FUNCTION(void)
{
    return ANSWER;
}
#endif

int main(void)
{
    int answer = call();
    if (answer < 0)
        fprintf(stderr, "%s\n", dlerror());
    puts(answer == 1 ? "preload" : "library");
    return answer < 0;
}
