#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the warp instructions per grain (256 elements) of the kernels that encode, decode and reduce, by
codec (CODECS), and their time relative to a copy of the same bytes: by issue slots (one warp instruction per
scheduler and cycle), and in the busiest unit. The peak rates are those of the data sheets and of NVIDIA's
programming guide.
    roof.py DEVICE MACHINE-FOLDER     DEVICE: H100 sm_90, A100 sm_80, L4 sm_80 (it runs that code)"""
import collections
import os
import subprocess
import sys
import tempfile

# Multiprocessors, GHz, GB/s of a copy (about 0.9 of the data sheet); lanes per cycle and multiprocessor of each unit.
DEVICES = {"H100": ("sm_90", 132, 1.755, 3000, {"alu": 64, "fma": 128, "slow": 16, "memory": 32}),
           "A100": ("sm_80", 108, 1.41, 1800, {"alu": 64, "fma": 64, "slow": 16, "memory": 32}),
           "L4": ("sm_80", 58, 2.04, 270, {"alu": 64, "fma": 128, "slow": 16, "memory": 32})}
UNITS = {"fma": "FADD FMUL FFMA IMAD HADD2 HFMA2", "slow": "MUFU F2F I2F F2I DADD DMUL DSETP",
         "memory": "LDG STG LDL STL LD ST SHFL ATOMG RED REDG LDC",
         "alu": "LOP3 IADD3 SHF ISETP PRMT SEL VIMNMX VIMNMX3 VIADDMNMX IMNMX FMNMX LEA PLOP3 FSEL FSETP SGXT MOV P2R VIADD "
                "I2FP F2FP"}
UNIT_OF = {op: unit for unit, ops in UNITS.items() for op in ops.split()}
CODECS = "raw fp16 bf16 fp8_e4m3 fp8_e5m2 int8 int4 int6 int5 int3 mxfp8 mxfp4 nvfp4".split()

device = sys.argv[1]
program, processors, clock, speed, rates = DEVICES[device]
print(f"{device} ({program}): instructions per grain; share of a copy's time: issue slots, narrowest unit")
for operation in ("encode", "decode", "reduce"):
    for codec in CODECS:
        with tempfile.NamedTemporaryFile() as file:
            text = subprocess.run([f"{sys.argv[2]}/{program}_grains", operation, codec], check=True, stdout=subprocess.PIPE,
                                  env={**os.environ, "MACHINE_COUNTS": file.name, "MACHINE_BLOCKS": "1"}).stdout
            counts = collections.Counter()
            for line in open(file.name):
                _, _, count, _, _, *words = line.split()
                op = next(word for word in words if not word.startswith("@"))
                counts[UNIT_OF.get(op.split(".")[0], "control")] += int(count) / 64
        cycles = float(text) / (speed / clock / processors)  # cycles that a copy of the bytes takes on one multiprocessor
        total = sum(counts.values())
        unit = max(rates, key=lambda u: counts[u] / rates[u])
        print(f"{operation:7} {codec:9} {total:6.0f}   {100 * total / 4 / cycles:4.0f} %   "
              f"{100 * counts[unit] * 32 / rates[unit] / cycles:4.0f} % {unit}")
