#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on the MNIST digits, data parallel over the ranks of an MPI job.

    mpirun -n 4 python3 mnist_mpi4py.py --data DIR

Every rank has the whole network and trains on its share of each batch; comm.Allreduce sums the gradient
of each weight matrix and bias over the ranks. Needs numpy and mpi4py.
"""
import argparse
import os
import sys
import time

import numpy
from mpi4py import MPI

from mnist_files import read_digits

CLASSES = 10
MOMENTUM = 0.9
LEARNING_RATE_DECAY = 0.7


class Network:
    """Dense layers with ReLU between them, and softmax at the end."""

    def __init__(self, sizes, generator):
        self.parameters = []
        for inputs, outputs in zip(sizes, sizes[1:]):
            weights = generator.standard_normal((inputs, outputs), numpy.float32)
            self.parameters.append(weights * numpy.float32(numpy.sqrt(2 / inputs)))
            self.parameters.append(numpy.zeros(outputs, numpy.float32))
        self.velocities = [numpy.zeros_like(parameter) for parameter in self.parameters]

    def forward(self, images):
        """Returns the inputs of each layer, then the output of the last."""
        values = [images]
        layers = list(zip(self.parameters[::2], self.parameters[1::2]))
        for weights, biases in layers[:-1]:
            values.append(numpy.maximum(values[-1] @ weights + biases, 0))
        weights, biases = layers[-1]
        values.append(values[-1] @ weights + biases)
        return values

    def gradients(self, images, labels):
        """Returns the gradients, in parameter order, of the cross entropy summed over the images, and this sum."""
        values = self.forward(images)
        scores = values.pop()
        scores -= scores.max(axis=1, keepdims=True)
        error = numpy.exp(scores)
        error /= error.sum(axis=1, keepdims=True)
        rows = numpy.arange(len(labels))
        loss = -numpy.log(numpy.maximum(error[rows, labels], 1e-30)).sum()
        error[rows, labels] -= 1
        gradients = []
        for layer in reversed(range(len(values))):
            gradients[:0] = [values[layer].T @ error, error.sum(axis=0)]
            if layer > 0:
                error = (error @ self.parameters[2 * layer].T) * (values[layer] > 0)
        return gradients, loss

    def step(self, gradients, learning_rate):
        for parameter, velocity, gradient in zip(self.parameters, self.velocities, gradients):
            velocity *= MOMENTUM
            velocity += gradient
            parameter -= learning_rate * velocity


def allreduce(comm, gradient):
    total = numpy.empty_like(gradient)
    comm.Allreduce(gradient, total, op=MPI.SUM)
    return total


def train_epoch(comm, network, images, labels, order, batch, learning_rate):
    """Trains on the images in this order, once. Returns the mean loss."""
    loss = 0.0
    for begin in range(0, len(order), batch):
        whole = order[begin : begin + batch]
        mine = whole[comm.rank :: comm.size]
        gradients, part = network.gradients(images[mine], labels[mine])
        loss += part
        network.step([allreduce(comm, gradient) / len(whole) for gradient in gradients], learning_rate)
    return comm.allreduce(loss) / len(order)


def accuracy(comm, network, images, labels):
    """Returns the percentage of images that the network classifies correctly."""
    mine = slice(comm.rank, None, comm.size)
    right = (network.forward(images[mine])[-1].argmax(axis=1) == labels[mine]).sum()
    return 100 * comm.allreduce(int(right)) / len(labels)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Trains a small network on the MNIST digits.")
    parser.add_argument("--data", default=os.environ.get("MNIST_DIR", "data/mnist"), help="folder of the four files")
    parser.add_argument("--epochs", type=int, default=4, help="passes over the training images (4)")
    parser.add_argument("--batch", type=int, default=128, help="images per step, all ranks together (128)")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate of the first epoch (0.1)")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and order (1)")
    parser.add_argument("--hidden", type=int, nargs="*", default=[256], help="sizes of the hidden layers (256)")
    arguments = parser.parse_args()
    if min([arguments.epochs, arguments.batch, *arguments.hidden]) < 1 or arguments.seed < 0:
        parser.error("--epochs, --batch and --hidden take numbers from 1, --seed from 0")
    return arguments


def main():
    arguments = parse_arguments()
    comm = MPI.COMM_WORLD
    if arguments.batch < comm.size:
        raise SystemExit(f"--batch {arguments.batch} is less than one image for each of {comm.size} ranks")
    images, labels = read_digits(arguments.data, "train")
    generator = numpy.random.default_rng(arguments.seed)
    network = Network([images.shape[1], *arguments.hidden, CLASSES], generator)
    for parameter in network.parameters:
        comm.Bcast(parameter)
    began = time.perf_counter()
    learning_rate = arguments.lr
    for epoch in range(1, arguments.epochs + 1):
        order = generator.permutation(len(images))
        loss = train_epoch(comm, network, images, labels, order, arguments.batch, learning_rate)
        learning_rate *= LEARNING_RATE_DECAY
        if comm.rank == 0:
            print(f"epoch {epoch}: loss {loss:.4f}", flush=True)
    seconds = time.perf_counter() - began
    right = accuracy(comm, network, *read_digits(arguments.data, "t10k"))
    if comm.rank == 0:
        print(f"{comm.size} ranks, {seconds:.1f} s, test accuracy {right:.2f} %")


if __name__ == "__main__":
    try:
        main()
    except SystemExit as end:
        # An error of one rank must end the others, too.
        if MPI.COMM_WORLD.size > 1 and isinstance(end.code, str):
            print(f"mnist_mpi4py.py: {end.code}", file=sys.stderr, flush=True)
            MPI.COMM_WORLD.Abort(1)
        raise
