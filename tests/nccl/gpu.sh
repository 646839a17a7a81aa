#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests that need an NVIDIA GPU. One GPU is enough; takes 3 minutes on an H200.
#   tests/nccl/gpu.sh [RESULTS.json [SECTION...]]      (tests/bench/results/gpu.json, all sections)
# Builds what is missing. The sections, in this order:
#   kernels     the kernels against the codecs of the CPU, and their bandwidth relative to a copy
#   sums        ranks on one GPU, connected by sockets, with every codec that has kernels but fp32, against float64
#   programs    groups, streams, graphs, child communicators: exact with `raw`, as natively; an abort ends a stuck call
#   errors      the report's sampled error against that of all elements
#   sockets     the time of 64 MiB by sockets, with compshim and without
#   trainer     the MNIST trainer on the GPU against the one on the CPU
#   pytorch     DistributedDataParallel, if PyTorch and MNIST are there
#   sanitizer   compute-sanitizer, if it is installed
# The results name the sections that ran and the number of checks that were skipped. Exit status: 0 all passed, 1 a
# check or the build failed, 2 no such section, 3 no GPU. The device needs 12 GiB of memory.
#   GPU_LIMIT=90      time limit in seconds of a job of several ranks
#   GPU_CASES=quick   cases of the kernels: quick, few, or empty for all (one of 61 values of float32)
. "$(dirname "$0")/../lib.sh"
cd "$top" || exit 3
results=${1:-$top/tests/bench/results/gpu.json}
all=(kernels sums programs errors sockets trainer pytorch sanitizer)
sections=("${@:2}")
[ ${#sections[@]} -gt 0 ] || sections=("${all[@]}")
for section in "${sections[@]}"; do
    case " ${all[*]} " in
    *" $section "*) ;;
    *) echo "gpu.sh: no section $section; there are: ${all[*]}" >&2 && exit 2 ;;
    esac
done
cuda=${CUDA_HOME:-/usr/local/cuda}
data=${MNIST_DIR:-../shared/mnist}

needed=("$build/libcompshim.so" "$build/libcompshim-nccl.so")
for program in kernels_gpu kernels_bandwidth nccl_{allreduce,sampled,call_time,groups,graphs,nonblocking,lifetime,moves,feedback}; do
    needed+=("$build/tests/$program")
done
if ! ls "${needed[@]}" >/dev/null 2>&1; then
    make -s -j "$(nproc)" BUILD="$build" "${needed[@]}" >"$scratch/make" 2>&1 ||
        { tail -20 "$scratch/make" && echo "gpu.sh: cannot build; a BUILD made elsewhere will do" && exit 1; }
fi

