#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test program and script. Says of each how many checks passed, shows those that failed, and
# ends with what was skipped and why, the slowest tests, and one line of totals:
# "N passed, N failed, N skipped". All three are checks; a test that ends before its last check is one
# failed check more.
#   tests/run.sh [PATTERN]     only the tests whose name contains PATTERN
# NEED_CUDA=1: that the tests of NCCL could not be built is a failure.
set -u
cd "$(dirname "$0")/.." || exit 3
export BUILD=${BUILD:-build}
pattern=${1-} passed=0 failed=0 skipped=0 failures=()
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

# count LOG: sets $counts to the checks that passed, failed and were skipped, and $ended to whether the
# test came to its end. cmocka names a failed or skipped test twice.
count() {
    local line
    line=$(sed -nE 's/^[^ ]+: ([0-9]+) passed, ([0-9]+) failed, ([0-9]+) skipped$/\1 \2 \3/p' "$1" | tail -n 1)
    ended=yes
    if [ -n "$line" ]; then
        read -ra counts <<<"$line"
        return
    fi
    grep -qE '^\[=+\] .*[0-9]+ test\(s\) run\.$' "$1" || ended=
    counts=("$(grep -cE '^(ok - |\[       OK \] )' "$1")"
        "$(grep -E '^(not ok - |\[  FAILED  \] [^ ]+$)' "$1" | sort -u | wc -l)"
        "$(grep -E '^(skipped - |\[  SKIPPED \] [^ ]+$)' "$1" | sort -u | wc -l)")
}
# show_failures LOG: each failed check with what is said of it
show_failures() {
    awk '/^not ok - / { lines = 40 }
        /^(ok|skipped) - / || /: [0-9]+ passed, [0-9]+ failed, / { lines = 0 }
        /^\[  ERROR   \]|^\[   LINE   \]|^\[  FAILED  \]/ { print }
        lines-- > 0' "$1"
}

run() { # NAME CMD...
    local name=$1 log=$logs/log began=$SECONDS status counts ended
    shift
    case $name in *"$pattern"*) ;; *) return ;; esac
    printf '== %s\n' "$name"
    env --default-signal "$@" >"$log" 2>&1 # nohup and background jobs ignore some
    status=$?
    count "$log"
    printf '%s s %s\n' $((SECONDS - began)) "$name" >>"$logs/durations"
    sed -n "s|^skipped - |$name: |p" "$log" >>"$logs/skipped"
    if [ "$status,$ended,${counts[1]}" = 0,yes,0 ]; then
        printf '   %s passed, %s skipped, %s s\n' "${counts[0]}" "${counts[2]}" $((SECONDS - began))
    else
        show_failures "$log"
        if [ -z "$ended" ] || [ "${counts[1]}" = 0 ]; then
            counts[1]=$((counts[1] + 1))
            echo "   it did not come to its end, its last lines:"
            tail -n 20 "$log"
        fi
        failures+=("$name")
        printf '   FAILED: %s passed, %s failed, %s skipped, status %s, %s s; alone: %s\n' "${counts[@]}" \
            "$status" $((SECONDS - began)) "$alone$*"
    fi
    passed=$((passed + counts[0])) failed=$((failed + counts[1])) skipped=$((skipped + counts[2]))
}

alone="BUILD=$BUILD "
for variable in MPI MPI_HOME SANITIZE CUDA_HOME; do
    [ -z "${!variable-}" ] || alone+="$variable=${!variable} "
done
for program in "$BUILD"/tests/test_*; do
    [ -x "$program" ] && run "$(basename "$program")" "$program"
done
for script in tests/cli/test_*.sh tests/docs/test_*.sh tests/fuzz/test_*.sh tests/model/test_*.sh \
    tests/mpi/test_*.sh tests/nccl/test_*.sh tests/net/test_*.sh tests/package/test_*.sh tests/study/test_*.sh; do
    [ -e "$script" ] && run "${script#tests/}" bash "$script"
done
if [ -n "${NEED_CUDA:-}" ] && [ "${MPI:-openmpi}${MPI_HOME-}" = openmpi ] && [ ! -e "$BUILD/libcompshim-nccl.so" ]; then
    echo "the tests of NCCL are needed, but nvcc or nccl.h are missing: see tools/get-cuda.sh"
    failed=$((failed + 1)) failures+=(nccl/)
fi
if [ -s "$logs/skipped" ]; then
    echo "skipped:"
    sed 's/^/   /' "$logs/skipped"
fi
printf 'in %d min %d s; the slowest:\n' $((SECONDS / 60)) $((SECONDS % 60))
sort -rn "$logs/durations" | head -n 10 | sed 's/^/   /'
[ ${#failures[@]} = 0 ] || echo "failed: ${failures[*]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
