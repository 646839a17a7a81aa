#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks nonblocking and persistent all-reduces: the results are right with several codecs and algorithms, even if ranks
# complete the calls in different orders; calls that are passed through are counted; other MPI calls of the program
# progress the compressed ones. With Open MPI, and if hosts can be emulated, the overlap with computation is measured
# on them and printed.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_iallreduce

if ! compresses_nonblocking "$program"; then
    skip "the shim cannot progress nonblocking calls with this MPI"
    policy "$scratch/policy.ini" fp8_e4m3
    if ! mpi 3 "$program" 50000 >"$scratch/natively" 2>&1; then # Intel MPI 2021.19 fails in persistent calls
        skip "this MPI gets them wrong: $(grep -m 1 wrong "$scratch/natively")"
        finish
    fi
    expect "they are right" 0 shimmed 3 COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" 50000
    check "and counted" test "$(json 'r["passed_through"]["nonblocking"] > 0')" = True
    finish
fi
expect "natively the sums are right" 0 mpi 3 "$program"
for ranks in 2 4; do
    for codec in raw fp8_e4m3; do
        for algorithm in two_shot one_shot; do
            policy "$scratch/policy.ini" $codec $algorithm
            expect "$codec by $algorithm, $ranks ranks" 0 shimmed $ranks \
                COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_POLICY="$scratch/policy.ini" "$program" 50000
            reports "all calls with elements are compressed so" \
                "[(r['codec'], r['algorithm'], r['calls']) for r in rows] == [('$codec', '$algorithm', 298)] and passed['empty'] == 2"
        done
    done
done
policy "$scratch/policy.ini" fp16 cast
expect "a rule for the library's own all-reduce" 0 shimmed 3 \
    COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_POLICY="$scratch/policy.ini" "$program" 50000
check "goes as two_shot where nobody waits" test \
    "$(json 'sorted(x["algorithm"] for x in r["rows"])')" = "['cast', 'two_shot']"
expect "calls of one element and a few" 0 shimmed 3 \
    COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_POLICY="$scratch/policy.ini" "$program" 30
reports "are compressed, too" 'sum(r["calls"] for r in rows) == 298'

policy "$scratch/policy.ini" fp8_e4m3
expect "a communicator freed under a call, and before one" 0 shimmed 3 COMPSHIM_REPORT="$scratch/report.json" \
    COMPSHIM_POLICY="$scratch/policy.ini" "$program" freed
contains "is kept as long as requests need it" "work done, 0 failures"
reports "all are compressed" 'sum(r["calls"] for r in rows) == 10'
expect "more calls than an MPI has tags" 0 shimmed 2 LD_PRELOAD="$preload:$build/tests/standin_tags.so" \
    COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_POLICY="$scratch/policy.ini" "$program" tags
contains "do not end a persistent one" "work done, 0 failures"
check "they are compressed" test "$(json 'r["totals"]["compressed_calls"]')" = 4101
for what in pending threads; do
    expect "$what: natively" 0 mpi 3 "$program" $what
    expect "$what: with the shim" 0 shimmed 3 COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$program" $what
    contains "$what: the work is done" "0 failures"
    reports "$what: calls are compressed" '0 < sum(r["calls"] for r in rows) and "nonblocking" not in passed'
done

printf '[rule all]\nmax_rel_error = 0.5\ncodec = fp8_e4m3\n' >"$scratch/policy.ini"
expect "max_rel_error" 0 shimmed 2 COMPSHIM_REPORT="$scratch/report.json" \
    COMPSHIM_POLICY="$scratch/policy.ini" "$program" 50000
check "passes nonblocking calls on" test "$(json 'r["passed_through"]["nonblocking"] > 200')" = True

policy "$scratch/policy.ini" fp8_e4m3
if [ -n "${MPI_HOME-}" ]; then
    skip "only Debian's MPIs have their Fortran here"
elif command -v mpifort.openmpi >/dev/null && command -v gfortran >/dev/null; then
    check "compile Fortran" mpifort.openmpi -o "$scratch/fortran" "$top/tests/mpi/fortran_iallreduce.F90"
    expect "mpi_f08" 0 shimmed 3 COMPSHIM_REPORT="$scratch/report.json" \
        COMPSHIM_POLICY="$scratch/policy.ini" "$scratch/fortran"
    contains "its sums are right" "work done, 0 failures"
    check "two nonblocking calls and a reduce are compressed" test \
        "$(json '[(x["collective"], x["calls"]) for x in r["rows"]]')" = "[('allreduce', 2), ('reduce', 1)]"
else
    skip "no Fortran compiler here"
fi

# Nonblocking sums send as few bytes as blocking ones.
expect "random numbers" 0 shimmed 4 COMPSHIM_REPORT="$scratch/report.json" \
    COMPSHIM_POLICY="$scratch/policy.ini" "$build/tests/mpi_overlap" 1000000 2
contains "the sums are right" " 0 wrong"
check "fp8 sends a quarter" test "$(json 'r["rows"][0]["bytes_native"] / r["rows"][0]["bytes_wire"] > 3.9')" = True

only_open_mpi "overlapping, on emulated hosts" || finish
prefix=ov$(tr 0-9 a-j <<<$$) # so that other copies of this test have hosts of their own
hosts() { "$top/tests/net/hosts.sh" --name "$prefix" "$@"; }
if [ "$(id -u)" != 0 ] || ! unshare --net --mount true 2>/dev/null; then
    skip "no emulated hosts can be made here: overlapping is not measured"
    finish
fi
trap 'hosts down >/dev/null; rm -rf "$scratch"' EXIT
expect "four hosts" 0 hosts up --hosts 4 --rate 200mbit
export COMPSHIM_POLICY=$scratch/policy.ini COMPSHIM_REPORT=off
expect "computing beside an exchange" 0 env LD_PRELOAD="$preload" "$top/tests/net/hosts.sh" --name "$prefix" \
    run --seconds "$LIMIT" "$build/tests/mpi_overlap" 4000000
echo "$output" | grep -E "^(timeline|alone)"
contains "its sums are right" " 0 wrong"
finish
