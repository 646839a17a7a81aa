#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Unpacks the Debian packages for 64-bit Arm that compshim is built from, with their dependencies, into a folder.
# Cross builds use the folder's headers and libraries, and emulated programs see it as their system. FOLDER/var/lib/dpkg
# lists the package of each file. Does nothing if the packages are there. Does not change this machine's own
# packages.
# usage: tests/arm/root.sh FOLDER
set -eu
root=$1
packages="libc6-dev libstdc++-12-dev libcmocka-dev libinih-dev libmd-dev libjansson-dev libelf-dev zlib1g-dev
libopenblas-dev openmpi-bin libopenmpi-dev libmpich-dev libgloo-dev"
[ "$(cat "$root/packages" 2>/dev/null)" != "$packages" ] || exit 0
mkdir -p "$root"
root=$(cd "$root" && pwd)

# Runs apt-get with its own state, in which nothing is installed, and with this machine's package sources.
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

# Debian 12's packages have files in /lib and in /usr/lib, which are one folder.
mkdir -p "$root"/usr/bin "$root"/usr/sbin "$root"/usr/lib
for folder in bin sbin lib; do
    [ -e "$root/$folder" ] || ln -s "usr/$folder" "$root/$folder"
done
database=$root/var/lib/dpkg
mkdir -p "$database/info"
: >"$database/status"
for package in "$apt"/cache/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x -C "$root" --keep-directory-symlink --no-same-owner
    dpkg-deb -f "$package" >"$apt/control"
    { cat "$apt/control" && printf 'Status: install ok installed\n\n'; } >>"$database/status"
    name=$(dpkg-deb -f "$package" Package)
    ! grep -qx 'Multi-Arch: same' "$apt/control" || name=$name:$(dpkg-deb -f "$package" Architecture)
    dpkg-deb --fsys-tarfile "$package" | tar -t |
        sed -E "s,/\$,,; s,^\.(/(bin|sbin|lib)/),./usr\1,; s,^\.,$root," >"$database/info/$name.list"
    for member in shlibs symbols; do
        dpkg-deb --ctrl-tarfile "$package" | tar -x -O "./$member" >"$database/info/$name.$member" 2>/dev/null ||
            rm "$database/info/$name.$member"
    done
done
echo 1 >"$database/info/format"
rm -rf "$apt/cache"
# Puts the root's path in front of absolute links: programs in the emulator follow them within the root, but make
# and compilers would follow them on this machine.
find "$root/usr/lib" "$root/etc" -type l -lname '/*' 2>/dev/null | while read -r link; do
    ln -snf "$root$(readlink "$link")" "$link"
done
echo "$packages" >"$root/packages"
