# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of the gloo engine. Sources tests/lib.sh.
#
#   preloaded N [VARIABLE=VALUE...] PROGRAM...  runs a job of N ranks with the shim, under
#                                               $scratch/policy.ini; its report is
#                                               $scratch/report.json
#   only RANKS VARIABLE=VALUE                   sets $setting, words to put before PROGRAM, so that
#                                               only these ranks get the variable
#   fails_on RANK                               sets $setting so that this rank may fail
#   on_nodes LIST                               sets $setting so that the ranks are on nodes such as
#                                               "0,0,1,1"; fails if this user may not set a hostname
#   rule LINE...                                writes a policy of one rule with these lines
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
