#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer to predict the next character of a text, with PyTorch's DistributedDataParallel.

    torchrun --nproc_per_node 2 chars_ddp.py [--text FILE] [--sharded]

About a million parameters, AdamW. Every rank has the whole model, or with --sharded a share of it (FSDP2), and trains
on its share of each batch. The last tenth of the text is held out; at the end the loss on it, in nats per character,
and the percentage of its characters that were predicted correctly are printed.
Needs numpy and torch.
"""
import argparse
import os
import time

import torch
import torch.distributed
from torch import nn

import ddp_job

CONTEXT = 64  # characters that the model sees
WIDTH = 128
HEADS = 4
LAYERS = 5


class Transformer(nn.Module):
    """Computes, at each position of a text, the scores of the next character from the characters so far."""

    def __init__(self, characters):
        super().__init__()
        self.characters = nn.Embedding(characters, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0, batch_first=True, norm_first=True)
            for _ in range(LAYERS)
        )
        self.scores = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, characters))

    def forward(self, text):
        values = self.characters(text) + self.places.weight
        later = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool, device=text.device).triu(1)
        for layer in self.layers:
            values = layer(values, src_mask=later)
        return self.scores(values)


def read_text(path):
    """Returns the text of a file, or of all files in a folder, as integers, and the number of different characters."""
    files = [path]
    if os.path.isdir(path):
        files = sorted(entry.path for entry in os.scandir(path) if entry.is_file(follow_symlinks=False))
    text = b""
    for name in files:
        with open(name, "rb") as file:
            text += file.read()
    if len(text) < 20 * CONTEXT:
        raise SystemExit(f"{path}: {len(text)} characters are too few to learn from")
    used, numbers = torch.tensor(list(text)).unique(return_inverse=True)
    return numbers, len(used)


def loss_and_accuracy(model, windows):
    """Returns the mean loss over windows of CONTEXT + 1 characters, and the percentage predicted correctly."""
    scores, characters = model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()
    right = (scores.detach().argmax(dim=1) == characters).float().mean()
    return nn.functional.cross_entropy(scores, characters), 100 * right


def mean_over_ranks(value, ranks):
    """Returns the mean over the ranks, by an all-gather of float64: a policy for the model's sums and parameters must
    not round the figure that judges it.
    """
    values = [torch.empty_like(value, dtype=torch.float64) for _ in range(ranks)]
    torch.distributed.all_gather(values, value.double())
    return sum(value.item() for value in values) / ranks


def train(model, text, arguments, make_optimizer=torch.optim.AdamW):
    """Trains the model. Returns the seconds per step."""
    rank, ranks = ddp_job.rank_and_size()
    optimizer = make_optimizer(model.parameters(), arguments.lr)
    generator = torch.Generator().manual_seed(arguments.seed)
    window = torch.arange(CONTEXT + 1)
    began = time.perf_counter()
    for step in range(1, arguments.steps + 1):
        begins = torch.randint(len(text) - CONTEXT, (arguments.batch, 1), generator=generator)
        optimizer.zero_grad()
        loss, _ = loss_and_accuracy(model, text[begins[rank::ranks] + window])
        loss.backward()
        optimizer.step()
        if step % arguments.every == 0:
            mean = mean_over_ranks(loss.detach(), ranks)
            if rank == 0:
                ddp_job.print_line(f"step {step}: loss {mean:.4f}")
    return (time.perf_counter() - began) / arguments.steps


def test(model, text):
    """Returns loss and accuracy on a text; each rank evaluates a share of it."""
    rank, ranks = ddp_job.rank_and_size()
    windows = text.unfold(0, CONTEXT + 1, CONTEXT)
    windows = windows[: len(windows) // ranks * ranks]
    with torch.no_grad():
        return [mean_over_ranks(mean, ranks) for mean in loss_and_accuracy(model, windows[rank::ranks])]


def wrap(model, sharded):
    """Returns the model with gradients that are averaged over the ranks and, if `sharded`, sharded parameters."""
    if sharded:
        # Imported here, because only newer versions of PyTorch have FSDP2.
        from torch.distributed.device_mesh import init_device_mesh  # pylint: disable=import-outside-toplevel
        from torch.distributed.fsdp import fully_shard  # pylint: disable=import-outside-toplevel

        mesh = init_device_mesh(next(model.parameters()).device.type, (torch.distributed.get_world_size(),))
        for part in [*model.layers, model]:
            fully_shard(part, mesh=mesh)
        return model
    return nn.parallel.DistributedDataParallel(model)


def parse_arguments():
    parser = argparse.ArgumentParser(description="Trains a small transformer to predict the next character of a text.")
    parser.add_argument("--text", default="/usr/share/common-licenses", help="file or folder (Debian's licence texts)")
    parser.add_argument("--steps", type=int, default=300, help="steps (300)")
    parser.add_argument("--batch", type=int, default=32, help="windows per step, all ranks together (32)")
    parser.add_argument("--lr", type=float, default=0.001, help="learning rate (0.001)")
    parser.add_argument("--every", type=int, default=25, help="steps from one printed loss to the next (25)")
    parser.add_argument("--sharded", action="store_true", help="shard the parameters by FSDP2")
    ddp_job.add_options(parser)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    device = ddp_job.join_job(arguments)
    rank, ranks = ddp_job.rank_and_size()
    text, characters = read_text(arguments.text)
    text = text.to(device)
    kept = len(text) // 10
    model = Transformer(characters).to(device)
    wrapped = wrap(model, arguments.sharded)
    seconds = train(wrapped, text[:-kept], arguments)
    loss, accuracy = test(wrapped if arguments.sharded else model, text[-kept:])
    if not arguments.sharded:
        ddp_job.print_digest(model)
    if rank == 0:
        ddp_job.print_line(f"{ranks} ranks, {seconds:.3f} s per step, loss {loss:.4f} on the text that was kept")
        ddp_job.print_line(f"test accuracy {accuracy:.2f} %")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
