#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes the statistics of the study.

summarize.py RUNS JSON DOCUMENT DATA   reads the runs of runs.py; writes the statistics as JSON, as the results in the
                                       document (between the marks; the rest stays), and as blocks for study.gp
"""
import datetime
import json
import math
import os
import statistics
import sys

import runs as runs_file

MARKS = ("<!-- results: `make study` writes what follows -->", "<!-- end of the results -->")
# Largest allowed difference of the mean accuracy, in points, and the number of seeds needed to judge.
AIMS = {"fp16": 0.1, "bf16": 0.1, "int8": 0.1, "fp8_e4m3": 0.1, "int4+feedback": 0.3}
AIM_SEEDS = 3
MODELS = {"conv": "convolutional", "mlp": "dense"}


def mean(values):
    return statistics.fmean(values) if values else None


def deviation(values):
    """Returns the sample standard deviation (n - 1 in the denominator)."""
    return statistics.stdev(values) if len(values) > 1 else None


def standard_error(values):
    return deviation(values) / math.sqrt(len(values)) if len(values) > 1 else None


def verdict(mode, differences):
    if mode not in AIMS:
        return None
    if len(differences) < AIM_SEEDS:
        return "too few seeds"
    # Rounds, so that a rounding error does not make a mean that equals the aim miss it.
    return "met" if round(abs(mean(differences)), 6) <= AIMS[mode] else "missed"


def paired(mine, base, key):
    """Returns the differences to the run of the same seed without the shim."""
    pairs = ((run[key], base[seed][key]) for seed, run in mine.items() if seed in base)
    return [value - other for value, other in pairs if value is not None and other is not None]


def one_result(model, mode, mine, base):
    """Returns the statistics of one mode. `mine` and `base` (without the shim) are runs by seed."""
    accuracies = [run["accuracy"] for run in mine.values()]
    result = {
        "model": model,
        "mode": mode,
        "seeds": sorted(mine),
        "accuracy": mean(accuracies),
        "accuracy_deviation": deviation(accuracies),
    }
    if mode == "off":
        return result
    differences, losses = paired(mine, base, "accuracy"), paired(mine, base, "loss")
    result.update(
        pairs=len(differences),
        difference=mean(differences),
        difference_error=standard_error(differences),
        loss_difference=mean(losses),
        loss_difference_error=standard_error(losses),
        bytes_native=mean([run["bytes_native"] for run in mine.values()]),
        bytes_wire=mean([run["bytes_wire"] for run in mine.values()]),
        aim=AIMS.get(mode),
        verdict=verdict(mode, differences),
    )
    return result


def summarize(runs):
    groups = {}
    for run in runs:
        groups.setdefault((run["model"], run["mode"]), {})[run["seed"]] = run
    models = sorted({model for model, _ in groups})
    results = [
        one_result(model, mode, mine, groups.get((model, "off"), {}))
        for wanted in models
        for (model, mode), mine in groups.items()
        if model == wanted
    ]
    head = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "revisions": sorted({run["revision"] for run in runs}),
        "settings": runs[0]["settings"],
    }
    return head, results


def number(value, decimals, sign=""):
    return f"{value:{sign}.{decimals}f}".replace("-", "−")


def spread(value, error, decimals, sign=""):
    """Returns the text of a mean and its uncertainty, which is left out if it is None: of one seed there is none."""
    if value is None:
        return "-"
    text = number(value, decimals, sign)
    return text + (f" ± {number(error, decimals)}" if error is not None else "")


def row(result):
    cells = [
        MODELS.get(result["model"], result["model"]),
        f"`{result['mode']}`",
        str(len(result["seeds"])),
        spread(result["accuracy"], result["accuracy_deviation"], 2),
    ]
    if result["mode"] == "off":
        return cells + [""] * 4
    native, wire = result["bytes_native"], result["bytes_wire"]
    aim = f"±{result['aim']}: {result['verdict']}" if result["aim"] else ""
    return cells + [
        spread(result["difference"], result["difference_error"], 3, "+"),
        aim,
        spread(result["loss_difference"], result["loss_difference_error"], 4, "+"),
        f"{native / 1e9:.2f} → {wire / 1e9:.2f} ({native / wire:.2f} ×)",
    ]


def table(results):
    head = ["network", "mode", "seeds", "test accuracy, %", "difference, points", "aim"]
    head += ["training loss, difference", "GB sent in a run: natively → now"]
    lines = [head, ["---"] * len(head)] + [row(result) for result in results]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def judgement(results):
    """Returns a text: how many aims were met, and which were missed, and how certain that is."""
    judged = [result for result in results if result.get("verdict") in ("met", "missed")]
    if not judged:
        return f"No mode with an aim has {AIM_SEEDS} seeds or more: nothing can be said of the aims.\n"
    missed = [result for result in judged if result["verdict"] == "missed"]
    text = f"{len(judged) - len(missed)} of {len(judged)} aims are met.\n"
    for result in missed:
        beyond = abs(result["difference"]) - result["aim"]
        sure = beyond > 2 * result["difference_error"]
        text += (
            f"\n**Missed**: `{result['mode']}` with the {MODELS.get(result['model'], result['model'])} network, "
            f"{spread(result['difference'], result['difference_error'], 3, '+')} points where ±{result['aim']} "
            "was aimed at, "
            + ("clearly.\n" if sure else "by less than two standard errors: more seeds would tell.\n")
        )
    return text


def results_text(head, results):
    settings = head["settings"]
    return (
        f"Data `{settings['data']}`, images {settings['images']}, epochs {settings['epochs']}, batch "
        f"{settings['batch']}, learning rate {settings['learning_rate']}, ranks {settings['ranks']}; "
        f"{head['date'][:10]}, revision {', '.join(head['revisions'])}.\n\n"
        f"{table(results)}\n\n{judgement(results)}"
    )


def write_document(path, text, marks=MARKS):
    """Replaces the text between the marks. Appends marks and text to a document without them, or creates it."""
    old = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            old = file.read()
    begin, end = marks
    before, _, rest = old.partition(begin)
    _, _, after = rest.partition(end)
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{begin}\n\n{text}\n{end}{after or chr(10)}")


def curves(results):
    """Returns a block for each model: position and name of the mode, mean difference, standard error."""
    compared = [result for result in results if result.get("difference") is not None]
    modes = list(dict.fromkeys(result["mode"] for result in compared))
    blocks = []
    for model in dict.fromkeys(result["model"] for result in compared):
        lines = [f'"{MODELS.get(model, model)} network"']
        lines += [
            f"{modes.index(r['mode'])} {r['mode']} {r['difference']:.6f} {r['difference_error'] or 0:.6f}"
            for r in compared
            if r["model"] == model
        ]
        blocks.append("\n".join(lines) + "\n")
    return "\n\n".join(blocks)


def main(runs_path, json_path, document_path, data_path):
    runs = runs_file.read(runs_path)
    if not runs:
        sys.exit(f"{runs_path}: no runs")
    head, results = summarize(runs)
    with open(json_path, "w", encoding="utf-8") as file:
        # The fields on the first line, then one line per result.
        file.write(json.dumps(head)[:-1] + ', "results": [\n' + ",\n".join(map(json.dumps, results)) + "\n]}\n")
    text = results_text(head, results)
    write_document(document_path, text)
    with open(data_path, "w", encoding="utf-8") as file:
        file.write(curves(results))
    print(text, end="")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
