# SPDX-License-Identifier: Apache-2.0
# Describes the machine of a comparison: prints a line for each property, with its name, a tab and its value.
# Built into the tool, which sets simd, the instructions that codecs use. Reads the GPUs from their driver's files,
# because nvidia-smi may be missing.
exec 2>/dev/null
print_property() { printf '%s\t%s\n' "$1" "${2:-unknown}"; }
model=$(sed -n '/^model name/{s/.*: *//p;q}' /proc/cpuinfo)
cards=$(sed -n 's/^Model:[ \t]*//p' /proc/driver/nvidia/gpus/*/information | sort | uniq -c |
    sed 's/^ *\([0-9]*\) /\1 x /' | paste -sd ';' -)
system=$(sed -n '/^PRETTY_NAME=/{s/[^=]*=//;s/"//g;p;q}' /etc/os-release)
print_property servers "$(uname -n)"
print_property processors "${model:-unknown model}, $(getconf _NPROCESSORS_ONLN) online, $simd"
print_property cards "${cards:-none found}"
print_property 'operating system' "${system:-unknown}, $(uname -srm)"
print_property framework "$(mpirun --version | head -n 1)"
print_property date "$(date -u '+%Y-%m-%d %H:%M UTC')"
