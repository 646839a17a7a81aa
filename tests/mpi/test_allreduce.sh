#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks every algorithm against a float64 reference, on a real MPI. test_all_codecs.sh covers all codecs, and
# unit/test_operations.c other numbers of ranks.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_allreduce

digest() { sed -n 's/^digest \([0-9a-f]*\),.*/\1/p' <<<"$output"; }

# matches RANKS CODEC ALGORITHM STEPS [DTYPE]: checks all-reduces in many shapes (mpi_allreduce), and that they were
# compressed
matches() {
    policy "$scratch/policy.ini" "$2" "$3" "${5:-float32}"
    expect "$2 by $3, ${5:-float32}, $1 ranks" 0 \
        shimmed "$1" COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_POLICY="$scratch/policy.ini" \
        "$program" "$2" "$4" "${5:-float32}"
    [ "$1" = 1 ] || reports "it was compressed" \
        "('$2', '${5:-float32}') in {(row['codec'], row['dtype']) for row in rows}"
}

expect "the library's own sum, 3 ranks" 0 mpi 3 "$program" none 1

counts="1 2 5"
[ -z "${MPI_HOME-}" ] && only_open_mpi "one rank" || counts="2 5"
for ranks in $counts; do
    for codec in raw fp8_e4m3; do
        matches "$ranks" "$codec" two_shot 2
        matches "$ranks" "$codec" one_shot 1
    done
done
for codec in fp16 bf16; do
    matches 4 "$codec" cast 0
    matches 5 "$codec" cast 0
done
matches 3 raw cast 0
for codec in raw fp32 fp16; do
    matches 4 "$codec" two_shot 2 float64
    matches 3 "$codec" one_shot 1 float64
done
matches 4 fp32 cast 0 float64
if [ -z "${MPI_HOME-}" ]; then # includes grids with uneven rows; three ranks form no grid
    for ranks in 3 4 7; do
        matches $ranks raw grid 4
    done
    matches 5 fp8_e4m3 grid 4
    matches 6 lossless grid 4
    matches 5 fp16 grid 4 float64
    matches 9 int8 grid 4
fi

# levels NODES CODEC [DTYPE [ALGORITHM STEPS]]: checks hierarchical, or ALGORITHM, with the ranks on these nodes
levels() {
    local algorithm=${4:-hierarchical}
    policy "$scratch/policy.ini" "$2" "$algorithm" "${3:-float32}"
    expect "$2 by $algorithm, ${3:-float32}, nodes $1" 0 \
        shimmed_on "$1" COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_POLICY="$scratch/policy.ini" \
        "$program" "$2" "${5:-2}" "${3:-float32}"
    output=$(cat "$scratch/report.json")
    contains "was $algorithm" "\"algorithm\": \"$algorithm\""
}
levels 0,0,1,1 fp32
levels 0,1,0,1 fp8_e4m3
levels 0,0,0,1 int4
levels 0,1,1,2,2,2,1 int8
levels 0,0,1,1,2 fp16 float64
levels 0,0,1,1,2,2,3,3 raw float64 grid 3 # a grid of nodes

# If the library makes no communicator for the ranks of a node, also if only on one rank, all pass the calls through.
policy "$scratch/policy.ini" fp8_e4m3 hierarchical
expect "no communicator for a node" 0 mpi 4 STANDIN_NODES=0,0,1,1 STANDIN_REFUSED_GROUPS=1 \
    LD_PRELOAD="$build/tests/standin_nodes.so:$preload:$build/tests/standin_refuse.so" \
    COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_POLICY="$scratch/policy.ini" "$build/tests/mpi_repeated_sum" 2
contains "no communicator for a node: it is said" "no more communicators: hierarchical passes calls through"
check "no communicator for a node: no call is compressed" \
    test "$(json 'r["totals"]["compressed_calls"], list(r["passed_through"])')" = "0 ['no_memory']"
printf '[rule all]\nop = sum\ndtype = float32\ncodec = fp8_e4m3\n' >"$scratch/policy.ini"
expect "no communicator for a node, and other algorithms" 0 mpi 4 COMPSHIM_MACHINE= STANDIN_NODES=0,0,1,1 STANDIN_REFUSED_GROUPS=1 \
    LD_PRELOAD="$build/tests/standin_nodes.so:$preload:$build/tests/standin_refuse.so" \
    COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_POLICY="$scratch/policy.ini" \
    "$build/allreduce_bench" --sizes 256KiB --seconds 0.2
check "no communicator for a node: others compress" \
    test "$(json 'r["totals"]["compressed_calls"] > 0, {row["algorithm"] for row in r["rows"]} & {"hierarchical"}')" = \
    "True set()"

# bits RANKS NODES UNSHARED: prints the digest of sums by hierarchical if rank UNSHARED cannot share memory. With ten
# ranks, the shares exceed the shared memory, and there are more segments than slots.
bits() {
    policy "$scratch/policy.ini" fp8_e4m3 hierarchical
    mpi "$1" STANDIN_NODES="$2" STANDIN_UNSHARED="$3" COMPSHIM_POLICY="$scratch/policy.ini" \
        LD_PRELOAD="$build/tests/standin_nodes.so:$build/tests/standin_unshared.so:$preload" \
        "$build/tests/mpi_repeated_sum" 2 4000001 2>&1 | grep -o 'digest [0-9a-f]*'
}
for nodes in 0,0,0,1,1,2 0,0,0,0,0,1,1,1,1,1; do
    ranks=$(tr -cd 0-9 <<<$nodes | wc -c)
    first=$(bits "$ranks" $nodes none)
    check "nodes $nodes: there are sums" test -n "$first"
    check "nodes $nodes: where the ranks of one send messages, the bits are the same" test "$first" = "$(bits "$ranks" $nodes 1)"
done

matches 4 fp8_e4m3 two_shot 2
first=$(digest)
matches 4 fp8_e4m3 two_shot 2
if [ -n "$first" ] && [ "$first" = "$(digest)" ]; then
    pass "two runs give the same bits"
else
    fail "two runs give the same bits" "$first, then $(digest)"
fi
matches 4 int8 two_shot 2
if [ "$first" != "$(digest)" ]; then
    pass "another codec gives other bits"
else
    fail "another codec gives other bits" "nothing was compressed"
fi
finish
