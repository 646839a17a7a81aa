#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the real programs and writes the table of what became of them to BUILD/programs.md; where all of
# them were to be had and passed, docs/programs.md is replaced by it.
#   tests/clients/run.sh [PATTERN]     only the scripts whose name contains PATTERN; writes no table
set -u
cd "$(dirname "$0")/../.." || exit 3
export BUILD=${BUILD:-build}
clients=tests/clients pattern=${1-} failures="" absent=""
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CLIENT_ROWS=$folder/rows
touch "$CLIENT_ROWS" "$CLIENT_ROWS.missing"

# client MPI SCRIPT
client() {
    local name
    name=$(basename "$2" .sh)
    case $name in *"$pattern"*) ;; *) return ;; esac
    [ "$1" = openmpi ] || name="$name with $1"
    echo "== $name"
    MPI=$1 bash "$2"
    case $? in
    0) ;;
    77) absent="$absent $name" ;;
    *) failures="$failures $name" ;;
    esac
}
for script in "$clients"/test_{shapes,languages,mpi4py}.sh; do
    client openmpi "$script"
    client mpich "$script"
done
for script in "$clients"/test_{horovod,lammps,espresso,gloo}.sh "$clients/unrelated.sh"; do
    client openmpi "$script"
done
[ -z "$absent" ] || echo "not here:$absent"
[ -z "$failures" ] || {
    echo "failed:$failures"
    exit 1
}
[ -z "$pattern" ] || exit 0

table() {
    sed '1,/^TABLE$/!d; /^TABLE$/d' "$clients/programs.in"
    cat "$CLIENT_ROWS"
    sed '1,/^TABLE$/d' "$clients/programs.in"
    cat "$CLIENT_ROWS.unrelated"
    if [ -n "$absent" ]; then
        printf '\n## Not here\n'
        cat "$CLIENT_ROWS.missing"
    fi
}
table >"$BUILD/programs.md"
echo "$BUILD/programs.md: $(wc -l <"$CLIENT_ROWS") rows"
[ -n "$absent" ] || cp "$BUILD/programs.md" docs/programs.md
