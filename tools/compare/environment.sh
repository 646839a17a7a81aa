# SPDX-License-Identifier: Apache-2.0
# What a comparison is measured on: prints a line for each fact, its name and its text with a tab between.
# It is built into the tool, which sets simd, the instructions that codecs use. Drivers' files tell of
# cards, because their tools may be missing.
exec 2>/dev/null
tell() { printf '%s\t%s\n' "$1" "${2:-unknown}"; }
model=$(sed -n '/^model name/{s/.*: *//p;q}' /proc/cpuinfo)
cards=$(sed -n 's/^Model:[ \t]*//p' /proc/driver/nvidia/gpus/*/information | sort | uniq -c |
    sed 's/^ *\([0-9]*\) /\1 x /' | paste -sd ';' -)
system=$(sed -n '/^PRETTY_NAME=/{s/[^=]*=//;s/"//g;p;q}' /etc/os-release)
tell servers "$(uname -n)"
tell processors "${model:-unknown model}, $(getconf _NPROCESSORS_ONLN) online, $simd"
tell cards "${cards:-none found}"
tell 'operating system' "${system:-unknown}, $(uname -srm)"
tell framework "$(mpirun --version | head -n 1)"
tell date "$(date -u '+%Y-%m-%d %H:%M UTC')"
