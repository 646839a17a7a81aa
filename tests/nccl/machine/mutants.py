#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deletes random instructions, one at a time, and prints how many of the deletions the cases find. The instructions are
drawn from those that the few cases execute in at least one lane, except those that match NOTHING, which compute nothing
in machine.cc. A deletion is found if the few cases, otherwise the quick ones, fail or take more instructions: lanes
take a slower path to the same bits, or stay diverged for longer.
A copy to a register that always has the value already cannot be found: another instruction is drawn instead.
    mutants.py NUMBER SEED PROGRAM..."""
import functools
import os
import random
import re
import subprocess
import sys
import tempfile

NOTHING = re.compile(r"(@!?\w+ )?(NOP|MEMBAR|ERRBAR|CGAERRBAR|CCTL|YIELD|BRA\.DIV)|.*: membar")
COPY = re.compile(r"(@!?%?\w+ )?(U?MOV|IMAD\.MOV|R2UR|U?LDCU?|CS2R|mov)\b")


def run(program, cases, **settings):
    """Runs the program, up to the first case that fails. Returns whether all cases passed, and the last line of the
    output."""
    process = subprocess.Popen([program, cases], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, **settings})
    line = ""
    for line in process.stdout:
        if line.startswith("not ok"):
            process.kill()
            break
    return process.wait() == 0, line.strip()


def counted(program, cases, **settings):
    """Returns whether all cases passed, the last line of the output and, if all passed, for each instruction how often
    it was issued, and how often at least one lane executed it."""
    with tempfile.NamedTemporaryFile() as file:
        passed, line = run(program, cases, MACHINE_COUNTS=file.name, **settings)
        lines = [line.rstrip("\n").split(" ", 4) for line in open(file.name)]
    return passed, line, [(kernel, number, int(came), int(did), text) for kernel, number, came, did, text in lines]


@functools.cache
def original(program, cases):
    """Returns the instructions with their counts in the cases, which must pass."""
    passed, line, counts = counted(program, cases)
    if not passed:
        sys.exit(f"{program} fails as it is: {line}")
    return counts


def total(counts):
    return sum(came for _, _, came, _, _ in counts)


def delete(program, kernel, place, text):
    """Deletes an instruction. Returns how the deletion is found, and the evidence."""
    for cases in ("few", "quick"):
        passed, line, counts = counted(program, cases, MACHINE_DELETE=f"{kernel}:{place}")
        if not passed:
            return "results", line
        more = total(counts) - total(original(program, cases))
        if more > 0:
            return "counts", f"{more} instructions more"
    if COPY.match(text) and "never changed" in run(program, "quick", MACHINE_WATCH=f"{kernel}:{place}")[1]:
        return "no means", "it never changes a register"
    return "nothing", f"{more} instructions more"


number, chance, programs = int(sys.argv[1]), random.Random(sys.argv[2]), sys.argv[3:]
found = {"results": 0, "counts": 0, "nothing": 0, "no means": 0}
executed = {program: [(kernel, place, text) for kernel, place, _, did, text in original(program, "few")
                      if did > 0 and not NOTHING.match(text.split(" ", 1)[-1])] for program in programs}
for i in range(number):
    program = programs[i % len(programs)]
    by = "no means"
    while by == "no means":
        kernel, place, text = chance.choice(executed[program])
        by, line = delete(program, kernel, place, text.split(" ", 1)[-1])
        found[by] += 1
        print(f"found by {by}:", os.path.basename(program), kernel, text, "|", line, flush=True)
print(f"{number - found['nothing']} of {number} deletions are found, {found['results']} of them by the results;",
      f"{found['no means']} more are of copies that do nothing")
