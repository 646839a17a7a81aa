#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks nonblocking communicators: exact results with `raw`; when ncclCommGetAsyncError reports success, all
# operations must be enqueued.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_nonblocking
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"

exact 3 nonblocking 2
exact 3 nonblocking_ends 4
reports "nonblocking_ends: nothing was passed through" "passed == {}"
exact 3 nonblocking_group 9
reports "nonblocking_group: only the integers were passed through" "list(passed.values()) == [3]"
expect "nonblocking_group, delayed" 0 preloaded 3 STANDIN_DELAY_US=500 "$program" nonblocking_group
expect "nonblocking_group, held back" 0 preloaded 3 STANDIN_LAZY=1 "$program" nonblocking_group
exact 2 nonblocking_rounds 200
expect "nonblocking_rounds, with pauses between the steps of the engine's threads" 0 preloaded 2 STANDIN_PAUSE_US=2000 \
    LD_PRELOAD="$build/tests/standin_scheduler.so:$preload" "$program" nonblocking_rounds
sed -i 's/two_shot/hierarchical/' "$scratch/policy.ini"
NODES=0,0,1,1 expect "nonblocking_group, hierarchical" 0 preloaded 4 "$program" nonblocking_group
reports "compressed between nodes" "[(row['algorithm'], row['calls']) for row in rows] == [('hierarchical', 9)]"
sed -i 's/hierarchical/two_shot/' "$scratch/policy.ini"
expect "a call that the other ranks do not make" 0 preloaded 3 "$program" nonblocking_alone
contains "is in progress until it is aborted, and refuses calls meanwhile" "state 7, called again 4"
expect "nonblocking_two natively" 0 job 2 "$program" nonblocking_two
expect "of two communicators in a group the second is aborted first" 0 preloaded 2 "$program" nonblocking_two
reports "none of their calls was passed through" "passed == {}"
exact 3 nonblocking_revoke 3
sed -i 's/two_shot/hierarchical/' "$scratch/policy.ini"
NODES=0,0,1,1 expect "nonblocking_revoke, hierarchical" 0 preloaded 4 "$program" nonblocking_revoke
reports "nonblocking_revoke, by hierarchical" "any(row['algorithm'] == 'hierarchical' for row in rows)"
finish
