#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs make demo, make test and the README's first job in bare systems, as a user does who has just installed git, make
# and gcc. Each run is in a fresh root (debootstrap, minbase) with a fresh clone of the last commit, with network until
# all packages are installed; each of its commands gives a row of a table. The roots are plain folders, no mount points,
# without /etc/hosts, like any fresh chroot. There, only root can create namespaces, so only root's demo can run on
# emulated hosts; the table has how the ranks of each demo were joined. Needs root and Debian's or Ubuntu's debootstrap,
# which `make test-roots` installs.
#
#   ROOTS="debian12 debian13-user"   only the runs of a system, or a single one (default: all)
#   SHARED=DIR        folder of MNIST, DIR/mnist, for the runs with it (../shared)
#   MIRROR=URL        Debian's mirror (default: the one in this machine's apt sources)
#   UBUNTU_MIRROR=URL Ubuntu's (default: this machine's, else the one next to Debian's, else debootstrap's)
#   DEMO_IMAGES=N     passed to make demo
#
# The roots are kept in $BUILD/roots, the logs in $BUILD/roots/logs, the table in $BUILD/roots/table.txt.
set -u
cd "$(dirname "$0")/../.." || exit 3
folder=$(realpath -m "${BUILD:-build}")/roots
logs=$folder/logs table=$folder/table.txt
shared=${SHARED:-../shared}
# Columns: system, user, process 1, MNIST. Each pair of values of any two columns occurs in some row.
plan="debian12 root sleeps mnist
debian12 user reaps none
debian13 root reaps none
debian13 user sleeps mnist
ubuntu2404 root sleeps none
ubuntu2404 user reaps mnist"
declare -A suites=([debian12]=bookworm [debian13]=trixie [ubuntu2404]=noble)

say() { echo "test-roots: $*"; }
die() {
    say "$@" >&2
    exit 3
}
[ "$(id -u)" = 0 ] || die "needs root (debootstrap, chroot and namespaces); run it with sudo"
command -v debootstrap >/dev/null || die "needs debootstrap: apt-get install debootstrap"
mkdir -p "$logs"

# Roots ------------------------------------------------------------------------------------------
# apt_mirror NAME: prints the first address in this machine's apt sources whose last folder is NAME
apt_mirror() {
    grep -rhsE '^(deb |URIs:)' /etc/apt/sources.list /etc/apt/sources.list.d |
        grep -oE "[a-z]+://[^] ]*/$1/?( |$)" | head -n 1 | sed 's|/* *$||'
}
# serves MIRROR SUITE: succeeds if the mirror has the suite. Downloads as apt does, so that apt's proxies apply.
serves() {
    [ -n "$1" ] && /usr/lib/apt/apt-helper download-file "$1/dists/$2/Release" "$folder/release" >/dev/null 2>&1
}
mirror_for() { # SUITE: prints a mirror
    local candidate debian=${MIRROR:-$(apt_mirror debian)}
    local ubuntu=${UBUNTU_MIRROR:-$(apt_mirror ubuntu)}
    case $1 in
    noble) set -- "$1" "$ubuntu" "${debian%/debian}/ubuntu" \
        "$(sed -n 's/^[[:space:]]*default_mirror //p' /usr/share/debootstrap/scripts/gutsy | grep archive | head -n 1)" ;;
    *) set -- "$1" "$debian" ;;
    esac
    for candidate in "${@:2}"; do
        serves "$candidate" "$1" && echo "$candidate" && return
    done
    return 1
}
components() { case $1 in noble) echo main,universe ;; *) echo main ;; esac }

