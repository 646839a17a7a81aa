#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs the Debian/Ubuntu packages that are missing.
#   tools/install-packages.sh build|demo|test|mpich|lint|fuzz|bench|clients|deb|package|roots|slurm|coverage|wheel|simulate|arm
#   tools/install-packages.sh packages NAME...
set -u
build="gcc g++ libc6-dev openmpi-bin libopenmpi-dev libopenblas-dev zlib1g-dev libinih-dev libmd-dev libjansson-dev libelf-dev"
case ${1-} in
build) packages=$build ;;
demo) packages="$build iproute2" ;;
test) packages="$build libcmocka-dev python3 git binutils perl iproute2 locales valgrind mandoc bash-completion duktape spin libgloo-dev libjemalloc2 libtcmalloc-minimal4" ;;
mpich) packages="$build mpich libmpich-dev" ;;
lint) packages="$build libcmocka-dev libgloo-dev clang-format clang-tidy cppcheck git python3 libzfp-dev libfftw3-dev" ;;
fuzz) packages="$build clang libclang-rt-dev" ;;
bench) packages="$build python3 iproute2 gnuplot-nox libzfp-dev libfftw3-dev" ;;
clients) packages="$build python3 git binutils mpich libmpich-dev" ;;
deb) packages="$build git debhelper dpkg-dev lintian" ;;
package) packages="$build git debootstrap" ;;
simulate) packages="$build libsimgrid-dev python3" ;;
roots) packages="git debootstrap iproute2" ;;
slurm) packages="$build slurm-wlm munge procps python3" ;;
coverage) packages="$build gcovr" ;;
arm) packages="$build gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user libgloo-dev" ;;
wheel) packages="$build mpich libmpich-dev binutils git python3-venv" ;;
packages)
    shift
    packages=$*
    ;;
*)
    echo "usage: install-packages.sh build|demo|test|mpich|lint|fuzz|bench|clients|deb|package|roots|slurm|coverage|wheel|simulate|arm|packages NAME..." >&2
    exit 2
    ;;
esac

missing=
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
        missing="$missing $package"
done
[ -z "$missing" ] && exit 0

cannot() {
    echo "compshim: these packages are missing and could not be installed ($1):" >&2
    echo "   $missing" >&2
    echo "Install them (on Debian or Ubuntu: apt-get install$missing) and run make again." >&2
    exit 1
}
command -v apt-get >/dev/null 2>&1 || cannot "this system has no apt-get"
become=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || cannot "not root, and there is no sudo"
    become="sudo env DEBIAN_FRONTEND=noninteractive"
fi
echo "compshim: installing$missing"
export DEBIAN_FRONTEND=noninteractive
$become apt-get update -qq
case "$?$become" in
0*) ;;
1sudo*) cannot "sudo refuses" ;; # apt-get's own status is 100
*) cannot "apt-get update failed" ;;
esac
# Waits up to 300 seconds for another installation, if there is one.
# shellcheck disable=SC2086
$become apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $missing >/dev/null ||
    cannot "apt-get install failed"
