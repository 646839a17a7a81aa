#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Makes CALLS calls (1000000) of changing size, codec, algorithm and communicator on 4 ranks. Every result must be
# right, and no rank may grow by more than 4 MiB. Takes about a minute per 200000 calls: `make soak`, not part of `make
# test`.
. "$(dirname "$0")/../lib.sh"
calls=${CALLS:-1000000}
export COMPSHIM_POLICY=$scratch/policy.ini
{
    printf '[compshim]\nreport = summary\n'
    from=0
    for rule in "64 none auto" "1024 raw two_shot" "4096 fp8_e4m3 one_shot" "8192 int8 two_shot" \
        "12288 int4 two_shot" "16384 bf16 cast" "65536 fp16 auto" "262144 fp8_e5m2 two_shot" \
        "524288 fp8_e4m3 hierarchical" "2000000 int8 auto"; do
        read -r to codec algorithm <<<"$rule"
        printf '[rule to_%s]\nmin_size = %s\nmax_size = %s\nop = sum\ndtype = float32\n' "$to" "$from" "$to"
        printf 'codec = %s\nalgorithm = %s\n' "$codec" "$algorithm"
        from=$((to + 1))
    done
} >"$scratch/policy.ini"
LIMIT=$((LIMIT + calls / 50)) expect "$calls calls: right, and within 4 MiB" 0 \
    shimmed 4 "$build/tests/mpi_soak" "$calls" 4096
printf '%s\n' "$output"
for codec in raw fp8_e4m3 int8 int4 bf16 fp16 fp8_e5m2; do
    contains "$codec was used" "$codec"
done
finish
