#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks MPI_Reduce, MPI_Reduce_scatter and MPI_Reduce_scatter_block against a reference, and the collectives that are
# only counted.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_reductions

# matches RANKS CODEC ALGORITHM STEPS COLLECTIVE [DTYPE]: checks the results, and that they were compressed
matches() {
    policy "$scratch/policy.ini" "$2" "$3" "${6:-float32}"
    expect "$5, $2 by $3, $1 ranks" 0 shimmed "$1" COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" "$2" "$4" "$5" ${6:+"$6"}
    reports "it was compressed" "('$2', '${6:-float32}') in {(row['codec'], row['dtype']) for row in rows}"
}
digest() { sed -n 's/^digest \([0-9a-f]*\),.*/\1/p' <<<"$output"; }

native=reduce
only_open_mpi "a native MPI_Reduce in place to another root than 0, in which MPICH 4.0.2 crashes" || native=block
expect "natively the test finds the sums, too" 0 mpi 3 "$program" none 2 $native
for ranks in 2 5; do
    for codec in raw fp8_e4m3; do
        matches $ranks $codec two_shot 2 reduce
        matches $ranks $codec one_shot 1 reduce
        matches $ranks $codec auto 1 scatter
        matches $ranks $codec auto 1 block
    done
done
check "the report names the collective" test "$(json '{x["collective"] for x in r["rows"]}')" = "{'reduce_scatter'}"
for codec in fp16 int4 lossless; do # test_all_codecs.sh has the others
    matches 4 $codec two_shot 2 reduce
    matches 4 $codec auto 1 scatter
done
matches 3 fp32 two_shot 2 reduce float64
matches 3 fp32 auto 1 block float64

on_nodes() { # NODES [VARIABLE=VALUE...] PROGRAM...: runs with the ranks on these nodes
    shimmed_on "$1" COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_POLICY="$scratch/policy.ini" "${@:2}"
}
# levels NODES CODEC STEPS COLLECTIVE [DTYPE [ALGORITHM]]: checks the results under a rule for hierarchical, and that
# the calls are made by it, or by ALGORITHM
levels() {
    policy "$scratch/policy.ini" "$2" hierarchical "${5:-float32}"
    expect "$4, $2, nodes $1" 0 on_nodes "$1" "$program" "$2" "$3" "$4" ${5:+"$5"}
    check "was ${6:-hierarchical}" test "$(json '[x["algorithm"] for x in r["rows"]][-1]')" = "${6:-hierarchical}"
}
levels 0,0,1,1 raw 3 reduce
levels 0,1,0,1 fp8_e4m3 2 reduce
levels 0,1,1,2,2,2,1 int8 2 reduce
levels 0,0,0,1,1 fp16 2 reduce float64
levels 0,0,1,1 raw 3 block
levels 0,1,1,0,2,2 fp8_e4m3 1 scatter
levels 1,0,0,1 lossless 3 scatter float64
levels 0,0,0,1,1 int8 1 scatter "" two_shot # nodes with different numbers of ranks

# The ranks of a node add in shared memory, or, with the same bits, by messages if one of them cannot share memory.
policy "$scratch/policy.ini" fp16 hierarchical
for collective in reduce scatter; do
    steps=2
    [ $collective = reduce ] || steps=1
    for rank in none 1; do
        expect "$collective, by nodes, without memory to share: rank $rank" 0 on_nodes 0,0,0,1,1,1 STANDIN_UNSHARED=$rank \
            LD_PRELOAD="$build/tests/standin_nodes.so:$build/tests/standin_unshared.so:$preload" "$program" fp16 $steps $collective
        digest >"$scratch/$rank.digest"
    done
    check "$collective: the bits are the same" test -s "$scratch/none.digest" -a "$(cat "$scratch/none.digest")" = "$(cat "$scratch/1.digest")"
done

matches 4 fp8_e4m3 two_shot 2 reduce
first=$(digest)
matches 4 fp8_e4m3 two_shot 2 reduce
check "two runs give the same bits" test -n "$first" -a "$first" = "$(digest)"

# In large calls on 4 ranks, each rank sends contributions to the 3 others, and in a reduce the owners send reduced
# chunks to the root.
expect "large calls" 0 shimmed 4 COMPSHIM_REPORT="$scratch/report.json" \
    COMPSHIM_POLICY="$scratch/policy.ini" "$build/tests/mpi_collectives" 4000000
