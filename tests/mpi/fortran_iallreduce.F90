! SPDX-License-Identifier: Apache-2.0
! Has two calls of mpi_f08's MPI_Iallreduce under way at once, one of them in place; then calls MPI_Reduce in place.
! The sums are small integers, which up to 16 ranks are exact in raw, lossless, fp16, bf16 and fp8_e4m3. An ordinary
! Fortran program.
program fortran_iallreduce
    use mpi_f08
    implicit none
    integer, parameter :: count = 100000
    real, allocatable, asynchronous :: a(:), b(:), sums(:)
    type(MPI_Request) :: requests(2)
    integer :: rank, ranks, wrong, i
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    allocate (a(count), b(count), sums(count))
    a = 1
    b = [(real(mod(i, 3)), i=1, count)]
    sums = 0
    call MPI_Iallreduce(a, sums, count, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, requests(1))
    call MPI_Iallreduce(MPI_IN_PLACE, b, count, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, requests(2))
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
    wrong = 0
    do i = 1, count
        if (sums(i) /= real(ranks)) wrong = wrong + 1
        if (b(i) /= real(ranks*mod(i, 3))) wrong = wrong + 1
    end do
    if (rank == 0) then
        call MPI_Reduce(MPI_IN_PLACE, a, count, MPI_REAL, MPI_SUM, 0, MPI_COMM_WORLD)
        do i = 1, count
            if (a(i) /= real(ranks)) wrong = wrong + 1
        end do
    else
        call MPI_Reduce(a, sums, count, MPI_REAL, MPI_SUM, 0, MPI_COMM_WORLD)
    end if
    call MPI_Allreduce(MPI_IN_PLACE, wrong, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (rank == 0) print '(a,i0,a)', "work done, ", wrong, " failures"
    call MPI_Finalize()
end program
