#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks hosts.sh: hosts are separate, ranks start on them, and nothing remains.
. "$(dirname "$0")/../lib.sh"
# Its own name, so that hosts of other tests that run at the same time are not touched.
prefix=$(printf "h%07d" $$ | tr 0-9 a-j)
hosts() { "$top/tests/net/hosts.sh" --name "$prefix" "$@"; }
left_behind() {
    ip -oneline link show | grep -o "${prefix}[a-z0-9]*" | sort -u
    ip netns list | grep -o "^${prefix}[0-9]*"
    ls -d "/run/$prefix-hosts" 2>/dev/null
}

expect "no command" 2 hosts
if [ "$(id -u)" != 0 ]; then
    skip "not root: all but the refusal"
    expect "without root" 3 hosts up
    contains "says what it needs" "needs root"
    finish
fi
if ! unshare --net --mount true 2>/dev/null; then
    skip "no network namespaces can be made here: all but the refusal"
    expect "run before up" 3 hosts run true
    finish
fi
trap 'hosts down >/dev/null; rm -rf "$scratch"' EXIT

# A chroot into a plain folder without /etc/hosts, in a namespace whose mounts are shared. unshare first makes them
# private: otherwise a machine whose own mounts are shared would get all mounts below $scratch, and removing $scratch
# would remove /usr.
cat >"$scratch/in_chroot" <<'END'
root=$1 top=$2
shift 2
mount --make-rshared / || exit 1
mkdir -p "$root"/{usr,etc,proc,sys,dev,tmp,run} "$root$top" && cp -a /etc/. "$root/etc" && rm -f "$root/etc/hosts" || exit 1
for folder in bin sbin lib lib64; do [ ! -L "/$folder" ] || cp -a "/$folder" "$root/"; done
for folder in usr proc sys dev "${top#/}"; do mount --rbind "/$folder" "$root/$folder" || exit 1; done
before=$(wc -l </proc/self/mountinfo)
chroot "$root" env -C "$top" "$@" || exit
[ "$(wc -l </proc/self/mountinfo)" = "$before" ] && echo "as many mounts as before: $(ls -A "$root/run" "$root/etc/hosts" 2>&1)"
END
in_chroot() { unshare --mount --propagation private bash "$scratch/in_chroot" "$scratch/root" "$top" "$@"; }
script=tests/net/hosts.sh
if [ -L /bin ]; then
    expect "up in a chroot" 3 in_chroot $script --name "$prefix" up
    contains "says what to do" "in a chroot use: hosts.sh with"
    expect "hosts in a chroot" 0 in_chroot $script --name "$prefix" with 1gbit \
        $script --name "$prefix" run --hosts 2 sh -c 'echo "$(hostname): $(grep -c "$(hostname)" /etc/hosts) of $(wc -l </etc/hosts) names"'
    contains "have their names" "${prefix}2: 1 of 5 names"
    contains "leave no mount that is seen outside" "as many mounts as before"
    contains "and no /etc/hosts" "root/etc/hosts': No such file"
else
    skip "programs are not in /usr alone: hosts in a chroot"
fi

expect "run before up" 3 hosts run true
contains "says what to do" "hosts.sh up"
expect "a rate that is none" 3 hosts up --rate fast
contains "is named" "rate 'fast' not understood"
expect "65 hosts" 3 hosts up --hosts 65

ip link add "${prefix}v2" type bridge
expect "up where a device has the name already" 3 hosts up --hosts 2
contains "names the device" "a device ${prefix}v2 exists already"
output=$(left_behind)
if [ "$output" = "${prefix}v2" ]; then
    pass "the failed up removes what it made, and leaves the other's device"
else
    fail "the failed up removes what it made, and leaves the other's device" "$output"
fi
ip link delete "${prefix}v2"

