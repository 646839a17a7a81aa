#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds targets of the Makefile for 64-bit Arm with Debian's compiler, into the folder BUILD-arm. BUILD-arm/root
# has Debian's packages for Arm (root.sh).
# usage: tests/arm/make.sh TARGET...
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}-arm
# shellcheck source=tests/arm/settings.sh
. tests/arm/settings.sh
# A make that runs this script must not pass on its variables, which are those of this machine's build.
unset MAKEFLAGS MFLAGS MAKELEVEL
make -s -j"$(nproc)" BUILD="$build" "${settings[@]}" "$@"
