#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Simulates all-reduces on fat trees, native and by the MPI engine.

simulate.py run SHAPE...     simulates RANKSxPER_NODE each, such as 64x8, into simulate.json
simulate.py check            checks 16 ranks with and without data: right sums, equal times, and ranks that learn choose
                             the fastest candidate, or one that is at most a quarter slower
simulate.py table JSON       prints the tables of docs/simulation.md

BUILD has the program (make simulate). FABRICS="10 25 100" in Gbit/s, SIZES in bytes, and MODES select a part. A mode
is a native algorithm, an MPI whose choice of algorithms SimGrid knows, CODEC/ALGORITHM, or a CODEC, whose ranks learn
the algorithm as in a job, in as many calls of each size as that takes.
"""
import concurrent.futures
import datetime
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
BENCH = os.path.join(HERE, "..", "bench")
sys.path.insert(0, BENCH)
from summarize import output_of  # noqa: E402

BUILD = os.environ.get("BUILD", "build")
RESULTS = os.environ.get("RESULTS", os.path.join(BENCH, "results", "simulate.json"))
SIZES = [int(size) for size in os.environ.get("SIZES", "65536 1048576 16777216 67108864").split()]

# Latency of a link between a node and its switch, or between switches, and processor seconds for each message sent or
# received. A message between nodes crosses two or four links.
FABRICS = {
    10: {"latency": "5us", "message": 1e-6},
    25: {"latency": "2.5us", "message": 1e-6},
    100: {"latency": "0.5us", "message": 0.25e-6},
}
FRAMING = 0.956  # usable share of a link's rate: 1448 of 1514 bytes
SELECTORS = ["ompi", "mpich", "mvapich2", "impi"]
# Without rab, whose sums are wrong in SimGrid 3.32.
ALGORITHMS = ["lr", "rab_rdb", "rab2", "rdb"]
INSIDE_AND_BETWEEN = ["smp_rsag_rab", "mvapich2_two_level"]
CODECS = ["raw", "fp16", "fp8_e4m3"]
ALGORITHMS_OF_CODECS = ["two_shot", "grid"]

PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="all" routing="Full">
<cluster id="cluster" prefix="n" suffix="" radical="0-{last}" speed="1Gf" core="8"
    bw="{rate}Gbps" lat="{latency}" loopback_bw="10GBps" loopback_lat="0.5us"
    topology="FAT_TREE" topo_parameters="2;{down},{leaves};1,{down};1,1"/>
</zone></platform>
"""


def tree_of(nodes):
    """Returns the number of nodes per leaf switch, and of leaf switches. A leaf has an uplink for each of its nodes."""
    down = max(k for k in range(1, int(nodes**0.5) + 1) if nodes % k == 0)
    return down, nodes // down


def speeds_of(codec):
    """Returns measured speeds of one core, in float32 bytes per second: encode, decode, add a contribution, add."""
    with open(os.path.join(BENCH, "results", "codecs.json"), encoding="utf-8") as file:
        measured = json.load(file)
    own = measured["fp32" if codec == "raw" else codec]
    parts = 4  # contributions of the measured reduction
    return [1e9 * own["encode"], 1e9 * own["decode"], 1e9 * parts * own["reduce"], 1e9 * parts * measured["fp32"]["reduce"]]


