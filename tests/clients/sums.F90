! SPDX-License-Identifier: Apache-2.0
! Sums vectors of integers over the ranks, as floating-point numbers out of place and in place, as integers in place.
! Rank 0 prints the number of wrong elements and the total of all sums. INTERFACE_F08 uses the module mpi_f08,
! INTERFACE_MODULE the module mpi; without either mpif.h is included.
program sums
#if defined(INTERFACE_F08)
    use mpi_f08
#elif defined(INTERFACE_MODULE)
    use mpi
#endif
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none
#if !defined(INTERFACE_F08) && !defined(INTERFACE_MODULE)
    include 'mpif.h'
#endif
    integer, parameter :: length = 262144
    real, allocatable :: singles(:), single_sums(:)
    double precision, allocatable :: doubles(:), double_sums(:)
    integer, allocatable :: whole(:)
    integer :: rank, ranks, error, i

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, error)
    allocate (singles(length), single_sums(length), doubles(length), double_sums(length))
    whole = [(mod(i, 31) + rank, i=1, length)]
    singles = whole
    doubles = whole

    call MPI_Allreduce(singles, single_sums, length, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, error)
    call MPI_Allreduce(MPI_IN_PLACE, singles, length, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, error)
    call MPI_Allreduce(doubles, double_sums, length, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    call MPI_Allreduce(MPI_IN_PLACE, doubles, length, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
    call MPI_Allreduce(MPI_IN_PLACE, whole, length, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)

    if (rank == 0) then
        call print_sums('MPI_REAL', int(single_sums, int64))
        call print_sums('MPI_REAL in place', int(singles, int64))
        call print_sums('MPI_DOUBLE_PRECISION', int(double_sums, int64))
        call print_sums('MPI_DOUBLE_PRECISION in place', int(doubles, int64))
        call print_sums('MPI_INTEGER in place', int(whole, int64))
    end if
    call MPI_Finalize(error)

contains

    subroutine print_sums(name, totals)
        character(*), intent(in) :: name
        integer(int64), intent(in) :: totals(:)
        integer :: wrong, i

        wrong = count(totals /= [(ranks*mod(i, 31) + ranks*(ranks - 1)/2, i=1, length)])
        print '(a, ": ", i0, " of ", i0, " wrong, together ", i0)', name, wrong, length, sum(totals)
    end subroutine print_sums

end program sums
