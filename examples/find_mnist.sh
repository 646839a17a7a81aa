# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced from the project's root: sets the array `data` to the trainer's --data option where the MNIST
# files are, or to nothing; and says which.
data=()
for directory in "${MNIST_DIR:-}" data/mnist ../shared/mnist; do
    if [ -n "$directory" ] && { [ -e "$directory/train-images-idx3-ubyte" ] ||
        [ -e "$directory/train-images-idx3-ubyte.gz" ]; }; then
        data=(--data "$(realpath "$directory")")
        echo "MNIST: $directory"
        break
    fi
done
[ ${#data[@]} -gt 0 ] || echo "MNIST: none found (examples/get_mnist.sh fetches it); generated digits"
