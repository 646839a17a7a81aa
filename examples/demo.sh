#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The all-reduce lab's tables, from real training runs: serial, 2 and 4 ranks with the shim off, then
# fp16 and fp8; as text, and with plots on a page. Takes a few minutes on two cores.
#   MNIST_DIR=DIR   the MNIST files; else data/mnist, ../shared/mnist, else generated digits
#   DEMO_IMAGES=N   training images per run (30000)
set -eu
cd "$(dirname "$0")/.."
build=${BUILD:-build}
. examples/find_mnist.sh
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
if [ "$(id -u)" = 0 ]; then
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
images=${DEMO_IMAGES:-30000}
trainer=("$build/mnist_train" "${data[@]}" --epochs 1 --limit "$images" --log '{log}')
status=0
rm -f "$build"/demo.{json,md,html}
"$build/compshim" compare --modes off,fp16,fp8_e4m3 --ranks 2,4 --serial "${trainer[*]@Q}" \
    --json "$build/demo.json" --markdown "$build/demo.md" --html "$build/demo.html" \
    --title "MNIST, convolutional network, one epoch of $images images" \
    -- mpirun -n '{ranks}' "${trainer[@]}" || status=$?
[ ! -s "$build/demo.html" ] || echo "
The page with the plots: file://$(realpath "$build/demo.html")"
exit $status
