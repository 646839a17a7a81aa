#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds Horovod from PyPI's source package, for Debian's PyTorch and Open MPI, with MPI operations only. Takes some
# minutes and 1 GiB of memory. A finished build is reused.
#   tests/clients/build_horovod.sh FOLDER     puts the Python package into FOLDER
set -eu
version=0.28.1
folder=${1:?usage: build_horovod.sh FOLDER}
[ ! -e "$folder/.complete-$version" ] || exit 0
export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
export HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_CPU_OPERATIONS=MPI
export PATH=/usr/bin:/bin # hides nvcc: Horovod would build for a GPU
rm -rf "$folder"
mkdir -p "$folder"
# No build isolation: Horovod requires versions of build packages other than Debian's.
if ! nice python3 -m pip install --quiet --disable-pip-version-check --no-cache-dir --no-deps \
    --no-binary horovod --no-build-isolation --target "$folder" "horovod==$version" \
    >"$folder.log" 2>&1; then
    echo "build_horovod.sh: it does not build; $folder.log has all of this:" >&2
    grep -E 'error|ERROR' "$folder.log" | cut -c 1-200 | head -n 10 >&2
    exit 1
fi
touch "$folder/.complete-$version"
