/* SPDX-License-Identifier: Apache-2.0 */
/* Which function is the real one: a ladder of lookups, from the usual case to the odd ones. */
#include <dlfcn.h>
#include <limits.h>
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
    const char *const *files; /* how the names of libraries begin, up to NULL */
    unsigned skip;            /* so many of them */
    char path[PATH_MAX];
};

static int is_one_of(const char *file, const char *const *beginnings)
{
    for (; *beginnings != NULL; beginnings++) {
        if (strncmp(file, *beginnings, strlen(*beginnings)) == 0)
            return 1;
    }
    return 0;
}

/* Only notes the path: the loader holds a lock meanwhile that dlopen in another thread waits for
 * with a second one in hand, which dlopen here would want. */
static int visit_object(struct dl_phdr_info *object, size_t size, void *data)
{
    struct search *search = data;
    const char *slash = object->dlpi_name ? strrchr(object->dlpi_name, '/') : NULL;
    const char *file = slash ? slash + 1 : object->dlpi_name;
    (void)size;
    if (file == NULL || !is_one_of(file, search->files) || search->skip-- > 0)
        return 0;
    snprintf(search->path, sizeof search->path, "%s", object->dlpi_name);
    return 1;
}

/* The loaded libraries whose file names begin so, one after the other. */
static void *from_libraries(const char *name, const char *const *files)
{
    void *address = NULL;
    for (unsigned before = 0; address == NULL; before++) {
        struct search search = {.files = files, .skip = before};
        if (dl_iterate_phdr(visit_object, &search) == 0)
            break;
        void *handle = dlopen(search.path, RTLD_NOLOAD | RTLD_LAZY);
        if (handle == NULL)
            continue;
        address = foreign(dlsym(handle, name));
        dlclose(handle);
    }
    return address;
}

void *cshim_resolve(const char *name, const void *caller, int bottom)
{
    /* libmpi.so.*, libmpich.so.12, libmpi_cray.so.12, libmpi_abi.so.0; their Fortran layers lead
     * to them. */
    static const char *const files[] = {"libmpi", NULL};
    char profiling[64];
    void *address = bottom ? NULL : foreign(dlsym(RTLD_NEXT, name));
    if (address != NULL)
        return address;
    snprintf(profiling, sizeof profiling, "P%s", name);
    address = foreign(dlsym(RTLD_NEXT, profiling));
    if (address == NULL)
        address = from_caller(profiling, caller);
    if (address == NULL)
        address = from_libraries(profiling, files);
    return address;
}

void *cshim_resolve_nccl(const char *name, const void *caller)
{
    static const char *const files[] = {"libnccl.so", "libtorch_cuda", NULL};
    char profiling[64];
    snprintf(profiling, sizeof profiling, "p%s", name);
    const char *const names[] = {profiling, name}; /* before 2.16 there is no pncclX */
    void *address = NULL;
    for (int i = 0; i < 2 && address == NULL; i++) {
        address = from_caller(names[i], caller);
        if (address == NULL)
            address = foreign(dlsym(RTLD_NEXT, names[i]));
        if (address == NULL)
            address = from_libraries(names[i], files);
    }
    return address;
}

static const void *base_of(const void *address)
{
    Dl_info info;
    return address != NULL && dladdr(address, &info) ? info.dli_fbase : NULL;
}

int cshim_same_object(const void *one, const void *other)
{
    return base_of(one) != NULL && base_of(one) == base_of(other);
}

void *cshim_front_wrapper(const char *name, const void *real)
{
    Dl_info info;
    const void *chosen;
    void *wrapper = NULL;
    if (!dladdr((const void *)cshim_front_wrapper, &info))
        return NULL;
    void *own = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
    if (own != NULL) {
        wrapper = dlsym(own, name);
        dlclose(own);
    }
    if (base_of(wrapper) != own_base())
        return NULL;
    if (strncmp(name, "nccl", 4) == 0)
        chosen = cshim_resolve_nccl(name, NULL);
    else
        chosen = cshim_resolve(name[0] == 'P' ? name + 1 : name, NULL, 1);
    return cshim_same_object(chosen, real) ? wrapper : NULL;
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
