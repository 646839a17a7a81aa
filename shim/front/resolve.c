/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the real definition of a wrapped function.
 *
 * For MPI, the first definition in this order that is not our own:
 *
 *   1. MPI_X, unless the MPI library's own is wanted, then PMPI_X, after this library in the global
 *      scope (RTLD_NEXT): MPI or a tool.
 *   2. PMPI_X in the calling object and its dependencies: MPI of a library that was opened with
 *      RTLD_LOCAL, as Python's modules are.
 *   3. PMPI_X in a loaded libmpi*: for callers that fetched the function by dlsym().
 *
 * For NCCL and gloo the calling object comes first, because a process may contain several of them.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "shim/front/resolve.h"

struct place {
    uintptr_t address; /* address to search for */
    uintptr_t base;    /* load address of the object that contains it */
};

/* Sets place->base if the object contains the address. Returns 1 if so. */
static int visit_place(struct dl_phdr_info *object, size_t size, void *data)
{
    struct place *place = data;
    uintptr_t base = UINTPTR_MAX;
    bool contains = false;
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const Elf64_Phdr *segment = &object->dlpi_phdr[i];
        const uintptr_t begin = object->dlpi_addr + segment->p_vaddr;
        if (segment->p_type != PT_LOAD)
            continue;
        base = begin < base ? begin : base;
        contains |= place->address - begin < segment->p_memsz;
    }
    if (contains)
        place->base = base;
    return contains;
}

/* Unlike dladdr(), does not search the object's symbols: MPI_Init compares hundreds of addresses.
 */
const void *cshim_object_base(const void *address)
{
    struct place place = {.address = (uintptr_t)address};
    (void)dl_iterate_phdr(visit_place, &place);
    return (const void *)place.base;
}

bool cshim_same_object(const void *one, const void *other)
{
    const void *base = cshim_object_base(one);
    return base != NULL && base == cshim_object_base(other);
}

bool cshim_same_caller(const void *one, const void *other)
{
    static __thread struct {
        const void *one, *other;
        bool same;
    } last __attribute__((tls_model("initial-exec")));
    if (last.one != one || last.other != other) {
        last.same = cshim_same_object(one, other);
        last.one = one;
        last.other = other;
    }
    return last.same;
}

bool cshim_begins_with_one_of(const char *text, const char *const *beginnings)
{
    for (; *beginnings != NULL; beginnings++)
        if (strncmp(text, *beginnings, strlen(*beginnings)) == 0)
            return true;
    return false;
}

static bool is_own(const void *address)
{
    return cshim_same_object(address, (const void *)cshim_resolve);
}

/* Returns `address`, or NULL if it lies in this library or in no loaded object. */
static void *foreign(void *address)
{
    return cshim_object_base(address) == NULL || is_own(address) ? NULL : address;
}

void *cshim_open_object(const void *address, int flags)
{
    Dl_info info;
    if (address == NULL || !dladdr(address, &info) || info.dli_fname == NULL)
        return NULL;
    void *handle = dlopen(info.dli_fname, RTLD_NOLOAD | RTLD_LAZY | flags);
    /* The dynamic linker does not know the main program by its file name. */
    return handle != NULL ? handle : dlopen(NULL, RTLD_LAZY);
}

/* Looks a symbol up in the object that contains an address, and in its dependencies; for an address
 * in the program itself, in the global scope. */
static void *from_object(const char *name, const void *within)
{
    void *handle = cshim_open_object(within, 0);
    if (handle == NULL)
        return NULL;
    void *address = dlsym(handle, name);
    dlclose(handle);
    return address;
}

bool cshim_is_open_mpi(const void *function)
{
    return from_object(CSHIM_OPEN_MPI_SYMBOL, function) != NULL;
}

const char *cshim_object_file(const void *address)
{
    Dl_info info;
    return address != NULL && dladdr(address, &info) ? info.dli_fname : NULL;
}

/* Returns true if the object that contains `address` itself defines a symbol. */
static bool object_defines(const char *name, const void *address)
{
    return cshim_same_object(from_object(name, address), address);
}

