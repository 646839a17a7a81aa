#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small convolutional network on the MNIST digits with Horovod and PyTorch.

    mpirun -n 4 python3 mnist_horovod.py --data DIR

Horovod sums the gradients of all ranks, several tensors at a time in one buffer, from a thread of its own.
Needs numpy, torch and horovod.
"""
import argparse
import os
import time

import horovod.torch as hvd
import torch
from torch import nn

from mnist_files import read_digits


class Network(nn.Module):
    """A small network: two convolutions, two dense layers."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 10, 5), nn.MaxPool2d(2), nn.ReLU(), nn.Conv2d(10, 20, 5), nn.MaxPool2d(2), nn.ReLU()
        )
        self.classes = nn.Sequential(nn.Flatten(), nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10))

    def forward(self, images):
        return self.classes(self.features(images))


def tensors(folder, part):
    images, labels = read_digits(folder, part)
    return torch.from_numpy(images).view(-1, 1, 28, 28), torch.from_numpy(labels.astype("int64"))


def train(model, optimizer, images, labels, arguments):
    generator = torch.Generator().manual_seed(arguments.seed)
    for epoch in range(1, arguments.epochs + 1):
        for whole in torch.randperm(len(images), generator=generator)[: arguments.limit].split(arguments.batch):
            mine = whole[hvd.rank() :: hvd.size()]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
        loss = hvd.allreduce(loss.detach(), name="loss").item()
        if hvd.rank() == 0:
            print(f"epoch {epoch}: loss {loss:.4f}", flush=True)


def accuracy(model, images, labels):
    """Returns the mean of the ranks' percentages of correctly classified test images; each takes every size-th image."""
    mine = slice(hvd.rank(), None, hvd.size())
    with torch.no_grad():
        right = (model(images[mine]).argmax(dim=1) == labels[mine]).float().mean()
    return 100 * hvd.allreduce(right, name="accuracy").item()


def parse_arguments():
    parser = argparse.ArgumentParser(description="Trains a small network on the MNIST digits.")
    parser.add_argument("--data", default=os.environ.get("MNIST_DIR", "data/mnist"), help="folder of the four files")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the training images (1)")
    parser.add_argument("--limit", type=int, default=60000, help="training images per epoch (60000)")
    parser.add_argument("--batch", type=int, default=128, help="images per step, all ranks together (128)")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate (0.05)")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and order (1)")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    hvd.init()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    model = Network()
    optimizer = torch.optim.SGD(model.parameters(), arguments.lr, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    began = time.perf_counter()
    train(model, optimizer, *tensors(arguments.data, "train"), arguments)
    seconds = time.perf_counter() - began
    right = accuracy(model, *tensors(arguments.data, "t10k"))
    if hvd.rank() == 0:
        print(f"{hvd.size()} ranks, {seconds:.1f} s, test accuracy {right:.2f} %")


if __name__ == "__main__":
    main()
