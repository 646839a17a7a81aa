#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds circular dependencies among the modules of the product.

tests/circles.py OBJECTS ALLOWED SOURCE...

OBJECTS is a file with a line for each library and program: its name and its object files. An object depends on
another if it uses a function or variable that the other defines (by nm). Objects that depend on each other in a
circle are printed, with the symbols involved.

No external name that begins with cshim_ or tool_ may be defined by two sources, because it would be hard to search for.

The #include lines of each SOURCE are compared with INCLUDES below.

ALLOWED lists exceptions. A line names an object, such as shim/mpi/describe.o, or a source and a header that it
includes. Allowed circles are printed too. An unused line is an error, unless it names an object whose C source exists
and is not compiled here.

The exit status is 1 if there was an error."""
import collections
import os
import re
import subprocess
import sys

# Folders whose headers a folder may include, besides its own: the direction is from the program down to the codecs.
# Generated headers may be included anywhere.
BASE = "shim/core policy codecs"
INCLUDES = {
    "shim/front": "shim/mpi shim/nccl shim/gloo shim/core",
    "shim/mpi": "shim/host shim/report " + BASE,
    "shim/gloo": "shim/host shim/report " + BASE,
    "shim/nccl": "kernels shim/report " + BASE,
    "shim/host": "shim/report " + BASE,
    "shim/report": BASE,
    "shim/core": "policy codecs",
    "shim/core/algorithms": BASE,
    "kernels": "codecs",
    "policy": "codecs",
    "codecs": "",
    "tools": "tools/lib " + BASE,
    "tools/tune": "tools/check tools/lib shim/report " + BASE,
    "tools/compare": "tools/check tools/html tools/lib shim/report " + BASE,
    "tools/run": "tools/check tools/lib " + BASE,
    "tools/check": "tools/elf tools/lib " + BASE,
    "tools/explain": "tools/lib shim/report " + BASE,
    "tools/report": "tools/html tools/lib shim/report " + BASE,
    "tools/top": "tools/lib shim/report " + BASE,
    "tools/html": "tools/lib",
    "tools/elf": "tools/lib",
    "tools/lib": "shim/report " + BASE,
    "examples/mnist_nccl": "examples/mnist",
    "examples/mnist": "",
}


def circles(edges):
    """Returns the strongly connected components with more than one node (Tarjan's algorithm)."""
    number, lowest, stack, found = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in edges.get(node, ()):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(edges):
        if node not in number:
            visit(node)
    return found


def name_of(path):
    """Returns an object's name: its path below obj in the build folder."""
    return re.sub(r"^.*?/obj/", "", path)


def dependencies(objects):
    """Returns edges[user][definer], the symbols of the definer that the user needs."""
    command = ["nm", "-A", "-P", "-g", *objects]
    text = subprocess.run(command, capture_output=True, text=True, check=True)
    definer, users = {}, collections.defaultdict(set)
    for line in text.stdout.splitlines():
        place, symbol, kind = line.split()[:3]
        file = name_of(place.rstrip(":"))
        if kind in "Uwv":
            users[symbol].add(file)
        else:
            definer[symbol] = file
    edges = collections.defaultdict(lambda: collections.defaultdict(set))
    for symbol, files in users.items():
        for file in files - {definer.get(symbol)}:
            if symbol in definer:
                edges[file][definer[symbol]].add(symbol)
    return edges


def object_circles(products):
    """Returns each circle of objects, with the products that contain it, and the dependencies in the first of these."""
    found = {}
    for product, *objects in products:
        edges = dependencies(objects)
        for circle in circles(edges):
            found.setdefault(tuple(circle), ([], edges))[0].append(product)
    return found


def defined_twice(products):
    """Returns each external name with the prefix cshim_ or tool_ that several sources define, with the sources. An
    engine's source that is compiled for several libraries counts once. Sources outside the product's folders, such as
    benchmarks, are left out."""
    objects = sorted({path for product in products for path in product[1:]})
    if not objects:
        return {}
    command = ["nm", "-A", "-P", "-g", "--defined-only", *objects]
    text = subprocess.run(command, capture_output=True, text=True, check=True)
    definers = collections.defaultdict(set)
    for line in text.stdout.splitlines():
        place, symbol = line.split()[:2]
        source = re.search(r"(shim|codecs|policy|kernels|tools|examples)/.*", name_of(place.rstrip(":")))
        if source and symbol.startswith(("cshim_", "tool_")):
            definers[symbol].add(source[0])
    return {symbol: sources for symbol, sources in definers.items() if len(sources) > 1}


def upward_includes(sources):
    """Returns the pairs of a source and an included header that INCLUDES does not allow."""
    pairs = []
    for source in sources:
        folder = source.rpartition("/")[0]
        with open(source, encoding="utf-8") as file:
            text = file.read()
        for included in re.findall(r'^\s*#\s*include\s+"([^"]+/[^"]+)"', text, re.M):
            target = included.rpartition("/")[0]
            if target != folder and target not in INCLUDES.get(folder, "").split():
                pairs.append(f"{source} {included}")
    return pairs


def main(objects_file, allowed_file, *sources):
    with open(allowed_file, encoding="utf-8") as file:
        lines = [line.partition("#")[0].split() for line in file]
    allowed = {" ".join(words) for words in lines if words}
    with open(objects_file, encoding="utf-8") as file:
        products = [line.split() for line in file]
    compiled = {name_of(path) for product in products for path in product[1:]}
    needed, wrong = set(), 0
    if not compiled:
        wrong += 1
        print(f"{objects_file}: error: names no objects")

    for circle, (names, edges) in object_circles(products).items():
        is_allowed = set(circle) <= allowed
        needed.update(circle)
        wrong += not is_allowed
        verdict = "allowed" if is_allowed else "error"
        print(f"{' '.join(names)}: {verdict}: {len(circle)} objects in a circle")
        for user in circle:
            for definer in sorted(set(edges[user]) & set(circle)):
                print(f"    {user} -> {definer}: {', '.join(sorted(edges[user][definer]))}")
    for symbol, definers in sorted(defined_twice(products).items()):
        wrong += 1
        print(f"error: {symbol} is defined in {' and in '.join(sorted(definers))}")
    for circle in circles({folder: INCLUDES[folder].split() for folder in INCLUDES}):
        wrong += 1
        print(f"tests/circles.py: error: INCLUDES goes in a circle: {' '.join(circle)}")
    for pair in upward_includes(sources):
        source, included = pair.split()
        needed.add(pair)
        wrong += pair not in allowed
        print(f"{source}: {'allowed' if pair in allowed else 'error'}: includes {included}")
    for line in sorted(allowed - needed):
        # Without CUDA some sources are not compiled, so nothing is known of their objects.
        if line in compiled or " " in line or not os.path.exists(re.sub("o$", "c", line)):
            wrong += 1
            print(f"{allowed_file}: error: {line} is in no circle: take the line out")
    return 1 if wrong else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
