# SPDX-License-Identifier: Apache-2.0
"""Shared by the trainers of this folder that use torch.distributed. Needs torch."""
import hashlib
import os

import torch
import torch.distributed


def add_options(parser):
    parser.add_argument("--backend", default="gloo", help="backend that sums the gradients: gloo, nccl or mpi (gloo)")
    parser.add_argument("--seed", type=int, default=1, help="seed of parameters and batches (1)")


def join_job(arguments):
    """Joins the process group, seeds PyTorch and limits it to one thread. Returns this rank's device.

    Rank and size come from torchrun or Open MPI's mpirun; except with backend mpi, the ranks find each other by
    MASTER_ADDR and MASTER_PORT.
    """
    os.environ.setdefault("RANK", os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
    os.environ.setdefault("WORLD_SIZE", os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)
    torch.distributed.init_process_group(arguments.backend)
    return choose_device(arguments.backend)


def choose_device(backend):
    """Returns the device for this rank's tensors: with NCCL a GPU (shared if there are too few), else the CPU."""
    if backend != "nccl":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise SystemExit("--backend nccl needs a GPU, and PyTorch sees none")
    local = int(os.environ.get("LOCAL_RANK", os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", os.environ["RANK"])))
    return torch.device("cuda", local % torch.cuda.device_count())


def rank_and_size():
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def print_line(text):
    """Prints a line in one piece, because the ranks share the output."""
    print(f"{text}\n", end="", flush=True)


def print_digest(module):
    """Prints a digest of this rank's parameters, which must be equal on all ranks."""
    digest = hashlib.sha256()
    for parameter in module.parameters():
        digest.update(parameter.detach().cpu().numpy().tobytes())
    print_line(f"rank {torch.distributed.get_rank()}: parameters {digest.hexdigest()[:16]}")
