#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deletes one instruction each, drawn by chance among those that the few cases execute, in at least one lane, and that
do something in machine.cc, and says how many of the deletions are found: by the results of the few cases or else of the
quick ones, or since the same cases take more instructions: lanes that go the slow way to the same bits, or apart from
their warp for longer.
A copy that only ever copies what is there already does nothing, which no case can find: another is drawn instead.
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
    """What the program says at its end, or the first case that did not pass, where it is ended."""
    process = subprocess.Popen([program, cases], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, **settings})
    line = ""
    for line in process.stdout:
        if line.startswith("not ok"):
            process.kill()
            break
    return process.wait() == 0, line.strip()


def counted(program, cases, **settings):
    """Whether all cases passed, what the first said that did not, and each instruction with how often a warp came to it,
    and how often that with lanes whose guard let them execute it."""
    with tempfile.NamedTemporaryFile() as file:
        passed, line = run(program, cases, MACHINE_COUNTS=file.name, **settings)
        lines = [line.rstrip("\n").split(" ", 4) for line in open(file.name)]
    return passed, line, [(kernel, number, int(came), int(did), text) for kernel, number, came, did, text in lines]


@functools.cache
def original(program, cases):
    """The instructions with their counts under the cases, which pass."""
    passed, line, counts = counted(program, cases)
    if not passed:
        sys.exit(f"{program} fails as it is: {line}")
    return counts


def total(counts):
    return sum(came for _, _, came, _, _ in counts)


def delete(program, kernel, place, text):
    """How the deletion is found, and what tells so."""
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