bool cshim_is_tool(const void *function, const void *bottom, const char *name)
{
    char profiling[64];
    snprintf(profiling, sizeof profiling, "P%s", name);
    return function != NULL && bottom != NULL && !cshim_same_object(function, bottom) &&
           !object_defines(profiling, function);
}

/* Returns an address from an object's dynamic section, relocated: most dynamic linkers have
 * relocated these addresses, but not all. */
static const void *dynamic_address(const struct link_map *object, uintptr_t address)
{
    return (const void *)(address < object->l_addr ? address + object->l_addr : address);
}

/* Returns true if an object imports a symbol. A GNU hash table gives the number of symbols before
 * the defined ones, the older table the number of all. */
static bool is_imported(const struct link_map *object, const char *name)
{
    const Elf64_Sym *symbols = NULL;
    const char *names = NULL;
    const uint32_t *hash = NULL, *gnu_hash = NULL;
    for (const Elf64_Dyn *entry = object->l_ld; entry->d_tag != DT_NULL; entry++) {
        const void *address = dynamic_address(object, entry->d_un.d_ptr);
        if (entry->d_tag == DT_SYMTAB)
            symbols = address;
        else if (entry->d_tag == DT_STRTAB)
            names = address;
        else if (entry->d_tag == DT_HASH)
            hash = address;
        else if (entry->d_tag == DT_GNU_HASH)
            gnu_hash = address;
    }
    if (symbols == NULL || names == NULL || (hash == NULL && gnu_hash == NULL))
        return false;
    const uint32_t count = gnu_hash != NULL ? gnu_hash[1] : hash[1];
    for (uint32_t i = 0; i < count; i++)
        if (symbols[i].st_shndx == SHN_UNDEF && strcmp(names + symbols[i].st_name, name) == 0)
            return true;
    return false;
}

bool cshim_refers_to_profiled(const void *address, const char *name)
{
    char profiling[64];
    Dl_info info;
    void *object = NULL;
    snprintf(profiling, sizeof profiling, "P%s", name);
    return dladdr1(address, &info, &object, RTLD_DL_LINKMAP) && object != NULL &&
           is_imported(object, profiling);
}

bool cshim_defines_fortran(const void *address, const char *name)
{
    char fortran[64];
    snprintf(fortran, sizeof fortran, "%s_", name);
    for (char *letter = fortran; *letter != '\0'; letter++)
        *letter = (char)tolower((unsigned char)*letter);
    return object_defines(fortran, address);
}

/* Returns true if MPI_X followed by `suffix` is MPI_X itself, MPI_X_c or a Fortran name of MPI_X.
 */
static bool is_suffix_of_same(const char *suffix)
{
    static const char *const suffixes[] = {"", "_c", "_", "__", "_f08_", NULL};
    const char *const *known = suffixes;
    while (*known != NULL && strcmp(suffix, *known) != 0)
        known++;
    return *known != NULL;
}

enum cshim_wrapper cshim_wrapper_at(const void *caller, const char *name)
{
    const size_t length = strlen(name);
    Dl_info info;
    /* The return address of a call at the end of a function lies after the function. */
    if (!dladdr((const char *)caller - 1, &info) || info.dli_sname == NULL)
        return CSHIM_WRAPPER_NONE;
    if (strncasecmp(info.dli_sname, name, length) == 0 &&
        is_suffix_of_same(info.dli_sname + length))
        return CSHIM_WRAPPER_SAME;
    /* The program may define functions whose names begin with MPI_ but that are not MPI's. */
    return strncasecmp(info.dli_sname, "MPI_", 4) == 0 &&
                   foreign(dlsym(RTLD_NEXT, info.dli_sname)) != NULL
               ? CSHIM_WRAPPER_OTHER
               : CSHIM_WRAPPER_NONE;
}

