#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian package of the last commit into $BUILD, and checks it with lintian.
#   make-deb.sh VERSION
set -eu
cd "$(dirname "$0")/.."
version=$1
build=$(realpath -m "${BUILD:-build}")
tree=$build/deb/compshim-$version

git rev-parse --git-dir >/dev/null 2>&1 || {
    echo "make deb: needs the git checkout: it packages the last commit" >&2
    exit 3
}
git diff --quiet HEAD || echo "make deb: there are changes that are not committed, and so not in the package" >&2
rm -rf "$build/deb"
mkdir -p "$tree"
git archive HEAD | tar -x -C "$tree"
cp -r "$tree/packaging/debian" "$tree/debian"
# The package is built by a separate make, without this make's settings.
(
    unset BUILD MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES LD_PRELOAD
    cd "$tree"
    dpkg-buildpackage --build=binary --unsigned-source --unsigned-changes >../build.log 2>&1 ||
        { tail -n 40 ../build.log >&2 && exit 3; }
)
lintian --fail-on error,warning "$build"/deb/compshim_"$version"-*.changes
mv "$build"/deb/compshim_"$version"-*.deb "$build"
rm -rf "$tree"
ls "$build"/compshim_"$version"-*.deb
