#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the recipes of packages have the project's version, that Spack's sets only variables of the Makefile, that
# Debian's has the build dependencies, and that make dist makes the same tarballs of a commit again. Spack, conda and
# EasyBuild are not in Debian, so their recipes are only parsed, as Python and as text.
. "$(dirname "$0")/../lib.sh"
cd "$top" || exit 1
version=$(sed -n 's/^VERSION := //p' Makefile)
recipe=packaging/spack/packages/compshim/package.py
debian=packaging/debian

check "the version is three numbers" grep -qxE '[0-9]+\.[0-9]+\.[0-9]+' <<<"$version"
check "Spack's recipe is Python" python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$recipe"
check "it has this version" grep -qF "version(\"$version\")" "$recipe"
check "its class is named as Spack wants" grep -qx 'class Compshim(MakefilePackage):' "$recipe"
variables=$(sed -nE 's/.*"([A-Z]+)=.*/\1/p; s/.*f"([A-Z]+)=.*/\1/p' "$recipe" | sort -u)
check "it sets variables" test -n "$variables"
for variable in $variables; do
    check "the Makefile knows its $variable" grep -qE "^$variable \??= ?" Makefile
done
check "EasyBuild's recipe is Python" python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' packaging/easybuild/*.eb
check "it has this version" grep -qx "version = '$version'" "$(echo packaging/easybuild/compshim-"$version"-*.eb)"
check "conda's recipe has this version" grep -qx "  version: $version" packaging/conda/recipe.yaml
check "the citation has this version" grep -qx "version: $version" CITATION.cff
check "the changelog has it" grep -qx "## $version" CHANGELOG.md
check "the Debian changelog begins with this version" \
    grep -qE "^compshim \($version-[0-9]+\) " <(head -n 1 $debian/changelog)
# The Debian package is built with the packages that make packages installs.
needed=$(sed -n 's/^build="\(.*\)"$/\1/p' tools/install-packages.sh)
check "there are such packages" test -n "$needed"
for package in $needed; do
    case $package in gcc | g++ | libc6-dev) continue ;; esac # always present on build systems
    check "the Debian package is built with $package" grep -qE "^ *(Build-Depends:)? *$package,?$" $debian/control
done
# Two runs of make dist on one commit make the same tarballs.
for name in one other; do
    check "make dist, $name" make -s --no-print-directory "BUILD=$scratch/$name" dist
done
for tarball in compshim-$version compshim-$version-results; do
    check "both $tarball are the same" cmp "$scratch"/*/"$tarball.tar.gz"
done
check "it has all files of the commit" diff <(git ls-tree -r --name-only HEAD | sort) \
    <(tar -tzf "$scratch/one/compshim-$version.tar.gz" | sed -n "s,^compshim-$version/,,; /[^/]\$/p" | sort)
check "the other has the results of the benchmarks" diff <(git ls-tree -r --name-only HEAD tests/bench/results | sort) \
    <(tar -tzf "$scratch/one/compshim-$version-results.tar.gz" | sed -n "s,^compshim-$version-results/,,; /[^/]\$/p" | sort)
check "the changelog says what is new" grep -q '^## ' CHANGELOG.md
finish
