# SPDX-License-Identifier: Apache-2.0
"""merge_rows.py ROWS [PAGE]: prints the rows of the table in PAGE, with those in ROWS instead of the ones of
the same program, access and library. Rows that differ in their library only, and then rows that differ in
their access only, become one row, with "; " between the libraries or accesses. A new row follows the last one
of its program."""
import sys


def read(path):
    """The cells of each row, one row for each access and library."""
    with open(path) as file:
        for line in file:
            if not line.startswith("| ") or line.startswith("| program |"):
                continue
            program, accesses, libraries, *results = line.strip().removeprefix("| ").removesuffix(" |").split(" | ")
            for access in accesses.split("; "):
                for library in libraries.split("; "):
                    yield [program, access, library, *results]


def program(row):
    """The program's name without ranks and options."""
    return row[0].split(",")[0]


rows = list(read(sys.argv[2])) if len(sys.argv) > 2 else []
for new in read(sys.argv[1]):
    same = [i for i, row in enumerate(rows) if row[:3] == new[:3]]
    if same:
        rows[same[0]] = new
        continue
    related = [i for i, row in enumerate(rows) if program(row) == program(new)]
    rows.insert(related[-1] + 1 if related else len(rows), new)
for column in (2, 1):
    joined = {}
    for row in rows:
        joined.setdefault((*row[:column], *row[column + 1 :]), []).append(row[column])
    rows = [[*key[:column], "; ".join(values), *key[column:]] for key, values in joined.items()]
for row in rows:
    print(f"| {' | '.join(row)} |")
