#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the measurements of gloo.sh into JSON, and the JSON into tables.

gloo_table.py hosts N RATE SAMPLES    JSON of N hosts
gloo_table.py loopback SAMPLES        JSON of one machine
gloo_table.py table JSON...           the tables
"""
import datetime
import json
import os
import statistics
import sys

from summarize import FRAMING, UNITS, machine, output_of

BUCKET = 25 << 20


def read_samples(name, *keys):
    """Returns the samples grouped by keys, in the order of each group's first sample."""
    groups = {}
    with open(name, encoding="utf-8") as file:
        for sample in map(json.loads, file):
            groups.setdefault(tuple(sample[key] for key in keys), []).append(sample)
    return groups


def print_json(network, results, **more):
    head = {
        "network": network,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "revision": output_of("git", "describe", "--always", "--dirty"),
        "machine": machine(),
        **more,
    }
    print(json.dumps(head)[:-1] + ', "results": [\n' + ",\n".join(map(json.dumps, results)) + "\n]}")


def bytes_of_link(hosts, mode, explained):
    """Returns a bucket's payload bytes in one direction of a host's link: by the shim's plan, else of a ring."""
    if explained:
        return explained["plan"]["bytes_network"] / hosts
    ring = 2 * (hosts - 1) / hosts * BUCKET
    return ring / 2 if mode.endswith("-hook") or mode == "horovod-fp16" else ring


def summarize_hosts(hosts, rate, name):
    per_second = float(rate[:-4]) * UNITS[rate[-4:]] / 8
    results = []
    for (mode,), samples in read_samples(name, "mode").items():
        measured = [sample["measured"] for sample in samples]
        result = {
            "mode": mode,
            "torch": measured[0]["torch"],
            "repeats": len(samples),
            "bucket_limit": bytes_of_link(hosts, mode, samples[0]["explained"]) * FRAMING / per_second,
            "training_loss": measured[0]["training_loss"],
            "training_seconds": statistics.median(one["training_seconds"] for one in measured),
        }
        for key in ("call_seconds", "step_seconds"):
            if key in measured[0]:
                result[key] = statistics.median(statistics.median(one[key]) for one in measured)
                result[f"{key}_of_repeats"] = [statistics.median(one[key]) for one in measured]
        results.append(result)
    print_json(f"{rate}-{hosts}x1", results, bucket=BUCKET, framing=FRAMING)


def summarize_loopback(name):
    with open(name, encoding="utf-8") as file:
        print_json("loopback", list(map(json.loads, file)))


def print_hosts(data):
    results = data["results"]
    native = next(result for result in results if result["mode"] == "off")
    torch = data.get("torch", native.get("torch"))
    print(f"\n{data['network']}, PyTorch {torch}, {data['revision']}, {data['date']}, load", end=" ")
    print(f"{data['machine']['load_at_the_end']:.1f}")
    print("| | one bucket, ms | of the limit | speed | step of two, ms | speed | training step, ms | speed | loss |")
    print("|---|---|---|---|---|---|---|---|---|")
    for result in results:
        cells = [result["mode"]]
        if "call_seconds" in result:
            call = result["call_seconds"]
            cells += [f"{call * 1e3:.0f}", f"{result['bucket_limit'] / call * 100:.0f} %"]
            cells += [f"{native['call_seconds'] / call:.2f} ×"]
        else:
            cells += ["-", "-", "-"]
        for key in ("step_seconds", "training_seconds"):
            cells += [f"{result[key] * 1e3:.0f}", f"{native[key] / result[key]:.2f} ×"]
        print("| " + " | ".join([*cells, f"{result['training_loss']:.4f}"]) + " |")


def print_loopback(data):
    print(f"\nloopback, {data['revision']}, {data['date']}, load {data['machine']['load_at_the_end']:.1f}")
    print("| ranks | bytes | pairs | gloo's own call, µs | through the shim, µs more (95 %) | more |")
    print("|---|---|---|---|---|---|")
    for result in data["results"]:
        low, high = result["interval"]
        more, own = result["seconds_more"], result["seconds"]
        cells = [str(result[key]) for key in ("ranks", "bytes", "pairs")] + [f"{own * 1e6:.1f}"]
        cells += [f"{more * 1e6:+.2f} ({low * 1e6:+.2f} to {high * 1e6:+.2f})", f"{more / own * 100:+.2f} %"]
        print("| " + " | ".join(cells) + " |")


def print_tables(names):
    for name in names:
        if os.path.exists(name):
            with open(name, encoding="utf-8") as file:
                data = json.load(file)
            if data["network"] == "loopback":
                print_loopback(data)
            else:
                print_hosts(data)


if __name__ == "__main__":
    if len(sys.argv) == 5 and sys.argv[1] == "hosts":
        summarize_hosts(int(sys.argv[2]), *sys.argv[3:])
    elif len(sys.argv) == 3 and sys.argv[1] == "loopback":
        summarize_loopback(sys.argv[2])
    elif len(sys.argv) > 2 and sys.argv[1] == "table":
        print_tables(sys.argv[2:])
    else:
        sys.exit(__doc__)
