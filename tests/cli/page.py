# SPDX-License-Identifier: Apache-2.0
"""Checks a page that the tool wrote: well-formed, whole, nothing fetched, no script.

    page.py FILE          exits with a message if something is wrong
    page.py --text FILE   prints what a reader sees, a line for each block
"""
import re
import sys
import xml.etree.ElementTree as tree

BLOCKS = {"h1", "h2", "h3", "p", "li", "tr", "summary", "footer", "figure", "svg", "table"}
FETCHING = {"src", "href", "srcset", "data", "action", "poster", "background"}


def name(element):
    return element.tag.split("}")[-1]


def check(root):
    styles = [element for element in root.iter() if name(element) == "style"]
    assert len(styles) == 1 and not re.search(r"url\(|@import", styles[0].text), "style"
    policy = [element.get("content") for element in root.iter("meta") if element.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"], policy
    for element in root.iter():
        assert name(element) not in ("script", "iframe", "object", "link", "img"), element.tag
        for attribute in element.attrib:
            bare = attribute.split("}")[-1]
            assert bare not in FETCHING and not bare.startswith("on"), (element.tag, attribute)
    assert root[1][-1][-1].tag == "footer", "the page is cut short"
    for figure in root.iter("figure"):
        picture = [part for part in figure.iter() if name(part) == "svg" and part.get("role")]
        assert len(picture) == 1 and picture[0].get("aria-label"), "a plot without a name"
        assert figure.find("details//table/tbody/tr") is not None, "a plot without a table"
        assert figure.find("figcaption/p").text, "a plot that is not explained"
        check_inside(picture[0])


def check_inside(picture):
    """Nothing begins outside of its picture."""
    _, _, width, height = map(float, picture.get("viewBox").split())
    for part in picture.iter():
        for attribute, most in (("x", width), ("cx", width), ("y", height), ("cy", height)):
            value = part.get(attribute)
            assert value is None or 0 <= float(value) <= most, (part.tag, part.attrib)


def show(element):
    if name(element) in ("style", "title"):
        return
    if name(element) in BLOCKS:
        print()
    separator = " | " if name(element) in ("th", "td") else " "
    print((element.text or "").strip(), end=separator if (element.text or "").strip() else "")
    for part in element:
        show(part)
        print((part.tail or "").strip(), end=" " if (part.tail or "").strip() else "")


root = tree.parse(sys.argv[-1]).getroot()
if sys.argv[1] == "--text":
    show(root)
else:
    check(root)
