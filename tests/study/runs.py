#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the file of the study's runs: one JSON object per line.

runs.py missing RUNS NAME=VALUE...   prints the runs of standard input ("SEED MODEL MODE") that are not done yet
runs.py record RUNS SEED MODEL MODE REVISION OUTPUT REPORT NAME=VALUE...
                                     appends a run, from the trainer's output and the shim's report
"""
import json
import math
import os
import re
import sys

FINAL = re.compile(r"^final: test accuracy ([0-9.]+) %  loss (\S+)  train time ([0-9.]+) s", re.M)


def read(path):
    """Returns the runs of a file in order; none if the file does not exist."""
    if not os.path.exists(path):
        return []
    runs = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                runs.append(json.loads(line))
            except json.JSONDecodeError:
                sys.exit(f"{path}:{number}: this line is not a run: delete it, and --resume")
    return runs


def parse_settings(arguments):
    settings = {}
    for argument in arguments:
        name, value = argument.split("=", 1)
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def missing(path, settings):
    done = set()
    for number, run in enumerate(read(path), 1):
        if run["settings"] != settings:
            sys.exit(
                f"{path}:{number}: this run was made with other settings, {run['settings']}: "
                "use them, another --results, or no --resume"
            )
        done.add((run["seed"], run["model"], run["mode"]))
    for line in sys.stdin:
        seed, model, mode = line.split()
        if (int(seed), model, mode) not in done:
            print(line, end="")


def check_report(report, mode, path):
    """Ends the program unless the shim compressed every call by the codec under study, except two reductions of each
    evaluation: the numbers of images and the scores."""
    totals = report["totals"]
    codecs = {row["codec"] for row in report["rows"]}
    passed = {reason: calls for reason, calls in report["passed_through"].items() if calls > 0}
    evaluations = passed.get("dtype", 0)
    all_gradients = passed in ({}, {"dtype": evaluations, "no_rule": evaluations})
    if not all_gradients or codecs != {mode.split("+")[0]}:
        sys.exit(
            f"{path}: {totals['compressed_calls']} of {totals['calls']} calls were compressed, "
            f"as {', '.join(sorted(codecs)) or 'nothing'}; passed through: {report['passed_through']}"
        )


def parse_run(mode, output_path, report_path):
    with open(output_path, encoding="utf-8") as file:
        found = FINAL.search(file.read())
    if not found:
        sys.exit(f"{output_path}: the trainer's last line is not there")
    loss = float(found[2])
    run = {
        "accuracy": float(found[1]),
        "loss": loss if math.isfinite(loss) else None,
        "seconds": float(found[3]),
    }
    if mode != "off":
        with open(report_path, encoding="utf-8") as file:
            report = json.load(file)
        check_report(report, mode, report_path)
        run["calls"] = report["totals"]["calls"]
        run["bytes_native"] = report["totals"]["bytes_native"]
        run["bytes_wire"] = report["totals"]["bytes_wire"]
    return run


def record(path, seed, model, mode, revision, output_path, report_path, settings):
    run = {"seed": int(seed), "model": model, "mode": mode}
    run.update(parse_run(mode, output_path, report_path))
    run.update(revision=revision, settings=settings)
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps(run) + "\n")
    print(f"{run['accuracy']:.2f} %, {run['seconds']:.0f} s")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "missing":
        missing(sys.argv[2], parse_settings(sys.argv[3:]))
    elif len(sys.argv) > 8 and sys.argv[1] == "record":
        record(*sys.argv[2:9], parse_settings(sys.argv[9:]))
    else:
        sys.exit(__doc__)
