#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Searches for defects by random tests for MINUTES minutes. Legal MPI programs and gloo programs, which SEED (default:
# the time) selects, and each fuzz target take turns. Also plants defects into copies of the shim; the legal programs
# must detect them. Continues after a finding. At the end prints how to repeat each finding; exits with 1 if
# there is any. The logs are in $BUILD/explore.
#   BUILD=DIR tests/explore.sh MINUTES [SEED]
set -u
cd "$(dirname "$0")/.." || exit 3
export BUILD=${BUILD:-build}
minutes=${1:?} seed=${2:-$(date +%s)}
log=$BUILD/explore
end=$((SECONDS + 60 * minutes)) finds=()
mkdir -p "$log"
trap 'exit 130' INT TERM
RANDOM=$((seed % 32749))
mapfile -t targets < <(find tests/fuzz -name 'fuzz_*.c' -printf '%f\n' | sed 's/fuzz_//; s/\.c//' | sort)
mapfile -t defects < <(sed -nE 's/^defect "([^"]*)".*/\1/p' tests/legal/defects.sh)
echo "explore: $minutes minutes, seed $seed"

# turn NAME COMMAND...: runs the command, and prints the result; adds a failure to $finds
turn() {
    local name=$1
    shift
    if "$@" >"$log/$name" 2>&1; then
        echo "$name: $(tail -n 1 "$log/$name")"
    else
        local again
        again=$(sed -nE 's/^ *(once more|the same again): //p' "$log/$name" | tail -n 1)
        finds+=("$name: ${again:-BUILD=$BUILD $*}; its output: $log/$name")
        echo "$name: FOUND SOMETHING"
        tail -n 40 "$log/$name"
    fi
}
for ((round = 0; SECONDS < end; round++)); do
    drawn=$((seed + round))
    turn "legal.$round" env JOBS=10 bash tests/legal/legal.sh 1 $drawn
    turn "gloo.$round" env SEED=$drawn PROGRAMS=3 bash tests/gloo/test_mix.sh
    for target in "${targets[@]}"; do
        [ "$SECONDS" -lt "$end" ] || break
        turn "fuzz_$target.$round" env SEED=$drawn tests/fuzz/run.sh seconds 20 "$target"
    done
    defect=${defects[RANDOM % ${#defects[@]}]}
    [ "$SECONDS" -ge "$end" ] || turn "defect.$round" env SEED=$drawn bash tests/legal/defects.sh 300 "$defect"
done
if [ ${#finds[@]} -gt 0 ]; then
    echo "found, and how to repeat it:"
    printf '   %s\n' "${finds[@]}"
    exit 1
fi
echo "explore: $round rounds, seed $seed, nothing found"
