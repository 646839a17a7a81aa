#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the kernels without a GPU: on the host they compute what the codecs compute; they compile for every
# shipped architecture (with KERNEL_CASES for three more) without spilling registers (functions that are not inlined
# may spill), and are small; their names and parameter sizes are those of kernels.h; and docs/measurements.md names
# the kernels that it measured, if they have changed since.
. "$(dirname "$0")/../lib.sh"
cd "$top" || exit 3

# About a third of the cases, always the same; .ci/run runs the quick ones.
check "the kernels' source on the host against the codecs" limited "$build/tests/kernels_host" "${KERNEL_CASES:-few}"

results=tests/bench/results/gpu.json
if [ ! -e $results ]; then
    skip "no results of a GPU yet: tests/nccl/gpu.sh makes them"
    check "the README claims no figures of a GPU" bash -c '! grep -q "tests/bench/results/gpu.json" README.md'
elif [ "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["kernels"])' $results)" = "$(sh kernels/hash.sh)" ]; then
    pass "the results of a GPU are those of these kernels"
else
    skip "$results is stale: the kernels have changed since; run tests/nccl/gpu.sh"
    check "docs/measurements.md names the kernels of its figures" grep -q \
        "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["kernels"][:16])' $results)" docs/measurements.md
fi

cuda=${CUDA_HOME:-/usr/local/cuda}
if [ ! -e "$build/kernels/kernels.fatbin" ]; then
    skip "built without nvcc: the compiled kernels"
    finish
fi
# Drivers from R550 on support zstd, which makes the binary small; builds for older ones use LZ4.
images=$(python3 tests/nccl/fatbin.py "$build/kernels/kernels.fatbin")
limit=370000
grep -q zstd <<<"$images" || limit=670000
check "the binary has less than $limit bytes" test "$(stat -c %s "$build/kernels/kernels.fatbin")" -lt $limit
no_spills() { # LOG: true if no kernel spills registers; functions that are not inlined may
    awk '/Function properties for cshim_/ { kernels++; name = $NF; getline; if (/[1-9][0-9]* bytes spill/) { print name, $0; spills++ } }
        END { exit kernels == 0 || spills > 0 }' "$1"
}
check "no spills in what is shipped" no_spills "$build/kernels/ptxas.log"
assembler=$(PATH=$cuda/bin:$PATH command -v ptxas-12)
if [ -z "$assembler" ]; then
    skip "without CUDA 12's assembler (tools/get-cuda.sh fetches it): the binary for older drivers"
else
    older=$scratch/older.fatbin
    kernels/fatbin.sh "$cuda/bin/nvcc" "$assembler" "$older" "75 80 90 100 120" 90 2>"$scratch/older.log" ||
        fail "the binary for drivers from R525 on is built" "$(cat "$scratch/older.log")"
    check "no spills in the binary for drivers from R525 on" no_spills "$scratch/older.log"
    # CUDA 12.0's drivers load ELF files of ABI version 7; those that know sm_100 and sm_120 also load version 8.
    known="elf 75 version 7 lz4
elf 80 version 7 lz4
elf 90 version 7 lz4
elf 100 version 8 lz4
elf 120 version 8 lz4
ptx 90 version 8.0 lz4"
    check "it has only what these drivers support" diff <(python3 tests/nccl/fatbin.py "$older") <(echo "$known")
fi
if [ -n "${KERNEL_CASES:-}" ]; then # as .ci/run does: three compilations that mostly repeat the above
    for architecture in 86 89 103; do
        "$cuda/bin/nvcc" -std=c++17 --fmad=false -I. -cubin -arch=sm_$architecture -Xptxas -v \
            -o "$scratch/cubin" kernels/device.cu 2>"$scratch/ptxas.log"
        check "no spills on sm_$architecture" no_spills "$scratch/ptxas.log"
    done
fi
check "intermediate code" "$cuda/bin/nvcc" -std=c++17 --fmad=false -I. -ptx -arch=sm_90 -o "$scratch/ptx" kernels/device.cu
sed -nE '/^\.visible \.entry/,/^\)/{s/^\.visible \.entry (\w+)\(.*/\1/p;s/^\s+\.param .*_param_0\[([0-9]+)\].*/\1/p}' \
    "$scratch/ptx" | paste -d ' ' - - | sort >"$scratch/compiled"
"$build/tests/kernels_host" names | sort -u >"$scratch/named"
check "names and parameters are those of kernels.h" diff "$scratch/named" "$scratch/compiled"
finish
