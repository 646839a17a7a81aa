#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints what the tool, the manual pages or the sources say about the same things, as sorted lines to compare.

  facts.py help TOOL              every option of every command but --help, from --help
  facts.py manual PAGE            every option of every command, from the lists of compshim(1)
  facts.py mentioned PAGE         options mentioned elsewhere in the page, with their command
  facts.py keys TOOL              every key of policy.ini, and every word it takes, from help policy
  facts.py defaults TOOL          "KEY DEFAULT" of every key of policy.ini, from help policy
  facts.py table PAGE             "KEY DEFAULT" of every key, from the table in this Markdown page
  facts.py items PAGE SECTION...  the items that the lists of these sections of a page describe
  facts.py words PAGE SECTION...  these items, each with the marked words of its text
  facts.py fields SOURCE...       the names of fields in the JSON report
  facts.py variables SOURCE...    our environment variables that are read, by literal or by a name defined there
"""
import re
import subprocess
import sys

OPTION = re.compile(r"^ +(?:-(\w), )? *--([\w-]+)(?: ([A-Z]+))?(?:  |$)")
SECTION = re.compile(r'^\.S[hs] "?(.*?)"?$')


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def commands(tool):
    return re.findall(r"^  ([a-z]+)  ", output(tool, "--help"), re.MULTILINE)


def fact(command, letter, name, argument):
    words = [command, f"-{letter}" if letter else "", f"--{name}", (argument or "").upper()]
    return " ".join(word for word in words if word)


def help_options(tool):
    for command in commands(tool):
        block = output(tool, command, "--help").split("options:\n", 1)[1].split("\n\n", 1)[0]
        for line in block.splitlines():
            if line.startswith(8 * " "):  # continues the help of the previous option
                continue
            letter, name, argument = OPTION.match(line).groups()
            if name != "help":
                yield fact(command, letter, name, argument)


def sections(page):
    """Returns the lines of a page by section or subsection."""
    title, found = "", {}
    with open(page, encoding="utf-8") as file:
        for line in file.read().splitlines():
            heading = SECTION.match(line)
            if heading:
                title = heading.group(1)
            found.setdefault(title, []).append(line)
    return found


def manual_options(page):
    """Yields the options of lists: .It Fl s , Fl -size Ar size is one; .It Fl -a Ar x , Fl -b Ar y are two."""
    for command, lines in sections(page).items():
        for line in lines:
            letter = None
            for part in line.removeprefix(".It ").split(" , ") if line.startswith(".It Fl") else ():
                name, _, argument = part.removeprefix("Fl ").partition(" Ar ")
                if name.startswith("-"):
                    yield fact(command, letter, name[1:], argument)
                    letter = None
                else:
                    letter = name


def mentioned(page):
    """Yields options in the text: .Fl -size, \\-\\-size in a line of help, and arguments of compshim in examples."""
    for title, lines in sections(page).items():
        command = f"{title} " if title.islower() else ""
        for line in lines if title != "SYNOPSIS" else ():
            example = re.match(r"\.Dl compshim (\w+) (.*)", line)
            if example:
                names = re.findall(r"--([\w-]+)", example.group(2).split(" -- ")[0])
                yield from (f"{example.group(1)} --{name}" for name in names)
            elif not line.startswith(".It "):
                yield from (f"{command}--{name}" for name in re.findall(r"(?:\bFl -|\\-\\-)(\w[\w-]*)", line))


def keys(tool):
    """Yields keys and words of entries like `  codec NAME    what it is (required): none, raw`, which may take several lines."""
    text = re.sub(r"\n {8,}", " ", output(tool, "help", "policy"))
    for key, value in re.findall(r"(?m)^  (\w+) [A-Z]+ +(.*)", text):
        yield key
        words = re.search(r": (\w+(?:, \w+)+)$", value)
        yield from (f"{key} {word}" for word in (words.group(1).split(", ") if words else ()))


def defaults(tool):
    text = re.sub(r"\n {8,}", " ", output(tool, "help", "policy"))
    for key, default in re.findall(r"(?m)^  (\w+) [A-Z]+ +.*\((?:default )?([^)]*)\)", text):
        yield f"{key} {default}"


def table(page):
    text = open(page).read().split("| key | value | default | meaning |")[1].split("\n\n")[0]
    for key, default in re.findall(r"(?m)^\| `(\w+)` \| .*? \| ([^|]+) \| [^|]+ \|$", text):
        yield f"{key} {default.strip('`')}"


def described(page, titles):
    """Yields the entries of the outermost lists of these sections, each with its text."""
    for title, lines in sections(page).items():
        depth, names = 0, []
        for line in lines if title in titles else ():
            depth += line.startswith(".Bl ") - line.startswith(".El")
            if depth == 1 and line.startswith(".It "):
                # .It Li ranks , nodes has two names, .It Cm codec No = Ar name has one.
                names = re.findall(r"\w+", re.sub(r" No = .*|\b(It|Cm|Li|Ev)\b", "", line))
                yield from ((name, "") for name in names)
            elif depth > 0:
                yield from ((name, line) for name in names)


def items(page, titles):
    return (name for name, text in described(page, titles) if not text)


def words(page, titles):
    for name, text in described(page, titles):
        if text == "":
            yield name
        elif text.startswith("."):
            yield from (f"{name} {word}" for word in re.findall(r"\w+", text))


def matches(pattern, paths):
    for path in paths:
        with open(path, encoding="utf-8") as file:
            yield from re.findall(pattern, file.read())


def main():
    what, *arguments = sys.argv[1:]
    facts = {
        "help": lambda: help_options(arguments[0]),
        "manual": lambda: manual_options(arguments[0]),
        "mentioned": lambda: mentioned(arguments[0]),
        "keys": lambda: keys(arguments[0]),
        "defaults": lambda: defaults(arguments[0]),
        "table": lambda: table(arguments[0]),
        "words": lambda: words(arguments[0], arguments[1:]),
        "items": lambda: items(arguments[0], arguments[1:]),
        "variables": lambda: matches(r'(?:getenv\(|#define \w+ )"(COMPSHIM\w*)"', arguments),
        # Fields appear in a format's escaped quotes, or as a row of the table of figures.
        "fields": lambda: matches(r'(?:\\"(?=\w+\\": ?)|\{"(?=\w+", (?:true|false)))(\w+)', arguments),
    }[what]()
    found = sorted(set(facts))
    if not found:
        sys.exit(f"facts.py: nothing found: {' '.join(sys.argv[1:])}")
    print("\n".join(found))


main()
