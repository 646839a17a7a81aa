#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Cross-builds goals of the Makefile for 64-bit Arm with Debian's compiler, into the folder BUILD-arm, whose root has
# Debian's packages for Arm (root.sh).
# usage: tests/arm/make.sh GOAL...
set -eu
cd "$(dirname "$0")/../.."
build=${BUILD:-build}-arm
# shellcheck source=tests/arm/settings.sh
. tests/arm/settings.sh
# The variables of a make that runs this are those of this machine's build.
unset MAKEFLAGS MFLAGS MAKELEVEL
make -s -j"$(nproc)" BUILD="$build" "${settings[@]}" "$@"
