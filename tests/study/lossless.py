#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the codec `lossless` on real data: gradients and weights of the transformer in examples/python, a heat
equation, and a melt of LAMMPS. Prints a Markdown table.

    lossless.py FOLDER

Data in FOLDER is reused, missing data is created there. Needs PyTorch and numpy. LAMMPS is skipped if `lmp` is not
installed. BUILD has lossless_bench (build).
"""
import argparse
import os
import re
import shutil
import subprocess
import sys

import numpy
import torch

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, TOP + "/examples/python")
import chars_ddp

BUILD = os.environ.get("BUILD", TOP + "/build")
LEARNED = "weights.float32 gradients.float32 weights.bfloat16 gradients.bfloat16".split()


def make_learned(folder):
    """Writes the gradients of three steps after the tenth, and the weights at the end, as float32 and bfloat16."""
    torch.manual_seed(1)
    text, characters = chars_ddp.read_text("/usr/share/common-licenses")
    model = chars_ddp.Transformer(characters)
    optimizer = torch.optim.AdamW(model.parameters(), 0.001)
    window = torch.arange(chars_ddp.CONTEXT + 1)
    gradients = []
    for step in range(13):
        begins = torch.randint(len(text) - chars_ddp.CONTEXT, (8, 1))
        optimizer.zero_grad()
        chars_ddp.loss_and_accuracy(model, text[begins + window])[0].backward()
        optimizer.step()
        if step >= 10:
            gradients += [parameter.grad.flatten() for parameter in model.parameters()]
    weights = [parameter.detach().flatten() for parameter in model.parameters()]
    for name, parts in (("gradients", gradients), ("weights", weights)):
        values = torch.cat(parts)
        values.numpy().tofile(f"{folder}/{name}.float32")
        values.bfloat16().view(torch.int16).numpy().tofile(f"{folder}/{name}.bfloat16")


def make_heat(folder):
    """Writes the temperatures of a plate with hot spots after 300 time steps."""
    size = 1024
    random = numpy.random.default_rng(1)
    plate = numpy.zeros((size, size))
    for x, y, heat in zip(*random.integers(10, size - 10, (2, 200)), random.uniform(1, 100, 200)):
        plate[x - 10 : x + 10, y - 10 : y + 10] += heat
    for _ in range(300):
        plate[1:-1, 1:-1] += 0.2 * (
            plate[2:, 1:-1] + plate[:-2, 1:-1] + plate[1:-1, 2:] + plate[1:-1, :-2] - 4 * plate[1:-1, 1:-1]
        )
    plate.tofile(folder + "/heat.float64")


def make_melt(folder):
    """Runs the client test's melt with 32000 atoms, and writes its positions and velocities in full precision."""
    with open(TOP + "/tests/clients/melt.in", encoding="utf-8") as file:
        script = file.read()
    script = re.sub(r"(?m)^(compute|fix density).*\n", "", script.replace("0 8 0 8 0 8", "0 20 0 20 0 20"))
    script = script.replace("format float %20.15g\nrun", "format float %.17g\nrun")
    subprocess.run(["lmp"], input=script, text=True, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    columns = numpy.loadtxt(folder + "/positions.txt", skiprows=9 + 9 + 32000, usecols=range(1, 7))
    columns[:, :3].tofile(folder + "/positions.float64")
    columns[:, 3:].tofile(folder + "/velocities.float64")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    folder = os.path.abspath(parser.parse_args().folder)
    os.makedirs(folder, exist_ok=True)
    sources = [(LEARNED, make_learned), (["heat.float64"], make_heat)]
    if shutil.which("lmp"):
        sources.append((["positions.float64", "velocities.float64"], make_melt))
    print("| data | times shorter | their exponents' entropy allows | packed GB/s | unpacked GB/s |\n|---|---|---|---|---|")
    for names, make in sources:
        if not all(os.path.exists(f"{folder}/{name}") for name in names):
            make(folder)
        for name in names:
            command = [BUILD + "/lossless_bench", name.split(".")[1], f"{folder}/{name}"]
            told = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            print(f"| {name.replace('.', ', ')} | " + " | ".join(told[2:]) + " |")


if __name__ == "__main__":
    main()
