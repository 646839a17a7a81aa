#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs mnist_train as a user does: it learns, gives the same losses and accuracies again, and rejects wrong use.
# shellcheck disable=SC1091,SC2154 # lib.sh sets build, scratch and output
. "$(dirname "$0")/../lib.sh"
trainer=$build/mnist_train
unset MNIST_DIR
cd "$scratch" || exit 1

# ranks N OPTIONS...: trains on N ranks, for N = 1 without a launcher; a hang gives status 124
ranks() {
    local count=$1
    shift
    if [ "$count" = 1 ]; then
        limited "$trainer" "$@"
    else
        limited mpirun -n "$count" "$trainer" "$@"
    fi
}

# accuracy_at_least PERCENT: succeeds if the final test accuracy in $output is at least PERCENT
accuracy_at_least() {
    sed -n 's/^final: test accuracy \([0-9.]*\) %.*/\1/p' <<<"$output" |
        awk -v least="$1" '{ found = $1 >= least } END { exit !found }'
}

# steps FILE: prints the log without times
steps() {
    cut -d, -f1,2,4,5 "$1"
}

for count in 1 2 4; do
    quick=(--model mlp --data generated --limit 2000 --epochs 2 --log)
    expect "mlp trains on $count ranks" 0 ranks "$count" "${quick[@]}" "first$count.csv"
    contains "it says that the digits are generated ($count ranks)" 'training on generated digits'
    check "it learns ($count ranks)" accuracy_at_least 95
    expect "mlp trains again on $count ranks" 0 ranks "$count" "${quick[@]}" "second$count.csv"
    check "two runs are equal digit for digit ($count ranks)" \
        cmp <(steps "first$count.csv") <(steps "second$count.csv")
    check "the log has a header and a line per step ($count ranks)" \
        test "$(head -1 "first$count.csv") $(wc -l <"first$count.csv")" = \
        "step,epoch,seconds,loss,accuracy 65"
done
expect 'another seed trains' 0 ranks 1 "${quick[@]}" seed.csv --seed 2
check 'and draws other numbers' test "$(steps seed.csv)" != "$(steps first1.csv)"

# The batches do not depend on the number of ranks, so the losses of the first step, before any update, must agree.
second_line() {
    sed -n '2s/^[^,]*,[^,]*,[^,]*,\([0-9.]\{6\}\).*/\1/p' "$1"
}
check 'the first loss is the same on 1 and 4 ranks' \
    test "$(second_line first1.csv)" = "$(second_line first4.csv)"

expect 'conv trains on 3 uneven ranks' 0 ranks 3 --data generated --limit 650 --epochs 1 --batch 32
check 'conv learns' accuracy_at_least 60
expect 'a last batch smaller than the ranks is shared' 0 ranks 4 --model mlp --data generated \
    --limit 66 --batch 64 --epochs 1 --quiet
check '--quiet leaves the data and the last line' test "$(wc -l <<<"$output")" = 2
expect 'without data it looks in data/mnist' 0 ranks 1 --model mlp --limit 64 --epochs 1
contains 'and says so' 'no MNIST found in data/mnist: training on generated digits'
MNIST_DIR=$scratch/nowhere expect 'MNIST_DIR without files' 0 ranks 1 --model mlp --limit 64 --epochs 1
contains 'is named' "no MNIST found in $scratch/nowhere or data/mnist"

# Damaged files: a few bytes are enough to be rejected.
printf '\0\0\10\3\0\0\0\2\0\0\0\34\0\0\0\34' >header
mkdir damaged
(cat header && head -c 1000 /dev/zero) >damaged/train-images-idx3-ubyte
printf '\0\0\10\1\0\0\0\2\1\2' >damaged/train-labels-idx1-ubyte
for count in 1 3; do
    expect "a truncated file ends $count ranks" 1 ranks "$count" --data damaged
    contains "and the message names the byte ($count ranks)" \
        'damaged/train-images-idx3-ubyte: truncated at byte 1016 of 1584'
    check "once ($count ranks)" test "$(grep -c 'mnist_train: ' <<<"$output")" = 1
done
(cat header && head -c 1568 /dev/zero) | gzip >damaged/train-images-idx3-ubyte.gz
expect 'a missing file' 1 ranks 2 --data damaged
contains 'is named' 'damaged/t10k-images-idx3-ubyte: no such file'
for part in images-idx3 labels-idx1; do
    for suffix in '' .gz; do
        [ ! -f "damaged/train-$part-ubyte$suffix" ] ||
            cp "damaged/train-$part-ubyte$suffix" "damaged/t10k-$part-ubyte$suffix"
    done
done
expect 'a gzipped file comes before a plain one, and all are read' 0 ranks 2 --data damaged \
    --model mlp --epochs 1
contains 'from that folder' 'data: 2 training and 2 test images from damaged'
expect 'an empty folder' 1 ranks 2 --data "$scratch"
contains 'says how to get the data' 'get_mnist.sh'
expect 'a log that cannot be written' 1 ranks 2 --model mlp --data generated --limit 64 --log no/log
contains 'is named' 'no/log: cannot be written: No such file or directory'
if [ -e /dev/full ]; then
    expect 'a full disk' 1 ranks 1 --model mlp --data generated --limit 64 --log /dev/full
    contains 'is an error' '/dev/full: not all of the log could be written'
fi

# usage RANKS TEXT OPTIONS...: checks for status 2 and one message that contains TEXT
usage() {
    local count=$1 text=$2
    shift 2
    expect "usage: $*" 2 ranks "$count" "$@"
    contains "says: $text" "mnist_train: $text"
    check "once" test "$(grep -c 'mnist_train: ' <<<"$output")" = 1
}
usage 2 'unknown option --bacth' --bacth 3
usage 1 'unknown option -x' -x
usage 1 'a value is missing after --epochs' --epochs
usage 1 "--epochs takes a number from 1 to 100000, not '0'" --epochs 0
usage 1 "--batch takes a number from 1 to 4096, not '12x'" --batch 12x
usage 1 "--limit takes a number, 1 or more, not '-1'" --limit -1
usage 1 "--lr takes a number, 0 or more, not 'nan'" --lr nan
usage 1 "--model takes conv or mlp, not 'cnn'" --model cnn
usage 1 "--seed takes a number, 0 or more, not '99999999999999999999'" --seed=99999999999999999999
usage 1 "unexpected argument 'data'" data
usage 2 'a batch of 1 images cannot be shared by 2 ranks' --batch 1
expect 'help' 0 ranks 2 --help
check 'is printed once' test "$(grep -c '^usage: ' <<<"$output")" = 1

strings -d "$trainer" >words
check 'strings found the options' grep -q -- '--momentum' words
check 'the trainer has no word of compshim' test "$(grep -ci compshim words)" = 0

mnist=${MNIST:-$top/../shared/mnist}
if [ -e "$mnist/train-images-idx3-ubyte.gz" ]; then
    expect 'mlp trains on real MNIST' 0 ranks 2 --model mlp --data "$mnist" --limit 10000 --epochs 1
    check 'and learns' accuracy_at_least 88
    expect 'the files are verified and left alone' 0 "$top/examples/get_mnist.sh" "$mnist"
else
    skip "no MNIST in $mnist"
fi
expect 'get_mnist.sh refuses an unknown option' 2 "$top/examples/get_mnist.sh" --force
finish
