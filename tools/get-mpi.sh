#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches an MPI from PyPI into a folder, for tests; needs no root. FOLDER then has bin/mpiexec and lib; with
# MPICH and Open MPI also bin/mpicc. MPICH also has the MPI-5 standard ABI: bin/mpicc_abi.
#   tools/get-mpi.sh mpich|openmpi|intel FOLDER
set -eu
case ${1-} in
mpich) package=mpich version=5.0.2 ;;
openmpi) package=openmpi version=5.0.11 ;;
intel) package=impi-rt version=2021.19.0 ;; # under Intel's licence
*) set -- ;;
esac
if [ $# != 2 ]; then
    echo "usage: tools/get-mpi.sh mpich|openmpi|intel FOLDER" >&2
    exit 2
fi
folder=$2
[ ! -e "$folder/.complete-$version" ] || exit 0
python3 -c 'import venv, ensurepip' 2>/dev/null ||
    { echo "compshim: this needs python3 with venv (Debian: apt-get install python3-venv)" >&2 && exit 1; }
[ -z "$(ls -A "$folder" 2>/dev/null)" ] || [ -n "$(ls -d "$folder"/.fetched "$folder"/.complete-* 2>/dev/null)" ] ||
    { echo "compshim: $folder has other files: name another folder" >&2 && exit 1; }
rm -rf "$folder"
mkdir -p "$folder"
touch "$folder/.fetched"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
# Without libfabric, which Intel MPI needs only between hosts.
"$work/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --ignore-installed \
    --prefix "$folder" "$package==$version" ||
    { echo "compshim: pip cannot fetch $package $version" >&2 && exit 1; }
touch "$folder/.complete-$version"
echo "compshim: $package $version is in $folder"