contains "their sums are right" "0 failures"
check "fp8 sends what the plan says" test "$(json '[round(x["bytes_native"] / x["bytes_wire"], 1) for x in r["rows"]]')" = \
    "[4.0, 3.2]"
check "native bytes are a ring's" test "$(json '{x["bytes_native"] == 3 * x["bytes_in"] for x in r["rows"]}')" = "{True}"
check "sampled errors are those of one and two quantizations" test \
    "$(json '0.01 < r["rows"][0]["rel_error"] < 0.035 < r["rows"][1]["rel_error"] < 0.06')" = True
check "the others are counted, with their bytes" test "$(json 'sorted((k, v["calls"], v["bytes"]) for k, v in r["not_compressed"].items())')" = \
    "[('MPI_Allgather', 1, 12), ('MPI_Alltoallw', 1, 0), ('MPI_Bcast', 3, 12000), ('MPI_Gatherv', 1, 0), ('MPI_Ibcast', 1, 4000), ('MPI_Neighbor_alltoall', 1, 4), ('MPI_Scan', 1, 8)]"

policy "$scratch/policy.ini" fp8_e4m3 auto
expect "large calls on two nodes of two ranks" 0 on_nodes 0,0,1,1 "$build/tests/mpi_collectives" 4000000
contains "their sums are right, too" "0 failures"
check "a node's parts go to the other once, and its sums to the root's" test \
    "$(json '[(x["collective"], x["algorithm"], round(x["bytes_in"] / x["bytes_network"], 2)) for x in r["rows"]]')" = \
    "[('reduce_scatter', 'hierarchical', 3.97), ('reduce', 'hierarchical', 2.64)]"

# A rule for one collective does not apply to others.
printf '[rule one]\ncollective = reduce\ncodec = fp16\n' >"$scratch/policy.ini"
expect "a rule for reduce" 0 shimmed 3 COMPSHIM_REPORT="$scratch/report.json" \
    COMPSHIM_POLICY="$scratch/policy.ini" "$build/tests/mpi_collectives" 100000
check "takes no other" test "$(json '[(x["collective"], x["calls"]) for x in r["rows"]]')" = "[('reduce', 1)]"
check "and the others are passed through" test "$(json 'r["passed_through"]["no_rule"]')" = 2

# max_rel_error changes the codec, and verify compares results with the MPI library's own sums.
printf '[rule all]\nmax_rel_error = 1e-3\nverify = 1\ncodec = int8\n' >"$scratch/policy.ini"
expect "max_rel_error and verify" 0 shimmed 3 COMPSHIM_REPORT="$scratch/report.json" \
    COMPSHIM_POLICY="$scratch/policy.ini" "$program" int8 2 scatter
check "max_rel_error moves tensors to better codecs" test "$(json 'len(r["moved"]) > 0')" = True
check "verify compares every rank's result" test \
    "$(json '{1e-5 < x["verified"]["rel_l2"] < 0.01 for x in r["rows"] if x["codec"] == "int8" and "verified" in x}')" = "{True}"

# A mismatch between ranks ends the job with a message that names the call. Each rank writes to a file, because Hydra
# may lose a rank's output just before another one ends the job.
policy "$scratch/policy.ini" fp8_e4m3 two_shot
for what in reduce scatter; do
    shimmed 3 COMPSHIM_POLICY="$scratch/policy.ini" sh -c "exec \"\$@\" 2>'$scratch/$what.'\$\$" sh \
        "$build/tests/mpi_collectives" mismatch $what >/dev/null 2>&1
    status=$? output=$(cat "$scratch/$what".*)
    case $status in
    0 | 124 | 137) fail "$what: a mismatch ends the job" "$output" ;;
    *) pass "$what: a mismatch ends the job" ;;
    esac
    if mpich_reports_mismatch; then
        pass "$what: MPICH says why"
        continue
    fi
    contains "$what: it says which call" "MPI_Reduce"
    contains "$what: both views" "of 50000 x float32"
done

if only_open_mpi "a call with wrong arguments (MPICH reads what they point to)"; then
    native=$(mpi 3 "$build/tests/mpi_collectives" wrong 2>&1)
    check "wrong arguments are noticed natively" grep -q "class" <<<"$native"
    check "wrong arguments give the same errors" diff <(printf '%s\n' "$native") \
        <(shimmed 3 COMPSHIM_POLICY="$scratch/policy.ini" "$build/tests/mpi_collectives" wrong 2>&1)
fi
finish
