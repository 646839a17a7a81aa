#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks calls in CUDA graphs, with delayed and held-back operations: exact results with `raw`, and the memory that
# graphs hold.
. "$(dirname "$0")/lib.sh"
program=$build/tests/nccl_graphs
printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$scratch/policy.ini"

exact 3 graph 6
reports "graph: nothing was passed through" "passed == {}"
expect "graph, delayed" 0 preloaded 3 STANDIN_DELAY_US=500 "$program" graph
expect "graph, held back" 0 preloaded 3 STANDIN_LAZY=1 "$program" graph
exact 3 graph_beside 4
exact 3 graph_streams 6
expect "graph_streams, delayed" 0 preloaded 3 STANDIN_DELAY_US=500 "$program" graph_streams
exact 3 graph_open 4
exact 3 graph_first 0
reports "graph_first: passed through, with its reason" "passed == {'captured': 1}"
exact 3 graph_spare 3
exact 3 graph_hundred 201
contains "a hundred equal calls hold the memory of one" "a graph of 100 calls keeps 942400 bytes"
cp "$scratch/policy.ini" "$scratch/everywhere.ini"
printf '[rule small]\nmax_size = 100000\ndtype = float32\ncodec = raw\nalgorithm = cast\n[rule large]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' \
    >"$scratch/policy.ini"
exact 3 graph_connects 3
reports "graph_connects: NCCL connects no ranks during a capture" "passed == {'captured': 1}"
cp "$scratch/everywhere.ini" "$scratch/policy.ini"
printf '[rule all]\ncollective = broadcast, alltoall\ncodec = raw\n' >"$scratch/policy.ini"
expect "moves natively" 0 job 4 "$program" moves
for how in "" STANDIN_DELAY_US=500 STANDIN_LAZY=1; do
    expect "moves $how" 0 preloaded 4 ${how:+$how} "$program" moves
    check "moves: compressed on each communicator, and in a graph" total \
        'sum(row["calls"] for row in rows) == 8 and passed == {"dtype": 1}'
    calls "moves: NCCL moves bytes, and the integers" \
        'all({c["dtype"] for c in rank} <= {"uint8", "int32"} for rank in calls)'
done
sed -i 's/, alltoall//' "$scratch/policy.ini"
expect "moves, broadcasts alone" 0 preloaded 4 "$program" moves
check "moves: captured broadcasts need no messages before" total \
    'sum(row["calls"] for row in rows) == 4 and passed == {"dtype": 1}'
finish
