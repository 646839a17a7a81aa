#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What only a machine with an NVIDIA GPU can show; one GPU is enough, takes less than 8 minutes.
#   tests/nccl/gpu.sh [RESULTS.json]      (tests/bench/results/gpu.json)
# Builds what is missing, then: the kernels against the codecs of the CPU, their bandwidth beside that
# of a copy, NCCL's ranks on the one GPU by sockets with every codec, the MNIST trainer, PyTorch where it
# is there, and compute-sanitizer where it is installed. Exit status: 0 all good, 1 something is wrong, 3 no GPU.
. "$(dirname "$0")/../lib.sh"
cd "$top" || exit 3
results=${1:-$top/tests/bench/results/gpu.json}
cuda=${CUDA_HOME:-/usr/local/cuda}
began=$SECONDS

programs=("$build/libcompshim.so" "$build/libcompshim-nccl.so")
for program in kernels_gpu kernels_bandwidth nccl_allreduce nccl_sampled nccl_call_time; do
    programs+=("$build/tests/$program")
done
make -s -j "$(nproc)" BUILD="$build" "${programs[@]}" >"$scratch/make" 2>&1 ||
    { tail -20 "$scratch/make" && echo "gpu.sh: cannot build; a BUILD made elsewhere will do" && exit 1; }

