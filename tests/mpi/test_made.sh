#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that nonblocking calls are compressed from the first one on, on communicators created by eleven functions.
. "$(dirname "$0")/../lib.sh"
program=$build/tests/mpi_made
printf '[rule all]\ncodec = raw\nworth = always\n' >"$scratch/policy.ini"
export COMPSHIM_POLICY=$scratch/policy.ini COMPSHIM_REPORT=$scratch/report.json

if ! compresses_nonblocking "$program"; then
    skip "the shim cannot progress nonblocking calls with this MPI"
    finish
fi
for ranks in 2 3 4; do
    expect "communicators of every kind, $ranks ranks" 0 shimmed $ranks "$program" 3
    reports "all their calls are compressed" 'sum(r["calls"] for r in rows) > 100 and not set(passed) - {"single_rank", "dtype"}'
done
expect "the same on two nodes" 0 shimmed_on 0,0,1,1 "$program" 3
reports "all their calls are compressed" 'sum(r["calls"] for r in rows) > 100 and not set(passed) - {"single_rank", "dtype"}'
expect "an MPI with few tags" 0 shimmed 3 LD_PRELOAD="$preload:$build/tests/standin_tags.so" "$program" 3
reports "leaves nonblocking calls to communicators that a blocking one has prepared" \
    'passed["nonblocking"] > 0 and sum(r["calls"] for r in rows) > 50'
finish
