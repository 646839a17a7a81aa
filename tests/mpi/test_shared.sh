#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that ranks of a node read each other's memory if they can attach each other's System V segments: also in
# separate user and PID namespaces, and under a file size limit, but not in separate IPC namespaces. Where they
# cannot, the built-in policy first passes calls of 1 MiB through. No shared memory of killed ranks remains.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_repeated_sum
unset COMPSHIM_POLICY

cat >"$scratch/apart.sh" <<'P'
rank=${OMPI_COMM_WORLD_RANK-$PMI_RANK}
case $1 in
together) ;;
users) set -- "$1" unshare -Ur "${@:2}" ;;
mixed) set -- "$1" unshare -Ur$([ "$rank" = 0 ] || echo pf) "${@:2}" ;;
files) ulimit -f 10000 ;;
segments) set -- "$1" unshare -Uri "${@:2}" ;;
esac
exec "${@:2}"
P

# shared WAY: checks that the built-in policy compresses all of 5 calls between ranks set apart in this way (apart.sh)
shared() {
    expect "ranks apart by $1: a job" 0 mpi 2 bash "$scratch/apart.sh" "$1" env LD_PRELOAD="$preload" \
        COMPSHIM_REPORT="$scratch/report.json" "$program" 5 262144
    reports "ranks apart by $1 share memory" 'rows[0]["calls"] == 5 and rows[0]["algorithm"] == "two_shot" and not passed'
}
shared together
if mpi 2 bash "$scratch/apart.sh" files "$program" 5 262144 >/dev/null 2>&1; then
    shared files
else
    skip "ranks with small files: natively the library cannot (Open MPI 5)"
fi
if unshare -Urpf true 2>/dev/null; then
    if mpi 2 bash "$scratch/apart.sh" mixed "$program" 5 262144 >/dev/null 2>&1; then
        shared users
        shared mixed
    else
        skip "ranks in namespaces of their own: natively the library cannot"
    fi
    if only_open_mpi "ranks whose segments have numbers of their own"; then
        expect "ranks whose segments have numbers of their own: a job" 0 mpi 2 bash "$scratch/apart.sh" segments env \
            LD_PRELOAD="$preload" COMPSHIM_REPORT="$scratch/report.json" "$program" 5 262144
        reports "pass what only shared memory makes worth while" 'not rows and passed["no_gain"] == 5'
    fi
else
    skip "ranks in namespaces of their own: unshare is refused"
fi

# ranks: prints the process ids of the job's ranks
ranks() {
    local process
    for process in $(grep -lsF "$scratch/mark" /proc/[0-9]*/cmdline | cut -d / -f 3); do
        ! grep -qs '^mpi_repeated_su' "/proc/$process/comm" || echo "$process"
    done
}
# segments PROCESS...: prints how many segments of 36 MiB these processes created (libraries create others)
segments() { awk -v made_by=" $* " '$4 == 37748736 && index(made_by, " " $5 " ") { count++ } END { print count + 0 }' /proc/sysvipc/shm; }
have_segments() { [ "$(segments $(ranks))" = 2 ]; }
mpi 2 LD_PRELOAD="$preload" COMPSHIM_REPORT=off "$program" 1000000 262144 "$scratch/mark" >/dev/null 2>&1 &
job=$!
check "each rank of a node has a segment" eventually have_segments
killed=$(ranks)
kill -9 $killed
wait $job
have_ended() { [ "$(segments $killed)" = 0 ]; }
check "ranks that are killed leave none behind" eventually have_ended
finish
