# SPDX-License-Identifier: Apache-2.0
"""Shared by the translations of PTX and of machine code: a kernel as a list of instructions for
machine.cc, each with a form. A form is a C++ function for all instructions that do the same with
different registers. Its text comes from a template, in which $ marks the operands by their numbers:

    $1 $f1 $q1 $d1 $p1     a source: 32 bits, float, 64 bits, double, predicate
    $w1                    32 bits as a number of 64, where -x is 2^32 - x, for carries
    $D1 = X; $E1 = X;      a destination of 32 bits, of 64
    $P1 = X;               a predicate
    $r1                    the row of a register: its value in each lane

A template runs for each active lane l, or once if it begins with "whole:". """
import functools
import re

ZERO, SINK, REGISTERS = 0, 4, 8  # rows; 64 and 128 bits take two and four
TRUE, NOWHERE, PREDICATES = 0, 1, 2  # masks


class Unknown(Exception):
    """An instruction or operand that this translation does not support."""


class Operand:
    """A row, a mask, a convergence barrier or nothing (`kind`), and the modifiers that apply before it is used."""

    def __init__(self, kind, index, change=()):
        self.kind, self.index, self.change = kind, index, tuple(change)


def source(kind, number, operand):
    """Returns the C++ expression that reads a source operand."""
    row = f"r{number}"
    change = operand.change
    if kind == "p":
        return f"({'~' if '!' in change else ''}m{number} >> l & 1)"
    if kind in "qd":
        text = f"join({row}, l)"
        if kind == "q":
            return f"(0 - {text})" if "-" in change else f"(~{text})" if "~" in change else text
        if "|" in change:
            text = f"({text} & ~(1ull << 63))"
        if "-" in change:
            text = f"({text} ^ 1ull << 63)"
        return f"F64({text})"
    text = f"{row}[l]"
    if "H0_H0" in change:
        text = f"({text} & 0xffffu)"
    if "H1_H1" in change or "H1" in change:
        text = f"({text} >> 16)"
    if kind == "f":
        if "|" in change:
            text = f"({text} & 0x7fffffffu)"
        if "-" in change:
            text = f"({text} ^ 0x80000000u)"
        return f"F32({text})"
    if kind == "w" and "-" in change:
        return f"((uint64_t)(uint32_t)~{text} + 1)"
    text = f"(0u - {text})" if "-" in change else f"(~{text})" if "~" in change else text
    return f"(uint64_t){text}" if kind == "w" else text


def form(template, operands):
    """Returns the body of a form's C++ function."""
    whole = template.startswith("whole:")
    used, set_masks = {}, []

    def store(match):
        kind, number, value = match.group(1), int(match.group(2)), match.group(3)
        used[number] = "row" if kind in "DE" else "mask"
        if kind == "D":
            return f"r{number}[l] = (uint32_t)({value});"
        if kind == "E":
            return f"split(r{number}, l, {value});"
        set_masks.append(number)
        return f"n{number} |= (uint32_t)((bool)({value})) << l;"

    def load(match):
        kind, number = match.group(1), int(match.group(2))
        used[number] = "mask" if kind == "p" else "row"
        return f"r{number}" if kind == "r" else source(kind or "u", number, operands[number])

    text = re.sub(r"\$([DEP])(\d) = (.*?);", store, template.removeprefix("whole:"))
    text = re.sub(r"\$([fqdpwr]?)(\d)", load, text)
    lines = []
    for number, kind in sorted(used.items()):
        if operands[number].kind != kind:
            raise Unknown(f"operand {number} is no {kind}")
        if kind == "row":
            lines.append(f"uint32_t *const r{number} = rows[o[{number}]];")
        elif number in set_masks:
            lines.append(f"uint32_t n{number} = 0;")
        if kind == "mask" and f"m{number} " in text:
            lines.append(f"const uint32_t m{number} = masks[o[{number}]];")
        if kind == "row":
            lines.append(f"(void)r{number};")
    each = "EACH_LANE_DRAWN" if "atomic_" in text else "EACH_LANE"
    lines.append(text if whole else f"{each}({text})")
    for number in set_masks:
        lines.append(f"masks[o[{number}]] = (masks[o[{number}]] & ~active) | n{number};")
    return "\n    ".join(lines)


class Kernel:
    """A kernel's instructions, and the rows of its constants."""

    def __init__(self, name, registers, predicates):
        self.name, self.rows, self.masks = name, registers, predicates
        self.instructions, self.constants, self.known = [], [], {}
        self.parameters = (0, 0)  # offset in constant bank 0, and size
        self.frames = []  # ranges of the lanes' local memory: begin, end
        self.bank2 = b""

    def constant(self, bank, value, words=1):
        """Returns the row of an immediate value (bank -1), or of the word at offset `value` of a bank."""
        key = (bank, value, words)
        if key not in self.known:
            self.known[key] = self.rows
            for word in range(words):
                part = value >> 32 * word & 0xFFFFFFFF if bank < 0 else value + 4 * word
                self.constants.append((self.rows + word, bank, part))
            self.rows += words
        return self.known[key]

    def add(self, text, kind, template, operands, guard=(False, TRUE), target=0, uniform=False):
        self.instructions.append((text, kind, template, operands, guard, target, uniform))


class Output:
    """The C++ of all kernels of one architecture."""

    def __init__(self, name):
        self.name, self.forms, self.kernels = name, {}, []

    def form_name(self, template, operands):
        if not template:
            return "nothing"
        return self.forms.setdefault(form(template, operands), f"form_{len(self.forms)}")

    def kernel(self, kernel):
        lines = []
        for text, kind, template, operands, guard, target, uniform in kernel.instructions:
            numbers = ",".join(str(operand.index) for operand in operands)
            text = text.replace("\\", "").replace('"', "")
            lines.append(f'{{{self.form_name(template, operands)}, {kind}, {int(uniform)}, {int(guard[0])}, '
                         f'{guard[1]}, {{{numbers}}}, {target & 0xFFFFFFFF}u, "{text}"}},')
        self.kernels.append((kernel, lines))

    def write(self, file):
        say = functools.partial(print, file=file)
        say('#include "tests/nccl/machine/lanes.h"')
        for body, name in self.forms.items():
            say(f"static void {name}(uint32_t active, const uint16_t *o)\n{{\n    {body}\n}}")
        for number, (kernel, lines) in enumerate(self.kernels):
            say(f"static struct instruction code_{number}[] = {{", *lines, "};", sep="\n")
            for what, values in (("constants", kernel.constants), ("frames", kernel.frames)):
                values = ["{" + ",".join(f"{v}" for v in value) + "}" for value in values] or ["{}"]
                say(f"static const struct {what[:-1]} {what}_{number}[] = {{" + ",".join(values) + "};")
            say(f"static const uint8_t bank2_{number}[] = {{" + ",".join(map(str, kernel.bank2 or b"0")) + "};")
        say("static const struct kernel kernels[] = {")
        for number, (kernel, lines) in enumerate(self.kernels):
            say(f'{{"{kernel.name}", code_{number}, {len(lines)}, constants_{number}, {len(kernel.constants)}, '
                f"frames_{number}, {len(kernel.frames)}, bank2_{number}, {len(kernel.bank2)}, {kernel.rows}, "
                f"{kernel.masks}, {kernel.parameters[0]}, {kernel.parameters[1]}}},")
        say("};")
        say(f'extern const struct program program;\nconst struct program program = {{"{self.name}", kernels, {len(self.kernels)}}};')
