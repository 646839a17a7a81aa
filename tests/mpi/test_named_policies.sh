#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks COMPSHIM_POLICY=@NAME in real jobs: the name is not taken for a file, the report names it, and compressed
# calls under @exact give the sum in rank order to the last bit, in float32 and float64.
. "$(dirname "$0")/../lib.sh"
unset COMPSHIM_MACHINE
cd "$scratch" || exit 3
export COMPSHIM_REPORT=$scratch/report.json
tests=$build/tests

echo "no policy" >@exact
for name in default exact fp8 small; do
    expect "a job under @$name" 0 shimmed 2 COMPSHIM_POLICY=@$name "$tests/mpi_repeated_sum" 3
    reports "is told of by that name" "report['policy']['source'] == '@$name' and rows[0]['codec'] == 'raw'"
done
# In the launcher, compshim makes file names absolute, but not this name.
expect "mpirun with the preload" 0 env LD_PRELOAD="$preload" COMPSHIM_POLICY=@exact \
    timeout "$LIMIT" "${launch[@]}" -n 2 "$tests/mpi_repeated_sum" 3
reports "leaves the name" "report['policy']['source'] == '@exact'"
expect "an unknown name ends the job" 1 shimmed 2 COMPSHIM_POLICY=@exakt "$tests/mpi_repeated_sum" 1
contains "with the names there are" "did you mean '@exact'? known: @default, @exact, @fp8, @small"

# With two ranks the MPI library's sum equals the sum in rank order. The library makes the calls below 4 KiB.
for dtype in float32 float64; do
    expect "every shape of $dtype inside a node" 0 shimmed 2 COMPSHIM_POLICY=@exact "$tests/mpi_allreduce" raw 1 $dtype
    reports "goes as raw" "rows and {(row['codec'], row['dtype']) for row in rows} == {('raw', '$dtype')}"
done
"$build/compshim" explain --policy @exact | sed 's/^worth .*/worth = always/' >always.ini
for dtype in float32 float64; do
    expect "every shape of $dtype between nodes, where it pays" 0 shimmed_on 0,1 COMPSHIM_POLICY=always.ini "$tests/mpi_allreduce" raw 1 $dtype
    reports "goes packed, or as it is where it is small" \
        "{row['codec'] for row in rows} <= {'raw', 'lossless'} and 'lossless' in {row['codec'] for row in rows}"
done
expect "what is not known to pay" 0 shimmed_on 0,1 COMPSHIM_MACHINE=off COMPSHIM_POLICY=@exact "$tests/mpi_allreduce" raw 1 float64
reports "is the library's" "rows == [] and passed['no_gain'] > 0"
expect "and what is tried" 0 shimmed_on 0,1 COMPSHIM_POLICY=@exact "$tests/mpi_allreduce" raw 1 float64
reports "is exact, too" "rows and {row['codec'] for row in rows} <= {'raw', 'lossless'}"

# If a third or more of the bytes matched no rule, the table ends with a rule for them.
unset COMPSHIM_MACHINE
expect "sums of float64 under the built-in policy" 0 shimmed 2 COMPSHIM_POLICY=@default "$tests/mpi_allreduce" none 1 float64
contains "end with a rule for them" "compshim: printf '[rule float64]\ndtype=float64\nmin_size=64K\ncodec=lossless\n'"
last=$(sed -n 's/^compshim: //p' <<<"$output" | tail -n 1) # the program's own lines may follow
check "in the table's last line" grep -q "printf '.rule float64" <<<"$last"
{
    "$build/compshim" explain --policy @default
    eval "$last"
} >more.ini
expect "which is pasted" 0 shimmed 2 COMPSHIM_POLICY=more.ini "$tests/mpi_allreduce" raw 1 float64
reports "compresses them" "{row['rule'] for row in rows} == {'float64'}"
check "and nothing is left to say" test "$(grep -c "matched no rule" <<<"$output")" = 0
expect "sums of float32 under the same" 0 shimmed 2 COMPSHIM_POLICY=@default "$tests/mpi_allreduce" raw 1 float32
check "need no other rule" test "$(grep -c "matched no rule" <<<"$output")" = 0
finish
