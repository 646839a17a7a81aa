#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the transformer of chars_ddp.py by local SGD, with little communication, for slow links.

    torchrun --nproc_per_node 2 chars_local.py [--local STEPS] [--text FILE]

Each rank makes some steps of AdamW alone. Then the ranks sum the changes of their parameters (pseudo-gradients), and
all continue from the old parameters plus a multiple of the mean. This is the program's only sum, always in the same
buffer, so that a rule with codec = topk can send a few elements and keep the others as residuals.
Needs numpy and torch.
"""
import argparse
import time

import torch
import torch.distributed

import chars_ddp
import ddp_job


def flat(tensors):
    return torch.nn.utils.parameters_to_vector(tensors).detach()


class Outer:
    """Outer optimizer: SGD with momentum on the mean of the ranks' pseudo-gradients."""

    def __init__(self, model, arguments):
        self.parameters = list(model.parameters())
        self.start = flat(self.parameters).clone()
        self.moved = torch.empty_like(self.start)  # buffer of the sum
        self.velocity = torch.zeros_like(self.start)
        self.lr, self.momentum = arguments.outer_lr, arguments.outer_momentum

    def step(self):
        torch.sub(flat(self.parameters), self.start, out=self.moved)
        torch.distributed.all_reduce(self.moved)
        mean = self.moved / torch.distributed.get_world_size()
        self.velocity.mul_(self.momentum).add_(mean)
        self.start.add_(mean + self.momentum * self.velocity, alpha=self.lr)  # Nesterov's
        torch.nn.utils.vector_to_parameters(self.start.clone(), self.parameters)


def train(model, text, arguments):
    """Trains the model. Returns the seconds per step."""
    rank, ranks = ddp_job.rank_and_size()
    optimizer = torch.optim.AdamW(model.parameters(), arguments.lr)
    outer = Outer(model, arguments)
    generator = torch.Generator().manual_seed(arguments.seed)
    window = torch.arange(chars_ddp.CONTEXT + 1)
    began = time.perf_counter()
    for step in range(1, arguments.steps + 1):
        optimizer.param_groups[0]["lr"] = arguments.lr * (1 - (step - 1) / arguments.steps)
        begins = torch.randint(len(text) - chars_ddp.CONTEXT, (arguments.batch, 1), generator=generator)
        optimizer.zero_grad()
        loss, _ = chars_ddp.loss_and_accuracy(model, text[begins[rank::ranks] + window])
        loss.backward()
        optimizer.step()
        if step % arguments.local == 0 or step == arguments.steps:
            outer.step()
        if step % arguments.every == 0:
            mean = chars_ddp.mean_over_ranks(loss.detach(), ranks)
            if rank == 0:
                ddp_job.print_line(f"step {step}: loss {mean:.4f}")
    return (time.perf_counter() - began) / arguments.steps


def parse_arguments():
    parser = argparse.ArgumentParser(description="Trains a small transformer by local SGD.")
    parser.add_argument("--text", default="/usr/share/common-licenses", help="file or folder (Debian's licence texts)")
    parser.add_argument("--steps", type=int, default=1200, help="steps of each rank (1200)")
    parser.add_argument("--local", type=int, default=4, help="steps from one sum to the next (4)")
    parser.add_argument("--batch", type=int, default=32, help="windows per step, all ranks together (32)")
    parser.add_argument("--lr", type=float, default=0.001, help="learning rate of AdamW at first, which falls to 0 (0.001)")
    parser.add_argument("--outer-lr", type=float, default=1.0, help="what the mean is multiplied by (1)")
    parser.add_argument("--outer-momentum", type=float, default=0.0, help="Nesterov's momentum of the means (0)")
    parser.add_argument("--every", type=int, default=25, help="steps from one printed loss to the next (25)")
    ddp_job.add_options(parser)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    device = ddp_job.join_job(arguments)
    rank, ranks = ddp_job.rank_and_size()
    text, characters = chars_ddp.read_text(arguments.text)
    text = text.to(device)
    kept = len(text) // 10
    model = chars_ddp.Transformer(characters).to(device)
    seconds = train(model, text[:-kept], arguments)
    loss, accuracy = chars_ddp.test(model, text[-kept:])
    ddp_job.print_digest(model)
    if rank == 0:
        ddp_job.print_line(f"{ranks} ranks, {seconds:.3f} s per step, loss {loss:.4f} on the text that was kept")
        ddp_job.print_line(f"test accuracy {accuracy:.2f} %")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
