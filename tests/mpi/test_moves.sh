#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks MPI_Alltoall, MPI_Alltoallv and MPI_Bcast, which are compressed only if a rule names them.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_moves

# moves COLLECTIVE RANKS CODEC COUNT ERROR [KEY=VALUE]: runs the collective under a rule for it
moves() {
    printf '[rule data]\ncollective = %s\ncodec = %s\n%s\n' "${1%v}" "$3" "${6-}" >"$scratch/policy.ini"
    expect "$1: $3, $4 elements on $2 ranks${6:+, $6}" 0 shimmed "$2" COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" "$1" "$4" "$5"
    reports "is compressed" "{(r['collective'], r['codec']) for r in rows} == {('${1%v}', '$3')}"
}

for collective in alltoall alltoallv broadcast; do
    for ranks in 2 3; do
        counts="1 70001 300000"
        [ $ranks = 3 ] || counts=70001
        for count in $counts; do
            [ $count$collective != 1alltoallv ] || continue # alltoallv's blocks are up to 6 elements shorter
            moves $collective $ranks raw $count 0
        done
        moves $collective $ranks lossless 70002 0
        moves $collective $ranks fp16 70002 0.0005
        moves $collective $ranks fp8_e4m3 300000 0.0626
    done
    moves $collective 3 int8 70002 0.004 "max_rel_error = 0.5"
    moves $collective 3 int8 70002 0.008 "rounding = stochastic"
    moves $collective 3 int4 70002 0.2 "error_feedback = on"
    moves $collective 3 fp16 70002 0.0005 "check_ranks = 1"
done
moves broadcast 4 raw 70002 0 "algorithm = one_shot"
moves broadcast 4 fp8_e4m3 70002 0.0626 "algorithm = one_shot"
check "the root sends all of it to each: a quarter of what all get" \
    test "$(json '3.8 < r["rows"][0]["bytes_native"] / r["rows"][0]["bytes_wire"] < 4')" = True
moves broadcast 4 fp8_e4m3 70002 0.0626
check "complex numbers too; types that differ are passed through" \
    test "$(json '[(x["collective"], x["algorithm"], x["calls"]) for x in r["rows"]]')" = "[('broadcast', 'two_shot', 8)]"
check "what the root gives to the others comes on top" \
    test "$(json '3.1 < r["rows"][0]["bytes_native"] / r["rows"][0]["bytes_wire"] < 3.2')" = True
check "the sampled error is that of one quantization" test "$(json '0.01 < r["rows"][0]["rel_error"] < 0.04')" = True
moves alltoall 4 fp8_e4m3 70002 0.0626
check "four of five calls are compressed" \
    test "$(json '[(x["collective"], x["algorithm"], x["calls"]) for x in r["rows"]]')" = "[('alltoall', 'one_shot', 4)]"
check "fp8 sends a quarter" test "$(json '3.9 < r["rows"][0]["bytes_native"] / r["rows"][0]["bytes_wire"] < 4')" = True
check "the sampled error is that of one quantization, too" test "$(json '0.01 < r["rows"][0]["rel_error"] < 0.04')" = True
check "it is not counted among the others" test "$(json '"MPI_Alltoall" in r["not_compressed"]')" = False
moves alltoallv 4 fp8_e4m3 70002 0.0626
check "blocks that differ in length, in place and by large counts; those that lie apart or are of two types are passed through" \
    test "$(json '[(x["collective"], x["algorithm"], x["calls"]) for x in r["rows"]], r["passed_through"]["dtype"]')" = "[('alltoall', 'one_shot', 3)] 2"
check "fp8 sends a quarter of what they have" \
    test "$(json '3.9 < r["rows"][0]["bytes_native"] / r["rows"][0]["bytes_wire"] < 4')" = True
check "the sampled error is that of one quantization, of uneven blocks" \
    test "$(json '0.01 < r["rows"][0]["rel_error"] < 0.04')" = True
expect "one rank sends to all" 0 shimmed 3 COMPSHIM_REPORT="$scratch/report.json" \
    COMPSHIM_POLICY="$scratch/policy.ini" "$program" received 70002 0.0626
check "the rank that counts the call, and sends nothing, is in the report" \
    test "$(json '[x["calls"] for x in r["rows"]]')" = "[1]"
expect "all of them, only observed" 0 shimmed 4 COMPSHIM=observe COMPSHIM_REPORT="$scratch/report.json" \
    COMPSHIM_POLICY="$scratch/policy.ini" "$program" alltoallv 70002 0
check "are written down" \
    test "$(json 'sum(k["calls"] for k in r["observed"]["kinds"] if k["collective"] == "alltoall")')" = 5

policy "$scratch/policy.ini" fp16
sed -i 's/^report = off//' "$scratch/policy.ini"
for collective in alltoall alltoallv broadcast; do
    # With an allowed error of 0, mpi_moves makes the root's buffer read-only, but MPICH's broadcast may write to it.
    expect "$collective without a rule that names it" 0 shimmed 3 COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" $collective 70002 0.000001
    check "is passed through and counted" test "$(json '[n["calls"] for n in r["not_compressed"].values()], r["rows"]')" = \
        "$([ "${collective%v}" = alltoall ] && echo '[5] []' || echo '[9] []')"
done
finish
