#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that calls on buffers in device memory are passed through to an MPI that accepts such buffers, also if only
# some ranks have them. libcuda is a stand-in (tests/standin/cuda.c).
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_device
ln -s "$build/tests/standin_cuda.so" "$scratch/libcuda.so.1"
policy "$scratch/policy.ini" fp8_e4m3

expect "natively" 0 mpi 3 LD_LIBRARY_PATH="$scratch" LD_PRELOAD=libcuda.so.1 "$program"
contains "a rank has four such calls" "rank 2: 4 calls came to the library with device memory, 0 failures"
contains "the others two" "rank 0: 2 calls came to the library with device memory, 0 failures"
expect "with the shim" 0 mpi 3 LD_LIBRARY_PATH="$scratch" LD_PRELOAD="$preload:libcuda.so.1" \
    COMPSHIM_POLICY="$scratch/policy.ini" COMPSHIM_REPORT="$scratch/report.json" "$program"
contains "the same calls reach the library" "rank 2: 4 calls came to the library with device memory, 0 failures"
contains "also on the others" "rank 0: 2 calls came to the library with device memory, 0 failures"
check "all calls with such a buffer on any rank are passed through" test "$(json 'r["passed_through"]["device_buffer"]')" = 4
check "the others are compressed" test "$(json 'r["totals"]["compressed_calls"]')" = 2
check "nonblocking ones are not, where ranks cannot ask" test "$(json 'r["passed_through"]["nonblocking"]')" = 1

only_open_mpi "compressing nonblocking calls, which pass there" || finish
expect "without CUDA in the process nobody asks" 0 shimmed 3 COMPSHIM_POLICY="$scratch/policy.ini" \
    COMPSHIM_REPORT="$scratch/report.json" "$build/tests/mpi_iallreduce" 3000
check "nonblocking calls are compressed then" test "$(json 'r["totals"]["compressed_calls"] > 100')" = True
expect "with CUDA in the process, but an MPI that takes no such buffers" 0 mpi 3 STANDIN_WITHOUT_CUDA=1 \
    LD_LIBRARY_PATH="$scratch" LD_PRELOAD="$preload:libcuda.so.1" COMPSHIM_POLICY="$scratch/policy.ini" \
    COMPSHIM_REPORT="$scratch/report.json" "$build/tests/mpi_iallreduce" 3000
check "nobody asks either" test "$(json 'r["totals"]["compressed_calls"] > 100')" = True
finish
