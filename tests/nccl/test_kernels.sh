#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernels without a GPU: what they compute, run on the host; that they compile for every current
# architecture without spilling registers, and are small; that their names and parameters are those
# of kernels.h; and whether what was measured on a GPU was measured with these kernels.
. "$(dirname "$0")/../lib.sh"
cd "$top" || exit 3

check "the kernels' source on the host against the codecs" limited "$build/tests/kernels_host" quick

results=tests/bench/results/gpu.json
if [ ! -e $results ]; then
    skip "no results of a GPU yet: tests/nccl/gpu.sh makes them"
    check "the README claims no figures of a GPU" bash -c '! grep -q "tests/bench/results/gpu.json" README.md'
elif [ "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["kernels"])' $results)" = "$(sh kernels/hash.sh)" ]; then
    pass "the results of a GPU are those of these kernels"
else
    skip "$results is stale: the kernels have changed since; run tests/nccl/gpu.sh"
    check "the README quotes no stale figures" bash -c '! grep -q "tests/bench/results/gpu.json" README.md'
fi

cuda=${CUDA_HOME:-/usr/local/cuda}
if [ ! -e "$build/kernels/kernels.fatbin" ]; then
    skip "built without nvcc: the compiled kernels"
    finish
fi
check "the binary has less than 37.5 KB for each codec" \
    test "$(stat -c %s "$build/kernels/kernels.fatbin")" -lt $((37500 * ($(codecs | wc -l) + 1)))
no_spills() { # LOG
    grep -q "Compiling entry function" "$1" && ! grep -E "[1-9][0-9]* bytes spill" "$1"
}
check "no spills in what is shipped" no_spills "$build/kernels/ptxas.log"
for architecture in 86 89 103; do
    "$cuda/bin/nvcc" -std=c++17 --fmad=false -I. -cubin -arch=sm_$architecture -Xptxas -v \
        -o "$scratch/cubin" kernels/device.cu 2>"$scratch/ptxas.log"
    check "no spills on sm_$architecture" no_spills "$scratch/ptxas.log"
done
check "intermediate code" "$cuda/bin/nvcc" -std=c++17 --fmad=false -I. -ptx -arch=sm_90 -o "$scratch/ptx" kernels/device.cu
sed -nE '/^\.visible \.entry/,/^\)/{s/^\.visible \.entry (\w+)\(.*/\1/p;s/^\s+\.param .*_param_0\[([0-9]+)\].*/\1/p}' \
    "$scratch/ptx" | paste -d ' ' - - | sort >"$scratch/compiled"
"$build/tests/kernels_host" names | sort -u >"$scratch/named"
check "names and parameters are those of kernels.h" diff "$scratch/named" "$scratch/compiled"
finish
