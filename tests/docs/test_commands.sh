#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs every command that README.md and docs/*.md show in a block, as written, and checks every policy. Files and
# links in the pages must exist. tests/docs/not_run.txt lists the exceptions, with reasons.
. "$(dirname "$0")/../lib.sh"
export ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0
table=$top/tests/docs/not_run.txt
cd "$top" || exit 1
mkdir "$scratch/policies" "$scratch/place" "$scratch/place/build"
check "the blocks can be read" python3 tests/docs/blocks.py README.md docs/*.md "$scratch/policies"
python3 tests/docs/blocks.py README.md docs/*.md "$scratch/policies" >"$scratch/commands" 2>&1

missing_files() {
    grep -ohE '`(shim|codecs|kernels|policy|tools|examples|tests|docs|packaging|mpi|nccl|unit|cli|net)/[A-Za-z0-9_./-]+`' \
        README.md CONTRIBUTING.md docs/*.md tests/README.md | tr -d '`' | sort -u |
        while read -r file; do [ -e "$file" ] || [ -e "tests/$file" ] || echo "$file"; done
}
check "every file that a document names is there" diff /dev/null <(missing_files)
check "every link leads to a file and heading that is there" \
    diff /dev/null <(python3 tests/docs/links.py README.md CONTRIBUTING.md SECURITY.md CHANGELOG.md docs/*.md tests/README.md 2>&1)

reason() { # COMMAND: prints why it is not run, from the table; fails if it is to be run
    local begin why
    while IFS='|' read -r begin why; do
        [[ -n $why && $1 == "${begin% }"* ]] && echo "${why# }" && return
    done < <(grep -v '^#' "$table")
    return 1
}

# A folder like a checkout after make, with few images so that trainings are short.
cd "$scratch/place" || exit 1
for file in "$top"/{docs,examples,policy,tests,Makefile}; do ln -s "$file" .; done
for file in "$build"/{compshim,libcompshim*.so,allreduce_bench,mnist_train}; do ln -s "$file" build; done
ln -s "$build/mnist_train" train
export MNIST_DIR=$scratch/digits
python3 "$top/tests/docs/few_digits.py" "$MNIST_DIR"
cp "$top/tests/cli/golden/report_fp16.json" report.json
cp "$top/tests/cli/golden/report_off.json" other.json
export PATH=$build:$PATH

run=0
while IFS=$'\t' read -r -u 3 place command; do
    if why=$(reason "$command"); then
        echo "not run: $place: $command ($why)"
        case $command in make\ *)
            check "$place: make knows the target" make -n -C "$top" "$(cut -d ' ' -f 2 <<<"$command")"
            ;;
        esac
        continue
    fi
    run=$((run + 1))
    check "$place: $command" limited bash -c "$command" </dev/null
done 3<"$scratch/commands"
check "some commands were run" test "$run" -ge 5

policies=0
for file in "$scratch/policies"/*.ini; do
    policies=$((policies + 1))
    # A block without a section is part of a rule.
    grep -q '^\[' "$file" || sed -i '1i [rule shown]\ncodec = fp8_e4m3' "$file"
    check "the policy in $(basename "$file" .ini)" compshim explain --policy "$file" --size 25MiB
done
check "some policies were checked" test "$policies" -ge 2

while IFS='|' read -r begin why; do
    check "the table's '${begin% }' stands in a page" grep -qF "$(printf '\t')${begin% }" "$scratch/commands"
done < <(grep -v '^#' "$table")
finish
