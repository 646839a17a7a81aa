#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the messages of the library, one per line, with … for inserted values.

  messages.py sources SOURCE...   every warning and error that these C sources can print
  messages.py page PAGE           those that the page explains: list items that are one text in backticks
"""
import re
import sys

LITERAL = r'"(?:[^"\\]|\\.)*"'
# Adjacent literals, with macros and macro arguments between them.
PIECE = rf"{LITERAL}|#\w+|\b[A-Z][A-Z0-9_]+\b"
TEXT = re.compile(rf"[^\";]*?({LITERAL}(?:[\s\\]*(?:{PIECE}))*)")
# Functions that print or return a message: errors and warnings in the log, the end of a job, the policy's errors,
# reasons why NCCL's calls are not compressed, and warnings that are joined to one message.
CALL = re.compile(
    r"\b(?:(cshim_log|cshim_parser_fail|cshim_mpi_end_job|explain_errno|snprintf)\(\s*(?=(\w*))"
    r'|cshim_list_add\(\s*message, size, "; ",)'
)
CONVERSION = re.compile(r"%[-+ #0]*[\d.*]*(?:hh|ll|[hlzjt])?[a-zA-Z]|%\.\*s")


def is_message(function, first):
    return {
        "cshim_log": first in ("CSHIM_LOG_ERROR", "CSHIM_LOG_WARN"),
        "snprintf": first in ("message", "why"),
        "explain_errno": first in ("why", "decision"),
    }.get(function, True)


def plain(literals):
    pieces = re.findall(PIECE, literals)
    text = "".join(piece[1:-1] if piece.startswith('"') else "…" for piece in pieces)
    text = CONVERSION.sub("…", text).replace("%%", "%").replace('\\"', '"')
    text = re.sub(r"%(?=…)", "", text)
    return re.sub(r"…+", "…", text)


def messages_of(source):
    with open(source, encoding="utf-8") as file:
        code = file.read()
    for call in CALL.finditer(code):
        text = TEXT.match(code, call.end())
        if not is_message(call.group(1), call.group(2)) or text is None:
            continue
        message = plain(text.group(1))
        if re.search(r"\w", message):
            yield message


def messages_on(page):
    with open(page, encoding="utf-8") as file:
        yield from re.findall(r"^\* `(.*)`$", file.read(), re.MULTILINE)


def main():
    what, *files = sys.argv[1:]
    reader = {"sources": messages_of, "page": messages_on}[what]
    found = sorted({message for file in files for message in reader(file)})
    if not found:
        sys.exit("messages.py: no message found")
    print("\n".join(found))


main()
