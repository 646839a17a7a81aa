#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs jobs under a real Slurm on this machine: with the shim on all ranks or on half of them, started in every way
# that docs/slurm.md shows. Needs root.
. "$(dirname "$0")/../lib.sh"
cluster=$scratch/cluster
page=docs/slurm.md
cd "$top" || exit 1

[ "$(id -u)" = 0 ] || {
    echo "make test-slurm: needs root (slurmd starts the processes of other users); run it with sudo" >&2
    exit 3
}
trap 'bash "$top/tests/slurm/cluster.sh" down "$cluster"; rm -rf "$scratch"' EXIT
check "a cluster of two nodes" limited bash tests/slurm/cluster.sh up "$cluster" 2
[ "$failed" = 0 ] || finish # the other checks would fail too
export SLURM_CONF=$cluster/slurm.conf
expect "Slurm has the plugin for PMIx" 0 srun --mpi=list
contains "pmix" "pmix"

cd "$scratch" || exit 1
policy policy.ini fp8_e4m3 two_shot
export COMPSHIM_POLICY=$scratch/policy.ini
sums="$build/tests/mpi_allreduce"

job() { limited srun --nodes 2 --ntasks 4 "$@"; }
quiet() { # NAME: checks that $output has no error of Open MPI or Slurm
    case $output in
    *"not supported"* | *srun:\ error* | *"An error"*) fail "$1" "$output" ;;
    *) pass "$1" ;;
    esac
}
report() { # NAME EXPRESSION: checks an expression on the report, a Python dict r
    check "$1" python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); sys.exit(not ('"$2"'))' report.json
}

expect "sums without the shim" 0 job "$sums" none 1
LD_PRELOAD=$preload COMPSHIM_REPORT=$scratch/report.json expect "sums with the shim on all ranks" 0 job "$sums" fp8_e4m3 2
quiet "nobody complains"
report "four ranks on two nodes" 'r["ranks"] == 4 and r["nodes"] == 2'
report "they were compressed" 'r["totals"]["compressed_calls"] > 0 and r["totals"]["bytes_wire"] * 3 < r["totals"]["bytes_native"]'
policy policy.ini raw hierarchical
LD_PRELOAD=$preload COMPSHIM_REPORT=$scratch/report.json expect "sums between and inside the nodes" 0 job \
    "$build/allreduce_bench" --sizes 1MiB --seconds 0.1
report "were hierarchical" 'any(row["algorithm"] == "hierarchical" for row in r["rows"])'

# With the shim on half the ranks, the sums are exact, and the reason is printed in time.
policy policy.ini fp8_e4m3 two_shot
half() { # REMAINDER: runs the sums; only ranks whose number modulo 2 is REMAINDER have the shim
    # shellcheck disable=SC2016
    SHIM=$preload job sh -c '[ $((SLURM_PROCID % 2)) = '"$1"' ] && export LD_PRELOAD="$SHIM"; exec "$0" none 1' "$sums"
}
began=$SECONDS
expect "sums with the shim on ranks 0 and 2" 0 half 0
contains "rank 0 names the others" "not all ranks have this shim: rank 1 (no answer), rank 3 (no answer)"
quiet "nobody else complains"
expect "sums with the shim on ranks 1 and 3" 0 half 1
contains "rank 1 tells" "rank 0 does not answer rank 1"
contains "rank 3 tells" "rank 0 does not answer rank 3"
quiet "nobody else complains of that"
check "both were decided within 20 s each" test $((SECONDS - began)) -lt 40

# Options of srun that exclude the shim's variables: compshim run adds them.
for export in "--export=NONE" "--export=PATH,HOME"; do
    rm -f report.json
    COMPSHIM_REPORT=$scratch/report.json expect "compshim run srun $export" 0 \
        timeout 120 "$build/compshim" run -- srun "$export" --ntasks 2 "$build/allreduce_bench" --sizes 1MiB --seconds 0.1
    contains "$export is mended" "--export is changed to"
    report "$export: the calls were compressed" 'r["totals"]["compressed_calls"] > 0'
done

# Runs the page's commands that start jobs, and compshim check, as written but without SLURM_CONF, in a folder like a
# checkout after make.
mkdir place && cd place || exit 1
ln -s "$top/examples" "$top/tests" .
mkdir build
ln -s "$build"/{compshim,libcompshim*.so,mnist_train} build
ln -s "$build/mnist_train" train
export PATH=$build:$PATH MNIST_DIR=$scratch/digits
unset COMPSHIM_POLICY
python3 "$top/tests/docs/few_digits.py" "$MNIST_DIR"
(cd "$top" && python3 tests/docs/blocks.py "$page" "$scratch") >"$scratch/commands"
check "the page has commands" test "$(wc -l <"$scratch/commands")" -ge 5
while IFS=$'\t' read -r -u 3 place command; do
    case $command in *"compshim check"* | *sbatch* | *mpirun* | *srun*)
        case $command in *SLURM_CONF=*) command=${command#* } ;; esac # uses this cluster instead
        check "$place: $command" timeout --kill-after=5 200 bash -c "$command" </dev/null
        ;;
    esac
done 3<"$scratch/commands"
output=$(cat mnist-*.out)
check "the batch job has a report" python3 -c '
import glob, json, sys
(report,) = glob.glob("mnist-*.json")
sys.exit(not json.load(open(report))["ranks"] == 4)'
contains "its output says what compshim run did" "compshim: srun: LD_PRELOAD and COMPSHIM_* are passed to all tasks"
finish
