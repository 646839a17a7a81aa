#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks Debian's packages for 64-bit Arm that compshim needs, and their dependencies, into a folder: the sysroot of
# the cross compiler and of emulated programs. Does nothing if they are there. Does not change this machine's packages.
# usage: tests/arm/root.sh FOLDER
set -eu
root=$1
packages="libc6-dev libstdc++-12-dev libcmocka-dev libinih-dev libmd-dev libjansson-dev libelf-dev zlib1g-dev
libopenblas-dev openmpi-bin libopenmpi-dev libgloo-dev"
[ "$(cat "$root/packages" 2>/dev/null)" != "$packages" ] || exit 0
mkdir -p "$root"
root=$(cd "$root" && pwd)

# apt with a separate state, in which nothing is installed, and with this machine's mirrors.
apt=$root/apt
mkdir -p "$apt"/lists/partial "$apt"/cache/archives/partial "$apt"/empty
: >"$apt/status"
as_arm() {
    apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State="$apt" \
        -o Dir::State::lists="$apt/lists" -o Dir::State::status="$apt/status" -o Dir::Cache="$apt/cache" \
        -o APT::Install-Recommends=false -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=true \
        -o DPkg::Pre-Install-Pkgs::= -o APT::Update::Post-Invoke::= "$@"
}
as_arm update
# shellcheck disable=SC2086 # a word for each
as_arm -y --download-only install $packages

# Debian 12's packages contain files in both /lib and /usr/lib, so one must be a link to the other.
mkdir -p "$root"/usr/bin "$root"/usr/sbin "$root"/usr/lib
for folder in bin sbin lib; do
    [ -e "$root/$folder" ] || ln -s "usr/$folder" "$root/$folder"
done
for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --keep-directory-symlink --no-same-owner
done
rm -rf "$apt/cache"
# Makes absolute links point into the root: emulated programs resolve them there, but make and compilers do not.
find "$root/usr/lib" "$root/etc" -type l -lname '/*' 2>/dev/null | while read -r link; do
    ln -snf "$root$(readlink "$link")" "$link"
done
echo "$packages" >"$root/packages"
