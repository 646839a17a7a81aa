#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Measures PyTorch's DistributedDataParallel over gloo (native, with PyTorch's own 16-bit hooks, and under the shim)
# and Horovod over MPI (native, with its own 16 bits, and under the shim), on emulated hosts
# (tests/net/hosts.sh). Also measures the cost of the built-in policy on this machine alone, where it passes calls
# through.
#
#   gloo.sh [--hosts N] [--rates LIST] [--modes LIST] [--repeats N] [--training STEPS] [--sizes LIST] [--pairs N]
#           [--results DIR]
#
#   --hosts      number of hosts (4), with one rank each
#   --rates      rates of the hosts' links, 1gbit,100mbit; skipped without root
#   --modes      off, bf16-hook, fp16-hook, codecs, horovod, horovod-fp16 (its own), horovod-CODEC (under the shim). The
#                modes take turns in every repeat, and each time is the median of the repeats' medians.
#   --training   steps (60) of the transformer in examples/python
#   --sizes      sizes in bytes over loopback; "" skips this measurement
#   --pairs      gloo_loopback_bench calls Debian's gloo up to N (4000) times through the shim and as often without it,
#                alternately; large sizes fewer times
#   --results    DIR (tests/bench/results) gets gloo-RATE.json (gloo-RATE-HOSTSx1.json if there are not 4 hosts) and
#                gloo-loopback.json, whose tables are printed
#
# TORCH is a folder with PyTorch in bin/python3; without it tools/get-torch.sh downloads 2.15.0. Horovod is built
# for Debian's PyTorch, into build/clients, if a mode needs it.
set -eu
cd "$(dirname "$0")/../.."
. tests/bench/lib.sh
build=$(realpath "${BUILD:-build}")
count=4 rates=1gbit,100mbit repeats=3 training=60
modes=off,fp16,fp8_e4m3,int8,int6,bf16-hook,fp16-hook,horovod,horovod-fp16,horovod-fp8_e4m3
sizes=4,1024,16384,262144,4194304,26214400 pairs=4000 results=tests/bench/results
while [ $# -gt 0 ]; do
    case $1 in
    --hosts) count=${2-} ;;
    --rates) rates=${2-} ;;
    --modes) modes=${2-} ;;
    --repeats) repeats=${2-} ;;
    --training) training=${2-} ;;
    --sizes) sizes=${2-} ;;
    --pairs) pairs=${2-} ;;
    --results) results=${2-} ;;
    *) usage ;;
    esac
    shift 2
done
if [ -n "$rates" ] && [ -z "${TORCH-}" ]; then
    export TORCH=$build/torch/2.15.0
    tools/get-torch.sh 2.15.0 "$TORCH"
fi
if [ -n "$rates" ] && [[ $modes == *horovod* ]]; then
    bash tests/clients/build_horovod.sh "$build/clients/horovod"
fi
mkdir -p "$results"
begin tests/net/hosts.sh --name cshimgloo
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 MASTER_PORT=29555

# job ARGUMENT...: runs a rank of gloo_bench.py on each host, with $variables in its environment; rank 0 prints
job() {
    local rank pids=() status=0
    for rank in $(seq 0 $((count - 1))); do
        "${hosts[@]}" exec $((rank + 1)) timeout --kill-after=10 900 env MASTER_ADDR=cshimgloo1 RANK="$rank" WORLD_SIZE="$count" \
            "${variables[@]}" "$TORCH/bin/python3" "$PWD/tests/bench/gloo_bench.py" "$@" &
        pids+=($!)
    done
    for rank in "${pids[@]}"; do wait "$rank" || status=1; done
    return $status
}

# shim CODEC: sets $variables for a rule with this codec, or for the built-in policy
shim() {
    variables=("LD_PRELOAD=$build/libcompshim.so" COMPSHIM_REPORT=off)
    [ "$1" != default ] || return 0
    printf '[rule all]\ncodec = %s\nworth = always\n' "$1" >"$scratch/$1.ini"
    variables+=("COMPSHIM_POLICY=$scratch/$1.ini")
}

# on_hosts MODE OPTION...: measures a mode, with $variables in the ranks' environment
on_hosts() {
    local mode=$1 horovod=none
    shift
    case $mode in
    horovod*)
        [ "$mode" != horovod-fp16 ] || horovod=fp16
        "${hosts[@]}" run --seconds 900 env MASTER_ADDR=cshimgloo1 PYTHONPATH="$build/clients/horovod" \
            HOROVOD_LOG_LEVEL=error "${variables[@]}" \
            /usr/bin/python3 "$PWD/tests/bench/gloo_bench.py" --horovod "$horovod" "$@"
        ;;
    *-hook) job --hook "${mode%-hook}" "$@" ;;
    *) job "$@" ;;
    esac
}

# plan_of MODE: sets $variables for a mode, and $plan, the shim's plan for a bucket
plan_of() {
    local library=gloo codec=$1
    variables=() plan=null
    case $1 in
    off | *-hook | horovod | horovod-fp16) return 0 ;;
    horovod-*) library=mpi codec=${1#horovod-} ;;
    esac
    shim "$codec"
    plan=$("$build/compshim" explain --library $library --policy "$scratch/$codec.ini" --size 25MiB \
        --ranks "$count" --nodes "$count" --json | tr -d '\n')
}

measure_hosts() {
    local rate=$1 repeat mode variables plan measured file=$results/gloo-$1
    [ "$count" = 4 ] || file+=-${count}x1
    for repeat in $(seq "$repeats"); do
        for mode in ${modes//,/ }; do
            echo "$rate, repeat $repeat of $repeats: $mode" >&2
            plan_of "$mode"
            measured=$(on_hosts "$mode" --training-steps "$training")
            printf '{"mode": "%s", "explained": %s, "measured": %s}\n' "$mode" "$plan" "$measured" >>"$scratch/$rate"
        done
    done
    python3 tests/bench/gloo_table.py hosts "$count" "$rate" "$scratch/$rate" >"$file.json"
}

measure_loopback() {
    local variables ranks
    shim default
    for ranks in 2 4; do
        echo "loopback, $ranks ranks" >&2
        env "${variables[@]}" bash tests/nccl/launch.sh "$ranks" "$build/gloo_loopback_bench" "$pairs" ${sizes//,/ } >>"$scratch/loopback"
    done
    python3 tests/bench/gloo_table.py loopback "$scratch/loopback" >"$results/gloo-loopback.json"
}

for rate in ${rates//,/ }; do
    if [ "$(id -u)" != 0 ]; then
        echo "gloo.sh: not root: hosts with links of $rate are left out" >&2
        continue
    fi
    up "$rate-${count}x1"
    measure_hosts "$rate"
    down "$rate-${count}x1"
done
if [ -n "$sizes" ]; then
    make -s "$build/gloo_loopback_bench" BUILD="$build"
    measure_loopback
fi
python3 tests/bench/gloo_table.py table "$results"/gloo-*bit{,-*x1}.json "$results/gloo-loopback.json"
