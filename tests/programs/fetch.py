# SPDX-License-Identifier: Apache-2.0
"""Calls MPI by ctypes, with Open MPI's handles. Prints how many elements of an all-reduce of floats are wrong."""
import ctypes
import sys

mpi = ctypes.CDLL(sys.argv[1])
handle = lambda name: ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
world = handle("ompi_mpi_comm_world")
ranks, rank = ctypes.c_int(), ctypes.c_int()
mpi.MPI_Init(None, None)
mpi.MPI_Comm_size(world, ctypes.byref(ranks))
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
count = 100000
numbers = (ctypes.c_float * count)(*(i % 8 for i in range(count)))
sums = (ctypes.c_float * count)()
mpi.MPI_Allreduce(numbers, sums, count, handle("ompi_mpi_float"), handle("ompi_mpi_op_sum"), world)
wrong = sum(sums[i] != i % 8 * ranks.value for i in range(count))
if rank.value == 0:
    print(f"{ranks.value} ranks: {wrong} wrong")
mpi.MPI_Finalize()
