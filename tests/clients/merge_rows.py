# SPDX-License-Identifier: Apache-2.0
"""merge_rows.py ROWS [PAGE]: prints the rows of the table in PAGE, with those in ROWS instead of the ones of
the same program, access and library. Rows that differ in their library only become one row, with the
libraries separated by "; ". A new row follows the last one of its program."""
import sys


def read(path):
    """The cells of each row, one row for each library."""
    with open(path) as file:
        for line in file:
            if not line.startswith("| ") or line.startswith("| program |"):
                continue
            program, access, libraries, *results = line.strip().removeprefix("| ").removesuffix(" |").split(" | ")
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
joined = {}
for row in rows:
    joined.setdefault((*row[:2], *row[3:]), []).append(row[2])
for (name, access, *results), libraries in joined.items():
    print(f"| {' | '.join([name, access, '; '.join(libraries), *results])} |")