# Finds the real libraries, because the programs are linked to stand-ins of the same names. PyTorch's NCCL comes
# first, because PyTorch may need a newer version.
python_libraries=$(python3 -c 'import nvidia, os; print(os.path.abspath(list(nvidia.__path__)[0]))' 2>/dev/null)
for library in libnccl.so.2 libcuda.so.1 libcudart.so.13 libcublas.so.13; do
    for folder in "${python_libraries:-$cuda}"/*/lib "$cuda/lib64" "$cuda/lib" /usr/lib/*-linux-gnu /usr/local/nvidia/lib64; do
        [ -e "$folder/$library" ] || continue
        case :${LD_LIBRARY_PATH-}: in
        *:"$folder":*) ;;
        *) export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder ;;
        esac
        break
    done
done
timeout 120 "$build/tests/kernels_bandwidth" 1 >"$scratch/first" 2>&1
[ $? = 3 ] && cat "$scratch/first" && exit 3

# Several ranks on one GPU: NCCL considers each a host of its own (launch.sh sets NCCL_HOSTID). With CUDA's
# multi-process service they use the GPU concurrently, as ranks on several GPUs do; otherwise they take turns.
export NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_RAS_ENABLE=0 NODES=0,1,2,3
export COMPSHIM_POLICY=$scratch/policy.ini
sharing="take turns" daemon='' can_share=${CUDA_MPS_PIPE_DIRECTORY:+0}
command -v nvidia-cuda-mps-control >/dev/null || can_share=0
share() {
    [ "${can_share:-1}" = 1 ] || return 0
    mkdir -p "$scratch/mps"
    export CUDA_MPS_PIPE_DIRECTORY=$scratch/mps CUDA_MPS_LOG_DIRECTORY=$scratch/mps
    nvidia-cuda-mps-control -d >/dev/null 2>&1 && daemon=$scratch/mps
    if [ -n "$daemon" ] && timeout 30 "$build/tests/kernels_bandwidth" 1 >/dev/null 2>&1; then
        sharing="at once"
    else
        can_share=0
        stop_sharing
    fi
}
stop_sharing() { # stops only the daemon that share has started
    [ -n "$daemon" ] || return 0
    timeout 20 nvidia-cuda-mps-control <<<quit >/dev/null 2>&1
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
    daemon=''
}
trap 'stop_sharing; rm -rf "$scratch"' EXIT

rule() { printf '[rule all]\ncodec = %s\nalgorithm = %s\n' "$1" "$2" >"$COMPSHIM_POLICY"; }
ranks() { timeout --kill-after=5 "${GPU_LIMIT:-90}" bash tests/nccl/launch.sh "$@"; }
preloaded() { # N [VARIABLE=VALUE...] PROGRAM...: runs N ranks with compshim
    rm -f "$scratch"/report*.json
    ranks "$1" env LD_PRELOAD="$preload" COMPSHIM_REPORT="$scratch/report.json" "${@:2}"
}
compressed() { # [CALLS]: checks that the reports together have CALLS compressed calls; without CALLS: at least one
    check "... was compressed${1:+: $1 calls}" python3 - "$scratch" "${1-}" <<'P'
import glob, json, sys
reports = [json.load(open(name)) for name in glob.glob(sys.argv[1] + "/report*.json")]
calls = sum(row["calls"] for report in reports for row in report["rows"])
print(f"{calls} calls", [(report["rows"], report["passed_through"]) for report in reports])
sys.exit(calls != int(sys.argv[2]) if sys.argv[2] else calls == 0)
P
}

kernels() {
    check "kernels against the codecs of the CPU" timeout 200 "$build/tests/kernels_gpu" "${GPU_CASES-quick}"
    timeout 120 "$build/tests/kernels_bandwidth" 1024 >"$scratch/bandwidth.json" ||
        fail "bandwidth of the kernels" "$(tail -3 "$scratch/bandwidth.json")"
}

sums() {
    rule none auto
    expect "NCCL's own sum, 2 ranks" 0 ranks 2 "$build/tests/nccl_allreduce" none 1
    local codec algorithm steps count setting collective
    for count in 2 4; do
        for setting in "raw two_shot 2" "fp16 two_shot 2" "fp8_e4m3 two_shot 2" "int8 two_shot 2" \
            "raw one_shot 1" "fp8_e4m3 one_shot 1" "fp16 cast 0"; do
            read -r codec algorithm steps <<<"$setting"
            rule "$codec" "$algorithm"
            expect "$codec by $algorithm, $count ranks" 0 preloaded "$count" "$build/tests/nccl_allreduce" \
                "$codec" "$steps"
            compressed
        done
    done
    for codec in $(codecs gpu); do
        rule "$codec" two_shot
        expect "$codec by two_shot, 3 ranks" 0 preloaded 3 "$build/tests/nccl_allreduce" "$codec" 2
    done
    for collective in allgather alltoall broadcast; do
        printf '[rule all]\ncollective = %s\ncodec = fp8_e4m3\n' $collective >"$COMPSHIM_POLICY"
        expect "$collective as fp8_e4m3" 0 preloaded 3 "$build/tests/nccl_moves" $collective fp8_e4m3
        compressed 8
    done
    printf '[rule all]\ndtype = float32\ncodec = int4\nerror_feedback = on\n' >"$COMPSHIM_POLICY"
    expect "int4 with error feedback" 0 preloaded 3 "$build/tests/nccl_feedback" 16 0.015
}

exact() { # PROGRAM N CASE COMPRESSED: checks a case natively and with compshim
    local program=$build/tests/nccl_$1
    expect "$1 $3 natively" 0 ranks "$2" "$program" "$3"
    expect "$1 $3" 0 preloaded "$2" "$program" "$3"
    compressed "$4"
}
programs() {
    printf '[rule all]\ndtype = float32\nmin_size = 1000\ncodec = raw\nalgorithm = two_shot\n' >"$COMPSHIM_POLICY"
    exact groups 3 several 40
    exact groups 3 mixed 2
    exact groups 3 behind 2
    exact groups 3 communicators 2
    exact groups 3 streams 27
    exact groups 3 streams_group 4
    exact groups 2 segments 3
    printf '[rule all]\ndtype = float32\ncodec = raw\nalgorithm = two_shot\n' >"$COMPSHIM_POLICY"
    exact graphs 3 graph 6
    exact graphs 3 graph_beside 4
    exact graphs 3 graph_streams 6
    exact graphs 3 graph_open 4
    exact graphs 3 graph_spare 3
    GRAPH_OWN_BYTES=$((16 << 20)) exact graphs 3 graph_hundred 201
    exact nonblocking 3 nonblocking 2
    exact nonblocking 3 nonblocking_ends ""
    exact nonblocking 3 nonblocking_group 6
    exact lifetime 4 split 7
    exact lifetime 4 shrink 2
    exact lifetime 3 again 6
    exact lifetime 3 kept 1
    exact lifetime 3 scaled 2
    for ending in abort_first abort_later; do
        expect "lifetime $ending" 0 preloaded 3 "$build/tests/nccl_lifetime" $ending
    done
}

# The report's sampled error equals that of all elements, within a tenth.
errors() {
    for op in sum avg scaled device; do
        rule int8 two_shot
        expect "sampled error, $op" 0 preloaded 2 "$build/tests/nccl_sampled" sum float32 $op 16
        check "... is that of all elements" python3 - "$scratch/report.json" "$(sed -n 's/^error //p' <<<"$output")" <<'P'
import json, sys
error = json.load(open(sys.argv[1]))["rows"][0]["rel_error"]
sys.exit(0 if abs(error / float(sys.argv[2]) - 1) < 0.1 else f"{error}, not {sys.argv[2]}")
P
    done
}

# Times all modes alternately, and a single connection on the loopback device, by which the ranks exchange messages.
sockets() {
    local mode turn
    for ((turn = 0; turn < 3; turn++)); do
        for mode in off fp16 fp8_e4m3 int8; do
            rule "${mode/off/none}" two_shot
            if [ $mode = off ]; then
                ranks 2 "$build/tests/nccl_call_time" 64 9
            else
                preloaded 2 "$build/tests/nccl_call_time" 64 9
            fi >"$scratch/time" 2>&1 || fail "64 MiB, $mode" "$(tail -5 "$scratch/time")"
            echo "$mode $(grep -x '[0-9.]*' "$scratch/time")" >>"$scratch/sockets"
        done
    done
    python3 - >"$scratch/loopback" <<'P' || fail "one connection of the loopback device"
import socket, threading, time
size, listener = 1 << 30, socket.create_server(("127.0.0.1", 0))
block = memoryview(bytearray(1 << 20))
def send():
    with socket.create_connection(listener.getsockname()) as connection:
        for _ in range(size >> 20):
            connection.sendall(block)
threading.Thread(target=send).start()
connection, into = listener.accept()[0], bytearray(1 << 20)
began, got = time.monotonic(), 0
while got < size:
    got += connection.recv_into(into)
print(size / (time.monotonic() - began))
P
}

# Checks that the trainer has the same first loss on the GPU as on the CPU, and that it trains with compshim.
trainer() {
    local trainers=("$build/mnist_train" "$build/mnist_train_nccl")
    command -v mpirun >/dev/null || { skip "mnist_train_nccl: no mpirun" && return; }
    { ls "${trainers[@]}" || make -s BUILD="$build" "${trainers[@]}"; } >"$scratch/make" 2>&1 ||
        { fail "mnist_train_nccl can be built" "$(tail -3 "$scratch/make")" && return; }
    train() { timeout --kill-after=5 120 "$@" --data generated --limit 640 --epochs 1; }
    expect "mnist_train" 0 train "${trainers[0]}" --log "$scratch/processor.csv"
    expect "mnist_train_nccl" 0 train "${trainers[1]}" --log "$scratch/gpu.csv"
    check "... has the same first loss, within 1e-3" awk -F, \
        'FNR == 2 { loss[++files] = $4 } END { d = loss[1] - loss[2]; exit !(files == 2 && d < 1e-3 && d > -1e-3) }' \
        "$scratch/processor.csv" "$scratch/gpu.csv"
    printf '[rule all]\nlibrary = nccl\ncodec = fp8_e4m3\n' >"$COMPSHIM_POLICY"
    local preloads=(LD_PRELOAD="$preload" COMPSHIM_REPORT="$scratch/report.json")
    rm -f "$scratch"/report*.json
    expect "mnist_train_nccl, 2 ranks, fp8_e4m3" 0 train mpirun -n 1 env NCCL_HOSTID=node0 "${preloads[@]}" \
        "${trainers[1]}" --data generated --limit 640 --epochs 1 : -n 1 env NCCL_HOSTID=node1 "${preloads[@]}" \
        "${trainers[1]}"
    compressed
}

pytorch() {
    if ! python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null || [ ! -d "$data" ]; then
        skip "PyTorch DDP: no torch with CUDA, or no MNIST in $data"
        return
    fi
    rule fp8_e4m3 auto
    expect "PyTorch DDP" 0 preloaded 2 python3 examples/python/mnist_ddp.py --backend nccl --data "$data" --limit 6000
    compressed
    tail -3 <<<"$output"
}

sanitizer() {
    command -v compute-sanitizer >/dev/null || { skip "compute-sanitizer is not installed" && return; }
    for tool in memcheck racecheck; do
        check "compute-sanitizer $tool" timeout 100 compute-sanitizer --error-exitcode 1 --tool "$tool" \
            "$build/tests/kernels_bandwidth" 1
    done
}

for section in "${sections[@]}"; do
    began=$SECONDS
    case $section in
    kernels | sanitizer) stop_sharing ;; # one process on the device
    *) [ -n "$daemon" ] || share ;;
    esac
    "$section"
    echo "$section: $((SECONDS - began)) s"
done

device=unknown
! command -v nvidia-smi >/dev/null || device=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | head -1)
python3 - "$results" "$scratch" "$(sh kernels/hash.sh)" "$passed" "$failed" "$skipped" "$sharing" "$device" "${sections[*]}" <<'P' ||
import collections, json, os, statistics, sys
path, scratch, digest, passed, failed, skipped, sharing, device, sections = sys.argv[1:]
def lines(name):
    file = os.path.join(scratch, name)
    return open(file).read() if os.path.exists(file) else ""
rows = json.loads(lines("bandwidth.json") or "[]")
largest = [row for row in rows if row["bytes"] == max(row["bytes"] for row in rows)]
for codec in dict.fromkeys(row["codec"] for row in largest):
    print(f"{codec:9} {largest[0]['bytes'] >> 20} MiB, of a copy:", ", ".join(
        f'{row["kernel"]}{" of %d" % row["parts"] if row["parts"] > 1 else ""} {100 * row["of_copy"]:.0f} %'
        for row in largest if row["codec"] == codec))
if rows:
    print(f"a copy: {largest[0]['copy_bytes_per_second'] / 1e9:.0f} GB/s")
times = collections.defaultdict(list)
for line in lines("sockets").splitlines():
    mode, *seconds = line.split()
    times[mode] += map(float, seconds)
medians = {mode: statistics.median(seconds) for mode, seconds in times.items() if seconds}
loopback = float(lines("loopback") or 0)
for mode, seconds in medians.items():
    print(f"64 MiB float32, 2 ranks by sockets, {mode}: {seconds * 1e3:.1f} ms, {medians.get('off', 0) / seconds:.2f} x")
if loopback:
    print(f"one connection of the loopback device: {loopback / 1e9:.2f} GB/s, 64 MiB in {(64 << 20) / loopback * 1e3:.1f} ms")
head = {"kernels": digest, "device": device, "sections": sections.split(), "passed": int(passed), "failed": int(failed), "skipped": int(skipped),
        "ranks_on_the_gpu": sharing, "loopback_bytes_per_second": loopback, "sockets_64MiB_seconds": medians}
with open(path, "w") as file:
    file.write(json.dumps(head)[:-1] + ', "bandwidth": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n")
P
    fail "the results are written to $results"
echo "gpu.sh: $SECONDS s"
finish
