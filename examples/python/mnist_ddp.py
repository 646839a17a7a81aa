#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network on the MNIST digits with PyTorch's DistributedDataParallel.

    mpirun -n 2 python3 mnist_ddp.py --data DIR
    torchrun --nproc_per_node 2 mnist_ddp.py --data DIR

mpirun only starts the processes; --backend names what sums the gradients: gloo, nccl or mpi, as PyTorch was built. Needs numpy and torch.
"""
import argparse
import os

import torch
import torch.distributed
from torch import nn

from mnist_files import read_digits


def join_job(backend):
    """Rank and size come from torchrun or Open MPI's mpirun; the ranks meet at MASTER_ADDR:MASTER_PORT."""
    os.environ.setdefault("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    os.environ.setdefault("WORLD_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.distributed.init_process_group(backend)


def choose_device(backend):
    """NCCL sums what lies on GPUs: this rank's, or the only one."""
    if backend != "nccl":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise SystemExit("mnist_ddp.py: --backend nccl needs a GPU, and PyTorch sees none")
    local = int(os.environ.get("LOCAL_RANK", os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", os.environ["RANK"])))
    return torch.device("cuda", local % torch.cuda.device_count())


def tensors(folder, part, device):
    images, labels = read_digits(folder, part)
    return torch.from_numpy(images).to(device), torch.from_numpy(labels.astype("int64")).to(device)


def train(model, images, labels, arguments):
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
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
    parser.add_argument("--backend", default="gloo", help="gloo, nccl or mpi (gloo)")
    parser.add_argument("--epochs", type=int, default=1, help="passes over the training images (1)")
    parser.add_argument("--limit", type=int, default=60000, help="training images per epoch (60000)")
    parser.add_argument("--batch", type=int, default=128, help="images per step, all ranks together (128)")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate (0.05)")
    parser.add_argument("--seed", type=int, default=1, help="seed of weights and order (1)")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    join_job(arguments.backend)
    device = choose_device(arguments.backend)
    network = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)).to(device)
    model = nn.parallel.DistributedDataParallel(network)
    train(model, *tensors(arguments.data, "train", device), arguments)
    images, labels = tensors(arguments.data, "t10k", device)
    with torch.no_grad():
        right = (network(images).argmax(dim=1) == labels).float().mean().item()
    if torch.distributed.get_rank() == 0:
        print(f"{torch.distributed.get_world_size()} ranks, test accuracy {100 * right:.2f} %")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
