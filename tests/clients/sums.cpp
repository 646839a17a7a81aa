// SPDX-License-Identifier: Apache-2.0
// Sums vectors of several types over the ranks of its own communicator, in place and out of place.
// Rank 0 prints the number of wrong elements and the total of all sums.
#include <mpi.h>

#include <complex>
#include <cstdio>
#include <numeric>
#include <vector>

namespace
{

constexpr int count = 1 << 18;

template <typename T> T summand(int i, int rank)
{
    return static_cast<T>(i % 31 + rank);
}

template <typename T> void print_sums(const char *name, const std::vector<T> &sums, int ranks)
{
    int wrong = 0;
    for (int i = 0; i < count; i++) {
        T right{};
        for (int rank = 0; rank < ranks; rank++)
            right += summand<T>(i, rank);
        wrong += sums[i] != right;
    }
    const std::complex<double> total = std::accumulate(
        sums.begin(), sums.end(), std::complex<double>{},
        [](std::complex<double> sum, T value) { return sum + std::complex<double>(value); });
    std::printf("%s: %d of %d wrong, together %.17g\n", name, wrong, count, total.real());
}

template <typename T> void sum(const char *name, MPI_Datatype type, MPI_Comm communicator)
{
    int rank = 0, ranks = 0;
    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &ranks);
    std::vector<T> summands(count), sums(count);
    for (int i = 0; i < count; i++)
        summands[i] = summand<T>(i, rank);
    MPI_Allreduce(summands.data(), sums.data(), count, type, MPI_SUM, communicator);
    MPI_Allreduce(MPI_IN_PLACE, summands.data(), count, type, MPI_SUM, communicator);
    if (rank == 0) {
        print_sums(name, sums, ranks);
        print_sums(name, summands, ranks);
    }
}

} // namespace

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm communicator;
    MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
    sum<float>("float", MPI_FLOAT, communicator);
    sum<double>("double", MPI_DOUBLE, communicator);
    sum<int>("int", MPI_INT, communicator);
    sum<std::complex<float>>("complex", MPI_C_FLOAT_COMPLEX, communicator);
    MPI_Comm_free(&communicator);
    MPI_Finalize();
}
