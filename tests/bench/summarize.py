#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns the samples of bench.sh into one JSON file per network, and those into a table or curves.

summarize.py network SAMPLES PLANS   JSON of one network, with the machine
summarize.py table JSON...           the table
summarize.py choices LINES           compares each choice of choices.sh with native and with the best candidate; marks
                                     cells slower than native, and cells that miss the best candidate
summarize.py truth LINES       the line of a cell of truth.sh
summarize.py curves JSON             blocks of "bytes GB/s" for gnuplot, one per mode
"""
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys

# TCP over Ethernet as tbf counts it: 1514 bytes carry 1448 bytes of payload (headers: 14 Ethernet, 20 IPv4, 20 TCP,
# 12 timestamps). Preamble, checksum and gap of a real Ethernet are not emulated. Acknowledgements of the other
# direction are not counted.
FRAMING = 1514 / 1448
UNITS = {"mbit": 1e6, "gbit": 1e9}
# A choice is SLOWER if it takes 2 % and 2 µs longer than native. It has MISSED the best candidate if it takes 2 µs
# longer and has less than 90 % of its speed; such a choice is counted as far off if it takes 25 % longer.
SLOWER, SLOWER_SECONDS, NEAR, FAR = 0.02, 2e-6, 0.9, 1.25


def parse_network(name):
    """Returns hosts, ranks per host, and bytes per second of a link (None for shared memory, and without a limit)."""
    if name.startswith("shm-"):
        return 1, int(name[4:]), None
    rate, shape = name.split("-")
    hosts, ranks = shape.split("x")
    return int(hosts), int(ranks), None if rate == "none" else float(rate[:-4]) * UNITS[rate[-4:]] / 8


def link_bytes(plan, native, hosts, ranks_per_host):
    """Returns the payload bytes in one direction of a host's link, before framing.

    With the shim, the bytes that the algorithm sends from each of H hosts; without it, the minimum of any algorithm
    between hosts, 2(H-1)/H of the buffer's bytes.
    """
    if plan is not None:
        return plan["bytes_network"] / hosts
    ranks = hosts * ranks_per_host
    return 2 * (hosts - 1) / hosts * native / (2 * (ranks - 1))


def one_result(network, mode, size, samples, explained):
    """Returns medians and limits. The algorithm is the plan's; a job that measures may choose another, or native."""
    hosts, ranks_per_host, rate = parse_network(network)
    ranks = hosts * ranks_per_host
    plan = None if mode in ("off", "ring") else explained["plan"]
    median = statistics.median(sample["median"] for sample in samples)
    result = {
        "mode": mode,
        "bytes": size,
        "algorithm": plan["algorithm"] if plan else "native",
        "repeats": len(samples),
        "calls": sum(sample["calls"] for sample in samples),
        "seconds": median,
        "seconds_of_repeats": [sample["median"] for sample in samples],
        "bytes_per_second": size / median,
        "processor_seconds_per_gib": statistics.median(sample["processor"] for sample in samples),
    }
    if all("native" in sample for sample in samples):
        result["native_seconds_of_repeats"] = [sample["native"] for sample in samples]
    if rate is not None:
        native = 2 * (ranks - 1) * size
        limit = link_bytes(plan, native, hosts, ranks_per_host) * FRAMING / rate
        result["seconds_limit"] = limit
        result["share_of_limit"] = limit / median
    return result


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def machine():
    with open("/proc/cpuinfo", encoding="ascii") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return {
        "processor": models[0],
        "processors": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "mpi": output_of("mpirun", "--version").splitlines()[0],
        "load_at_the_end": os.getloadavg()[0],
    }


def summarize(samples_file, plans_file):
    groups, plans = {}, {}
    with open(samples_file, encoding="ascii") as file:
        for line in file:
            network, mode, _, size, calls, median, _, processor, *native = line.split()
            sample = {"calls": int(calls), "median": float(median), "processor": float(processor)}
            if native:
                sample["native"] = float(native[0])
            groups.setdefault((mode, int(size)), []).append(sample)
    with open(plans_file, encoding="utf-8") as file:
        for line in file:
            mode, text = line.split(" ", 1)
            explained = json.loads(text)
            plans[mode, explained["call"]["bytes"]] = explained
    head = {
        "network": network,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "revision": output_of("git", "describe", "--always", "--dirty"),
        "machine": machine(),
        "framing": FRAMING,
    }
    results = [one_result(network, *key, samples, plans[key]) for key, samples in groups.items()]
    # The fields on the first line, then one line per result.
    print(json.dumps(head)[:-1] + ', "results": [\n' + ",\n".join(map(json.dumps, results)) + "\n]}")


