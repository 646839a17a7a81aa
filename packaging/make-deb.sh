#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian package of the last commit into $BUILD, and checks it with lintian. With ARM=1 in the environment
# it is cross-built for 64-bit Arm, against Debian's packages in a folder (tests/arm/root.sh).
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
architecture=
if [ -n "${ARM-}" ]; then
    build=${BUILD:-build}-arm
    # shellcheck source=tests/arm/settings.sh
    . tests/arm/settings.sh
    # debian/rules reads these.
    export CROSS_ROOT=$root CROSS="${settings[*]@Q}"
    architecture=--host-arch=arm64
    build=$(realpath -m "${BUILD:-build}")
fi
rm -rf "$build/deb"
mkdir -p "$tree"
git archive HEAD | tar -x -C "$tree"
cp -r "$tree/packaging/debian" "$tree/debian"
# The package is built by a separate make, without this make's settings.
(
    unset BUILD MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES LD_PRELOAD
    cd "$tree"
    # A cross build's packages are not installed.
    dpkg-buildpackage --build=binary --unsigned-source --unsigned-changes ${architecture:+"$architecture" -d} \
        >../build.log 2>&1 ||
        { tail -n 40 ../build.log >&2 && exit 3; }
)
lintian --fail-on error,warning "$build"/deb/compshim_"$version"-*.changes
mv "$build"/deb/compshim_"$version"-*.deb "$build"
rm -rf "$tree"
ls "$build"/compshim_"$version"-*.deb
