#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rejects words that engineers of this field do not use in our sense: words.py PAGE...

Prints "PAGE:LINE: WORD: write INSTEAD" for each, and fails. Code and `quoted` words are skipped, because options and
messages keep their words."""
import re
import sys

INSTEAD = {
    r"foret(ell|old|ells|elling)": "predict, predicted",
    r"(tell|tells|told|telling) (of|whether|which|that|how|what|the|a)": "report, print, say",
    r"mend(s|ed|ing)?": "fix, fixed",
    r"and (its|their) kin": "and related calls",
    r"behind (it|them|the call|each)": "after",
    r"passed on": "passed through",
    r"carr(y|ies) on": "progress, continue",
    r"detours?": "bounce buffer",
    r"givers?": "source, root",
    r"what (became|becomes) of": "what happened to",
    r"of late|heed|whither|whence": "plain words",
}


def prose(path):
    """Yields (number, line) of a page, without blocks of code, words in backticks, and words of options."""
    output = False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            output = (output or line.startswith("<pre>")) and not line.startswith("</pre>")
            if not output and not line.startswith(("    ", ".Li", ".Cm", ".It", ".Ql")):
                yield number, re.sub(r"`[^`]*`", "", line)


def main():
    found = 0
    for path in sys.argv[1:]:
        for number, line in prose(path):
            for pattern, instead in INSTEAD.items():
                for match in re.finditer(rf"\b({pattern})\b", line, re.IGNORECASE):
                    print(f"{path}:{number}: {match[0]}: write {instead}")
                    found += 1
    sys.exit(found > 0)


main()
