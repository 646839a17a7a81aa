#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Deletes one instruction each, drawn by chance among those that the few cases execute and that do
something in machine.cc, and says how many of the deletions the cases find.
    mutants.py NUMBER SEED PROGRAM..."""
import os
import random
import re
import subprocess
import sys
import tempfile

NOTHING = re.compile(r"(@!?\w+ )?(NOP|MEMBAR|ERRBAR|CGAERRBAR|CCTL|YIELD)|.*: membar")


def run(program, **settings):
    """Whether all cases passed; ends at the first that did not."""
    process = subprocess.Popen([program, "few"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env={**os.environ, **settings})
    line = next((line for line in process.stdout if line.startswith("not ok")), "")
    if line:
        process.kill()
    return process.wait() == 0, line.strip()


def executed(program):
    with tempfile.NamedTemporaryFile() as file:
        if not run(program, MACHINE_COUNTS=file.name)[0]:
            sys.exit(f"{program} fails as it is")
        lines = [line.rstrip("\n").split(" ", 3) for line in open(file.name)]
    return [(kernel, number, text) for kernel, number, count, text in lines
            if int(count) > 0 and not NOTHING.match(text.split(" ", 1)[-1])]


number, chance, programs = int(sys.argv[1]), random.Random(sys.argv[2]), sys.argv[3:]
found = 0
instructions = {program: executed(program) for program in programs}
for i in range(number):
    program = programs[i % len(programs)]
    kernel, place, text = chance.choice(instructions[program])
    passed, line = run(program, MACHINE_DELETE=f"{kernel}:{place}")
    found += not passed
    print("not found:" if passed else "found:", os.path.basename(program), kernel, text, "|", line, flush=True)
print(f"{found} of {number} deletions are found")
