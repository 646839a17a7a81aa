#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Fetches a PyTorch from PyPI, with NumPy, into a folder, for tests; needs no root. FOLDER/bin then has python3
# and torchrun. On x86-64 PyPI has PyTorch with CUDA only: several GB, mostly unused without a GPU.
#   tools/get-torch.sh 2.1.2|2.5.1|2.15.0 FOLDER
set -eu
version=${1-}
case $version in
2.1.2) numpy=1.26.4 ;;
2.5.1) numpy=2.1.3 ;;
2.15.0) numpy=2.4.6 ;;
*) set -- ;;
esac
if [ $# != 2 ]; then
    echo "usage: tools/get-torch.sh 2.1.2|2.5.1|2.15.0 FOLDER" >&2
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
python3 -m venv "$folder"
"$folder/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all: \
    "torch==$version" "numpy==$numpy" ||
    { echo "compshim: pip cannot fetch PyTorch $version" >&2 && exit 1; }
touch "$folder/.complete-$version"
echo "compshim: PyTorch $version is in $folder"