# keyring_for SUITE MIRROR: prints the file with the keys that sign the suite. Debian 12 has no package of Ubuntu's
# keys, so noble's own package is downloaded and checked against $ubuntu_keyring_sum, copied from noble's signed index.
ubuntu_keyring=pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1_all.deb
ubuntu_keyring_sum=36de43b15853ccae0028e9a767613770c704833f82586f28eb262f0311adb8a8
keyring_for() {
    local file=usr/share/keyrings/ubuntu-archive-keyring.gpg package=$folder/${ubuntu_keyring##*/}
    if [ "$1" != noble ]; then
        echo /usr/share/keyrings/debian-archive-keyring.gpg
    elif [ -e "/$file" ]; then
        echo "/$file"
    else
        /usr/lib/apt/apt-helper download-file "$2/$ubuntu_keyring" "$package" "SHA256:$ubuntu_keyring_sum" >/dev/null 2>&1 &&
            dpkg-deb -x "$package" "$folder/keys" && echo "$folder/keys/$file"
    fi
}

# make_root SYSTEM: creates a bare system in $folder/SYSTEM, if it is not there; on failure sets $why
make_root() {
    local root=$folder/$1 suite=${suites[$1]} mirror keyring script=
    [ ! -e "$root/.complete" ] || return 0
    mirror=$(mirror_for "$suite") || {
        why="no mirror serves $suite"
        return 1
    }
    # For a suite that this debootstrap does not know, takes the script to which newer versions link the suite's.
    if [ ! -e "/usr/share/debootstrap/scripts/$suite" ]; then
        case $suite in noble) script=gutsy ;; *) script=sid ;; esac
        script=/usr/share/debootstrap/scripts/$script
    fi
    keyring=$(keyring_for "$suite" "$mirror") || {
        why="the keys of $suite cannot be fetched from $mirror"
        return 1
    }
    say "$1: debootstrap from $mirror"
    rm -rf "$root"
    # shellcheck disable=SC2086 # none or one word
    debootstrap --force-check-gpg --keyring="$keyring" --variant=minbase --components="$(components "$suite")" --include=git,make,gcc,sudo,ca-certificates \
        "$suite" "$root" "$mirror" $script >"$logs/$1.debootstrap" 2>&1 || {
        why="debootstrap failed: $logs/$1.debootstrap"
        return 1
    }
    chroot "$root" apt-get clean
    chroot "$root" useradd --create-home --shell /bin/bash tester
    echo 'tester ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/tester"
    touch "$root/.complete"
}

# Runs -------------------------------------------------------------------------------------------
# process1.sh runs a script in the root, as process 1 of new PID and mount namespaces; it reaps orphans or does not. The
# mounts end with the namespace. Without network there is still an interface besides lo, because Debian
# 13's mpirun crashes without any if it has to reach another host.
cat >"$folder/process1.sh" <<'END'
root=$1 process1=$2 user=$3 network=$4 script=$5
set -e
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
for folder in dev/shm tmp; do mount -t tmpfs -o mode=1777 tmpfs "$root/$folder"; done
if [ "$network" = without ]; then
    ip link set lo up
    ip link add eth0 type veth peer name eth1
    ip address add 192.0.2.1/24 dev eth0
    ip link set eth0 up
    ip link set eth1 up
fi
set +e
home=$(chroot "$root" sh -c "echo ~$user")
(
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME="$home" USER="$user" \
        ${DEMO_IMAGES:+DEMO_IMAGES="$DEMO_IMAGES"} \
        chroot --userspec="$user:$user" "$root" bash -c "cd ~/compshim && $script" </dev/null
    echo $? >"$root/status"
) &
case $process1 in
reaps) wait ;;
sleeps) exec sleep infinity ;;
esac
END

# inside NETWORK SCRIPT: runs it in the checkout, with this machine's network or without; sets $status
inside() {
    local alone=()
    [ "$1" = with ] || alone=(--net)
    rm -f "$root/status"
    unshare --mount --pid --fork --kill-child "${alone[@]}" \
        bash "$folder/process1.sh" "$root" "$process1" "$user" "$1" "$2" >"$log" 2>&1 &
    holder=$!
    while [ ! -s "$root/status" ] && [ -e "/proc/$holder" ]; do sleep 1; done
    kill -KILL "$holder" 2>/dev/null # it ignores SIGTERM; process 1 is killed with it
    wait "$holder" 2>/dev/null
    holder=
    status=$(cat "$root/status" 2>/dev/null || echo "none: $(tail -n 1 "$log")")
}

