#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints each link to a missing file or heading, as PAGE: LINK: links.py PAGE..."""
import os
import re
import sys


def anchors(page):
    """Returns the anchors of a page, as GitHub makes them: headings in lower case without punctuation, with hyphens for
    spaces."""
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
