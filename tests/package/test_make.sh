#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks make when packages are missing: it says so once and compiles nothing, and `make packages all` installs them
# before it checks for compilers. Compilers and the installer are stand-ins: a compiler writes an empty file.
. "$(dirname "$0")/../lib.sh"
tree=$scratch/tree bin=$scratch/bin
mkdir -p "$tree/tools" "$bin" "$scratch/cuda/bin" "$scratch/cuda/include"
# The sources are the tree's own, except the installer.
ln -s "$top"/{Makefile,codecs,docs,examples,kernels,packaging,policy,shim,tests} "$tree"
ln -s "$top"/tools/* "$tree/tools"
rm "$tree/tools/install-packages.sh"
for header in nccl cublas_v2; do touch "$scratch/cuda/include/$header.h"; done

cat >"$scratch/compiler" <<'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" != -o ] || : >"$2"
    [ "$1" != -dM ] || echo "#define OPEN_MPI 1"
    shift
done
END
chmod +x "$scratch/compiler"
# nvcc exists before the packages do, like the real one, but needs a host compiler.
cat >"$scratch/cuda/bin/nvcc" <<END
#!/bin/sh
[ -x $bin/standin-mpicc ] || { echo "nvcc: no host compiler" >&2; exit 1; }
exec $scratch/compiler "\$@"
END
chmod +x "$scratch/cuda/bin/nvcc"
# A slow installer: a step that does not wait for it finds no compiler.
cat >"$tree/tools/install-packages.sh" <<END
#!/bin/sh
echo "install \$*"
sleep 1
for name in mpicc mpich gcc g++; do cp $scratch/compiler $bin/standin-\$name; done
END
chmod +x "$tree/tools/install-packages.sh"
with_standins() {
    PATH=$bin:$PATH limited make -C "$tree" -j4 BUILD="$scratch/$1" CC=standin-gcc CXX=standin-g++ MPICC=standin-mpicc \
        MPICH_CC=standin-mpich CUDA_HOME="$scratch/cuda" "${@:2}"
}

# With -k, make builds everything that does not wait for the check, so that the test finds it.
expect "without packages" 2 with_standins without -k all test-programs
if [ "$(grep -vc '^make' <<<"$output")" = 1 ]; then pass "there is one message"; else fail "there is one message" "$output"; fi
contains "which says what is missing" "packages to build with are missing (standin-mpicc: not found)"
contains "and what to do" "make packages installs them"
output=$(cd "$scratch/without" && find . -type f)
if [ "$output" = ./generated/headers.c ]; then pass "nothing is made"; else fail "nothing is made" "$output"; fi

expect "make packages all" 0 with_standins all packages all
contains "installs" "install build"
check "and builds for what was installed" test "$(grep -c "left out" <<<"$output")" = 0
for product in libcompshim-ompi.so libcompshim-gloo.so libcompshim-mpich.so libcompshim-nccl.so mnist_train_nccl; do
    check "$product" test -e "$scratch/all/$product"
done
printf '#!/bin/sh\necho "no network" >&2\nexit 1\n' >"$tree/tools/install-packages.sh"
expect "packages that cannot be installed" 2 with_standins refused packages all
contains "are the end" "no network"
check "of it all" test ! -e "$scratch/refused"
finish
