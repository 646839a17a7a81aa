#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every test program and script whose name begins with test_, except those of tests/clients and tests/slurm. Prints
# a line for each, and the failed checks. At the end prints the scripts' skipped checks with the reasons, the ten
# slowest tests with their processor seconds, commands to rerun the failed ones, and a line of totals: "N passed, N
# failed, N skipped", which counts checks. A test that ends before its last check, or fails without a failed check,
# counts as one more failed check.
#   tests/run.sh [WORD...]     runs only tests whose name contains one of the words
# The tests that took longest last time ($BUILD/tests/durations) start first, so that all end at about the same time.
# $BUILD/tests/checks has the name and the outcome of each check in a fixed order, so that diff compares two runs.
# JOBS=N: number of tests at once; the default is twice the number of cores plus one, at most 8, because many tests
# wait. A script with a line "# Runs alone: ..." runs after the others, by itself. COVERAGE=1: skips scripts with a line
# "# Not for coverage: ...". NEED_CUDA=1: with Debian's Open MPI, fails if the tests of NCCL could not be built.
# SIMD=avx2|scalar: keeps libc and OpenBLAS from wider instructions, for programs that make has built with the same
# SIMD.
set -u
cd "$(dirname "$0")/.." || exit 3
export BUILD=${BUILD:-build}
passed=0 failed=0 skipped=0 failures=()
logs=$(mktemp -d)
chmod 755 "$logs" # some tests act as another user
trap 'rm -rf "$logs"' EXIT
trap 'echo "ended while there ran:$(for number in "${running[@]}"; do echo " ${tests[number]%% *}"; done)"; exit 130' INT TERM

# count LOG: sets $counts to the numbers of passed, failed and skipped checks, and $ended to "yes" if the test came to
# its end. cmocka names a failed or skipped test twice.
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
# show_failures LOG: prints each failed check with the first lines of its output (39), and cmocka's errors
show_failures() {
    awk '/^not ok - / { lines = 40 }
        /^(ok|skipped) - / || /: [0-9]+ passed, [0-9]+ failed, / { lines = 0 }
        /^\[  ERROR   \]|^\[   LINE   \]|^\[  FAILED  \]/ { print }
        lines-- > 0' "$1"
}

run_test() { # LOG CMD...: saves output in LOG, and status, seconds and processor seconds in LOG.ended
    local log=$1 began=$SECONDS
    shift
    # `env --default-signal`, because nohup and background jobs would make the test ignore some signals. A TMPDIR for
    # each test, because an mpirun that ends removes folders of one that starts.
    mkdir "$log.tmp"
    TMPDIR=$log.tmp env --default-signal "$@" >"$log" 2>&1
    echo "$? $((SECONDS - began))" >"$log.ended"
    times >"$log.times" # not in a pipeline, whose subshell would have other children
    awk -F '[ms ]+' 'END { printf "%.0f\n", 60 * ($1 + $3) + $2 + $4 }' "$log.times" >>"$log.ended"
}
report_test() { # LOG NAME CMD...: prints the result
    local log=$1 name=$2 status duration processor counts ended cut_short
    shift 2
    read -r -d '' status duration processor <"$log.ended"
    count "$log"
    printf '%s s %s (%s s of a processor)\n' "$duration" "$name" "$processor" >>"$logs/durations"
    sed -n "s|^skipped - |$name: |p" "$log" >>"$logs/skipped"
    sed -nE "s%^(ok|not ok|skipped) - %$name: &%p; s%^\[ +(OK|FAILED|SKIPPED) \] +%$name: \1 - %p" "$log" >"$logs/checks.${name//\//,}"
    if [ "$status,$ended,${counts[1]}" = 0,yes,0 ]; then
        printf 'ok     %-28s %4s passed, %s skipped, %s s\n' "$name" "${counts[0]}" "${counts[2]}" "$duration"
    else
        cut_short=
        if [ -z "$ended" ] || [ "${counts[1]}" = 0 ]; then
            counts[1]=$((counts[1] + 1)) cut_short=yes
        fi
        printf 'FAILED %-28s %4s passed, %s failed, %s skipped, status %s, %s s\n' "$name" "${counts[@]}" "$status" "$duration"
        show_failures "$log"
        if [ -n "$cut_short" ]; then
            echo "it did not come to its end; the check before, and what was said since:"
            awk '/^(ok|not ok|skipped) - |^\[       OK/ { count = 0 }
                { line[count++] = $0 }
                END { for (i = 0; i < count; i++) if (i == 0 || i >= count - 20) print line[i] }' "$log"
        fi
        failures+=("$name: $alone$*")
    fi
    passed=$((passed + counts[0])) failed=$((failed + counts[1])) skipped=$((skipped + counts[2]))
}

