#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""blocks.py PAGE... DIRECTORY: takes the indented blocks out of Markdown pages.

A block of settings becomes DIRECTORY/PAGE:LINE.ini; each line of another, with its comment cut off and
lines that end in a backslash joined, is printed as "PAGE:LINE<tab>COMMAND".
"""
import os
import re
import sys

SETTING = re.compile(r"^(\[|[a-z_]+ *= )")
COMMENT = re.compile(r"\s{2,}#.*$|^#.*$")


def blocks(page):
    """(first line, lines) of every run of lines that are indented by four or more, but for what is in <pre>."""
    block, first, output = [], 0, False
    with open(page, encoding="utf-8") as file:
        for number, line in enumerate(file.read().splitlines() + ["."], start=1):
            if line.startswith("```"):
                sys.exit(f"{page}:{number}: fences are not read; indent the block by four")
            output = (output or line == "<pre>") and line != "</pre>"
            if line.startswith("    ") and not output:
                first = first if block else number
                block.append(line[4:])
            elif line == "" and block:
                block.append("")
            elif block:
                yield first, block
                block = []


def commands(first, block):
    joined = ""
    for number, line in enumerate(block, start=first):
        joined += COMMENT.sub("", line)
        if joined.endswith("\\"):
            joined = joined[:-1].rstrip() + " "
        elif joined.strip():
            yield number, " ".join(joined.split())
            joined = ""
        else:
            joined = ""


def main():
    *pages, directory = sys.argv[1:]
    for page in pages:
        for first, block in blocks(page):
            if any(SETTING.match(line) for line in block):
                name = f"{page.replace('/', '_')}:{first}.ini"
                with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                    file.write("\n".join(block) + "\n")
            else:
                for number, command in commands(first, block):
                    print(f"{page}:{number}\t{command}")


main()
