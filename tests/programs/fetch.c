/* SPDX-License-Identifier: Apache-2.0 */
/* An MPI program that is not linked to MPI: it opens the library, looks all functions up by dlsym,
 * and prints how many elements of two all-reduces of floats (whole numbers) are wrong.
 *
 *   fetch LIBRARY handle|default|next [thread]
 *
 * handle: from the library's handle, opened RTLD_LOCAL. default, next: from RTLD_DEFAULT and
 * RTLD_NEXT, opened RTLD_GLOBAL. thread: in a second thread. For Open MPI, whose handles are
 * addresses. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define COUNT 100000

static void *library, *from;

static void *fetch(const char *name)
{
    void *address = dlsym(from, name);
    if (address == NULL)
        fprintf(stderr, "fetch: %s\n", dlerror());
    return address;
}

static void *work(void *unused)
{
    static float in[COUNT], out[COUNT];
    int (*init)(int *, char ***, int, int *) = fetch("MPI_Init_thread");
    int (*finalize)(void) = fetch("MPI_Finalize");
    int (*size)(void *, int *) = fetch("MPI_Comm_size");
    int (*rank)(void *, int *) = fetch("MPI_Comm_rank");
    int (*sum)(const void *, void *, int, void *, void *, void *) = fetch("MPI_Allreduce");
    int (*profiling)(const void *, void *, int, void *, void *, void *) = fetch("PMPI_Allreduce");
    void *world = dlsym(library, "ompi_mpi_comm_world"), *type = dlsym(library, "ompi_mpi_float"),
         *op = dlsym(library, "ompi_mpi_op_sum");
    int provided, ranks, own, wrong = 0;
    if (init == NULL || sum == NULL || profiling == NULL || world == NULL)
        return unused;
    init(NULL, NULL, 1, &provided);
    size(world, &ranks);
    rank(world, &own);
    for (int i = 0; i < COUNT; i++)
        in[i] = (float)(i % 8);
    sum(in, out, COUNT, type, op, world);
    for (int i = 0; i < COUNT; i++)
        wrong += out[i] != (float)(i % 8 * ranks);
    profiling(in, out, COUNT, type, op, world);
    for (int i = 0; i < COUNT; i++)
        wrong += out[i] != (float)(i % 8 * ranks);
    if (own == 0)
        printf("%d ranks: %d wrong\n", ranks, wrong);
    finalize();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc < 3) {
        fputs("usage: fetch LIBRARY handle|default|next [thread]\n", stderr);
        return 2;
    }
    const int by_handle = strcmp(argv[2], "handle") == 0;
    library = dlopen(argv[1], RTLD_NOW | (by_handle ? RTLD_LOCAL : RTLD_GLOBAL));
    if (library == NULL) {
        fprintf(stderr, "fetch: %s\n", dlerror());
        return 1;
    }
    from = by_handle ? library : strcmp(argv[2], "next") == 0 ? RTLD_NEXT : RTLD_DEFAULT;
    if (argc == 3)
        work(NULL);
    else if (pthread_create(&thread, NULL, work, NULL) == 0)
        pthread_join(thread, NULL);
    return 0;
}
