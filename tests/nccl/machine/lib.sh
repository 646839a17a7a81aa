# shellcheck shell=bash
# Functions for the tests of the compiled kernels. Sources tests/lib.sh. Skips the tests if the compiled kernels or
# CUDA's disassemblers are missing, and with sanitizers.
#
#   build_machines FATBIN FOLDER    builds the machines of build.sh; writes their paths to FOLDER.programs
. "$(dirname "${BASH_SOURCE[0]}")/../../lib.sh"
cd "$top" || exit 3
export CUDA_HOME=${CUDA_HOME:-/usr/local/cuda}
export PATH=$PATH:$CUDA_HOME/bin
fatbin=$build/kernels/kernels.fatbin
if [ ! -e "$fatbin" ] || ! command -v cuobjdump >/dev/null || ! command -v nvdisasm >/dev/null; then
    skip "without nvcc, cuobjdump and nvdisasm (tools/get-cuda.sh fetches them): the compiled kernels on the host"
    finish
elif [ -n "${SANITIZE:-}" ]; then
    skip "with sanitizers: the compiled kernels on the host"
    finish
fi
build_machines() {
    bash tests/nccl/machine/build.sh "$1" "$2" >"$2.programs"
}
