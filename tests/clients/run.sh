#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs the real programs. If none fails, writes the page with the table of their results to BUILD/programs.md; if all
# were available, too, this page replaces docs/programs.md.
#   tests/clients/run.sh [PATTERN]     runs only scripts whose name contains PATTERN, and keeps the other rows
# TORCH_VERSIONS="2.1.2 ...": also runs PyTorch's tests on these versions, which tools/get-torch.sh downloads
set -u
cd "$(dirname "$0")/../.." || exit 3
export BUILD=${BUILD:-build}
clients=tests/clients pattern=${1-} failures="" absent=""
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export CLIENT_ROWS=$folder/rows
touch "$CLIENT_ROWS" "$CLIENT_ROWS.missing"

# client MPI SCRIPT: runs a script with Debian's MPI, or with the one in MPI_HOME
client() {
    local name
    name=$(basename "$2" .sh)
    case $name in *"$pattern"*) ;; *) return ;; esac
    [ "$1" = openmpi ] || name="$name with $1"
    [ -z "${MPI_HOME-}" ] || name="$name in $MPI_HOME"
    [ -z "${TORCH-}" ] || name="$name in $TORCH"
    echo "== $name"
    MPI=$1 bash "$2"
    case $? in
    0) ;;
    77) absent="$absent $name" ;;
    *) failures="$failures $name" ;;
    esac
}
# fetched NAME MPI SCRIPT...: runs scripts with an MPI that tools/get-mpi.sh downloads
fetched() {
    local name=$1 mpi=$2 script
    shift 2
    case $* in *"$pattern"*) ;; *) return ;; esac
    tools/get-mpi.sh "$name" "$BUILD/mpis/$name" || {
        absent="$absent $name"
        echo "* $name: PyPI does not have it" >>"$CLIENT_ROWS.missing"
        return
    }
    for script in "$@"; do MPI_HOME=$(realpath "$BUILD/mpis/$name") client "$mpi" "$clients/$script.sh"; done
}
for script in "$clients"/test_{shapes,languages,mpi4py}.sh; do
    client openmpi "$script"
    client mpich "$script"
done
fetched openmpi openmpi test_mpi4py
for name in mpich intel; do fetched $name mpich test_mpi4py test_standard_abi; done
for script in "$clients"/test_{horovod,lammps,espresso,petsc,hpcc,check}.sh; do client openmpi "$script"; done
pytorch() { for script in "$clients"/test_{gloo,gloo_shapes,torchrun}.sh; do client openmpi "$script"; done; }
pytorch
for version in ${TORCH_VERSIONS-}; do
    if tools/get-torch.sh "$version" "$BUILD/torch/$version"; then
        TORCH=$(realpath "$BUILD/torch/$version") pytorch
    else
        absent="$absent PyTorch $version"
        echo "* PyTorch $version: PyPI does not have it" >>"$CLIENT_ROWS.missing"
    fi
done
for mpi in openmpi mpich; do client $mpi "$clients/test_eztrace.sh"; done
client openmpi "$clients/unrelated.sh"
[ -z "$absent" ] || echo "not here:$absent"
[ -z "$failures" ] || {
    echo "failed:$failures"
    exit 1
}
[ -z "$pattern" ] || [ -e "$CLIENT_ROWS.unrelated" ] ||
    sed '1,/unrelated.sh/d' docs/programs.md >"$CLIENT_ROWS.unrelated"
python3 "$clients/merge_rows.py" "$CLIENT_ROWS" ${pattern:+docs/programs.md} >"$folder/merged" || exit
mv "$folder/merged" "$CLIENT_ROWS"
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
