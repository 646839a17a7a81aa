# SPDX-License-Identifier: Apache-2.0
"""Prints the rows of the table in PAGE, updated with those in ROWS: merge_rows.py ROWS [PAGE]. A new row replaces the
one with the same program, access and library, or else follows the last one of its program. Rows that differ only in
the library, and then rows that differ only in the access, become one row, with "; " between the libraries or
accesses.
"""
import sys


def read(path):
    """Returns the cells of each row, split into one row for each access and library."""
    with open(path) as file:
        for line in file:
            if not line.startswith("| ") or line.startswith("| program |"):
                continue
            program, accesses, libraries, *results = line.strip().removeprefix("| ").removesuffix(" |").split(" | ")
            for access in accesses.split("; "):
                for library in libraries.split("; "):
                    yield [program, access, library, *results]


def program(row):
    """Returns the program's name, without ranks and options."""
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