enum cshim_wrapper cshim_wrapper_above(const void *caller, const char *name)
{
    enum { FRAMES = 24 };
    void *frames[FRAMES];
    const int count = backtrace(frames, FRAMES);
    enum cshim_wrapper found = CSHIM_WRAPPER_NONE;
    int i = 0;
    while (i < count && frames[i] != caller)
        i++;
    for (i++; i < count && found == CSHIM_WRAPPER_NONE; i++)
        found = cshim_wrapper_at(frames[i], name);
    return found;
}

const void *cshim_preceding(const char *name)
{
    const void *first = dlsym(RTLD_DEFAULT, name);
    return is_own(first) ? NULL : first;
}

struct search {
    const char *const *files; /* beginnings of file names, a list that ends with NULL */
    unsigned skip;            /* number of matches to skip */
    char path[PATH_MAX];      /* result */
};

/* Only records the path: the dynamic linker holds a lock during this callback, and a dlopen() here
 * could deadlock with a dlopen() in another thread, which holds a second lock and waits for the
 * first. */
static int visit_object(struct dl_phdr_info *object, size_t size, void *data)
{
    struct search *search = data;
    const char *slash = object->dlpi_name ? strrchr(object->dlpi_name, '/') : NULL;
    const char *file = slash ? slash + 1 : object->dlpi_name;
    (void)size;
    if (file == NULL || !cshim_begins_with_one_of(file, search->files) || search->skip-- > 0)
        return 0;
    snprintf(search->path, sizeof search->path, "%s", object->dlpi_name);
    return 1;
}

/* Looks a symbol up in the loaded libraries whose file names have one of the beginnings, until one
 * of them has it. */
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

void *cshim_resolve(const char *name, const void *caller, bool bottom)
{
    /* libmpi.so.*, libmpich.so.12, libmpi_cray.so.12, libmpi_abi.so.0. Also Fortran layers such as
     * libmpi_mpifh.so, which are linked to their MPI, so that a lookup finds it. */
    static const char *const files[] = {"libmpi", NULL};
    char profiling[64];
    void *address = bottom ? NULL : foreign(dlsym(RTLD_NEXT, name));
    if (address != NULL)
        return address;
    snprintf(profiling, sizeof profiling, "P%s", name);
    address = foreign(dlsym(RTLD_NEXT, profiling));
    if (address == NULL)
        address = foreign(from_object(profiling, caller));
    if (address == NULL)
        address = from_libraries(profiling, files);
    return address;
}

/* Looks first in the library to which the caller is bound, because a process may contain several
 * NCCLs or gloos. */
static void *resolve_bound(const char *name, const void *caller, const char *const *files)
{
    void *address = foreign(from_object(name, caller));
    if (address == NULL)
        address = foreign(dlsym(RTLD_NEXT, name));
    return address != NULL ? address : from_libraries(name, files);
}

void *cshim_resolve_nccl(const char *name, const void *caller)
{
    static const char *const files[] = {"libnccl.so", "libtorch_cuda", NULL};
    char profiling[64];
    snprintf(profiling, sizeof profiling, "p%s", name);
    void *address = resolve_bound(profiling, caller, files);
    /* NCCL before 2.16 usually has no pncclX. */
    return address != NULL ? address : resolve_bound(name, caller, files);
}

/* PyTorch contains gloo or is linked to Debian's, and Python usually opens it with RTLD_LOCAL. */
void *cshim_resolve_gloo(const char *symbol, const void *caller)
{
    static const char *const files[] = {"libgloo.so", "libtorch_cpu", NULL};
    return resolve_bound(symbol, caller, files);
}

void *cshim_front_wrapper(const char *name, const void *real)
{
    void *wrapper = from_object(name, (const void *)cshim_front_wrapper);
    const void *chosen;
    if (!is_own(wrapper))
        return NULL;
    if (strncmp(name, "nccl", 4) == 0)
        chosen = cshim_resolve_nccl(name, NULL);
    else
        chosen = cshim_resolve(name[0] == 'P' ? name + 1 : name, NULL, true);
    return cshim_same_object(chosen, real) ? wrapper : NULL;
}
