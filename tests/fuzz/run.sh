#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the named fuzz targets one after another, and prints a line for each. Exits with 1 if one has a finding or is
# not built.
#   BUILD=DIR SEED=N tests/fuzz/run.sh seconds|runs NUMBER TARGET...
# SEED (default: any) is the seed of the inputs that libFuzzer draws.
# Inputs that reach new code are kept in BUILD/fuzz/corpus for the next run.
set -u
cd "$(dirname "$0")/../.." || exit 3
build=${BUILD:-build}/fuzz
case ${1-} in
seconds) limit=-max_total_time=$2 ;;
runs) limit=-runs=$2 ;;
*)
    echo "usage: tests/fuzz/run.sh seconds|runs NUMBER [TARGET...]" >&2
    exit 2
    ;;
esac
shift 2
status=0
trap 'exit 130' INT
export UBSAN_OPTIONS=print_stacktrace=1

stat_of() { sed -n "s/^stat::$1: *//p" "$build/$2.log"; }

fuzz() { # TARGET
    local target=$1 seeds=tests/fuzz/seeds/$1 corpus=$build/corpus/$1 options=() finding
    if [ ! -x "$build/fuzz_$target" ]; then
        echo "$target: there is no such target ($build/fuzz_$target)" >&2
        return 2
    fi
    mkdir -p "$corpus" "$build/findings"
    [ -e "tests/fuzz/$target.dict" ] && options+=("-dict=tests/fuzz/$target.dict")
    if "$build/fuzz_$target" "$limit" "${options[@]}" -seed="${SEED:-0}" -max_len=4096 -timeout=20 -print_final_stats=1 \
        -artifact_prefix="$build/findings/$target-" "$corpus" "$seeds" >"$build/$target.log" 2>&1; then
        printf '%-8s %12s executions, %7s a second, %5s inputs kept, nothing found\n' "$target" \
            "$(stat_of number_of_executed_units "$target")" \
            "$(stat_of average_exec_per_sec "$target")" "$(find "$corpus" -type f | wc -l)"
        return 0
    fi
    finding=$(sed -n 's/.*Test unit written to //p' "$build/$target.log" | tail -n 1)
    tail -n 60 "$build/$target.log"
    echo "$target: FOUND SOMETHING, with this input: ${finding:-none (see $build/$target.log)}"
    echo "    once more: $build/fuzz_$target ${finding:-}"
    return 1
}

for target in "$@"; do
    fuzz "$target" || status=1
done
exit $status
