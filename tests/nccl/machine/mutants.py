#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deletes one instruction each, drawn by chance among those that the few cases execute and that do
something in machine.cc, and says how many of the deletions are found: by the cases' results, or since the same
cases take more instructions: lanes that go the slow way to the same bits, or apart from their warp for longer.
A copy that only ever copies what is there already does nothing, which no case can find: another is drawn instead.
    mutants.py NUMBER SEED PROGRAM..."""
import os
import random
import re
import subprocess
import sys
import tempfile

NOTHING = re.compile(r"(@!?\w+ )?(NOP|MEMBAR|ERRBAR|CGAERRBAR|CCTL|YIELD|BRA\.DIV)|.*: membar")
COPY = re.compile(r"(@!?\w+ )?(U?MOV|IMAD\.MOV|R2UR|U?LDCU?|CS2R)\b")


def run(program, **settings):
    """What the program says at its end, or the first case that did not pass, where it is ended."""
    process = subprocess.Popen([program, "few"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, **settings})
    line = ""
    for line in process.stdout:
        if line.startswith("not ok"):
            process.kill()
            break
    return process.wait() == 0, line.strip()


def counted(program, **settings):
    """Whether all cases passed, what the first said that did not, and how often each instruction was executed."""
    with tempfile.NamedTemporaryFile() as file:
        passed, line = run(program, MACHINE_COUNTS=file.name, **settings)
        lines = [line.rstrip("\n").split(" ", 3) for line in open(file.name)]
    return passed, line, [(kernel, number, int(count), text) for kernel, number, count, text in lines]


def delete(program, kernel, place, text, original):
    """How the deletion is found, and what tells so."""
    passed, line, counts = counted(program, MACHINE_DELETE=f"{kernel}:{place}")
    more = sum(count for _, _, count, _ in counts) - original
    if not passed:
        return "results", line
    if more <= 0 and COPY.match(text) and "never changed" in run(program, MACHINE_WATCH=f"{kernel}:{place}")[1]:
        return "no means", "it never changes a register"
    return "counts" if more > 0 else "nothing", f"{more} instructions more"


number, chance, programs = int(sys.argv[1]), random.Random(sys.argv[2]), sys.argv[3:]
found = {"results": 0, "counts": 0, "nothing": 0, "no means": 0}
originals, executed = {}, {}
for program in programs:
    passed, _, counts = counted(program)
    if not passed:
        sys.exit(f"{program} fails as it is")
    originals[program] = sum(count for _, _, count, _ in counts)
    executed[program] = [(kernel, place, text) for kernel, place, count, text in counts
                         if count > 0 and not NOTHING.match(text.split(" ", 1)[-1])]
for i in range(number):
    program = programs[i % len(programs)]
    by = "no means"
    while by == "no means":
        kernel, place, text = chance.choice(executed[program])
        by, line = delete(program, kernel, place, text.split(" ", 1)[-1], originals[program])
        found[by] += 1
        print(f"found by {by}:", os.path.basename(program), kernel, text, "|", line, flush=True)
print(f"{number - found['nothing']} of {number} deletions are found, {found['results']} of them by the results;",
      f"{found['no means']} more are of copies that do nothing")
