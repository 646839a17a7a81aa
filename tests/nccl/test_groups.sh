#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks groups, streams, communicators, threads and devices: exact results with `raw`, also with delayed
# operations.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_groups
printf '[rule all]\ndtype = float32\nmin_size = 1000\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"

exact 3 several 40
exact 3 mixed 2
reports "mixed: the others are counted" "passed == {'op': 1, 'dtype': 1}"
calls "mixed: NCCL added no floats" \
    'all(c["op"] != "sum" or c["dtype"] != "float32" for rank in calls for c in rank)'
exact 3 behind 2
exact 3 communicators 2
exact 3 streams 27
exact 3 streams_group 4
exact 2 segments 3
exact 3 simulate 1
exact 3 mistake 1
exact 1 devices 1
exact 1 devices_group 1
exact 1 threads 5
# With delayed operations, and with operations held back until the host waits.
for case in several mixed behind communicators streams streams_group; do
    expect "$case, delayed" 0 preloaded 3 STANDIN_DELAY_US=500 STANDIN_SEED=7 "$program" $case
    expect "$case, held back" 0 preloaded 3 STANDIN_LAZY=1 "$program" $case
done
for case in devices devices_group threads; do
    expect "$case, delayed" 0 preloaded 1 STANDIN_DELAY_US=500 STANDIN_SEED=7 "$program" $case
    expect "$case, held back" 0 preloaded 1 STANDIN_LAZY=1 "$program" $case
done

# The remainder of the shares of hierarchical takes one all-reduce of NCCL, and no further message.
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = hierarchical\n' >"$scratch/policy.ini"
NODES=0,0,1,1 expect "a remainder" 0 preloaded 4 "$program" remainder
calls "a remainder: one all-reduce of 5 elements" \
    'all([c["count"] for c in rank if c["call"] == "ncclAllReduce"] == [5] for rank in calls)'
calls "a remainder: the two calls send as many messages" \
    'all(0 < 2 * names[: len(names) - names[::-1].index("ncclReduceScatter")].count("ncclSend") == names.count("ncclSend") for names in ([c["call"] for c in rank] for rank in calls))'
finish
