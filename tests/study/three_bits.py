#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Estimates the loss with other formats of about 3 bits, before they are implemented: trains the transformer of
examples/python/chars_ddp.py in one process, which sums the gradients of four ranks as two_shot does, by rounding each
rank's gradients and then their sum. Blocks span all gradients, so `int3` differs slightly from the shim's.

    three_bits.py [--seeds N] [--steps N] [--results FILE]

Formats and bits per element, including scales of 16 bits:
    int3       3.5   -3 to 3 times a third of the block's largest magnitude: the implemented format
    clip       3.5   int3 with the best of five scales, down to 0.6 of that one, by squared error
    signed     3.5   all eight codes: the element of the largest magnitude is -4, so the step is a quarter of it
    signed-clip      3.5   signed with clip's choice of scales
    spike      3.59  blocks of 64; the element of the largest magnitude is stored separately in 16 bits
    clip-64    3.25  clip in blocks of 64
    signed-clip-64   3.25  signed-clip in blocks of 64
Each run is a line of FILE (build/three-bits.jsonl). Needs PyTorch.
"""
import argparse
import functools
import json
import os
import sys

import torch
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../examples/python"))
import chars_ddp

RANKS = 4
SCALES = (1, 0.9, 0.8, 0.7, 0.6)


def largest(blocks):
    """Returns the index of each block's largest magnitude, and that element, never 0."""
    at = blocks.abs().argmax(1, keepdim=True)
    values = blocks.gather(1, at)
    return at, torch.where(values == 0, torch.full_like(values, 1e-30), values)


def nearest(blocks, scale, lowest):
    return (blocks / scale).round().clamp(lowest, 3) * scale


def with_scales(blocks, scale, lowest, factors):
    """Returns the blocks rounded with the best of the scales."""
    best = nearest(blocks, scale, lowest)
    least = (best - blocks).square().sum(1, keepdim=True)
    for factor in factors[1:]:
        rounded = nearest(blocks, factor * scale, lowest)
        lost = (rounded - blocks).square().sum(1, keepdim=True)
        best, least = torch.where(lost < least, rounded, best), torch.minimum(lost, least)
    return best


def symmetric(blocks, factors=(1,)):
    return with_scales(blocks, largest(blocks)[1].abs() / 3, -3, factors)


def signed(blocks, factors=(1,)):
    return with_scales(blocks, -largest(blocks)[1] / 4, -4, factors)


def spike(blocks):
    at, values = largest(blocks)
    return symmetric(blocks.scatter(1, at, 0)).scatter(1, at, values)


def exact(blocks):
    return blocks


FORMATS = {  # block length, and the function that rounds
    "off": (32, exact),
    "int3": (32, symmetric),
    "clip": (32, functools.partial(symmetric, factors=SCALES)),
    "signed": (32, signed),
    "signed-clip": (32, functools.partial(signed, factors=SCALES)),
    "spike": (64, spike),
    "clip-64": (64, functools.partial(symmetric, factors=SCALES)),
    "signed-clip-64": (64, functools.partial(signed, factors=SCALES)),
}


def rounded(values, name):
    size, convert = FORMATS[name]
    return convert(nn.functional.pad(values, (0, -len(values) % size)).view(-1, size)).flatten()[: len(values)]


def train(model, text, name, seed, steps):
    optimizer = torch.optim.AdamW(model.parameters(), 0.001)
    generator = torch.Generator().manual_seed(seed)
    window = torch.arange(chars_ddp.CONTEXT + 1)
    for _ in range(steps):
        begins = torch.randint(len(text) - chars_ddp.CONTEXT, (32, 1), generator=generator)
        total = 0
        for rank in range(RANKS):
            optimizer.zero_grad()
            chars_ddp.loss_and_accuracy(model, text[begins[rank::RANKS] + window])[0].backward()
            gradients = nn.utils.parameters_to_vector(parameter.grad for parameter in model.parameters())
            total = total + rounded(gradients / RANKS, name)
        for parameter, part in zip(model.parameters(), rounded(total, name).split([p.numel() for p in model.parameters()])):
            parameter.grad = part.view_as(parameter).clone()
        optimizer.step()


def test(model, text):
    windows = text.unfold(0, chars_ddp.CONTEXT + 1, chars_ddp.CONTEXT)
    with torch.no_grad():
        parts = [chars_ddp.loss_and_accuracy(model, part)[0].item() * len(part) for part in windows.split(64)]
    return sum(parts) / len(windows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--results", default="build/three-bits.jsonl")
    arguments = parser.parse_args()
    text, characters = chars_ddp.read_text("/usr/share/common-licenses")
    kept = len(text) // 10
    with open(arguments.results, "a", encoding="utf-8") as file:
        for seed in range(1, arguments.seeds + 1):
            for name in FORMATS:
                torch.manual_seed(seed)
                model = chars_ddp.Transformer(characters)
                train(model, text[:-kept], name, seed, arguments.steps)
                run = json.dumps({"seed": seed, "format": name, "loss": test(model, text[-kept:])})
                print(run, file=file, flush=True)
                print(run, flush=True)


if __name__ == "__main__":
    main()
