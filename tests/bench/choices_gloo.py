# SPDX-License-Identifier: Apache-2.0
"""Measures like allreduce_bench --beside, but with PyTorch's gloo. Started by choices.sh, by mpirun."""

import argparse
import os
import random
import statistics
import time

import torch
import torch.distributed as dist

ROW = 4  # consecutive calls of a size; the first is not timed
SETTLE_SECONDS = 2  # ends settling early, but not before two fifths of --settle's calls: learning may take that many
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20}


def size_of(text):
    return int(text[:-3]) * UNITS[text[-3:]] if text[-3:] in UNITS else int(text)


def time_call(tensor):
    """Makes a call. Returns the slowest rank's seconds."""
    dist.barrier()
    began = time.perf_counter()
    dist.all_reduce(tensor)
    slowest = torch.tensor([time.perf_counter() - began], dtype=torch.float64)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    tensor.mul_(0.5 / dist.get_world_size())
    return slowest.item()


def measure(size, arguments):
    memory = torch.rand(size // 4 + arguments.beside) - 0.5
    tensors = [memory[: size // 4 + i] for i in range(arguments.beside + 1)]
    settling = 0
    for i in range(arguments.settle):
        if i < arguments.settle * 2 / 5 or settling < SETTLE_SECONDS:
            settling += time_call(tensors[0])
    seconds = [[] for _ in tensors]
    turns = random.Random(1)
    while len(seconds[0]) < 6 or sum(map(sum, seconds)) < arguments.seconds * len(tensors):
        for turn in turns.sample(range(len(tensors)), len(tensors)):
            seconds[turn].extend([time_call(tensors[turn]) for _ in range(ROW)][1:])
    for tensor, own in zip(tensors, seconds):
        if dist.get_rank() == 0:
            print(f"{tensor.numel() * 4} {len(own)} {statistics.median(own):.9f} {min(own):.9f}", flush=True)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--sizes", required=True)
for option, kind in (("seconds", float), ("settle", int), ("beside", int)):
    parser.add_argument(f"--{option}", type=kind, required=True)
given = parser.parse_args()
torch.set_num_threads(1)
dist.init_process_group(
    "gloo",
    init_method=f"tcp://{os.environ['MASTER_ADDR']}:29556",
    rank=int(os.environ["OMPI_COMM_WORLD_RANK"]),
    world_size=int(os.environ["OMPI_COMM_WORLD_SIZE"]),
)
for each in given.sizes.split(","):
    measure(size_of(each), given)
dist.barrier()
os._exit(0)  # PyTorch 2.5 may hang while it destroys the group, whose thread frees a tensor
