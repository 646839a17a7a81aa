#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Translates the kernels of one architecture to C++ for machine.cc.
    translate.py sm_90 CUBIN LISTING|ptx_90 PTX"""
import sys

import ptx
import sass
from program import Output, Unknown

output = Output(sys.argv[1])
try:
    if sys.argv[1].startswith("ptx"):
        ptx.translate(sys.argv[2], output)
    else:
        sass.translate(sys.argv[2], sys.argv[3], output)
except Unknown as error:
    sys.exit(f"translate.py: {sys.argv[1]}: {error}")
output.write(sys.stdout)
