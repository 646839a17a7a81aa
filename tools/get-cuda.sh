#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Downloads CUDA's compiler, disassemblers and headers, cuBLAS and NCCL from NVIDIA's packages on PyPI to a folder, for
# machines that lack them; needs neither GPU nor root. Then: make CUDA_HOME=FOLDER
# ptxas-12, CUDA 12's assembler, builds the kernels for older drivers, too (kernels/fatbin.sh).
#   tools/get-cuda.sh FOLDER [disassemblers]     disassemblers: only these and ptxas-12
set -eu
if [ $# = 0 ] || [ "${2:-disassemblers}" != disassemblers ]; then
    echo "usage: tools/get-cuda.sh FOLDER [disassemblers]" >&2
    exit 2
fi
folder=$1
packages="nvidia-cuda-cuobjdump==13.2.* nvidia-cuda-nvdisasm==13.2.* nvidia-cuda-nvcc-cu12==12.9.*"
if [ -x "$folder/bin/nvdisasm" ] && [ -x "$folder/bin/ptxas-12" ] && { [ $# = 2 ] || { [ -x "$folder/bin/nvcc" ] && [ -e "$folder/include/nccl.h" ]; }; }; then
    echo "compshim: CUDA is in $folder already"
    exit 0
fi
[ $# = 2 ] || packages="$packages nvidia-cuda-nvcc==13.0.* nvidia-nvvm==13.0.* nvidia-cuda-crt==13.0.* \
    nvidia-cuda-runtime==13.0.* nvidia-cuda-cccl==13.0.* nvidia-cublas==13.1.* nvidia-nccl-cu13==2.28.*"
python3 -c 'import venv, ensurepip' 2>/dev/null ||
    { echo "compshim: this needs python3 with venv (Debian: apt-get install python3-venv)" >&2 && exit 1; }
mkdir -p "$folder"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
# shellcheck disable=SC2086
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps $packages ||
    { echo "compshim: pip cannot fetch NVIDIA's packages; install the CUDA toolkit and libnccl-dev instead" >&2 && exit 1; }
mkdir -p "$folder/bin"
mv "$work"/venv/lib/python3*/site-packages/nvidia/cuda_nvcc/bin/ptxas "$folder/bin/ptxas-12"
rm -r "$work"/venv/lib/python3*/site-packages/nvidia/cuda_nvcc
for part in "$work"/venv/lib/python3*/site-packages/nvidia/*; do
    [ ! -d "$part" ] || cp -a "$part/." "$folder/"
done
if [ $# = 2 ]; then
    chmod +x "$folder"/bin/*
    echo "compshim: CUDA's disassemblers and ptxas-12 are in $folder/bin"
    exit 0
fi
# The linker needs file names without a version.
for library in "$folder"/lib/lib*.so.*; do
    plain=${library%%.so.*}.so
    [ -e "$plain" ] || ln -s "$(basename "$library")" "$plain"
done
[ -e "$folder/lib64" ] || ln -s lib "$folder/lib64"
chmod +x "$folder"/bin/* "$folder"/nvvm/bin/* 2>/dev/null || true
"$folder/bin/nvcc" --version | tail -n 1
echo "compshim: CUDA is in $folder: make CUDA_HOME=$folder"
