# SPDX-License-Identifier: Apache-2.0
"""One rank of what gloo.sh measures; rank 0 prints a line of JSON.

gloo_bench.py hosts [--hook bf16|fp16] [--calls N] [--steps N] [--training-steps N]
    seconds of all-reduces of one bucket, of steps with two of them by DistributedDataParallel, and per step of the
    transformer of examples/python, with its loss; with PyTorch's hook, which only DistributedDataParallel has
gloo_bench.py sizes LIST [--calls N]
    the median seconds of all-reduces of so many bytes each, of small ones many in a row
"""
import argparse
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/python"))
import chars_ddp

HOOKS = {"bf16": default_hooks.bf16_compress_hook, "fp16": default_hooks.fp16_compress_hook}
MEBI = 1 << 20
BUCKET = 25 * MEBI  # bytes: DistributedDataParallel's own


class Buckets(nn.Module):
    """Gradients of so many buckets, from as little computing as possible."""

    def __init__(self, count):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(BUCKET // 4)) for _ in range(count))

    def forward(self, value):
        return sum(weights.sum() for weights in self.weights) * value


def distributed(module, hook):
    model = nn.parallel.DistributedDataParallel(module)
    if hook:
        model.register_comm_hook(None, HOOKS[hook])
    return model


def seconds_of(count, call, in_a_row=1):
    """Of a call in each of count rows of them, behind one row that warms up; all ranks begin a row together."""
    seconds = []
    for _ in range(count + 1):
        torch.distributed.barrier()
        began = time.perf_counter()
        for _ in range(in_a_row):
            call()
        seconds.append((time.perf_counter() - began) / in_a_row)
    return seconds[1:]


def measure_hosts(arguments):
    measured = {"torch": torch.__version__}
    if not arguments.hook:
        bucket = torch.full((BUCKET // 4,), 1e-9)
        measured["call_seconds"] = seconds_of(arguments.calls, lambda: torch.distributed.all_reduce(bucket))
    model = distributed(Buckets(2), arguments.hook)
    measured["step_seconds"] = seconds_of(arguments.steps, lambda: model(torch.ones(1)).backward())
    text, characters = chars_ddp.read_text("/usr/share/common-licenses")
    kept = len(text) // 10
    torch.manual_seed(1)
    module = chars_ddp.Transformer(characters)
    options = argparse.Namespace(steps=arguments.training_steps, batch=32, lr=0.001, every=sys.maxsize, seed=1)
    measured["training_seconds"] = chars_ddp.train(distributed(module, arguments.hook), text[:-kept], options)
    measured["training_loss"] = chars_ddp.test(module, text[-kept:])
    return measured


def measure_sizes(arguments):
    medians = {}
    for size in map(int, arguments.list.split(",")):
        values = torch.full((size // 4,), 1e-9)
        in_a_row = max(1, min(100, MEBI // size))
        seconds = seconds_of(arguments.calls, lambda: torch.distributed.all_reduce(values), in_a_row)
        medians[size] = statistics.median(seconds)
    return medians


def parse_arguments():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    hosts = commands.add_parser("hosts")
    hosts.set_defaults(measure=measure_hosts)
    hosts.add_argument("--hook", choices=HOOKS)
    hosts.add_argument("--steps", type=int, default=3)
    hosts.add_argument("--training-steps", type=int, default=60)
    sizes = commands.add_parser("sizes")
    sizes.set_defaults(measure=measure_sizes)
    sizes.add_argument("list")
    for command in (hosts, sizes):
        command.add_argument("--calls", type=int, default=5)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    measured = arguments.measure(arguments)
    if torch.distributed.get_rank() == 0:
        print(json.dumps(measured), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