expect "up" 0 hosts up --hosts 2 --rate 1gbit --paced
expect "up twice" 3 hosts up
contains "says what to do" "hosts.sh down"
expect "the limit of a link" 0 ip netns exec "${prefix}1" tc qdisc show dev eth0 root
contains "is set where it sends" "rate 1Gbit"
contains "and paced" "peakrate 1100Mbit"
expect "the limit towards it" 0 tc qdisc show dev "${prefix}v1" root
contains "is set, too" "rate 1Gbit"
expect "another rate" 0 hosts rate 200mbit
expect "the limit now" 0 tc qdisc show dev "${prefix}v2" root
contains "is changed" "rate 200Mbit"
expect "the limit of the other link, which is paced" 0 ip netns exec "${prefix}1" tc qdisc show dev eth0 root
contains "still is" "peakrate 220Mbit"
expect "a command in a host" 0 hosts exec 2 sh -c 'hostname; cat /etc/hosts; echo "$TMPDIR"'
contains "has its hostname" "${prefix}2"
contains "knows its neighbours" "10.231.78.1 ${prefix}1"
expect "a host that is not there" 3 hosts exec 3 true

# shellcheck disable=SC2016 # the ranks' shells expand them
show='echo "$(hostname) ${LD_PRELOAD-unset} ${COMPSHIM_LOG-unset} $OMPI_COMM_WORLD_SIZE"'
expect "one rank on each host" 0 hosts run sh -c "$show"
contains "starts on the first" "${prefix}1 unset unset 2"
contains "starts on the second" "${prefix}2 unset unset 2"
expect "the shim on both" 0 env "LD_PRELOAD=$preload" COMPSHIM_LOG=error \
    "$top/tests/net/hosts.sh" --name "$prefix" run --ranks-per-host 2 sh -c "$show"
contains "reaches the ranks" "${prefix}2 $preload error 4"
policy "$scratch/fp16.ini" fp16
expect "an all-reduce across the hosts" 0 env "LD_PRELOAD=$preload" "COMPSHIM_POLICY=$scratch/fp16.ini" \
    "COMPSHIM_REPORT=$scratch/report.json" "$top/tests/net/hosts.sh" --name "$prefix" run \
    "$build/allreduce_bench" --sizes 1MiB --seconds 0.01
expect "its report" 0 python3 -c '
import json, sys
report = json.load(open(sys.argv[1]))
print(report["nodes"], "nodes,", report["totals"]["compressed_calls"] > 0)' "$scratch/report.json"
contains "counts the hosts" "2 nodes, True"
expect "what the links carried" 0 hosts stats
contains "is counted" "${prefix}2 sent "

# carried ALGORITHM [COLLECTIVE]: prints the bytes that the hosts send in a short benchmark with two ranks on each
carried() {
    local before after
    policy "$scratch/carried.ini" fp8_e4m3 "$1"
    before=$(hosts stats | awk '{ sum += $3 } END { print sum }')
    LD_PRELOAD=$preload COMPSHIM_POLICY=$scratch/carried.ini COMPSHIM_REPORT=$scratch/carried.json \
        hosts run --ranks-per-host 2 "$build/allreduce_bench" --sizes 16MiB --seconds 0.001 \
        --collective "${2-allreduce}" >/dev/null 2>&1
    after=$(hosts stats | awk '{ sum += $3 } END { print sum }')
    echo $((after - before))
}
# In a reduce, either algorithm also sends half of the buffer, as sums, to the root's host: 2.5 and 1.5 buffers.
for least in allreduce:195 reduce_scatter:195 reduce:163; do
    collective=${least%:*} flat=$(carried two_shot $collective) levels=$(carried hierarchical $collective)
    if [ "$levels" -gt 20000000 ] && [ $((levels * ${least#*:})) -lt $((flat * 100)) ]; then
        pass "$collective: hierarchical sends less between the hosts than two_shot"
    else
        fail "$collective: hierarchical sends less between the hosts than two_shot" "$levels, $flat"
    fi
done
carried auto >/dev/null
output=$(cat "$scratch/carried.json")
contains "is what auto picks" '"algorithm": "hierarchical"'

hosts exec 1 sleep 1000 &
sleeper=$!
is_in_there() { [ -n "$(ip netns pids "${prefix}1")" ]; }
check "a command that runs in a host" eventually is_in_there
expect "down" 0 hosts down
wait "$sleeper" 2>/dev/null
output=$(left_behind)
if [ -z "$output" ]; then pass "nothing is left behind"; else fail "nothing is left behind" "$output"; fi
expect "down twice" 0 hosts down
finish
