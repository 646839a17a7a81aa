#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test program and script, and ends with one line of totals.
#   tests/run.sh [PATTERN]     only the tests whose name contains PATTERN
# NEED_CUDA=1: that the tests of NCCL could not be built is a failure.
set -u
cd "$(dirname "$0")/.." || exit 3
export BUILD=${BUILD:-build}
pattern=${1-} passed=0 failed=0 failures=
log=$(mktemp)
trap 'rm -f "$log"' EXIT

run() { # NAME CMD...
    local name=$1 began=$SECONDS status counts
    shift
    case $name in *"$pattern"*) ;; *) return ;; esac
    printf '== %s\n' "$name"
    env --default-signal "$@" >"$log" 2>&1 # nohup and background jobs ignore some
    status=$?
    # "[  PASSED  ] N test(s)." of cmocka, or "NAME: N passed, M failed" of tests/lib.sh
    counts=$(sed -nE 's/^\[  PASSED  \] ([0-9]+) test.*/\1/p; s/^.*: ([0-9]+) passed, [0-9]+ failed$/\1/p' "$log" | tail -n 1)
    passed=$((passed + ${counts:-0}))
    if [ "$status" = 0 ] && [ "${counts:-0}" -gt 0 ]; then
        printf '   %s passed, %s s\n' "$counts" $((SECONDS - began))
        return
    fi
    failed=$((failed + 1)) failures="$failures $name"
    head -n -60 "$log" | grep -A 8 "^not ok"
    tail -n 60 "$log"
    printf '   FAILED (status %s, %s s)\n' "$status" $((SECONDS - began))
}

for program in "$BUILD"/tests/test_*; do
    [ -x "$program" ] && run "$(basename "$program")" "$program"
done
for script in tests/cli/test_*.sh tests/docs/test_*.sh tests/fuzz/test_*.sh tests/mpi/test_*.sh \
    tests/nccl/test_*.sh tests/net/test_*.sh tests/package/test_*.sh tests/study/test_*.sh; do
    [ -e "$script" ] && run "${script#tests/}" bash "$script"
done
if [ "${MPI:-openmpi}${MPI_HOME-}" = openmpi ] && [ ! -e "$BUILD/libcompshim-nccl.so" ]; then
    echo "left out: the tests of NCCL, because nvcc or nccl.h are missing: see tools/get-cuda.sh"
    [ -z "${NEED_CUDA:-}" ] || failed=$((failed + 1)) failures="$failures nccl/"
fi
[ -z "$failures" ] || echo "failed:$failures"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
