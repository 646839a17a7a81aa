#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on the MNIST digits with PyTorch's DistributedDataParallel.

    torchrun --nproc_per_node 2 mnist_ddp.py --data DIR
    mpirun -n 2 python3 mnist_ddp.py --data DIR

By default gloo sums the gradients; --backend names another library with which PyTorch was built. Except with mpi,
mpirun only starts the processes. Needs numpy and torch.
"""
import argparse
import os

import torch
import torch.distributed
from torch import nn

import ddp_job
from mnist_files import read_digits


def tensors(folder, part, device):
    images, labels = read_digits(folder, part)
    return torch.from_numpy(images).to(device), torch.from_numpy(labels.astype("int64")).to(device)


def train(model, images, labels, arguments):
    rank, ranks = ddp_job.rank_and_size()
    optimizer = torch.optim.SGD(model.parameters(), arguments.lr, momentum=0.9)
    generator = torch.Generator().manual_seed(arguments.seed)
    for _ in range(arguments.epochs):
        for whole in torch.randperm(len(images), generator=generator)[: arguments.limit].split(arguments.batch):
            mine = whole[rank::ranks]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
            optimizer.step()


def parse_arguments():
    parser = argparse.ArgumentParser(description="Trains a small network on the MNIST digits.")
    parser.add_argument("--data", default=os.environ.get("MNIST_DIR", "data/mnist"), help="folder of the four files")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the training images (1)")
    parser.add_argument("--limit", type=int, default=60000, help="training images per epoch (60000)")
    parser.add_argument("--batch", type=int, default=128, help="images per step, all ranks together (128)")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate (0.05)")
    ddp_job.add_options(parser)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    device = ddp_job.join_job(arguments)
    rank, ranks = ddp_job.rank_and_size()
    network = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    train(nn.parallel.DistributedDataParallel(network), *tensors(arguments.data, "train", device), arguments)
    images, labels = tensors(arguments.data, "t10k", device)
    with torch.no_grad():
        right = (network(images).argmax(dim=1) == labels).float().mean().item()
    ddp_job.print_digest(network)
    if rank == 0:
        ddp_job.print_line(f"{ranks} ranks, test accuracy {100 * right:.2f} %")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
