#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds mpi4py from PyPI's source package for MPICH, because Debian's is for Open MPI. Takes a minute or two. A
# finished build is reused.
#   tests/clients/build_mpi4py.sh FOLDER     puts the Python package into FOLDER
set -eu
version=3.1.4 # as in Debian 12
folder=${1:?usage: build_mpi4py.sh FOLDER}
[ ! -e "$folder/.complete-$version" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder"
if ! MPICC=$(command -v mpicc.mpich) nice /usr/bin/python3 -m pip install --quiet --disable-pip-version-check \
    --no-cache-dir --no-deps --no-binary mpi4py --no-build-isolation --target "$folder" "mpi4py==$version" \
    >"$folder.log" 2>&1; then
    echo "build_mpi4py.sh: it does not build; $folder.log has all of this:" >&2
    grep -E 'error|ERROR' "$folder.log" | cut -c 1-200 | head -n 10 >&2
    exit 1
fi
touch "$folder/.complete-$version"
