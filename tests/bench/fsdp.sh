#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trains the transformer of examples/python by FSDP2 over gloo on four emulated hosts (tests/net/hosts.sh), natively and
# under the shim. Prints a line for each run, then the table.
#
#   fsdp.sh [--rate RATE] [--modes LIST] [--repeats N] [--steps N]
#
#   --rate      rate of the hosts' links, 1gbit
#   --modes     off, or the codecs of PARAMETERS/GRADIENTS (none: passed through). The modes take turns in every
#               repeat.
#   --steps     steps (200) of the first repeat; later ones make a quarter as many
#
# The table has for each mode the median time of a step, and its speed relative to the first mode. Two columns are from
# the first repeat only: the loss, and the bytes that the hosts sent in the first mode divided by those of this mode.
# These bytes include all headers of the network.
#
# Needs root. TORCH is a folder with PyTorch in bin/python3 (tools/get-torch.sh).
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/lib.sh
build=$(realpath "${BUILD:-build}")
rate=1gbit modes=off,none/fp8_e4m3,lossless/fp8_e4m3,bf16/fp8_e4m3,fp8_e4m3/fp8_e4m3 repeats=3 steps=200
while [ $# -gt 0 ]; do
    case $1 in
    --rate) rate=${2-} ;;
    --modes) modes=${2-} ;;
    --repeats) repeats=${2-} ;;
    --steps) steps=${2-} ;;
    *) usage ;;
    esac
    shift 2
done
if [ -z "${TORCH-}" ]; then
    TORCH=$build/torch/2.15.0
    tools/get-torch.sh 2.15.0 "$TORCH"
fi
begin tests/net/hosts.sh --name cshimfsdp
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 MASTER_ADDR=cshimfsdp1 MASTER_PORT=29557 WORLD_SIZE=4

sent() { "${hosts[@]}" stats | awk '{ sum += $3 } END { printf "%.0f\n", sum }'; }

# rule NAME CODEC KEY...: adds a rule to the policy, unless the codec is none
rule() {
    [ "$2" = none ] || printf '%s\n' "[rule $1]" "codec = $2" "worth = always" "${@:3}" >>"$scratch/policy.ini"
}

# train MODE STEPS: prints the mode, the seconds per step, the loss and the bytes sent per step
train() {
    local variables=() before rank pids=()
    : >"$scratch/policy.ini"
    if [ "$1" != off ]; then
        rule parameters "${1%/*}" "collective = allgather" "dtype = float32" "min_size = 1KiB"
        rule gradients "${1#*/}" "collective = allreduce,reduce_scatter"
        variables=("LD_PRELOAD=$build/libcompshim.so" COMPSHIM_REPORT=off "COMPSHIM_POLICY=$scratch/policy.ini")
    fi
    before=$(sent)
    for rank in 0 1 2 3; do
        "${hosts[@]}" exec $((rank + 1)) timeout --kill-after=10 1800 env RANK=$rank "${variables[@]}" \
            "$TORCH/bin/python3" "$PWD/examples/python/chars_ddp.py" --sharded --steps "$2" >>"$scratch/output" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do wait "$rank" || exit 1; done
    awk -v mode="$1" -v bytes=$(($(sent) - before)) -v steps="$2" \
        '/per step, loss/ { line = mode " " $3 " " $8 " " bytes / steps } END { print line }' "$scratch/output"
}

up "$rate-4x1"
for repeat in $(seq "$repeats"); do
    for mode in ${modes//,/ }; do
        train "$mode" $((repeat == 1 ? steps : (steps + 3) / 4)) | tee -a "$scratch/runs"
    done
done
python3 - "$scratch/runs" <<'END'
import statistics, sys

runs = {}
for line in open(sys.argv[1]):
    mode, *figures = line.split()
    runs.setdefault(mode, []).append([float(figure) for figure in figures])
first = next(iter(runs.values()))
native = statistics.median(run[0] for run in first)
print("| parameters/gradients | step, ms | speed | loss | fewer bytes |\n|---|---|---|---|---|")
for mode, lines in runs.items():
    step = statistics.median(run[0] for run in lines)
    print(f"| {mode} | {1000 * step:.0f} | {native / step:.2f} × | {lines[0][1]:.4f} | {first[0][2] / lines[0][2]:.2f} × |")
END
