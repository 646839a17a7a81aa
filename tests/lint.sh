#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-format, clang-tidy, cppcheck, bash -n and tests/circles.py over the sources, and tests/words.py over the
# documents. Prints a heading for each, and the faults.
set -u
cd "$(dirname "$0")/.." || exit 3
build=${BUILD:-build}
status=0
mapfile -t sources < <(git ls-files '*.c')
mapfile -t cxx_sources < <(git ls-files '*.cc')
mapfile -t headers < <(git ls-files '*.h')
mapfile -t scripts < <(git ls-files '*.sh' .ci/run)

echo "clang-format: ${#sources[@]} sources in C, ${#cxx_sources[@]} in C++, ${#headers[@]} headers"
clang-format --dry-run --Werror "${sources[@]}" "${cxx_sources[@]}" "${headers[@]}" || status=1

echo "clang-tidy"
mapfile -t mpi_flags < <(mpicc.openmpi --showme:compile | tr ' ' '\n')
cuda=${CUDA_HOME:-$(dirname "$(dirname "$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)")")}
simulated=tests/simulate/simulate.c
# clang-tidy skips the client test that needs PETSc's headers.
mapfile -t tidied < <(printf '%s\n' "${sources[@]}" | grep -vxF -e $simulated -e tests/clients/solve.c)
if [ ! -e "$cuda/include/nccl.h" ]; then
    echo "without CUDA's headers clang-tidy leaves out shim/nccl, kernels and tests/nccl"
    mapfile -t tidied < <(printf '%s\n' "${tidied[@]}" | grep -vE '^(shim/nccl|kernels|tests/nccl|examples/mnist_nccl)/')
fi
printf '%s\n' "${tidied[@]}" | xargs -P 2 -n 1 sh -c '
    clang-tidy --quiet "$@" -- -std=c11 -D_GNU_SOURCE -I. -I'"$build"'/generated -isystem '"$cuda"'/include '"${mpi_flags[*]}"' 2>/dev/null
' tidy || status=1
# simulate.c is checked with SimGrid's mpi.h, which differs from that of the engines.
if [ -e /usr/include/smpi/mpi.h ]; then
    clang-tidy --quiet $simulated -- -std=c11 -D_GNU_SOURCE -I. -I"$build/generated" -isystem /usr/include/smpi \
        -include smpi_helpers.h 2>/dev/null || status=1
else
    echo "without SimGrid's headers clang-tidy leaves out $simulated"
fi
# The C++ sources in tests/nccl run GPU code on the host, and are compiled with flags of their own.
mapfile -t tidied < <(git ls-files 'shim/*.cc' 'tests/gloo/*.cc')
if [ ! -e /usr/include/gloo/allreduce.h ]; then
    echo "without gloo's headers clang-tidy leaves out tests/gloo/*.cc"
    mapfile -t tidied < <(git ls-files 'shim/*.cc')
fi
for source in "${tidied[@]}"; do
    clang-tidy --quiet "$source" -- -std=c++14 -D_GNU_SOURCE -I. -I"$build/generated" 2>/dev/null || status=1
done

echo "cppcheck"
cppcheck --quiet --std=c11 --error-exitcode=1 --enable=warning,performance,portability \
    --inline-suppr --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches \
    -D_GNU_SOURCE -I. -I"$build/generated" "${sources[@]}" || status=1

echo "words of the documents"
mapfile -t pages < <(git ls-files '*.md' 'docs/man/*.in' | grep -vE '^tests/(cli|bench)/')
python3 tests/words.py "${pages[@]}" || status=1

echo "shell: ${#scripts[@]} scripts"
for script in "${scripts[@]}"; do
    bash -n "$script" || status=1
done

echo "circles: those of tests/circles.allowed are printed, all others are errors"
# Writes a line for each library and program directly in $build: its name, and its objects that are compiled from C or
# C++, as in the Makefile's rules.
${MAKE:-make} -pnq BUILD="$build" all 2>/dev/null | while read -r product objects; do
    case ${product#"$build"/} in "$product" | */*) continue ;; esac
    compiled=
    for object in $objects; do
        source=${object#"$build"/obj/}
        if [ -e "${source%.o}.c" ] || [ -e "${source%.o}.cc" ]; then compiled="$compiled $object"; fi
    done
    [ -z "$compiled" ] || echo "$(basename "${product%:}")$compiled"
done >"$build/objects.txt"
mapfile -t objects < <(tr ' ' '\n' <"$build/objects.txt" | grep '\.o$' | sort -u)
${MAKE:-make} --no-print-directory --silent BUILD="$build" "${objects[@]}" || status=1
mapfile -t product < <(git ls-files shim codecs kernels policy tools examples | grep -E '\.(c|h|cc|cu|cuh)$')
tests/circles.py "$build/objects.txt" tests/circles.allowed "${product[@]}" || status=1
exit $status
