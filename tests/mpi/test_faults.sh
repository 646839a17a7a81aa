#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that a job ends as without the shim if ranks die or arguments are wrong; that its sums stay right with threads,
# an error handler that jumps, many communicators and few files; that it goes on or ends with a message if a rank lacks
# memory; and that calls that do not match between ranks end it with a message.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_faults
mark=$scratch/mark
export COMPSHIM_POLICY=$scratch/policy.ini

ranks_left() { grep -lsF -f <(echo "$mark") /proc/[0-9]*/cmdline; }
none_is_left() { [ -z "$(ranks_left)" ]; }
# no_rank_left: waits until the job's processes have ended; after $LIMIT seconds prints those left, and fails
no_rank_left() {
    eventually none_is_left && return
    echo "after $LIMIT seconds there is still:"
    ranks_left | xargs -d '\n' cat | tr '\0' ' '
    return 1
}

# ends_alike FAULT ALGORITHM: checks for the native exit status (with MPICH, for any error if the native job ends with
# one), and that no process remains
ends_alike() {
    local native
    policy "$scratch/policy.ini" fp8_e4m3 "$2"
    output=$(mpi 3 "$program" "$1" "$mark" 2>&1)
    native=$?
    if [ "$MPI" = mpich ] && [ "$native" != 0 ]; then # Hydra returns the status of an arbitrary rank
        if shimmed 3 "$program" "$1" "$mark" >/dev/null 2>&1; then
            fail "$1, $2: ends with an error, as natively"
        else
            pass "$1, $2: ends with an error, as natively"
        fi
    else
        expect "$1, $2: ends as natively, with status $native" "$native" shimmed 3 "$program" "$1" "$mark"
    fi
    check "$1, $2: no rank is left" no_rank_left
}

# ended PROGRAM...: runs it on three ranks; sets $output and $status. Hydra sometimes loses everything that a job
# printed before it aborted, MPICH's own line too, so such a job runs up to ten times.
ended() {
    local runs
    for ((runs = 0; runs < 10; runs++)); do
        output=$(shimmed 3 "$@" 2>&1)
        status=$?
        if [ "$MPI" != mpich ] || [ "$status" = 0 ] || [ -n "$output" ]; then break; fi
    done
}

ends_alike kill two_shot
ends_alike kill one_shot
ends_alike kill hierarchical
# If a rank ends without MPI_Finalize, Hydra kills the other ranks only sometimes.
only_open_mpi "the status of a job that does not call MPI_Finalize" && ends_alike leave two_shot
expect "main ends by pthread_exit, natively" 0 mpi 2 "$program" thread
expect "main ends by pthread_exit: the processes end" 0 shimmed 2 "$program" thread
contains "their sums are right" "work done, 0 failures"
for fault in abort exit handler fork; do
    ends_alike $fault two_shot
done
contains "fork: the sums are right before and after" "work done, 0 failures"

if only_open_mpi "a call with wrong arguments (MPICH reads what they point to)"; then
    native=$(mpi 3 "$build/tests/mpi_error_handlers" 2>&1)
    check "wrong arguments: the handlers are called natively" grep -q "called 1 times" <<<"$native"
    check "wrong arguments: the same errors with the shim" diff <(printf '%s\n' "$native") \
        <(shimmed 3 "$build/tests/mpi_error_handlers" 2>&1)
fi

printf '[compshim]\nreport = %s\n[rule %s]\nmax_size = 16KiB\ncodec = raw\n[rule %s]\ncodec = fp8_e4m3\n' \
    off small large >"$scratch/policy.ini"
expect "threads that call at once" 0 shimmed 3 "$build/tests/mpi_threads"
contains "threads: the sums are right" "work done, 0 failures"
policy "$scratch/policy.ini" raw hierarchical
expect "threads that call at once, by nodes" 0 shimmed_on 0,0,1,1 "$build/tests/mpi_threads"
contains "threads, by nodes: the sums are right" "work done, 0 failures"

policy "$scratch/policy.ini" fp16
sed -i "s|^report = off|report = $scratch/report.json|" "$scratch/policy.ini"
expect "an error handler that jumps out of a call" 0 shimmed 3 "$build/tests/mpi_jump"
check "leaves the calls after it compressed" grep -q '"compressed_calls": 64,' "$scratch/report.json"

policy "$scratch/policy.ini" fp16
rounds=200
[ "$MPI" = openmpi ] || rounds=50 # MPICH's ranks busy-wait: slow with fewer cores than ranks
# The address sanitizer delays the reuse of freed memory.
ASAN_OPTIONS=${ASAN_OPTIONS-}:quarantine_size_mb=1 \
    expect "memory stays flat as communicators come and go" 0 \
    shimmed 4 "$build/tests/mpi_communicators" $rounds 4096

