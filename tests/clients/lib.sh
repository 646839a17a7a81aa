# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
# Shared by the tests of real programs. Sources tests/lib.sh.
#
#   needs PACKAGE...           installs missing packages; if that is impossible, ends the script as not_here
#   not_here WHY               ends the script: the program is not available
#   ran NAME FILE CMD...       passes if CMD exits with 0; saves its output in FILE, followed by its standard error
#                              without the shim's lines, and all of its standard error in FILE.errors
#   same NAME FILE FILE        passes if the files are equal and not empty; sets $answers
#   is NAME VALUE WANTED       passes if the two are equal
#   number_holds NAME EXPRESSION  passes if awk evaluates the expression to true
#   checked NAME STATUS TEXT FILE  passes if compshim check ends with STATUS and prints TEXT for FILE
#   digits                     sets $folder to the folder of the MNIST files; without them ends the script
#   pytorch                    sets $python, ${torchrun[@]} and $mpi_library for the PyTorch in TORCH, or Debian's
#   as_accurate NAME WITHOUT WITH  passes if the mean accuracy in WITHOUT.SEED over $seeds is above 96 %, and that in
#                              WITH.SEED differs by at most 0.3 points; sets $answers
#   facts REPORT               reads a JSON report: sets $calls, $caught, $compressed, $ratio and the cells
#                              $compressed_cell and $saved_cell
#   row PROGRAM ACCESS         writes a row for docs/programs.md from $mpi_library, the report and $answers
#
# Sourcing it enters $scratch.
# MPI=mpich selects MPICH's commands to build and start the program, MPI_HOME the launcher of the MPI in this folder.
# TORCH is a folder with a PyTorch from tools/get-torch.sh. CLIENT_ROWS is the file for the rows; without it they are
# only printed.
. "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"
export OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1
clients=$top/tests/clients
python=/usr/bin/python3 # Debian's, which finds Debian's modules
mpi_library=$("${launch[0]}" --version |
    sed -nE '1s/.*\(Open MPI\) /Open MPI /p; s/^ *Version: */MPICH /p; s/^Intel.* Version ([0-9.]*).*/Intel MPI \1/p')
calls=0 compressed=0 ratio=1 caught=no compressed_cell="not caught" saved_cell=- answers=-

not_here() {
    echo "$(basename "$0"): not here: $1"
    [ -z "${CLIENT_ROWS-}" ] || echo "* $(basename "$0" .sh), $mpi_library: $1" >>"$CLIENT_ROWS.missing"
    exit 77
}
needs() {
    [ "$MPI${MPI_HOME-}" != mpich ] || set -- mpich libmpich-dev "$@"
    "$top/tools/install-packages.sh" packages "$@" || not_here "no package $*"
    [ "$MPI" = openmpi ] || [ -e "$build/libcompshim-mpich.so" ] || not_here "make has not built libcompshim-mpich.so"
}
ran() {
    local name=$1 file=$2
    shift 2
    if "$@" >"$file" 2>"$file.errors"; then pass "$name"; else fail "$name" "$(cat "$file" "$file.errors")"; fi
    sed '/^compshim/d' "$file.errors" >>"$file"
}
same() {
    local text
    if text=$(diff -u "$2" "$3" 2>&1) && [ -s "$2" ]; then
        answers=equal
        pass "$1"
    else
        answers=differ
        fail "$1" "${text:-both are empty}"
    fi
}
facts() {
    calls=0 compressed=0 ratio=1 caught=no compressed_cell="not caught" saved_cell=-
    [ -e "$1" ] || return 0
    IFS=$'\t' read -r calls compressed ratio compressed_cell saved_cell < <("$python" "$clients/facts.py" "$1")
    [ "$calls" = 0 ] || caught=yes
}
row() {
    local line="| $1 | $2 | $mpi_library | $compressed_cell | $saved_cell | $answers |"
    echo "$line"
    [ -z "${CLIENT_ROWS-}" ] || echo "$line" >>"$CLIENT_ROWS"
}
is() {
    if [ "$2" = "$3" ]; then pass "$1"; else fail "$1" "'$2', not '$3'"; fi
}
number_holds() {
    if awk "BEGIN { exit !($2) }"; then pass "$1: $2"; else fail "$1: $2"; fi
}
digits() {
    cd "$top" || exit 3
    . examples/find_mnist.sh
    [ "$digits" = MNIST ] || not_here "no MNIST files: examples/get_mnist.sh fetches them"
    folder=${data[1]}
    cd "$scratch" || exit 3
}
pytorch() {
    local version
    if [ -n "${TORCH-}" ]; then
        python=$TORCH/bin/python3
    else
        needs python3-torch python3-numpy
    fi
    version=$("$python" -c 'import torch; print(torch.__version__.split("+")[0])') || not_here "no PyTorch in $python"
    mpi_library="PyTorch $version"
    # Debian's torchrun rejects its own value for no redirection (Python 3.11), so a nonexistent worker is redirected.
    torchrun=(timeout --kill-after=5 "$LIMIT" "$(dirname "$python")/torchrun" --rdzv_backend c10d
        --rdzv_endpoint localhost:0 --redirects 9:1 --tee 9:1)
}
mean_accuracy() {
    local seed
    for seed in $seeds; do sed -n 's/.*test accuracy \(.*\) %/\1/p' "$1.$seed"; done |
        awk '{ sum += $1 } END { printf("%.2f", NR > 0 ? sum / NR : 0) }'
}
as_accurate() {
    local native lossy
    native=$(mean_accuracy "$2") lossy=$(mean_accuracy "$3")
    number_holds "$1: it has learnt" "$native > 96"
    number_holds "$1: accuracy within 0.3 points" "($lossy - $native) ^ 2 <= 0.3 ^ 2"
    answers="accuracy $lossy, $native %"
}
checked() {
    expect "$1: compshim check" "$2" "$build/compshim" check "$4"
    contains "$1: it says $3" "$3"
}
cd "$scratch" || exit 3
