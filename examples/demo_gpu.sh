#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Trains a network with NCCL on one GPU without the shim, then on 2 and 4 ranks, one per GPU, as far as there are GPUs,
# with the shim off, with fp16 and with fp8. With a single GPU only trains on it. Prints tables of time, accuracy and
# traffic, and writes a page with plots. Its variables, with their defaults in brackets:
#   MNIST_DIR=DIR   folder of the MNIST files (data/mnist or ../shared/mnist; otherwise generated digits)
#   DEMO_IMAGES=N   training images per run (60000)
#   DEMO_REPEAT=N   runs of each mode, alternating (3); the figures are medians
#   DEMO_GPUS=N     GPUs to use (as many as nvidia-smi lists)
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
gpus=${DEMO_GPUS:-$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)}
if [ "$gpus" -lt 1 ]; then
    echo "demo-gpu: no NVIDIA GPU found (nvidia-smi -L lists none); make demo needs none" >&2
    exit 1
fi
if [ ! -x "$build/mnist_train_nccl" ]; then
    echo "demo-gpu: $build/mnist_train_nccl was not built: it needs nvcc, nccl.h and cublas_v2.h" >&2
    exit 1
fi
. examples/find_mnist.sh
. examples/ranks.sh
images=${DEMO_IMAGES:-60000}
trainer=("$build/mnist_train_nccl" "${data[@]}" --epochs 1 --limit "$images" --log '{log}')
ranks=() left_out=()
for count in 2 4; do
    if [ "$count" -le "$gpus" ]; then ranks+=("$count"); else left_out+=("$count"); fi
done
serial=(--serial "${trainer[*]@Q}")
# A single rank sends nothing: only the time without the shim is measured.
[ ${#ranks[@]} -gt 0 ] || ranks=(1) serial=()
echo "GPUs: $gpus; ranks: ${serial:+1 }${ranks[*]}${left_out:+; left out, too few GPUs: ${left_out[*]}}"
status=0
rm -f "$build"/demo-gpu.{json,md,html}
"$build/compshim" compare --modes off,fp16,fp8_e4m3 --ranks "$(IFS=, && echo "${ranks[*]}")" \
    --repeat "${DEMO_REPEAT:-3}" "${serial[@]}" --json "$build/demo-gpu.json" --markdown "$build/demo-gpu.md" --html "$build/demo-gpu.html" \
    --title "${digits^} on GPUs, convolutional network, one epoch of $images images" \
    -- mpirun -n '{ranks}' "${trainer[@]}" || status=$?
[ ! -s "$build/demo-gpu.html" ] || echo "
Page with plots: file://$(realpath "$build/demo-gpu.html")"
exit $status
