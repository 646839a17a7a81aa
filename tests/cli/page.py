# SPDX-License-Identifier: Apache-2.0
"""Checks an HTML page that the tool wrote: well-formed, complete, self-contained, each plot with a table and a
caption.

    page.py FILE           exits with a message if something is wrong
    page.py --text FILE    prints the text that a reader sees, a line for each block
    page.py --plain FILE   prints the text that a reader sees where scripts do not run
    page.py --data FILE    prints the JSON in the page

Without --plain and --data, runs the page's script, which uses only two elements of the page, by Duktape or node.
"""
import json
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as tree

BLOCKS = {"h1", "h2", "h3", "p", "li", "tr", "summary", "footer", "figure", "svg", "table", "pre"}
FETCHING = {"src", "href", "srcset", "data", "action", "poster", "background"}
BROWSER = """
var elements = {data: {textContent: %s}, content: {}};
var document = {getElementById: function (id) { return elements[id]; }};
%s
console.log(elements.content.innerHTML);
"""


def parts_of(path):
    """Returns the page, without the contents of its two scripts, and these: the data and the program."""
    scripts = []

    def take(match):
        scripts.append(match[2])
        return match[1] + match[3]

    with open(path, encoding="utf-8") as file:
        page = re.sub(r"(<script[^>]*>)(.*?)(</script>)", take, file.read(), flags=re.S)
    data, program = scripts
    assert not re.search(r"fetch|XMLHttp|import\(|https?:", program), "the script fetches something"
    return tree.fromstring(page), data, program


def draw(root, data, program):
    """Runs the script, and inserts its output into the page."""
    engine = shutil.which("duk") or shutil.which("node")
    assert engine, "neither duk (Debian's package duktape) nor node is installed"
    with tempfile.NamedTemporaryFile("w", suffix=".js", encoding="utf-8") as file:
        file.write(BROWSER % (json.dumps(data), program))
        file.flush()
        drawn = subprocess.run([engine, file.name], stdout=subprocess.PIPE, check=True).stdout
    content = root.find(".//div[@id='content']")
    content.remove(content.find("pre"))
    content.extend(tree.fromstring(b"<div>" + drawn + b"</div>"))


def check(root):
    styles = [element for element in root.iter("style")]
    assert len(styles) == 1 and not re.search(r"url\(|@import", styles[0].text), "style"
    policy = [element.get("content") for element in root.iter("meta") if element.get("http-equiv")]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"], policy
    assert [script.attrib for script in root.iter("script")] == [{"type": "application/json", "id": "data"}, {}]
    for element in root.iter():
        assert element.tag not in ("iframe", "object", "link", "img"), element.tag
        for attribute in element.attrib:
            assert attribute not in FETCHING and not attribute.startswith("on"), (element.tag, attribute)
    assert root.find("body/main")[-1].tag == "footer", "the page is cut short"
    for figure in root.iter("figure"):
        picture = [part for part in figure.iter("svg") if part.get("role")]
        assert len(picture) == 1 and picture[0].get("aria-label"), "a plot without a name"
        assert figure.find("details//table/tbody/tr") is not None, "a plot without a table"
        assert figure.find("figcaption/p").text, "a plot that is not explained"
        check_inside(picture[0])


def check_inside(picture):
    """Checks that no position or point of a shape lies outside of its picture."""
    _, _, width, height = map(float, picture.get("viewBox").split())
    for part in picture.iter():
        places = [(part.get(name), most) for name, most in
                  (("x", width), ("cx", width), ("y", height), ("cy", height))]
        for point in (part.get("points") or "").split():
            places += zip(point.split(","), (width, height))
        for value, most in places:
            assert value is None or 0 <= float(value) <= most, (part.tag, part.attrib)
        assert "NaN" not in str(part.attrib), (part.tag, part.attrib)


def show(element):
    if element.tag in ("style", "title"):
        return
    if element.tag in BLOCKS:
        print()
    separator = " | " if element.tag in ("th", "td") else " "
    print((element.text or "").strip(), end=separator if (element.text or "").strip() else "")
    for part in element:
        show(part)
        print((part.tail or "").strip(), end=" " if (part.tail or "").strip() else "")


page, embedded, script = parts_of(sys.argv[-1])
if sys.argv[1] == "--data":
    print(json.dumps(json.loads(embedded)))
elif sys.argv[1] == "--plain":
    show(page)
else:
    draw(page, embedded, script)
    if sys.argv[1] == "--text":
        show(page)
    else:
        check(page)
