#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Extracts the indented blocks of Markdown pages: blocks.py PAGE... DIRECTORY.

A block of settings becomes DIRECTORY/PAGE:LINE.ini. Each line of another block is printed as "PAGE:LINE<tab>COMMAND",
without comments and with continued lines joined.
"""
import os
import re
import sys

SETTING = re.compile(r"^(\[|[a-z_]+ *= )")
COMMENT = re.compile(r"\s{2,}#.*$|^#.*$")


def blocks(page):
    """Yields (first line, lines) of each run of lines indented by at least four spaces, except within <pre>."""
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
