# SPDX-License-Identifier: Apache-2.0
"""Runs one rank of a job that uses PyTorch's gloo in a certain way: gloo_shapes.py SHAPE [FOLDER]. SHAPE is a
function of this file. The ranks find each other by files in the empty FOLDER, or by torchrun's environment. Each rank
prints its results. Summands other than gradients are small integers, whose sum is exact in every order and type.
"""
import datetime
import hashlib
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

SHAPE, FOLDER = sys.argv[1], (sys.argv[2:] + [None])[0]
RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
MEBI = 1 << 20


def join(name="first"):
    meeting = f"file://{FOLDER}/{name}" if FOLDER else "env://"
    dist.init_process_group("gloo", init_method=meeting, rank=RANK, world_size=RANKS)


def tell(text):
    """Prints a line with one write, because the ranks may share the output."""
    print(f"rank {RANK}: {text}\n", end="", flush=True)


def digest(tensors):
    return hashlib.sha256(b"".join(tensor.detach().numpy().tobytes() for tensor in tensors)).hexdigest()[:16]


def whole_numbers(count, dtype=torch.float32):
    return torch.randint(-8, 9, (count,), generator=torch.Generator().manual_seed(RANK)).to(dtype)


KEPT = []


def sum_of(count=MEBI, **options):
    """Returns the digest of a sum over all ranks. Keeps the tensor alive: a worker thread of PyTorch releases its
    reference some time after the call. Releasing the last reference needs Python's lock, which PyTorch 2.5 holds while
    it waits for the thread when it destroys the group.
    """
    total = whole_numbers(count)
    KEPT.append(total)
    dist.all_reduce(total, **options)
    return digest([total])


def at_once():
    """Makes many concurrent calls of several sizes, types and operations."""
    join()
    totals, works = [], []
    for count in (1, 255, 100003, MEBI):
        for dtype in (torch.float32, torch.float64, torch.float16, torch.int64):
            for operation in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
                totals.append(whole_numbers(count, dtype))
                works.append(dist.all_reduce(totals[-1], operation, async_op=True))
    for work in reversed(works):
        work.wait()
    tell(digest(totals))


def groups():
    """Uses concurrent groups with and without rank 0, then creates the group of all ranks repeatedly."""
    join()
    mine, works = [], []
    for members in ([0, 1], list(range(1, RANKS)), list(range(RANKS))):
        group = dist.new_group(members)
        if RANK in members:
            mine.append((group, whole_numbers(MEBI)))
    for group, total in mine:
        works.append(dist.all_reduce(total, group=group, async_op=True))
    for work in works:
        work.wait()
    tell(digest(total for _, total in mine))
    for name in ("second", "third", "fourth"):
        dist.destroy_process_group()
        join(name)
        tell(f"{name} {sum_of()}")


def model_and_data():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 2048), nn.ReLU(), nn.Linear(2048, 64))
    inputs = torch.randn(512, 64)
    return model, torch.utils.data.TensorDataset(inputs, inputs.roll(1, dims=1))


def fit(model, optimizer, batches):
    """Trains on the batches. Returns the last loss."""
    for inputs, wanted in batches:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), wanted)
        loss.backward()
        optimizer.step()
    return loss.item()


def loader():
    """Trains on batches from worker processes, which are forked while the group is in use."""
    join()
    module, data = model_and_data()
    model = nn.parallel.DistributedDataParallel(module)
    sampler = torch.utils.data.DistributedSampler(data)
    batches = torch.utils.data.DataLoader(
        data, batch_size=32, sampler=sampler, num_workers=2, multiprocessing_context="fork"
    )
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(2):
        loss = fit(model, optimizer, batches)
    tell(f"learns {loss < 1.2}")
    tell(f"parameters {digest(module.parameters())}")


def zero():
    """Trains with an optimizer whose state is sharded over the ranks (ZeRO-1)."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    join()
    module, data = model_and_data()
    model = nn.parallel.DistributedDataParallel(module)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=0.01)
    tell(f"learns {fit(model, optimizer, [data[RANK::RANKS]] * 8) < 1}")
    tell(f"parameters {digest(module.parameters())}")


def fsdp():
    """Trains with sharded parameters and gradients (FSDP2, in PyTorch since 2.6)."""
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        sys.exit("no fully_shard")

    join()
    model, data = model_and_data()
    fully_shard(model, mesh=init_device_mesh("cpu", (RANKS,)))
    tell(f"learns {fit(model, torch.optim.AdamW(model.parameters(), lr=0.01), [data[RANK::RANKS]] * 8) < 1}")


def moves():
    """Moves floats, integers and objects, by all-gathers, all-to-alls and a broadcast."""
    join()
    mine, empty = whole_numbers(MEBI), torch.empty(MEBI)
    gathered = [empty.clone() for _ in range(RANKS)]
    dist.all_gather(gathered, mine)
    sizes = [1000 * (1 + (RANK + other) % RANKS) for other in range(RANKS)]
    exchanged, uneven = torch.empty(MEBI // RANKS * RANKS), torch.empty(sum(sizes))
    dist.all_to_all_single(exchanged, mine[: len(exchanged)])
    dist.all_to_all_single(uneven, mine[: sum(sizes)], sizes, sizes)
    indices = torch.arange(MEBI) * (RANK + 1)
    dist.broadcast(indices, 1)
    everyone = [None] * RANKS
    dist.all_gather_object(everyone, {"rank": RANK})
    assert everyone == [{"rank": rank} for rank in range(RANKS)]
    tell(digest([*gathered, exchanged, uneven, indices]))


def short_group():
    """Returns a group with a time limit of 10 seconds per call."""
    return dist.new_group(timeout=datetime.timedelta(seconds=10))


def tell_failure(call, *reasons):
    """Prints the type of a call's exception, and its text unless it has one of the reasons."""
    began = time.monotonic()
    try:
        call()
        tell("no error")
    except Exception as error:
        reason = "" if any(words in str(error) for words in reasons) else f", {error}"
        in_time = "in time" if time.monotonic() - began < 60 else "late"
        tell(f"{type(error).__name__} {in_time}{reason}")


def time_out():
    """Makes a call that the last rank does not join."""
    join()
    group = short_group()
    tell(sum_of(group=group))
    mark = os.path.join(FOLDER, "failed")
    if RANK < RANKS - 1:
        tell_failure(lambda: sum_of(group=group), "Timed out")
        open(f"{mark}.{RANK}", "x").close()
    else:
        while not all(os.path.exists(f"{mark}.{rank}") for rank in range(RANKS - 1)):
            time.sleep(0.1)


def killed():
    """Makes a call during which the last rank kills itself. Without the shim, too, another rank may wait for its time
    limit."""
    join()
    group = short_group()
    tell(sum_of(group=group))
    total = whole_numbers(32 * MEBI)
    work = dist.all_reduce(total, group=group, async_op=True)
    if RANK == RANKS - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    tell_failure(work.wait, "onnection", "Broken pipe", "Timed out")


def restart():
    """Kills one worker, once; torchrun restarts all of them."""
    join()
    tell(sum_of())
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and RANK == RANKS - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    tell(f"after restart {os.environ['TORCHELASTIC_RESTART_COUNT']}: {sum_of()}")


globals()[SHAPE]()
