#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares compshim check's output for PyPI's libraries of PyTorch and JAX with golden texts, and checks that the
# library of --dlsym catches ncclAllReduce, which JAX's plugin looks up. Downloads 1.1 GB once; BUILD/wheels keeps the
# libraries.
. "$(dirname "$0")/lib.sh"
needs python3-venv unzip binutils
wheels=$build/wheels
python3 -m venv "$scratch/venv" && mkdir -p "$wheels" || not_here "no python3 with venv"

# fetched PACKAGE VERSION FILE...: downloads these files of a package into $wheels/PACKAGE-VERSION, once, and enters
# that folder
fetched() {
    local package=$1 folder=$wheels/$1-$2
    if [ ! -e "$folder/complete" ]; then
        "$scratch/venv/bin/pip" download --quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: \
            --dest "$scratch/$package" "$package==$2" || not_here "PyPI does not have $package $2"
        unzip -qo "$scratch/$package"/*.whl "${@:3}" -d "$folder" && rm -r "${scratch:?}/$package" && touch "$folder/complete"
    fi
    cd "$folder" || exit 3
}
# checked FILE: compares the output of compshim check with the golden text, except lines about other libraries, which
# depend on the machine
checked() {
    output=$(env -u LD_LIBRARY_PATH "$build/compshim" check "$1" 2>&1 |
        sed -E ':again; N; s#\n {4}([^ ])# \1#; t again; P; D' | sed -E '/: not found$/d; /: (defines|opens) /d')
    golden "compshim check ${1##*/}" "$clients/golden/check_$(basename "$1" .so).txt"
}

fetched torch 2.15.0 torch/lib/libtorch_cpu.so torch/lib/libtorch_cuda.so
checked torch/lib/libtorch_cpu.so
checked torch/lib/libtorch_cuda.so
fetched jax-cuda12-pjrt 0.12.0.1 jax_plugins/xla_cuda12/xla_cuda_plugin.so
plugin=jax_plugins/xla_cuda12/xla_cuda_plugin.so
checked $plugin
standin=$build/tests/standin_nccl
if [ ! -e "$standin/libnccl.so.2" ]; then
    skip "built without nccl.h: what JAX's plugin fetches"
    finish
fi
answer() { # NAME LIBRARY VARIABLE=VALUE...: checks that the plugin's stub jumps to a function of LIBRARY
    expect "$1" 0 env LD_LIBRARY_PATH="$standin" "${@:3}" python3 "$clients/stubs.py" $plugin ncclAllReduce _nccl_tramp_table
    contains "gets that of $2" "ncclAllReduce is in $2"
}
answer "the plugin's ncclAllReduce" libnccl.so.2 LD_PRELOAD="$preload"
answer "with --dlsym" libcompshim.so LD_PRELOAD="$preload:$build/libcompshim_dl.so"
finish
