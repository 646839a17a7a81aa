# SPDX-License-Identifier: Apache-2.0
"""One rank of gloo.sh's measurement on hosts. Rank 0 prints a line of JSON.

gloo_bench.py [--hook bf16|fp16 | --horovod none|fp16] [--calls N] [--steps N] [--training-steps N]
    Prints the seconds of an all-reduce of one bucket (not with --hook), of a step with two buckets, and of a step of
    the transformer in examples/python, with its loss and accuracy. DistributedDataParallel reduces gradients, with
    PyTorch's hook if given, or Horovod, with its compression.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.distributed
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/python"))
import chars_ddp
import ddp_job

HOOKS = {"bf16": default_hooks.bf16_compress_hook, "fp16": default_hooks.fp16_compress_hook}
BUCKET = 25 << 20  # bytes; the default of DistributedDataParallel


class Buckets(nn.Module):
    """A module whose gradients fill the given number of buckets, with as little computation as possible."""

    def __init__(self, count):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(BUCKET // 4)) for _ in range(count))

    def forward(self, value):
        return sum(weights.sum() for weights in self.weights) * value


class ByDdp:
    """Reduces gradients by DistributedDataParallel, with one of PyTorch's hooks or none."""

    def __init__(self, hook):
        self.hook = hook

    def reduce(self, values):
        torch.distributed.all_reduce(values)

    def prepare(self, module, make_optimizer):
        """Returns the wrapped module, and a function that creates its optimizer."""
        model = nn.parallel.DistributedDataParallel(module)
        if self.hook:
            model.register_comm_hook(None, HOOKS[self.hook])
        return model, make_optimizer

    def wait(self, _optimizer):
        """Does nothing: the step's all-reduces have ended with backward()."""


class ByHorovod:
    """Reduces gradients by Horovod, with its own compression."""

    def __init__(self, compression):
        # Only Debian's Python has Horovod, and only this mode needs it.
        import horovod.torch as hvd  # pylint: disable=import-outside-toplevel

        hvd.init()
        self.hvd = hvd
        self.compression = getattr(hvd.Compression, compression)

    def reduce(self, values):
        self.hvd.allreduce(values, op=self.hvd.Sum, compression=self.compression)

    def prepare(self, module, make_optimizer):
        names = list(module.named_parameters())

        def make(parameters, rate):
            optimizer = make_optimizer(parameters, rate)
            return self.hvd.DistributedOptimizer(optimizer, named_parameters=names, compression=self.compression)

        return module, make

    def wait(self, optimizer):
        optimizer.synchronize()


def seconds_of(count, call):
    """Returns the seconds of `count` calls after one that warms up. All ranks begin each call together."""
    seconds = []
    for _ in range(count + 1):
        torch.distributed.barrier()
        began = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def measure_hosts(arguments):
    way = ByHorovod(arguments.horovod) if arguments.horovod else ByDdp(arguments.hook)
    measured = {"torch": torch.__version__}
    if not arguments.hook:
        bucket = torch.full((BUCKET // 4,), 1e-9)
        measured["call_seconds"] = seconds_of(arguments.calls, lambda: way.reduce(bucket))
    buckets = Buckets(2)
    model, make_optimizer = way.prepare(buckets, torch.optim.SGD)
    optimizer = make_optimizer(buckets.parameters(), 0.001)

    def step():
        model(torch.ones(1)).backward()
        way.wait(optimizer)

    measured["step_seconds"] = seconds_of(arguments.steps, step)
    text, characters = chars_ddp.read_text("/usr/share/common-licenses")
    kept = len(text) // 10
    torch.manual_seed(1)
    module = chars_ddp.Transformer(characters)
    model, make_optimizer = way.prepare(module, torch.optim.AdamW)
    options = argparse.Namespace(steps=arguments.training_steps, batch=32, lr=0.001, every=sys.maxsize, seed=1)
    measured["training_seconds"] = chars_ddp.train(model, text[:-kept], options, make_optimizer)
    measured["training_loss"], measured["training_accuracy"] = chars_ddp.test(module, text[-kept:])
    return measured


def parse_arguments():
    parser = argparse.ArgumentParser()
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--hook", choices=HOOKS)
    ways.add_argument("--horovod", choices=("none", "fp16"))
    parser.add_argument("--calls", type=int, default=5)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--training-steps", type=int, default=60)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    ddp_job.join_job(argparse.Namespace(seed=1, backend="gloo"))
    measured = measure_hosts(arguments)
    if torch.distributed.get_rank() == 0:
        print(json.dumps(measured), flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
