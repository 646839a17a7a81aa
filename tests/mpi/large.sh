#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# An all-reduce of more than 2^31 bytes on 3 ranks, by every algorithm. Needs 8 GiB of memory: `make
# test-large`, not a part of `make test`. Also prints the memory that the shim adds.
. "$(dirname "$0")/../lib.sh"
for algorithm in two_shot allgather allreduce; do
    codec=fp8_e4m3
    [ $algorithm != allreduce ] || codec=bf16
    policy "$scratch/policy.ini" $codec $algorithm
    LIMIT=500 expect "2.25 GiB by $algorithm" 0 shimmed 3 COMPSHIM_POLICY="$scratch/policy.ini" \
        COMPSHIM_REPORT=summary /usr/bin/env python3 -c '
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:]).returncode
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(f"peak {peak / 1024:.0f} MiB")
sys.exit(status)' "$build/tests/mpi_large"
    contains "every element is right" "0 of 603979777 elements are wrong"
    grep peak <<<"$output"
    contains "it was compressed" "$algorithm"
done
finish
