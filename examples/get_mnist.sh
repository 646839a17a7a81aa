#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Downloads the four files of the MNIST database and verifies them: examples/get_mnist.sh [DIR]
# DIR defaults to data/mnist. Keeps existing files that are correct.
set -u
mirrors=(
    https://ossci-datasets.s3.amazonaws.com/mnist
    https://storage.googleapis.com/cvdf-datasets/mnist
)
sums='f68b3c2dcbeaaa9fbdd348bbdeb94873 train-images-idx3-ubyte.gz
d53e105ee54ea40749a09fcbcd1e9432 train-labels-idx1-ubyte.gz
9fb629c4189551a2d022fa330f9573f3 t10k-images-idx3-ubyte.gz
ec29112dd5afa0611ce80d1b7f02629c t10k-labels-idx1-ubyte.gz'

die() {
    echo "get_mnist.sh: $1" >&2
    exit "${2:-1}"
}

verified() {
    [ -f "$1" ] && [ "$(md5sum <"$1" | cut -d' ' -f1)" = "$2" ]
}

download() {
    if command -v curl >/dev/null; then
        curl -fsSL --connect-timeout 10 --retry 2 -o "$2" "$1"
    elif command -v wget >/dev/null; then
        wget -q --timeout=10 --tries=2 -O "$2" "$1"
    elif command -v python3 >/dev/null; then
        python3 -c 'import sys, urllib.request
try:
    with urllib.request.urlopen(sys.argv[1], timeout=10) as answer, open(sys.argv[2], "wb") as file:
        file.write(answer.read())
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error}")' "$1" "$2"
    else
        die "needs curl, wget or python3 to download: install one of them (apt-get install wget ca-certificates)" 3
    fi
}

case ${1-} in
-h | --help)
    sed -n '3,4s/^# //p' "$0"
    exit 0
    ;;
-*) die "unknown option $1: the one argument is the folder to fill" 2 ;;
esac
[ $# -le 1 ] || die "too many arguments: the one argument is the folder to fill" 2
folder=${1:-data/mnist}
mkdir -p "$folder" || die "cannot make the folder $folder" 3

while read -r sum name; do
    if verified "$folder/$name" "$sum"; then
        echo "$folder/$name: there already"
        continue
    fi
    part=$folder/$name.part
    for mirror in "${mirrors[@]}"; do
        if download "$mirror/$name" "$part" && verified "$part" "$sum"; then
            mv "$part" "$folder/$name" && echo "$folder/$name: downloaded" && continue 2
        fi
        rm -f "$part"
    done
    die "$name: no mirror gave the right file (${mirrors[*]}). Is there a network? Without the files mnist_train draws digits of its own."
done <<<"$sums"
