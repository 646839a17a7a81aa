# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Sourced from the project's root: finds the MNIST files, in $MNIST_DIR if that is set, else in data/mnist and
# ../shared/mnist. Sets the array `data` to the trainer's --data option and `digits` to a name of the images for
# titles, and prints where they come from. Exits if $MNIST_DIR is set and has no MNIST.
data=(--data generated) digits="drawn digits (no MNIST found)"
if [ -n "${MNIST_DIR-}" ]; then folders=("$MNIST_DIR"); else folders=(data/mnist ../shared/mnist); fi
for folder in "${folders[@]}"; do
    if [ -e "$folder/train-images-idx3-ubyte" ] || [ -e "$folder/train-images-idx3-ubyte.gz" ]; then
        data=(--data "$(realpath "$folder")") digits=MNIST
        echo "MNIST: $folder"
        break
    fi
done
if [ "$digits" != MNIST ]; then
    if [ -n "${MNIST_DIR-}" ]; then
        echo "MNIST_DIR=$MNIST_DIR: no MNIST there (no train-images-idx3-ubyte, with .gz or without)" >&2
        exit 1
    fi
    echo "MNIST: none found (examples/get_mnist.sh fetches it): the images are drawn digits"
fi
unset folders folder
