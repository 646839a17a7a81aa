#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks an all-reduce of more than 2^31 bytes on 3 ranks, by two_shot, one_shot and cast, and sums of more than 2^31
# elements on 2 ranks. Prints each rank's peak memory in the all-reduces on 3 ranks. Needs 10 GiB of memory: `make
# test-large`, not part of `make test`. On MPICH: MPI=mpich BUILD=build/mpich bash tests/mpi/large.sh
. "$(dirname "$0")/../lib.sh"
for algorithm in two_shot one_shot cast; do
    codec=fp8_e4m3
    [ $algorithm != cast ] || codec=bf16
    policy "$scratch/policy.ini" $codec $algorithm
    LIMIT=3600 expect "2.25 GiB by $algorithm" 0 shimmed 3 COMPSHIM_POLICY="$scratch/policy.ini" \
        COMPSHIM_REPORT=summary /usr/bin/env python3 -c '
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(f"peak {peak / 1024:.0f} MiB")
sys.exit(status)' "$build/tests/mpi_large_bytes"
    contains "every element is right" "0 of 603979777 elements are wrong"
    grep peak <<<"$output"
    contains "it was compressed" "$algorithm"
done

# With `native` the program also reduces bytes, a call that is passed through to the library's MPI_Allreduce_c. Open
# MPI 4 and 5 lack this function.
native=()
[ "$MPI" = openmpi ] || native=(native)
policy "$scratch/policy.ini" fp8_e4m3 two_shot
LIMIT=3600 expect "2^31 elements and more" 0 shimmed 2 COMPSHIM_POLICY="$scratch/policy.ini" \
    COMPSHIM_REPORT="$scratch/report.json" "$build/tests/mpi_large_elements" "${native[@]}"
contains "all sums are right" "2148532230 elements, 0 failures"
check "they were compressed" test "$(python3 -c "import json
print([r['bytes_in'] for r in json.load(open('$scratch/report.json'))['rows']])")" = "[8594128920, 8594128920]"
unset COMPSHIM_MACHINE
LIMIT=3600 expect "2^31 elements, where the job would try native calls" 0 shimmed 2 \
    COMPSHIM_POLICY="$scratch/policy.ini" "$build/tests/mpi_large_elements" repeated
contains "all repeated sums are right" "2148532230 elements, 0 failures"
finish
