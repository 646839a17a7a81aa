#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures PyTorch's DistributedDataParallel over gloo: as it is, with PyTorch's own 16-bit hooks, and under
# the shim, on four emulated hosts (tests/net/hosts.sh); and what the built-in policy costs on this machine
# alone, where it passes on what is small.
#
#   gloo.sh [--rates LIST] [--modes LIST] [--repeats N] [--training STEPS] [--sizes LIST] [--results DIR]
#
# Rates of the hosts' links: 1gbit,100mbit; without root they are left out. Modes: off, bf16-hook, fp16-hook,
# and codecs. STEPS (60) are those of the transformer of examples/python. SIZES, in bytes, are those over
# loopback; "" leaves loopback out. The modes take turns in every repeat, and each figure is the median of the
# repeats' medians. Results: DIR/gloo-RATE.json and DIR/gloo-loopback.json (DIR is tests/bench/results); it
# prints the tables of them. TORCH is a folder with PyTorch in bin/python3; without it tools/get-torch.sh
# fetches the newest.
set -eu
cd "$(dirname "$0")/../.."
build=$(realpath "${BUILD:-build}")
rates=1gbit,100mbit modes=off,bf16-hook,fp16-hook,fp16,fp8_e4m3,int8,int6 repeats=3 training=60
sizes=4,1024,16384,262144,4194304,26214400 results=tests/bench/results
while [ $# -gt 0 ]; do
    case $1 in
    --rates) rates=${2-} ;;
    --modes) modes=${2-} ;;
    --repeats) repeats=${2-} ;;
    --training) training=${2-} ;;
    --sizes) sizes=${2-} ;;
    --results) results=${2-} ;;
    *)
        sed -n '3,/^set -eu/p' "$0" | sed '/^set -eu/d; s/^# \{0,1\}//'
        exit 2
        ;;
    esac
    shift 2
done
if [ -z "${TORCH-}" ]; then
    TORCH=$build/torch/2.15.0
    tools/get-torch.sh 2.15.0 "$TORCH"
fi
mkdir -p "$results"
scratch=$(mktemp -d)
hosts=(tests/net/hosts.sh --name cshimgloo)
clean_up() {
    rm -rf "$scratch"
    [ "$(id -u)" != 0 ] || "${hosts[@]}" down >/dev/null
}
trap clean_up EXIT
trap 'exit 130' INT TERM
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 MASTER_PORT=29555

# job RANKS ADDRESS ENTER ARGUMENT...: starts ranks, each by the function ENTER; prints what rank 0 does.
# VARIABLES has what they get besides.
job() {
    local ranks=$1 address=$2 enter=$3 rank pids=() status=0
    shift 3
    for rank in $(seq 0 $((ranks - 1))); do
        $enter "$rank" timeout --kill-after=10 900 env MASTER_ADDR="$address" RANK="$rank" WORLD_SIZE="$ranks" \
            "${variables[@]}" "$TORCH/bin/python3" "$PWD/tests/bench/gloo_bench.py" "$@" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do wait "$rank" || status=1; done
    return $status
}
in_host() { "${hosts[@]}" exec $(($1 + 1)) "${@:2}"; }
here() { "${@:2}"; }

# shim MODE: $variables for a mode under the shim
shim() {
    variables=("LD_PRELOAD=$build/libcompshim.so" COMPSHIM_REPORT=off)
    [ "$1" != default ] || return 0
    printf '[rule all]\ncodec = %s\n' "$1" >"$scratch/$1.ini"
    variables+=("COMPSHIM_POLICY=$scratch/$1.ini")
}

measure_hosts() {
    local rate=$1 repeat mode variables options plan measured
    "${hosts[@]}" up --hosts 4 --rate "$rate" >&2
    for repeat in $(seq "$repeats"); do
        for mode in ${modes//,/ }; do
            echo "$rate, repeat $repeat of $repeats: $mode" >&2
            variables=() options=() plan=null
            case $mode in
            off) ;;
            *-hook) options=(--hook "${mode%-hook}") ;;
            *)
                shim "$mode"
                plan=$("$build/compshim" explain --library gloo --policy "$scratch/$mode.ini" --size 25MiB \
                    --ranks 4 --nodes 4 --json | tr -d '\n')
                ;;
            esac
            measured=$(job 4 cshimgloo1 in_host hosts --training-steps "$training" "${options[@]}")
            printf '{"mode": "%s", "explained": %s, "measured": %s}\n' "$mode" "$plan" "$measured" >>"$scratch/$rate"
        done
    done
    "${hosts[@]}" down >&2
    python3 tests/bench/gloo_table.py hosts "$rate" "$scratch/$rate" >"$results/gloo-$rate.json"
}
measure_loopback() {
    local repeat mode variables ranks measured
    for repeat in $(seq $((3 * repeats))); do
        for ranks in 2 4; do
            for mode in off default; do
                echo "loopback, $ranks ranks, repeat $repeat of $((3 * repeats)): $mode" >&2
                variables=()
                [ "$mode" = off ] || shim "$mode"
                measured=$(job "$ranks" 127.0.0.1 here sizes "$sizes" --calls 40)
                printf '{"mode": "%s", "ranks": %s, "measured": %s}\n' "$mode" "$ranks" "$measured" \
                    >>"$scratch/loopback"
            done
        done
    done
    python3 tests/bench/gloo_table.py loopback "$scratch/loopback" >"$results/gloo-loopback.json"
}

for rate in ${rates//,/ }; do
    if [ "$(id -u)" = 0 ]; then
        measure_hosts "$rate"
    else
        echo "gloo.sh: not root: hosts with links of $rate are left out" >&2
    fi
done
[ -z "$sizes" ] || measure_loopback
python3 tests/bench/gloo_table.py table "$results"/gloo-*.json