def load(files):
    for name in files:
        if os.path.exists(name):
            with open(name, encoding="utf-8") as file:
                yield json.load(file)


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def cell(result, natives):
    """Returns milliseconds, speed relative to the better of off and ring, processor seconds, share of the limit."""
    processor = result.get("processor_seconds_per_gib")
    text = f"{result['seconds'] * 1e3:9.3f} {min(natives) / result['seconds']:5.2f}"
    share = result.get("share_of_limit")
    text += f" {processor:6.2f}" if processor is not None else "      -"
    return text + (f" {share * 100:3.0f}%" if share is not None else "    -")


def print_table(files):
    print(
        "Each cell: median milliseconds, speed against the better of off and ring, processor seconds of all ranks "
        "per GiB, and share of the link's limit"
    )
    for data in load(files):
        by_size = {}
        for result in data["results"]:
            by_size.setdefault(result["bytes"], {})[result["mode"]] = result
        modes = list(dict.fromkeys(result["mode"] for result in data["results"]))
        print(f"\n{data['network']}   {data['revision']}, {data['date']}")
        print(" " * 8 + "".join(f"{mode:>29}" for mode in modes))
        for size, row in sorted(by_size.items()):
            natives = [row[mode]["seconds"] for mode in ("off", "ring") if mode in row]
            cells = [cell(row[mode], natives) if mode in row and natives else "-" for mode in modes]
            print(f"{size_text(size):>8}" + "".join(f"{text:>29}" for text in cells))


def print_choices(file_name):
    """Prints one line per cell of choices.sh: the job's choice, the native call, and the best of all candidates."""
    cells = {}
    for line in open(file_name):
        network, policy, candidate, size, _, median, _ = line.split()
        if candidate == "chosen":
            cell = cells.setdefault((policy, network, int(size)), {})
        cell.setdefault(candidate, []).append(float(median))
    slower = missed = far = 0
    print("policy    network      size      off ms  chosen  best candidate")
    for (policy, network, size), cell in sorted(cells.items()):
        median = {candidate: statistics.median(seconds) for candidate, seconds in cell.items()}
        chosen, off = median.pop("chosen"), median["none/auto"]
        name = min(median, key=median.get)
        best = median[name]
        costs = chosen - off > max(SLOWER * off, SLOWER_SECONDS)
        misses = chosen - best > max((1 / NEAR - 1) * best, SLOWER_SECONDS)
        slower, missed, far = slower + costs, missed + misses, far + (misses and chosen > FAR * best)
        print(
            f"{policy:9} {network:11} {size_text(size):>8} {off * 1e3:9.3f} {off / chosen:6.2f}x  {name:20} "
            f"{off / best:6.2f}x  {'SLOWER ' * costs}{'MISSED' * misses}".rstrip()
        )
    print(f"{len(cells)} cells: {slower} slower than off, {missed} below {NEAR:.0%} of the best, {far} by more than {FAR - 1:.0%}")


def print_truth(file_name):
    samples = {}
    for line in open(file_name):
        kind, value = line.split()
        samples.setdefault(kind, []).append(float(value))
    low, middle, high = statistics.quantiles((off / on for off, on in zip(samples["off"], samples["on"])), n=4)
    off, on = (statistics.median(samples[kind]) for kind in ("off", "on"))
    answer = "-"
    if "reported" in samples:
        reported = statistics.median(samples["reported"])
        answer = f"{reported:5.2f}  {reported / middle - 1:+.0%}"
    print(f"{off * 1e3:9.3f} {on * 1e3:9.3f}   {middle:5.2f} ({low:.2f} to {high:.2f})   {answer}")


def print_curves(file_name):
    (data,) = load([file_name])
    print(f"# {data['network']}")
    curves = {}
    for result in data["results"]:
        curves.setdefault(result["mode"], []).append((result["bytes"], result["bytes_per_second"] / 1e9))
    blocks = (
        "\n".join([f'"{mode}"', *(f"{size} {speed}" for size, speed in sorted(points))])
        for mode, points in curves.items()
    )
    print("\n\n\n".join(blocks))


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "network":
        summarize(*sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1] == "choices":
        print_choices(sys.argv[2])
    elif len(sys.argv) == 3 and sys.argv[1] == "truth":
        print_truth(sys.argv[2])
    elif len(sys.argv) > 2 and sys.argv[1] == "table":
        print_table(sys.argv[2:])
    elif len(sys.argv) == 3 and sys.argv[1] == "curves":
        print_curves(sys.argv[2])
    else:
        sys.exit(__doc__)
