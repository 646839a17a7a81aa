#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs mnist_train_nccl as a user without a GPU does, and then on stand-ins for CUDA's libraries and NCCL
# (tests/nccl/runtime, tests/nccl/standin), where it computes the same as mnist_train.
# shellcheck disable=SC1091,SC2154 # lib.sh sets build, scratch and output
. "$(dirname "$0")/../lib.sh"
trainer=$build/mnist_train_nccl
unset MNIST_DIR
cd "$scratch" || exit 1

if [ ! -e "$trainer" ]; then
    [ -z "${NEED_CUDA:-}" ] || { echo "no mnist_train_nccl in $build: CUDA's toolkit is missing" && exit 1; }
    skip "built without CUDA's toolkit, cuBLAS and nccl.h"
    finish
fi

# Without a GPU ----------------------------------------------------------------------------------
expect 'help' 0 mpi 2 "$trainer" --help
check 'is printed once' test "$(grep -c '^usage: mnist_train_nccl ' <<<"$output")" = 1
contains 'it tells where it computes' 'Each rank computes on the GPU of its number on its host'
expect 'an unknown option' 2 "$trainer" --bacth 3
contains 'is named' 'mnist_train_nccl: unknown option --bacth'
expect 'a wrong value' 2 "$trainer" --model cnn
contains 'is named, too' "mnist_train_nccl: --model takes conv or mlp, not 'cnn'"
if [ ! -e /dev/nvidiactl ]; then
    for count in 1 2; do
        expect "without a GPU the status is 3 ($count ranks)" 3 mpi "$count" "$trainer"
        check "and one line says so ($count ranks)" \
            test "$(grep -c '^mnist_train_nccl: no GPU can be used by rank 0: ' <<<"$output")" = 1
        check "before any data are looked for ($count ranks)" test "$(grep -c '^data' <<<"$output")" = 0
    done
    expect 'demo-gpu without a GPU' 1 "$top/examples/demo_gpu.sh"
    check 'says so in one line' test "$output" = \
        'demo-gpu: no NVIDIA GPU found (nvidia-smi -L lists none); make demo needs none'
fi
strings -d "$trainer" >words
check 'strings found the options' grep -q -- '--momentum' words
check 'the trainer has no word of compshim' test "$(grep -ci compshim words)" = 0