def command_of(folder, fabric, ranks, per_node, mode, sizes, with_data=False):
    """Writes the platform, hosts and policy to the folder. Returns smpirun's command and environment."""
    nodes = ranks // per_node
    down, leaves = tree_of(nodes)
    facts = FABRICS[fabric]
    platform, hosts, policy = (os.path.join(folder, name) for name in ("platform.xml", "hosts", "policy.ini"))
    with open(platform, "w", encoding="utf-8") as file:
        file.write(PLATFORM.format(last=nodes - 1, rate=fabric, latency=facts["latency"], down=down, leaves=leaves))
    with open(hosts, "w", encoding="utf-8") as file:
        file.writelines(f"n{rank // per_node}\n" for rank in range(ranks))
    codec, _, algorithm = mode.partition("/")
    is_engine = codec in CODECS
    with open(policy, "w", encoding="utf-8") as file:
        choice = f"worth = always\nalgorithm = {algorithm}" if algorithm else "worth = measured"
        file.write(f"[rule all]\ncodec = {codec if is_engine else 'none'}\n{choice}\n")
    os.chmod(policy, 0o600)
    overhead = f"0:{facts['message']}:0"
    options = {
        "plugin": "link_load",
        "smpi/simulate-computation": "no",
        "smpi/host-speed": "1Gf",
        "smpi/bw-factor": f"0:{FRAMING}",
        "smpi/lat-factor": "0:1",
        "smpi/os": overhead,
        "smpi/ois": overhead,
        "smpi/or": overhead,
        "smpi/coll-selector": mode if mode in SELECTORS else "ompi",
    }
    if not is_engine and mode not in SELECTORS:
        options["smpi/allreduce"] = mode
    if not with_data:
        options["smpi/auto-shared-malloc-thresh"] = str(1 << 20)  # the contents are never read
        options["smpi/shared-malloc-blocksize"] = str(32 << 20)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COMPSHIM")}
    environment.update(
        COMPSHIM_POLICY=policy,
        COMPSHIM_REPORT="off",
        SIMULATE_SPEEDS=" ".join(map(str, speeds_of(codec if is_engine else "raw"))),
        SIMULATE_DATA="yes" if with_data else "no",
    )
    return ["smpirun", "-np", str(ranks), "-hostfile", hosts, "-platform", platform, "--log=root.threshold:critical",
            *(f"--cfg={name}:{value}" for name, value in options.items()),
            os.path.join(BUILD, "tests", "simulate"), "engine" if is_engine else "native",
            *map(str, sizes)], environment  # fmt: skip


def simulate(fabric, ranks, per_node, mode, sizes, with_data=False):
    """Simulates a mode. Returns a cell for each size; none, after a message, if the simulation fails."""
    with tempfile.TemporaryDirectory() as folder:
        command, environment = command_of(folder, fabric, ranks, per_node, mode, sizes, with_data)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    cells = []
    for line in done.stdout.splitlines():
        words = line.split()
        if not words[0].isdigit() or int(words[0]) not in sizes:
            continue
        cell = {"fabric": fabric, "ranks": ranks, "per_node": per_node, "mode": mode, "bytes": int(words[0]),
                "seconds": float(words[1]), "link_most": float(words[2]), "link_mean": float(words[3])}  # fmt: skip
        if len(words) > 4:
            cell.update(codec=words[4], algorithm=words[5])
        cells.append(cell)
    if done.returncode != 0 or len(cells) != len(sizes):
        sys.stderr.write(f"{' '.join(command)}\n{done.stderr[-600:]}\n")
        sys.stderr.write(f"simulate.py: left out: {ranks}x{per_node}, {fabric} Gbit/s, {mode}\n")
        return []
    return cells


def key_of(cell):
    return tuple(cell[name] for name in ("ranks", "per_node", "fabric", "mode", "bytes"))


def save(cells, revision):
    """Writes cells to RESULTS, together with earlier ones of the same revision."""
    head = {
        "revision": revision,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "simgrid": output_of("smpicc", "--version"),
        "fabrics": FABRICS,
    }
    known = {}
    if os.path.exists(RESULTS):
        with open(RESULTS, encoding="utf-8") as file:
            before = json.load(file)
        if before["revision"] == head["revision"]:
            known = {key_of(cell): cell for cell in before["cells"]}
    known.update((key_of(cell), cell) for cell in cells)
    lines = ",\n".join(json.dumps(known[key]) for key in sorted(known))
    with open(RESULTS, "w", encoding="utf-8") as file:
        file.write(json.dumps(head)[:-1] + ', "cells": [\n' + lines + "\n]}\n")


def modes_of(per_node):
    inside, algorithms = (INSIDE_AND_BETWEEN, ["hierarchical"]) if per_node > 1 else ([], [])
    own = [f"{codec}/{algorithm}" for codec in CODECS for algorithm in algorithms + ALGORITHMS_OF_CODECS]
    return SELECTORS + ALGORITHMS + inside + own