# The real libraries; the programs are linked to stand-ins by the same names.
nccl=$(dirname "$(ls "$cuda"/lib64/libnccl.so.2 "$cuda"/lib/libnccl.so.2 /usr/lib/*/libnccl.so.2 2>/dev/null | head -1)")
export LD_LIBRARY_PATH=$nccl${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
timeout 120 "$build/tests/kernels_bandwidth" 1 >"$scratch/first" 2>&1
[ $? = 3 ] && cat "$scratch/first" && exit 3

# Several ranks on one GPU: NCCL takes each for a host of its own (launch.sh sets NCCL_HOSTID).
export NCCL_NET=Socket NCCL_SOCKET_IFNAME=lo NCCL_IB_DISABLE=1 NCCL_ALGO=Ring NCCL_PROTO=Simple
export NCCL_MAX_CTAS=2 NCCL_RAS_ENABLE=0 NODES=0,1,2,3
export COMPSHIM_POLICY=$scratch/policy.ini
rule() { printf '[rule all]\ncodec = %s\nalgorithm = %s\n' "$1" "$2" >"$COMPSHIM_POLICY"; }
ranks() { timeout --kill-after=5 90 bash tests/nccl/launch.sh "$@"; }
preloaded() { # N PROGRAM...
    ranks "$1" env LD_PRELOAD="$preload" COMPSHIM_REPORT="$scratch/report.json" "${@:2}"
}

check "kernels against the codecs of the CPU" timeout 200 "$build/tests/kernels_gpu" quick
timeout 120 "$build/tests/kernels_bandwidth" 1024 >"$scratch/bandwidth.json" ||
    fail "bandwidth of the kernels" "$(tail -3 "$scratch/bandwidth.json")"

rule none auto
expect "NCCL's own sum, 2 ranks" 0 ranks 2 "$build/tests/nccl_allreduce" none 1
for ranks in 2 4; do
    for setting in "raw two_shot 2" "fp16 two_shot 2" "fp8_e4m3 two_shot 2" "int8 two_shot 2" \
        "raw one_shot 1" "fp8_e4m3 one_shot 1" "fp16 cast 0"; do
        read -r codec algorithm steps <<<"$setting"
        rule "$codec" "$algorithm"
        expect "$codec by $algorithm, $ranks ranks" 0 preloaded "$ranks" "$build/tests/nccl_allreduce" \
            "$codec" "$steps"
        check "... was compressed" python3 -c \
            'import json, sys; sys.exit(not json.load(open(sys.argv[1]))["rows"])' "$scratch/report.json"
    done
done

# The report's sampled error is that of all elements, within a tenth.
for op in sum avg scaled device; do
    rule int8 two_shot
    expect "sampled error, $op" 0 preloaded 2 "$build/tests/nccl_sampled" sum float32 $op 16
    check "... is that of all elements" python3 - "$scratch/report.json" "$(sed -n 's/^error //p' <<<"$output")" <<'P'
import json, sys
error = json.load(open(sys.argv[1]))["rows"][0]["rel_error"]
sys.exit(0 if abs(error / float(sys.argv[2]) - 1) < 0.1 else f"{error}, not {sys.argv[2]}")
P
done

seconds() { # off|CODEC
    rule "${1/off/none}" two_shot
    preloaded 2 "$build/tests/nccl_call_time" 64 5 | tail -1
}
off=$(seconds off) fp8=$(seconds fp8_e4m3)

# The trainer computes on the GPU what it computes on the processor, and learns under the shim.
trainers=("$build/mnist_train" "$build/mnist_train_nccl")
if command -v mpirun >/dev/null && make -s -j "$(nproc)" BUILD="$build" "${trainers[@]}" >"$scratch/make" 2>&1; then
    train() { timeout --kill-after=5 120 "$@" --data generated --limit 640 --epochs 1; }
    expect "mnist_train" 0 train "${trainers[0]}" --log "$scratch/processor.csv"
    expect "mnist_train_nccl" 0 train "${trainers[1]}" --log "$scratch/gpu.csv"
    check "... has the same first loss, within 1e-3" awk -F, \
        'FNR == 2 { loss[++files] = $4 } END { d = loss[1] - loss[2]; exit !(files == 2 && d < 1e-3 && d > -1e-3) }' \
        "$scratch/processor.csv" "$scratch/gpu.csv"
    printf '[rule all]\nlibrary = nccl\ncodec = fp8_e4m3\n' >"$COMPSHIM_POLICY"
    preloads=(LD_PRELOAD="$preload" COMPSHIM_REPORT="$scratch/report.json")
    expect "mnist_train_nccl, 2 ranks, fp8_e4m3" 0 train mpirun -n 1 env NCCL_HOSTID=node0 "${preloads[@]}" \
        "${trainers[1]}" --data generated --limit 640 --epochs 1 : -n 1 env NCCL_HOSTID=node1 "${preloads[@]}" \
        "${trainers[1]}"
    check "... was compressed" python3 -c \
        'import json, sys; sys.exit(not json.load(open(sys.argv[1]))["rows"])' "$scratch/report.nccl.json"
else
    echo "left out: mnist_train_nccl (no mpirun, or it cannot be built): $(tail -1 "$scratch/make")"
fi

data=${MNIST_DIR:-../shared/mnist}
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null && [ -d "$data" ]; then
    rule fp8_e4m3 auto
    expect "PyTorch DDP" 0 preloaded 2 python3 examples/python/mnist_ddp.py --backend nccl --data "$data" --limit 6000
else
    echo "left out: PyTorch DDP (no torch with CUDA, or no MNIST in $data)"
fi
if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
        check "compute-sanitizer $tool" timeout 200 compute-sanitizer --error-exitcode 1 --tool "$tool" \
            "$build/tests/kernels_bandwidth" 1
    done
else
    echo "left out: compute-sanitizer is not installed"
fi

python3 - "$results" "$scratch/bandwidth.json" "$(sh kernels/hash.sh)" "${off:-0}" "${fp8:-0}" "$passed" "$failed" \
    "$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -1)" <<'P'
import json, sys
path, bandwidth, digest, off, fp8, passed, failed, device = sys.argv[1:]
rows = json.load(open(bandwidth))
large = [row for row in rows if row["bytes"] >= 256 << 20]
for kernel in ("encode", "decode", "reduce"):
    for row in large:
        if row["kernel"] == kernel:
            print(f'{kernel} {row["codec"]} {row["bytes"] >> 20} MiB: {row["bytes_per_second"] / 1e9:.0f} GB/s, {100 * row["of_copy"]:.0f} % of a copy')
off, fp8 = float(off), float(fp8)
if off and fp8:
    print(f"64 MiB float32, 2 ranks by sockets: {off * 1e3:.1f} ms natively, {fp8 * 1e3:.1f} ms as fp8_e4m3 ({off / fp8:.2f}x)")
json.dump({"kernels": digest, "device": device, "passed": int(passed), "failed": int(failed), "bandwidth": rows,
           "sockets_64MiB_seconds": {"off": off, "fp8_e4m3": fp8}}, open(path, "w"), indent=1)
P
echo "gpu.sh: $((SECONDS - began)) s"
finish