# On the stand-ins -------------------------------------------------------------------------------
# Few images, because the stand-in runs a kernel's threads one after another.
python3 - <<'P'
import random, struct
draw = random.Random(5)
for name, count in ("train", 48), ("t10k", 8):
    labels = bytes(draw.randrange(10) for _ in range(count))
    pixels = bytes(min(255, draw.randrange(200) * (label + 1) // 6) for label in labels for _ in range(784))
    open(f"{name}-images-idx3-ubyte", "wb").write(struct.pack(">4I", 2051, count, 28, 28) + pixels)
    open(f"{name}-labels-idx1-ubyte", "wb").write(struct.pack(">2I", 2049, count) + labels)
P
standin=$build/tests/standin_runtime:$build/tests/standin_nccl
quick=(--data "$scratch" --batch 16 --epochs 1)
gpu() { # N [VARIABLE=VALUE...] OPTIONS...: trains on N ranks on the stand-ins
    local ranks=$1 settings=()
    shift
    while [[ ${1-} == *=* ]]; do settings+=("$1") && shift; done
    mpi "$ranks" LD_LIBRARY_PATH="$standin" STANDIN_DEVICES=4 "${settings[@]}" "$trainer" "${quick[@]}" "$@"
}
# close FILE FILE LIMIT: succeeds if the two logs have three steps each, whose losses differ by at most LIMIT
close() {
    python3 - "$@" <<'P'
import csv, sys
first, second = ([float(row["loss"]) for row in csv.DictReader(open(name))] for name in sys.argv[1:3])
if len(first) != 3 or len(second) != 3 or not all(abs(a - b) <= float(sys.argv[3]) for a, b in zip(first, second)):
    sys.exit(f"{first}\n{second}")
P
}
for model in mlp conv; do
    for count in 1 3; do
        expect "$model on the processor, $count ranks" 0 mpi "$count" "$build/mnist_train" "${quick[@]}" \
            --model "$model" --log "cpu_$model$count.csv"
        processor=$output
        expect "$model on the stand-ins, $count ranks" 0 gpu "$count" --model "$model" --log "gpu_$model$count.csv"
        check "the losses of all steps are the same ($model, $count ranks)" \
            close "cpu_$model$count.csv" "gpu_$model$count.csv" 1e-6
        check "and the accuracy ($model, $count ranks)" test "$(grep -o 'test accuracy [0-9.]*' <<<"$output")" = \
            "$(grep -o 'test accuracy [0-9.]*' <<<"$processor")"
    done
done
expect 'a last batch smaller than the ranks is shared' 0 gpu 4 --model mlp --limit 18
for order in STANDIN_LAZY=1 STANDIN_RACES=1 STANDIN_DELAY_US=300; do
    expect "$order" 0 gpu 2 "$order" --model mlp --log order.csv
    check "$order: the same losses" close order.csv gpu_mlp1.csv 1e-6
done

printf '[rule all]\nlibrary = nccl\ncodec = fp16\nalgorithm = two_shot\n' >policy.ini
expect 'with the shim, fp16' 0 gpu 2 LD_PRELOAD="$preload" COMPSHIM_POLICY="$scratch/policy.ini" \
    COMPSHIM_REPORT="$scratch/report.json" COMPSHIM_TRACE="$scratch/trace.json" --log fp16.csv
for file in trace.nccl.json trace.nccl.rank1.json; do
    check "$file lies beside the trace of MPI" test \
        "$(grep -c 'allreduce fp16' $file) $(grep -c 'allreduce fp16' trace.json)" = "3 0"
done
check 'the losses are nearly the same' close fp16.csv gpu_conv1.csv 1e-3
check 'every step was compressed, into half' python3 - report.nccl.json <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
(row,) = report["rows"]
good = row["codec"] == "fp16" and row["calls"] == 3 and 1.9 < row["bytes_native"] / row["bytes_wire"] < 2.1
sys.exit(None if good else json.dumps(report))
P

# The demo writes its results into a build folder of its own.
mkdir demo
ln -s "$build"/{compshim,mnist_train_nccl} "$build"/libcompshim*.so demo
expect 'demo-gpu with two GPUs' 0 env LD_LIBRARY_PATH="$standin" STANDIN_DEVICES=2 DEMO_GPUS=2 DEMO_IMAGES=48 DEMO_REPEAT=1 \
    BUILD="$scratch/demo" MNIST_DIR="$scratch" timeout "$LIMIT" "$top/examples/demo_gpu.sh"
contains 'says which ranks' 'GPUs: 2; ranks: 1 2; left out, too few GPUs: 4'
contains 'and ends with the page' 'Page with plots: file://'
check 'its bytes are those that NCCL was given' python3 - demo/demo-gpu.json <<'P'
import json, sys
text = open(sys.argv[1]).read()
results = [result for result in json.loads(text)["results"] if result["bytes_wire"]]
ratios = [(result["mode"], round(result["bytes_native"] / result["bytes_wire"], 1)) for result in results]
sys.exit(None if ratios == [("fp16", 2.0), ("fp8_e4m3", 4.0)] else text)
P

# A failure ends the job with a message: the call that failed, or what to do.
fails() { # TEXT STANDIN_FAIL: checks that the job fails with TEXT if a stand-in's call fails
    expect "$2" 1 gpu 2 STANDIN_FAIL="$2" --model mlp
    contains "says: $1" "$1"
}
fails 'no memory left on the GPU: try a smaller --batch' cuMemAlloc:3:2
fails 'mnist_train_nccl: rank 0: ncclAllReduce(' ncclAllReduce:2:3@0
fails 'mnist_train_nccl: rank 0: ncclCommInitRank(' ncclCommInitRank:1:2@0
fails 'mnist_train_nccl: rank 1: cudaMemcpyAsync(' cuMemcpyAsync:3:719@1
finish
