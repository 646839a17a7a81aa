#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The all-reduce lab's tables, from real training runs: serial, 2 and 4 ranks with the shim off, then
# fp16 and fp8; as text, and with plots on a page. Takes a few minutes on two cores.
#   MNIST_DIR=DIR   the MNIST files; else data/mnist, ../shared/mnist, else drawn digits
#   DEMO_IMAGES=N   training images per run (30000)
#   DEMO_REPEAT=N   runs of each kind, which take turns (3); the figures are their medians
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
. examples/find_mnist.sh
. examples/ranks.sh
images=${DEMO_IMAGES:-30000}
trainer=("$build/mnist_train" "${data[@]}" --epochs 1 --limit "$images" --log '{log}')
status=0
rm -f "$build"/demo.{json,md,html}
"$build/compshim" compare --modes off,fp16,fp8_e4m3 --ranks 2,4 --repeat "${DEMO_REPEAT:-3}" \
    --serial "${trainer[*]@Q}" --json "$build/demo.json" --markdown "$build/demo.md" --html "$build/demo.html" \
    --title "${digits^}, convolutional network, one epoch of $images images" \
    -- mpirun -n '{ranks}' "${trainer[@]}" || status=$?
[ ! -s "$build/demo.html" ] || echo "
The page with the plots: file://$(realpath "$build/demo.html")"
exit $status