# survives NAME RANK N WHEN: checks that the job goes on with right sums or ends with a message if rank RANK gets no
# memory from request N on (tests/mpi/out_of_memory.c). Sets $refused to the number of refused requests, or to nothing
# if the rank did not print it.
survives() {
    local status
    ended "$build/tests/mpi_out_of_memory" "$2" "$3" "$4"
    refused=$(sed -n "s/^rank $2: refused \([0-9]*\), .*/\1/p" <<<"$output")
    case $status,${refused:-none},$output in
    0,*) pass "$1 (request $3: goes on)" ;;
    124,* | 137,*) fail "$1 (request $3)" "the job hangs: $output" ;;
    *,none,*"no memory"* | *,none,*"out of memory"*) pass "$1 (request $3: ends, and says so)" ;;
    *) fail "$1 (request $3)" "status $status: $output" ;;
    esac
}
# The address sanitizer's runtime has to be bound before the program's own malloc.
if [ "${SANITIZE:-0}" = 1 ]; then
    skip "with sanitizers: refusing memory"
else
    policy "$scratch/policy.ini" fp8_e4m3
    # Runs beside the other checks: if rank 0 has no memory for the agreement, the other ranks wait until the time limit
    # of the agreement. Has its own TMPDIR, because two mpiruns at once may fail to create a common session folder.
    (
        failed=0
        export TMPDIR=$scratch/rank0.tmp
        mkdir "$TMPDIR"
        survives "rank 0 without memory" 0 7 init
        exit $failed
    ) >"$scratch/rank0" 2>&1 &
    request=1
    while survives "a rank without memory" 1 $request init && [ "$refused" != 0 ] && [ $request -lt 60 ]; do
        request=$((request + 1))
    done
    check "requests were refused, and at last none" test "$refused,$((request > 5))" = 0,1
    expect "rank 0 without memory at the end" 0 \
        shimmed 3 COMPSHIM_REPORT=summary "$build/tests/mpi_out_of_memory" 0 1 end
    contains "has the report of all ranks" "where a ring sends 6.1 MiB"
    if wait $!; then pass "rank 0 without memory"; else fail "rank 0 without memory" "$(cat "$scratch/rank0")"; fi
fi

# few_files NAME LIMIT PYTHON: runs a job over TCP whose ranks may open LIMIT files, and checks its report. Without the
# shim a rank needs fewer files, because it connects to few others.
few_files() {
    expect "$1: the job ends well" 0 shimmed 24 OMPI_MCA_btl=tcp,self COMPSHIM_REPORT="$scratch/report.json" \
        bash -c 'ulimit -n "$1" && exec "$2" 2 50000' few_files "$2" "$build/tests/mpi_repeated_sum"
    reports "$1" "$3"
}
if only_open_mpi "connections over TCP"; then
    policy "$scratch/policy.ini" fp8_e4m3
    few_files "no file for each rank, nor for a row and a column of them" 42 'passed["no_descriptors"] == 2'
    few_files "no file for each rank" 64 'rows[0]["algorithm"] == "grid" and rows[0]["calls"] == 2'
fi

# mismatch ALGORITHM VIEW VIEW FAULT...: checks that the job ends and reports both sides' view of the call
mismatch() {
    local algorithm=$1 one=$2 other=$3 status name
    shift 3
    name="$algorithm, $*"
    policy "$scratch/policy.ini" fp8_e4m3 "$algorithm" "float32, float64"
    ended "$program" "$@"
    case $status in
    0) fail "$name: the job ends" "it goes on: $output" ;;
    124 | 137) fail "$name: the job ends" "it hangs: $output" ;;
    *) pass "$name: the job ends" ;;
    esac
    if mpich_reports_mismatch; then
        pass "$name: MPICH says why"
        return
    fi
    contains "$name: it says why" "does not match between rank"
    contains "$name: one side's view" "$one"
    contains "$name: the other side's view" "$other"
}
for algorithm in two_shot one_shot hierarchical; do
    mismatch $algorithm "1000 x float32" "1001 x float32" count 1000 1001
    mismatch $algorithm "300000 x float32" "100000 x float32" count 300000 100000
    mismatch $algorithm "100000 x float32" "50000 x float32" order 100000 50000
    mismatch $algorithm "100000 x float32" "100000 x float64" type 100000
done
mismatch two_shot "100000 x float32" "300000 x float32" count 100000 300000 return
mismatch one_shot "1001 x float32" "1000 x float32" root 1001 1000

policy "$scratch/policy.ini" fp8_e4m3 two_shot
expect "a rank that comes late: the sum is right" 0 shimmed 3 "$program" late 50001
for rank in 0 1; do
    contains "rank $rank says for whom it waits" "compshim: rank $rank has waited 10 s for rank 2 in a compressed sum of 50001 x float32"
done
check "each says it once" test "$(grep -c 'has waited 10 s' <<<"$output")" = 2
finish
