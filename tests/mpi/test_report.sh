#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Compares the reports of real jobs, as the table at the end of a run and as JSON, with golden files: each line of the
# table, and each field's name, type, order and format. Seconds, errors and versions are masked. Counts and bytes are
# not, because they are the same in every run.
. "$(dirname "$0")/../lib.sh"
golden=$top/tests/mpi/golden tests=$build/tests
cd "$scratch" || exit 3
export COMPSHIM_POLICY=policy.ini COMPSHIM_REPORT=report.json

# mask: replaces the digits of seconds, errors and versions by #. Keeps only the first of an observed job's
# measurements, because their number depends on the time they take.
mask() {
    awk '/"exchange": \[/ { print; getline; sub(/,$/, ""); print; skip = 1; next }
        /^ *\]/ { skip = 0 }
        !skip' |
        sed -E -e 's/-?[0-9]+\.([0-9]{9}|[0-9]{6})(e[-+][0-9]+)?/#.\1\2/g' \
            -e ':digits; s/(#\.#*)[0-9]/\1#/; t digits; s/(#e)[-+][0-9]+/\1##/g' \
            -e 's/-?[0-9]\.[0-9]e[-+][0-9]+/#.#e##/g; s/ *[0-9.]+ (us|ms|s)\b/ #/g' \
            -e 's/("compshim": )".*"/\1"#"/; s/("library": )".*"/\1"#"/' \
            -e 's/^compshim [^:]*: [^,]*,/compshim #: #,/'
}
# reported NAME FILE RANKS [VARIABLE=VALUE...] PROGRAM...: compares a job's report with the golden file
reported() {
    local name=$1 file=$2
    shift 2
    expect "$name" 0 shimmed "$@"
    # joins the first line if a long name of the MPI wraps it
    output=$({ grep '^compshim' <<<"$output" | sed -z 's/\ncompshim:   \(nodes\|policy\)/ \1/' && cat report.json; } | mask)
    golden "is reported" "$golden/$file"
}

cat >policy.ini <<'P'
[rule checked]
dtype = float32
min_size = 100KiB
codec = int4
algorithm = two_shot
max_rel_error = 0.01
verify = 2
check_ranks = 3
P
reported "a job with verify, check_ranks and max_rel_error" report_checked.txt 2 "$tests/mpi_repeated_sum" 12
reported "an observed job" report_observed.txt 2 COMPSHIM=observe "$tests/mpi_one_of_each"

printf '[rule all]\ndtype = float32\nmin_size = 64KiB\ncodec = bf16\n' >policy.ini
reported "a job on two nodes" report_nodes.txt 4 STANDIN_NODES=0,0,1,1 \
    LD_PRELOAD="$tests/standin_nodes.so:$preload" "$tests/mpi_repeated_sum" 3
reported "a job with other collectives" report_collectives.txt 2 "$tests/mpi_collectives" 100000

# On four ranks two_shot sends about as many bytes of raw as a ring, one_shot twice as many.
for way in "two_shot: about the same" "one_shot: 2.0x more"; do
    printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = %s\n' "${way%%:*}" >policy.ini
    expect "a job with ${way%%:*}" 0 shimmed 4 "$tests/mpi_repeated_sum" 3
    contains "compares its bytes rightly" "where a ring sends 3.4 MiB: ${way#*: }"
done
finish