# try COMMAND NETWORK STATUS TEXT SCRIPT: adds a row to the table; passes if the status is STATUS and the output
# matches TEXT (a regular expression)
try() {
    local log=$logs/$name-${1// /-}.log began=$SECONDS status verdict
    say "$name: $1"
    inside "$2" "$5"
    if [ "$status" != "$3" ]; then
        verdict="FAILED: status $status"
    elif ! grep -qE "$4" "$log"; then
        verdict="FAILED: does not say '$4'"
    else
        verdict=good
    fi
    case $1 in
    "make test") verdict="$verdict: $(grep -E '^[0-9]+ passed, ' "$log" | tail -n 1)" ;;
    "make demo") verdict="$verdict: $(grep -hE '^[0-9.]+ times as fast|^The ranks are joined' "$log" | tac | paste -sd ' ')" ;;
    esac
    case $verdict in FAILED*) failures=$((failures + 1)) ;; esac
    row "$system" "$user" "$process1" "$mnist" "$1" $((SECONDS - began)) "$verdict"
}
row() { printf '%-11s %-7s %-10s %-6s %-18s %8s  %s\n' "$@" | tee -a "$table"; }

# The README begins with make demo. This is its line that builds and its first block with the preload, as one script.
readme=$(awk '/^    make packages all$/ { print "make packages all || exit" }
    /^    / { block = block substr($0, 5) "\n"; next } block ~ /LD_PRELOAD=build/ { printf "%s", block; exit } { block = "" }' README.md)
revision=$(git rev-parse HEAD)

run() { # SYSTEM USER PROCESS1 MNIST: makes the runs of a line of $plan
    local system=$1 user=$2 process1=$3 mnist=$4 name=$1-$2 root=$folder/run-$1-$2 home digits
    case $2 in root) home=$root/root ;; *) user=tester home=$root/home/tester ;; esac
    rm -rf "$root"
    cp -a "$folder/$system" "$root"
    cp -L /etc/resolv.conf "$root/etc/"
    apt-config dump | grep -iE '^Acquire::[a-z]+::Proxy ' >"$root/etc/apt/apt.conf.d/90proxy"
    git clone -q --no-hardlinks . "$home/compshim" && git -C "$home/compshim" checkout -q "$revision"
    digits="^Drawn digits \\(no MNIST found\\), "
    if [ "$mnist" = mnist ]; then
        mkdir "$home/shared" && cp -r "$shared/mnist" "$home/shared/"
        digits="^MNIST, "
    fi
    chroot "$root" chown -R "$user:$user" "${home#"$root"}"
    try "make" with 2 "make packages installs them" make
    # Either of these may be the user's first command in a bare system.
    if [ "$user" = root ]; then
        try "make demo" with 0 "$digits" "make demo"
        try "README" with 0 "^compshim: sent .* less" "$readme"
    else
        try "README" with 0 "^compshim: sent .* less" "$readme"
        try "make demo" with 0 "$digits" "make demo"
    fi
    # The tests create network devices; without network they do not conflict with others.
    try "make packages-test" with 0 "" "make packages-test"
    try "make test" without 0 "^[0-9]+ passed, 0 failed, [0-9]+ skipped$" "make test"
    rm -rf "$root"
}

is_wanted() { # SYSTEM USER: succeeds if $ROOTS selects it
    local word
    [ -n "${ROOTS-}" ] || return 0
    for word in $ROOTS; do
        case $word in "$1" | "$1-$2") return 0 ;; esac
    done
    return 1
}

failures=0 holder=
trap '[ -z "$holder" ] || kill -KILL "$holder"; rm -rf "$folder"/run-*' EXIT
trap 'exit 130' INT TERM
: >"$table"
row system user "process 1" shared command seconds verdict
while read -r -u 3 system user process1 mnist; do
    is_wanted "$system" "$user" || continue
    if ! make_root "$system"; then
        row "$system" "$user" "$process1" "$mnist" - 0 "left out: $why"
    elif [ "$mnist" = mnist ] && [ ! -e "$shared/mnist" ]; then
        row "$system" "$user" "$process1" "$mnist" - 0 "left out: no $shared/mnist"
    else
        run "$system" "$user" "$process1" "$mnist"
    fi
done 3<<<"$plan"
say "$failures failed; the logs are in $logs"
cat "$table"
[ "$failures" = 0 ]
