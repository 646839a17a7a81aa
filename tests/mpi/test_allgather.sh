#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks MPI_Allgather and MPI_Allgatherv, which are compressed only if a rule names them.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_allgather

# gathers RANKS CODEC COUNT ERROR [KEY=VALUE]: gathers under a rule for allgather, with errors of at most ERROR
gathers() {
    printf '[rule weights]\ncollective = allgather\ncodec = %s\n%s\n' "$2" "${5-}" >"$scratch/policy.ini"
    expect "$2, $3 elements on $1 ranks${5:+, $5}" 0 shimmed "$1" COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" "$3" "$4"
    reports "is compressed" "{(r['collective'], r['codec']) for r in rows} == {('allgather', '$2')}"
}

for ranks in 2 3 4; do
    for count in 1 1000 70001; do
        if mpi $ranks "$program" $count 0 >"$scratch/natively" 2>&1; then
            gathers $ranks raw $count 0
        else # Intel MPI 2021.19 rejects absolute addresses
            skip "$count elements on $ranks ranks, which this MPI gets wrong: $(grep -m 1 wrong "$scratch/natively")"
        fi
    done
    gathers $ranks fp16 70001 0.0005
    gathers $ranks fp8_e4m3 70001 0.0626
done
gathers 3 int8 70001 0.004 "max_rel_error = 0.5"
gathers 3 int8 70001 0.008 "rounding = stochastic"
gathers 3 int4 70001 0.2 "error_feedback = on"
gathers 3 fp16 70001 0.0005 "check_ranks = 1"
check "the ranks' results were compared" test "$(json 'r["rows"][0]["ranks_checked"]')" = "{'calls': 6, 'different': 0}"
gathers 4 fp8_e4m3 70001 0.0626
check "six of eleven calls are compressed: types that differ, blocks that lie apart and complex numbers are passed through" \
    test "$(json '[(x["collective"], x["algorithm"], x["calls"]) for x in r["rows"]]')" = "[('allgather', 'one_shot', 6)]"
check "which the report says, beside the 22 sums of integers" test "$(json 'r["passed_through"]["dtype"]')" = 27
check "fp8 sends a quarter" test "$(json '3.9 < r["rows"][0]["bytes_native"] / r["rows"][0]["bytes_wire"] < 4')" = True
check "the sampled error is that of one quantization" test "$(json '0.01 < r["rows"][0]["rel_error"] < 0.04')" = True
check "it is not counted among the others" test "$(json '"MPI_Allgather" in r["not_compressed"]')" = False

# The first call on a new communicator is a nonblocking sum, under the first rule. The next call is a gather, too small
# for the second rule, that ranks describe by different types.
printf '[rule sums]\ncodec = fp16\n[rule weights]\ncollective = allgather\nmin_size = 64KiB\ncodec = raw\n' \
    >"$scratch/policy.ini"
expect "small ones after a nonblocking call" 0 shimmed 4 COMPSHIM_POLICY="$scratch/policy.ini" "$program" 70001 0
expect "all of them, only observed" 0 shimmed 4 COMPSHIM=observe COMPSHIM_REPORT="$scratch/report.json" \
    COMPSHIM_POLICY="$scratch/policy.ini" "$program" 70001 0
check "are written down, whatever their types" \
    test "$(json 'sum(k["calls"] for k in r["observed"]["kinds"] if k["collective"] == "allgather")')" = 11

policy "$scratch/policy.ini" fp16
sed -i 's/^report = off//' "$scratch/policy.ini"
expect "without a rule that names it" 0 shimmed 3 COMPSHIM_REPORT="$scratch/report.json" \
    COMPSHIM_POLICY="$scratch/policy.ini" "$program" 70001 0
rows="{'allreduce'}" # by a nonblocking sum of the program
compresses_nonblocking "$program" || rows="set()"
check "they are passed through and counted" \
    test "$(json '[r["not_compressed"][x]["calls"] for x in ("MPI_Allgather", "MPI_Allgatherv")], {x["collective"] for x in r["rows"]}')" = "[6, 5] $rows"
finish