declare -A running=() # indices in $tests of the running tests, by process id
collect() {           # waits for one running test to end; reports and counts its results
    local process
    wait -n -p process "${!running[@]}"
    # shellcheck disable=SC2086 # splits the name and the words of the command
    report_test "$logs/${running[$process]}" ${tests[${running[$process]}]}
    unset "running[$process]"
}
# run_all SIDE_BY_SIDE NUMBER...: runs the tests with these indices, at most SIDE_BY_SIDE at once
run_all() {
    local most=$1 number
    shift
    for number in "$@"; do
        # shellcheck disable=SC2086 # the command without the name
        run_test "$logs/$number" ${tests[number]#* } &
        running[$!]=$number
        [ ${#running[@]} -lt "$most" ] || collect
    done
    while [ ${#running[@]} -gt 0 ]; do collect; done
}

no_avx512=-AVX512F,-AVX512CD,-AVX512BW,-AVX512DQ,-AVX512VL
case ${SIMD-} in
avx2) export GLIBC_TUNABLES=glibc.cpu.hwcaps=$no_avx512 OPENBLAS_CORETYPE=Haswell ;;
scalar) export GLIBC_TUNABLES=glibc.cpu.hwcaps=$no_avx512,-AVX2,-AVX_Fast_Unaligned_Load,-AVX OPENBLAS_CORETYPE=Nehalem ;;
esac
alone="BUILD=$BUILD "
for variable in MPI MPI_HOME SANITIZE CUDA_HOME GLIBC_TUNABLES OPENBLAS_CORETYPE; do
    [ -z "${!variable-}" ] || alone+="$variable=${!variable} "
done
tests=() # "NAME CMD..."
for program in "$BUILD"/tests/test_*; do
    [ ! -x "$program" ] || tests+=("$(basename "$program") $program")
done
for script in tests/cli/test_*.sh tests/docs/test_*.sh tests/fuzz/test_*.sh tests/model/test_*.sh \
    tests/mpi/test_*.sh tests/nccl/test_*.sh tests/gloo/test_*.sh tests/net/test_*.sh tests/package/test_*.sh tests/study/test_*.sh tests/bench/test_*.sh; do
    [ ! -e "$script" ] || tests+=("${script#tests/} bash $script")
done
beside=() by_itself=()
# chosen NAME WORD...: succeeds if the name contains one of the words, or if there are none
chosen() {
    local name=$1 word
    shift
    for word in "${@:-}"; do [[ $name != *"$word"* ]] || return 0; done
    return 1
}
# The longest tests start first. A test without a recorded duration counts as 1000 s.
durations=$BUILD/tests/durations
mkdir -p "$BUILD/tests" && touch "$durations" "$logs/durations"
mapfile -t longest_first < <(printf '%s\n' "${tests[@]}" | awk '
    FILENAME == ARGV[1] { seconds[$3] = $1; next }
    { print ($1 in seconds ? seconds[$1] : 1000), FNR - 1 }' "$durations" - | sort -s -k 1,1rn | cut -d " " -f 2)
for number in "${longest_first[@]}"; do
    chosen "${tests[number]%% *}" "$@" || continue
    if [ -n "${COVERAGE-}" ] && why=$(grep -am 1 '^# Not for coverage: ' "${tests[number]##* }"); then
        echo "${tests[number]%% *}: ${why#*: }" >>"$logs/skipped"
        skipped=$((skipped + 1))
    elif grep -q '^# Runs alone: ' "${tests[number]##* }"; then
        by_itself+=("$number")
    else
        beside+=("$number")
    fi
done
cores=$(nproc)
run_all "${JOBS:-$((cores < 4 ? 2 * cores + 1 : 8))}" "${beside[@]}"
run_all 1 "${by_itself[@]}"
if [ -n "${NEED_CUDA:-}" ] && [ "${MPI:-openmpi}${MPI_HOME-}" = openmpi ] && [ ! -e "$BUILD/libcompshim-nccl.so" ]; then
    echo "the tests of NCCL are needed, but nvcc or nccl.h are missing: see tools/get-cuda.sh"
    failed=$((failed + 1)) failures+=("nccl/: NEED_CUDA=1")
fi
if [ -s "$logs/skipped" ]; then
    echo "skipped:"
    sed 's/^/   /' "$logs/skipped"
fi
printf 'in %d min %d s; the slowest:\n' $((SECONDS / 60)) $((SECONDS % 60))
sort -rn "$logs/durations" | head -n 10 | sed 's/^/   /'
# Tests that were not run keep their previous duration.
awk '!($3 in told) { told[$3]; print }' "$logs/durations" "$durations" >"$logs/all" && cp "$logs/all" "$durations"
cat "$logs"/checks.* >"$BUILD/tests/checks"
if [ ${#failures[@]} -gt 0 ]; then
    echo "failed; to run them alone:"
    printf '   %s\n' "${failures[@]}"
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
