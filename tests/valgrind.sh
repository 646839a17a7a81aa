#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs unit tests, the fuzz targets on their seeds, a program with the stand-in for NCCL, and a gloo job under valgrind:
# it must find no memory error, nor a use of uninitialised data. tests/mpi/valgrind.sh covers MPI jobs. The codecs'
# unit tests and test_policy_reach, most of which try millions of values, would take hours; only the sanitizers check
# them.
. "$(dirname "$0")/lib.sh"
checker=(valgrind -q --error-exitcode=99 --num-callers=20 --suppressions="$top/tests/mpi/valgrind.supp")

for program in "$build"/tests/test_*; do
    case ${program##*/} in test_codec_* | test_policy_reach) continue ;; esac
    [ ! -x "$program" ] || check "${program##*/}" limited "${checker[@]}" "$program"
done
for seeds in "$top"/tests/fuzz/seeds/*/; do
    target=$(basename "$seeds")
    check "seeds of $target" limited "${checker[@]}" "$build/tests/fuzz_$target" "$seeds"*
done

# Only this program: the others use the stand-in for CUDA, whose device memory has addresses that valgrind does not
# provide.
standin=$build/tests/standin_nccl
if [ -e "$standin/libnccl.so.2" ]; then
    check "the stand-in's unique id" limited env LD_LIBRARY_PATH="$standin" "${checker[@]}" "$build/tests/nccl_unique_id"
fi
printf '[rule all]\ncodec = fp8_e4m3\nalgorithm = two_shot\n' >"$scratch/policy.ini"
if [ -e "$build/tests/gloo_mix" ]; then
    check "gloo" job 2 COMPSHIM_POLICY="$scratch/policy.ini" LD_PRELOAD="$preload" \
        "${checker[@]}" "$build/tests/gloo_mix" 1000 20
fi
finish
