# SPDX-License-Identifier: Apache-2.0
"""merge_rows.py PAGE ROWS: prints the rows of the table in PAGE, with those in ROWS instead of the ones of
the same program, load shape, language and MPI; new ones behind the last of the same program and language,
or at the end."""
import re
import sys


def key(row):
    return row.split(" | ")[:4]


def family(row):
    program, _, language, _ = key(row)
    return re.sub(r", \d+ ranks$", "", program), language


with open(sys.argv[1]) as page:
    rows = [line for line in page if line.startswith("| ") and not line.startswith("| program |")]
with open(sys.argv[2]) as file:
    for new in file:
        same = [i for i, row in enumerate(rows) if key(row) == key(new)]
        if same:
            rows[same[0]] = new
            continue
        related = [i for i, row in enumerate(rows) if family(row) == family(new)]
        rows.insert(related[-1] + 1 if related else len(rows), new)
sys.stdout.writelines(rows)
