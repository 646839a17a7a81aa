# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# What the tests of the gloo engine share, beside tests/lib.sh, which it sources.
#
#   preloaded N [VARIABLE=VALUE...] PROGRAM...  a job of N ranks with the shim, under
#                                               $scratch/policy.ini, with a report in
#                                               $scratch/report.json
#   only RANKS VARIABLE=VALUE                   the words that give the setting to these ranks only,
#                                               in $setting: to stand before PROGRAM
#   fails_on RANK                               the same, for a rank whose end may have any status
#   on_nodes LIST                               the same, for ranks on nodes as "0,0,1,1" says; fails
#                                               where this user may not give a process a hostname
#   rule LINE...                                the policy is one rule with these lines
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
if [ ! -e "$build/tests/gloo_allreduce" ]; then
    skip "built without gloo's headers: tools/install-packages.sh test"
    finish
fi
if [ ! -e "$build/libcompshim-gloo.so" ]; then
    skip "built without the engine for gloo"
    finish
fi
export COMPSHIM_POLICY=$scratch/policy.ini

preloaded() {
    local ranks=$1
    shift
    rm -f "$scratch"/report*.json
    job "$ranks" LD_PRELOAD="$preload" COMPSHIM_REPORT="$scratch/report.json" "$@"
}
only() { setting=(sh "$top/tests/nccl/rank_setting.sh" "$1" "$2"); }
# shellcheck disable=SC2016 # the inner shell expands them
fails_on() { setting=(sh -c '"$@" || [ "$RANK" = '"$1"' ]' sh); }
# shellcheck disable=SC2016
on_nodes() {
    unshare --uts true 2>/dev/null || return
    setting=(unshare --uts sh -c 'hostname "node$(echo "$0" | cut -d , -f $((RANK + 1)))" && exec "$@"' "$1")
}
rule() { printf '%s\n' "[rule all]" "$@" >"$scratch/policy.ini"; }
