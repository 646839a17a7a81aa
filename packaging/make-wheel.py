# SPDX-License-Identifier: Apache-2.0
"""Packs built files into a wheel for pip, $BUILD/compshim-VERSION-py3-none-manylinux_*.whl: the libraries, the tool
and the libraries that it needs, the benchmark, policies, manual pages, and a program that starts the tool.

    make-wheel.py VERSION BUILD

Building a commit again gives the same bytes (SOURCE_DATE_EPOCH, or the commit's time). The tag names the processor
that CC compiles for (default: gcc) and the newest version of glibc's symbols that is used. dist-info/sboms lists code
of other projects in the files."""
import base64
import hashlib
import json
import os
import pathlib
import platform
import re
import shlex
import subprocess
import sys
import time
import zipfile

version, build = sys.argv[1], pathlib.Path(sys.argv[2])
name = f"compshim-{version}"
information = f"{name}.dist-info"
compiler = shlex.split(os.environ.get("CC", "gcc"))
# pip installs the files under data/ into the environment's folders.
manual = f"{name}.data/data/share/man"


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def asked(*question):
    """Returns the compiler's answer to its options -print-... and -dump..."""
    return output(*compiler, *question).strip()


def brought_by(path, needed):
    """Adds to `needed` the libraries that a file needs, directly or indirectly, except those that every system
    has."""
    # Libraries that every system has, according to manylinux.
    everywhere = r"(lib(c|m|dl|pthread|rt|z)|ld-linux-.*)\.so\.\d+"
    headers = output(asked("-print-prog-name=readelf"), "-d", str(path))
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", headers):
        if name not in needed and not re.fullmatch(everywhere, name):
            needed[name] = os.path.realpath(asked(f"-print-file-name={name}"))
            brought_by(needed[name], needed)
    return needed


def stripped(path):
    """Returns the file without symbols, which would make it several times as large, and without the build ID."""
    target = build / "wheel" / "stripped"
    output(asked("-print-prog-name=strip"), "--strip-unneeded", "--remove-section=.note.gnu.build-id", "-o", str(target), str(path))
    return target.read_bytes()


def package_of(path):
    """Returns the Debian package of a file, its version and its source."""
    for candidate in (path, re.sub("^/usr(?=/lib)", "", path), "/usr" + path):
        found = subprocess.run(["dpkg-query", "-S", candidate], capture_output=True, text=True).stdout
        if found:
            fields = "${Package} ${Version} ${source:Package}"
            return output("dpkg-query", "-W", "-f", fields, found.split(": ")[0].split(",")[0]).split()
    return [pathlib.Path(path).name, "unknown", pathlib.Path(path).name]


tool = build / "wheel" / "compshim"
brought = brought_by(tool, {})
files = {f"compshim/lib/{path.name}": stripped(path) for path in sorted(build.glob("libcompshim*.so"))}
files.update({f"compshim/lib/{library}": stripped(path) for library, path in brought.items()})
files["compshim/bin/compshim"] = stripped(tool)
files["compshim/bin/allreduce_bench"] = stripped(build / "allreduce_bench")
newest = (2, 17)
for path, content in files.items():
    for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", content):
        newest = max(newest, (int(found[0]), int(found[1])))
tag = f"manylinux_{newest[0]}_{newest[1]}_{asked('-dumpmachine').split('-')[0]}"

for policy in (*sorted(map(str, pathlib.Path("policy").glob("*.ini"))), "examples/policy.ini"):
    files[f"compshim/share/{os.path.basename(policy)}"] = pathlib.Path(policy).read_bytes()
for page in (build / "man").iterdir():
    files[f"{manual}/man{page.suffix[1:]}/{page.name}"] = page.read_bytes()
files["compshim/__init__.py"] = b'''"""Starts the tool: everything else is a library to preload."""
import os
import sys


def main():
    tool = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "compshim")
    os.execv(tool, ["compshim", *sys.argv[1:]])
'''
files["compshim/__main__.py"] = b"from compshim import main\n\nmain()\n"
files[f"{information}/entry_points.txt"] = b"[console_scripts]\ncompshim = compshim:main\n"
files[f"{information}/licenses/LICENSE"] = pathlib.Path("LICENSE").read_bytes()
files[f"{information}/WHEEL"] = (
    f"Wheel-Version: 1.0\nGenerator: compshim\nRoot-Is-Purelib: false\nTag: py3-none-{tag}\n".encode()
)
files[f"{information}/METADATA"] = (
    f"Metadata-Version: 2.4\nName: compshim\nVersion: {version}\n"
    "Summary: Makes the all-reduces of unmodified MPI, NCCL and gloo programs smaller\n"
    "License-Expression: Apache-2.0\nLicense-File: LICENSE\nRequires-Python: >=3.8\n"
    "Description-Content-Type: text/markdown\n\n"
).encode() + pathlib.Path("README.md").read_bytes()

distribution = platform.freedesktop_os_release()["ID"]
linked = [asked(f"-print-file-name={name}") for name in ("libinih.a", "libmd.a")]
parts = {package_of(os.path.realpath(path))[0]: package_of(os.path.realpath(path)) for path in [*linked, *brought.values()]}
files[f"{information}/sboms/compshim.cdx.json"] = json.dumps(
    {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": name,
                "name": "compshim",
                "version": version,
                "purl": f"pkg:pypi/compshim@{version}",
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": package,
                "name": source,
                "version": package_version,
                "purl": f"pkg:deb/{distribution}/{package}@{package_version}",
            }
            for package, package_version, source in sorted(parts.values())
        ],
        "dependencies": [{"ref": name, "dependsOn": sorted(parts)}],
    },
    indent=1,
).encode()


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


record = f"{information}/RECORD"
lines = [f"{path},sha256={digest(files[path])},{len(files[path])}" for path in sorted(files)]
files[record] = ("\n".join([*lines, f"{record},,"]) + "\n").encode()

epoch = int(os.environ.get("SOURCE_DATE_EPOCH") or output("git", "log", "-1", "--format=%ct"))
wheel = build / f"{name}-py3-none-{tag}.whl"
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
    for path in sorted(files, key=lambda path: (path.startswith(information), path)):
        entry = zipfile.ZipInfo(path, time.gmtime(max(epoch, 315532800))[:6])
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if "/bin/" in path else 0o100644) << 16
        archive.writestr(entry, files[path], compresslevel=9)
print(wheel)
