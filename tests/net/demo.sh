#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The MNIST comparison over a network: 4 emulated hosts with links of 1 Gbit/s, the shim off, then fp16
# and fp8. Needs root (tests/net/hosts.sh says for what). Takes a few minutes on two cores.
#   MNIST_DIR=DIR   the MNIST files; else data/mnist, ../shared/mnist, else drawn digits
#   DEMO_IMAGES=N   training images per run (4000)
#   DEMO_REPEAT=N   runs of each kind, which take turns (3); the figures are their medians
#   DEMO_MODES=...  what is compared (off,fp16,fp8_e4m3)
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}
. examples/find_mnist.sh

hosts=(tests/net/hosts.sh --name cshimdemo)
trap '"${hosts[@]}" down' EXIT
trap 'exit 130' INT TERM
"${hosts[@]}" up --hosts 4 --rate 1gbit
status=0
rm -f "$build"/demo-net.{json,md,html}
"$build/compshim" compare --modes "${DEMO_MODES:-off,fp16,fp8_e4m3}" --ranks 4 --repeat "${DEMO_REPEAT:-3}" \
    --json "$build/demo-net.json" --markdown "$build/demo-net.md" --html "$build/demo-net.html" \
    --link "1 Gbit/s Ethernet (emulated)" \
    --title "${digits^}, convolutional network, one epoch of ${DEMO_IMAGES:-4000} images, 4 hosts" \
    -- "${hosts[@]}" run "$build/mnist_train" "${data[@]}" --epochs 1 \
    --limit "${DEMO_IMAGES:-4000}" --log '{log}' || status=$?
[ ! -s "$build/demo-net.html" ] || echo "
The page with the plots: file://$(realpath "$build/demo-net.html")"
exit $status
