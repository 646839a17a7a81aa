/* SPDX-License-Identifier: Apache-2.0 */
/* Which function is the real one: a ladder of lookups, from the usual case to the odd ones. */
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "shim/front/front.h"

static const void *own_base(void)
{
    Dl_info info;
    return dladdr((const void *)cshim_resolve, &info) ? info.dli_fbase : NULL;
}

/* A pointer is of use only if it is not our own wrapper. */
static void *foreign(void *address)
{
    Dl_info info;
    if (address == NULL || !dladdr(address, &info) || info.dli_fbase == own_base())
        return NULL;
    return address;
}

/* The object a call came from, with all it needs: finds a library opened with RTLD_LOCAL. */
static void *from_caller(const char *name, const void *caller)
{
    Dl_info info;
    if (caller == NULL || !dladdr(caller, &info) || info.dli_fname == NULL)
        return NULL;
    void *handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == NULL) /* the main program goes by no file name */
        handle = dlopen(NULL, RTLD_LAZY);
    if (handle == NULL)
        return NULL;
    void *address = foreign(dlsym(handle, name));
    dlclose(handle);
    return address;
}

struct search {
    const char *name;
    void *address;
};

static int visit_object(struct dl_phdr_info *object, size_t size, void *data)
{
    struct search *search = data;
    const char *slash = object->dlpi_name ? strrchr(object->dlpi_name, '/') : NULL;
    const char *file = slash ? slash + 1 : object->dlpi_name;
    (void)size;
    if (file == NULL ||
        (strncmp(file, "libmpi.so", 9) != 0 && strncmp(file, "libmpi_abi.so", 13) != 0))
        return 0;
    void *handle = dlopen(object->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
    if (handle == NULL)
        return 0;
    search->address = foreign(dlsym(handle, search->name));
    dlclose(handle);
    return search->address != NULL;
}

void *cshim_resolve(const char *name, const void *caller, int bottom)
{
    char profiling[64];
    void *address = bottom ? NULL : foreign(dlsym(RTLD_NEXT, name));
    if (address != NULL)
        return address;
    snprintf(profiling, sizeof profiling, "P%s", name);
    address = foreign(dlsym(RTLD_NEXT, profiling));
    if (address == NULL)
        address = from_caller(profiling, caller);
    if (address == NULL) {
        struct search search = {.name = profiling};
        dl_iterate_phdr(visit_object, &search);
        address = search.address;
    }
    return address;
}

int cshim_own_directory(char *buffer, unsigned long size)
{
    Dl_info info;
    if (!dladdr((const void *)cshim_own_directory, &info) || info.dli_fname == NULL)
        return 0;
    const char *slash = strrchr(info.dli_fname, '/');
    const int length = slash ? (int)(slash - info.dli_fname) + 1 : 0;
    return snprintf(buffer, size, "%.*s", length, info.dli_fname) < (int)size;
}
