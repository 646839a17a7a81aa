#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deletes one instruction each, drawn by chance among those that the few cases execute and that do
something in machine.cc, and says how many of the deletions are found: by the cases' results, or since the same
cases take more instructions: lanes that go the slow way to the same bits, or apart from their warp for longer.
    mutants.py NUMBER SEED PROGRAM..."""
import os
import random
import re
import subprocess
import sys
import tempfile

NOTHING = re.compile(r"(@!?\w+ )?(NOP|MEMBAR|ERRBAR|CGAERRBAR|CCTL|YIELD|BRA\.DIV)|.*: membar")


def run(program, **settings):
    """Whether all cases passed; ends at the first that did not."""
    process = subprocess.Popen([program, "few"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, **settings})
    line = next((line for line in process.stdout if line.startswith("not ok")), "")
    if line:
        process.kill()
    return process.wait() == 0, line.strip()


def counted(program, **settings):
    """Whether all cases passed, what the first said that did not, and how often each instruction was executed."""
    with tempfile.NamedTemporaryFile() as file:
        passed, line = run(program, MACHINE_COUNTS=file.name, **settings)
        lines = [line.rstrip("\n").split(" ", 3) for line in open(file.name)]
    return passed, line, [(kernel, number, int(count), text) for kernel, number, count, text in lines]


number, chance, programs = int(sys.argv[1]), random.Random(sys.argv[2]), sys.argv[3:]
found = {"results": 0, "counts": 0, "nothing": 0}
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
    kernel, place, text = chance.choice(executed[program])
    passed, line, counts = counted(program, MACHINE_DELETE=f"{kernel}:{place}")
    more = sum(count for _, _, count, _ in counts) - originals[program]
    by = "results" if not passed else "counts" if more > 0 else "nothing"
    found[by] += 1
    line = line if by == "results" else f"{more} instructions more"
    print(f"found by {by}:", os.path.basename(program), kernel, text, "|", line, flush=True)
print(f"{number - found['nothing']} of {number} deletions are found, {found['results']} of them by the results")
