#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""links.py PAGE...: each link to a file or heading that is not there, as PAGE: LINK."""
import os
import re
import sys


def anchors(page):
    """A heading's anchor has its letters, digits and hyphens in lower case, and hyphens for blanks."""
    with open(page, encoding="utf-8") as file:
        headings = re.findall(r"^#+ (.*)$", file.read(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_there(page, link):
    path, _, anchor = link.partition("#")
    target = os.path.join(os.path.dirname(page), path) if path else page
    return os.path.exists(target) and (not anchor or anchor in anchors(target))


for page in sys.argv[1:]:
    with open(page, encoding="utf-8") as file:
        links = re.findall(r"\]\(([^)\s]+)\)", file.read())
    for link in links:
        if not re.match(r"[a-z]+:", link) and not is_there(page, link):
            print(f"{page}: {link}")
