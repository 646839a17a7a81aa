#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the harder part of the study: trains the transformer of examples/python/chars_ddp.py over gloo, unmodified,
with the shim off and with several codecs, and reports how compression changes its loss on unseen text.

    text.py [--seeds N] [--modes LIST] [--steps N] [--ranks N] [--resume] [--results DIR] [--docs DIR]

Modes are named as in study.sh. Every all-reduce is a gradient and is compressed. All modes of a seed run before the
next seed begins. Each run is a line of DIR/study-text.jsonl. --resume keeps existing lines and runs the missing ones.
The table replaces the one between the marks in study.md of --docs. TORCH is a folder with PyTorch in bin; the default
is BUILD/torch/2.15.0, which `tools/get-torch.sh 2.15.0 build/torch/2.15.0` creates.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import runs as runs_file
import summarize

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(TOP, "build")))
MODES = "off,raw,fp16,bf16,int8,fp8_e4m3,int6,fp8_e5m2,int5,int5+feedback,int4,int4+feedback,int3,int3+feedback,"
MODES += "mxfp8,mxfp4,nvfp4"
LOSS = re.compile(r"loss (\S+) on the text that was kept")
MARKS = ("<!-- results: tests/study/text.py writes what follows -->", "<!-- end of its results -->")


def train(seed, mode, arguments, folder):
    """Trains once, in this mode. Returns the run: its loss, and its bytes from the shim's report."""
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    report = os.path.join(folder, "report.json")
    if mode != "off":
        policy = os.path.join(folder, "policy.ini")
        codec, _, feedback = mode.partition("+")
        with open(policy, "w", encoding="utf-8") as file:
            file.write(f"[rule all]\ncodec = {codec}\nworth = always\n" + ("error_feedback = on\n" if feedback else ""))
        environment.update(LD_PRELOAD=BUILD + "/libcompshim.so", COMPSHIM_POLICY=policy, COMPSHIM_REPORT=report)
    torch = os.environ.get("TORCH", os.path.join(BUILD, "torch", "2.15.0"))
    command = [torch + "/bin/torchrun", "--standalone", "--nproc_per_node", str(arguments.ranks)]
    command += [TOP + "/examples/python/chars_ddp.py", "--steps", str(arguments.steps), "--seed", str(seed)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3600, check=False)
    found = LOSS.search(done.stdout)
    if done.returncode != 0 or not found:
        sys.exit(f"seed {seed}, {mode}: status {done.returncode}\n{done.stdout}{done.stderr}")
    run = {"seed": seed, "mode": mode, "loss": float(found[1])}
    if mode != "off":
        with open(report, encoding="utf-8") as file:
            told = json.load(file)
        runs_file.check_report(told, mode, report)
        run.update({name: told["totals"][name] for name in ("calls", "bytes_native", "bytes_wire")})
        os.remove(report)
    return run


def row(mode, mine, base):
    """Returns a table row. `mine` and `base` (without the shim) are runs by seed."""
    losses = [run["loss"] for run in mine.values()]
    cells = [f"`{mode}`", str(len(mine)), summarize.spread(statistics.fmean(losses), summarize.deviation(losses), 4)]
    if mode == "off":
        return cells + ["", "", ""]
    gaps = [mine[seed]["loss"] - base[seed]["loss"] for seed in mine if seed in base]
    shares = [100 * (mine[seed]["loss"] / base[seed]["loss"] - 1) for seed in mine if seed in base]
    sent = [sum(run[name] for run in mine.values()) for name in ("bytes_native", "bytes_wire")]
    return cells + [
        summarize.spread(statistics.fmean(gaps), summarize.standard_error(gaps), 4, "+"),
        summarize.spread(statistics.fmean(shares), summarize.standard_error(shares), 2, "+"),
        f"{sent[0] / sent[1]:.2f} ×",
    ]


def table(runs):
    head = ["mode", "seeds", "loss", "difference", "difference, %", "fewer bytes"]
    by_mode = {}
    for run in runs:
        by_mode.setdefault(run["mode"], {})[run["seed"]] = run
    rows = [head, ["---"] * len(head)] + [row(mode, mine, by_mode["off"]) for mode, mine in by_mode.items()]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in rows)


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--modes", default=MODES)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--results", default="tests/bench/results")
    parser.add_argument("--docs", default="docs")
    arguments = parser.parse_args()
    path = os.path.join(arguments.results, "study-text.jsonl")
    settings = {"steps": arguments.steps, "ranks": arguments.ranks}
    if not arguments.resume and os.path.exists(path):
        os.remove(path)
    runs = runs_file.read(path)
    if any(run["settings"] != settings for run in runs):
        sys.exit(f"{path}: these runs were made with other settings: use them, another --results, or no --resume")
    done = {(run["seed"], run["mode"]) for run in runs}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(1, arguments.seeds + 1):
            for mode in arguments.modes.split(","):
                if (seed, mode) in done:
                    continue
                run = dict(train(seed, mode, arguments, folder), settings=settings)
                print(f"seed {seed}, {mode}: loss {run['loss']:.4f}", file=sys.stderr)
                with open(path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(run) + "\n")
                runs.append(run)
    text = f"{arguments.steps} steps, {arguments.ranks} ranks.\n\n{table(runs)}\n"
    summarize.write_document(os.path.join(arguments.docs, "study.md"), text, MARKS)
    print(text, end="")


if __name__ == "__main__":
    main()
