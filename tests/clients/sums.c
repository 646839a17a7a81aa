/* SPDX-License-Identifier: Apache-2.0 */
/* Sums vectors of whole numbers, as floats, over the ranks, out of place and in place. Rank 0
 * prints the number of wrong elements and the total of all sums. Compiled with OPENED, the
 * program is not linked to MPI, but opens its library and looks every function up. */
#include <mpi.h>
#include <stdio.h>

enum { COUNT = 1 << 18, VALUES = 31 };

struct library {
    __typeof__(MPI_Init) *init;
    __typeof__(MPI_Finalize) *finalize;
    __typeof__(MPI_Comm_rank) *rank;
    __typeof__(MPI_Comm_size) *size;
    __typeof__(MPI_Allreduce) *allreduce;
    MPI_Comm world;
    MPI_Datatype type;
    MPI_Op sum;
};

#ifdef OPENED
#include <dlfcn.h>

/* Open MPI's handles are addresses of objects, MPICH's are integers. */
#ifdef OPEN_MPI
#define LIBRARY "libmpi.so.40"
#define HANDLE(object, number) dlsym(opened, object)
#else
#define LIBRARY "libmpich.so.12"
#define HANDLE(object, number) (number)
#endif

static int library_open(struct library *library)
{
    void *opened = dlopen(LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    if (opened == NULL) {
        fprintf(stderr, "sums: %s\n", dlerror());
        return -1;
    }
    *(void **)&library->init = dlsym(opened, "MPI_Init");
    *(void **)&library->finalize = dlsym(opened, "MPI_Finalize");
    *(void **)&library->rank = dlsym(opened, "MPI_Comm_rank");
    *(void **)&library->size = dlsym(opened, "MPI_Comm_size");
    *(void **)&library->allreduce = dlsym(opened, "MPI_Allreduce");
    library->world = HANDLE("ompi_mpi_comm_world", MPI_COMM_WORLD);
    library->type = HANDLE("ompi_mpi_float", MPI_FLOAT);
    library->sum = HANDLE("ompi_mpi_op_sum", MPI_SUM);
    return 0;
}
#else
static int library_open(struct library *library)
{
    *library = (struct library){MPI_Init,      MPI_Finalize,   MPI_Comm_rank, MPI_Comm_size,
                                MPI_Allreduce, MPI_COMM_WORLD, MPI_FLOAT,     MPI_SUM};
    return 0;
}
#endif

static float summand(int i, int rank)
{
    return (float)(i % VALUES + rank);
}

static void print_sums(const char *name, const float *sums, int ranks)
{
    int wrong = 0;
    double total = 0;
    for (int i = 0; i < COUNT; i++) {
        float right = 0;
        for (int rank = 0; rank < ranks; rank++)
            right += summand(i, rank);
        wrong += sums[i] != right;
        total += sums[i];
    }
    printf("%s: %d of %d wrong, together %.17g\n", name, wrong, COUNT, total);
}

int main(int argc, char **argv)
{
    static float summands[COUNT], sums[COUNT];
    struct library library;
    if (library_open(&library) != 0)
        return 1;
    int rank = 0, ranks = 0;
    library.init(&argc, &argv);
    library.rank(library.world, &rank);
    library.size(library.world, &ranks);
    for (int i = 0; i < COUNT; i++)
        summands[i] = summand(i, rank);
    library.allreduce(summands, sums, COUNT, library.type, library.sum, library.world);
    library.allreduce(MPI_IN_PLACE, summands, COUNT, library.type, library.sum, library.world);
    if (rank == 0) {
        print_sums("out of place", sums, ranks);
        print_sums("in place", summands, ranks);
    }
    return library.finalize();
}