def run(shapes):
    jobs = []
    revision = output_of("git", "describe", "--always", "--dirty")
    for shape in shapes:
        ranks, per_node = map(int, shape.split("x"))
        modes = os.environ.get("MODES", " ".join(modes_of(per_node))).split()
        fabrics = map(int, os.environ.get("FABRICS", "10 25 100").split())
        jobs += [(fabric, ranks, per_node, mode, SIZES) for fabric in fabrics for mode in modes]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in concurrent.futures.as_completed([pool.submit(simulate, *job) for job in jobs]):
            save(done.result(), revision)
            print(".", end="", flush=True)
    print()


def check():
    """Checks that simulations without data take the same time as with data, and that the sums with data are right. A
    learned choice may take 1.25 times as long as the fastest candidate, because a candidate that rounds more has to
    gain a tenth."""
    sizes = [65536, 1 << 20]
    for per_node in (1, 4):
        seconds = {}
        for mode in modes_of(per_node) + CODECS:
            with_data, without = (simulate(10, 16, per_node, mode, sizes, data) for data in (True, False))
            if not with_data or with_data != without:
                raise SystemExit(f"simulate.py: with data {with_data}, without {without}")
            seconds[mode] = [cell["seconds"] for cell in without]
        for codec in CODECS:
            tried = [seconds[mode] for mode in seconds if mode == "ompi" or mode.startswith(f"{codec}/")]
            for learned, least in zip(seconds[codec], map(min, *tried)):
                if learned > least / 0.8:
                    raise SystemExit(f"simulate.py: {codec}, {per_node} per node: {learned} learned, {least} possible")


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def print_table(name):
    with open(name, encoding="utf-8") as file:
        cells = {key_of(cell): cell for cell in json.load(file)["cells"]}
    for ranks, per_node, fabric in sorted({key[:3] for key in cells}):
        print(f"\n{ranks} ranks, {per_node} per node, {fabric} Gbit/s:\n")
        print("| | ompi | mpich | best native | " + " | ".join(CODECS) + " | bytes of a node |")
        print("|---" * (5 + len(CODECS)) + "|")
        for size in sorted({key[4] for key in cells if key[:3] == (ranks, per_node, fabric)}):
            row = {key[3]: cell for key, cell in cells.items() if key[:3] == (ranks, per_node, fabric) and key[4] == size}
            print_row(size, row)


def print_row(size, row):
    """Prints a table row. Of each codec it has the fastest mode."""
    codecs = {mode: mode.partition("/")[0] for mode in row if mode.partition("/")[0] in CODECS}
    natives = {mode: cell["seconds"] for mode, cell in row.items() if mode not in codecs}
    best = min(natives, key=natives.get)
    ours = {codec: min((row[mode] for mode in codecs if codecs[mode] == codec), key=lambda cell: cell["seconds"]) for codec in set(codecs.values())}
    texts = [f"{natives[mode] * 1e3:.3g}" if mode in natives else "-" for mode in ("ompi", "mpich")]
    texts.append(f"{natives[best] * 1e3:.3g} ({best})")
    for codec in CODECS:
        cell = ours.get(codec)
        texts.append(f"{cell['seconds'] * 1e3:.3g} {cell['algorithm']} ({natives[best] / cell['seconds']:.1f}x)" if cell else "-")
    loads = {best: row[best], **{codec: ours[codec] for codec in CODECS[2:] if codec in ours}}
    texts.append(", ".join(f"{name} {cell['link_mean'] / 1e6:.3g} MB ({cell['link_most'] / cell['link_mean']:.2f})" for name, cell in loads.items()))
    print(f"| {size_text(size)} | " + " | ".join(texts) + " |")


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run(sys.argv[2:])
    elif sys.argv[1:] == ["check"]:
        check()
    elif sys.argv[1:2] == ["table"] and len(sys.argv) == 3:
        print_table(sys.argv[2])
    else:
        sys.exit(__doc__)
