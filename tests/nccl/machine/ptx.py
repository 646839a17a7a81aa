# SPDX-License-Identifier: Apache-2.0
"""Translates PTX to instructions of program.py. Every function has its own registers, parameters and
memory, because none is recursive; each kernel has a copy of the functions that it calls.

    translate(ptx, output)"""
import re

from program import Kernel, Operand, PREDICATES, REGISTERS, TRUE, Unknown

WINDOW, GAP = 0x7E000000, 16  # generic address of the lanes' local memory; least bytes between its variables
BASE, PARAMETERS = 0x40, 0x160  # offsets in constant bank 0; BASE as in machine.cc for PTX
BITS = {"pred": 1, "f32": 32, "f64": 64}
VALUE = {"u16": "(uint16_t)$N", "s16": "(int16_t)$N", "u32": "$N", "s32": "(int32_t)$N", "f32": "$fN",
         "u64": "$qN", "s64": "(int64_t)$qN", "f64": "$dN", "pred": "$pN"}
CTYPE = {16: "uint16_t", 32: "uint32_t", 64: "uint64_t"}
COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
SPECIAL = {"%tid.x": "warp_of_block * LANES + l", "%ctaid.x": "lane_block", "%nctaid.x": "bank_word(0, 0xc)",
           "%ntid.x": "256u"}


def bits(t):
    return BITS.get(t) or int(t[1:])


def value(number, t):
    t = t.replace("b", "u") if t[0] == "b" else t
    return VALUE[t].replace("N", str(number))


def result(t, text):
    """Returns the C++ assignment of a value of type t to operand 0."""
    if t == "pred":
        return f"$P0 = {text};"
    if t in ("f32", "f64"):
        return f"$D0 = R32({text});" if t == "f32" else f"$E0 = R64({text});"
    return f"$E0 = {text};" if bits(t) == 64 else f"$D0 = ({CTYPE[bits(t)]})({text});"


def alike(operator):
    return lambda m: result(m["t"], f"{value(1, m['t'])} {operator} {value(2, m['t'])}")


def compare(m):
    a, b = value(1, m["t"]), value(2, m["t"])
    truth = {"num": f"!isnan({a}) && !isnan({b})", "neu": f"!({a} == {b})"}.get(m["c"])
    return f"$P0 = {truth or f'{a} {COMPARE[m[chr(99)]]} {b}'};"


def pick(m):
    t = m["t"] if m["t"][0] not in "f" else "b" + m["t"][1:]
    return result(t, f"$p3 ? {value(1, t)} : {value(2, t)}")


def move(m):
    return result("pred" if m["t"] == "pred" else f"b{bits(m['t'])}", value(1, m["t"].replace("f", "b")))


def shift(m):
    n, a = bits(m["t"]), value(1, m["t"])
    if m["way"] == "l":
        return result(m["t"], f"left{max(n, 32)}({a}, $2)")
    return result(m["t"], f"signed_right32({a}, $2)" if m["t"] == "s32" else f"right{n}({a}, $2)")


def widen(m):
    double = {"u16": "uint32_t", "u32": "uint64_t", "s32": "int64_t"}[m["t"]]
    text = f"({double}){value(1, m['t'])} * ({double}){value(2, m['t'])}"
    return f"$E0 = (uint64_t)({text});" if "64" in double else f"$D0 = {text};"


def convert(m):
    return result(m["to"], value(1, m["t"]))


INTEGER, ANY = r"(?P<t>[usb](16|32|64))", r"(?P<t>[usbf](16|32|64)|pred)"
TABLE = [
    (r"add\.(rn\.)?(?P<t>[usf]\d+)", alike("+")),
    (r"sub\.(rn\.)?(?P<t>[usf]\d+)", alike("-")),
    (r"mul\.(rn|lo)\.(?P<t>[usf]\d+)", alike("*")),
    (r"mul\.wide\.(?P<t>[us]\d+)", widen),
    (r"mad\.lo\.s32", "$D0 = $1 * $2 + $3;"),
    (r"fma\.rn\.f32", "$D0 = R32(__builtin_fmaf($f1, $f2, $f3));"),
    (r"rcp\.rn\.f32", "$D0 = R32(1 / $f1);"),
    (r"div\.rn\.f32", "$D0 = R32($f1 / $f2);"),
    (r"rcp\.approx\.ftz\.f32", "$D0 = reciprocal($1);"),
    (r"abs\.f32", "$D0 = $1 & 0x7fffffffu;"),
    (r"max\.NaN\.f32", "$D0 = most_float($f1, $f2);"),
    (r"div\.(?P<t>u32|u64)", lambda m: result(m["t"], f"divide({value(1, m['t'])}, {value(2, m['t'])})")),
    (r"rem\.(?P<t>u32)", lambda m: result(m["t"], f"remainder_of({value(1, m['t'])}, {value(2, m['t'])})")),
    (r"(?P<w>min|max)\.(?P<t>[us](32|64))",
     lambda m: result(m["t"], f"{'least' if m['w'] == 'min' else 'most'}({value(1, m['t'])}, {value(2, m['t'])})")),
    (r"and\." + ANY, alike("&")),
    (r"or\." + ANY, alike("|")),
    (r"xor\." + ANY, alike("^")),
    (r"not\.(?P<t>b32|b64)", lambda m: result(m["t"], f"~{value(1, m['t'])}")),
    (r"not\.pred", "$P0 = !$p1;"),
    (r"lop3\.b32", "$D0 = lop3<$i4>($1, $2, $3);"),
    (r"neg\.s32", "$D0 = 0u - $1;"),
    (r"neg\.f32", "$D0 = $1 ^ 0x80000000u;"),
    (r"sh(?P<way>l)\." + INTEGER, shift),
    (r"sh(?P<way>r)\.(?P<t>s32|u32|u64)", shift),
    (r"shf\.r\.wrap\.b32", "$D0 = ((uint64_t)$2 << 32 | $1) >> ($3 & 31);"),
    (r"bfi\.(?P<t>b32|b64)", lambda m: result(m["t"], f"insert({value(1, m['t'])}, {value(2, m['t'])}, $3, $4)")),
    (r"bfind\.shiftamt\.u32", "$D0 = leading($1, true);"),
    (r"brev\.b32", "$D0 = reverse($1);"),
    (r"prmt\.b32", "$D0 = permute($1, $2, $3);"),
    (r"setp\.(?P<c>\w+)\." + ANY, compare),
    (r"selp\." + ANY, pick),
    (r"mov\." + ANY, move),
    (r"cvta\.local\.u64", f"$E0 = $q1 + {WINDOW};"),
    (r"cvta\.to\.local\.u64", f"$E0 = $q1 - {WINDOW};"),
    (r"cvta(\.to)?\.(global|param)\.u64", "$E0 = $q1;"),
    (r"cvt\.(?P<to>u16|u32|u64|s64)\.(?P<t>u16|u32|u64|s32)", convert),
    (r"cvt\.s32\.s8", "$D0 = (uint32_t)(int32_t)(int8_t)$1;"),
    (r"cvt\.rn\.f16x2\.f32", "$D0 = pair(half_of($f1), half_of($f2), 16);"),
    (r"cvt\.f32\.f16", "$D0 = float_of_half($1);"),
    (r"cvt\.rn\.satfinite\.(?P<to>e4m3|e5m2)x2\.f32",
     lambda m: f"$D0 = pair({m['to']}_of($f1), {m['to']}_of($f2), 8);"),
    (r"cvt\.rn\.f16x2\.e4m3x2", "$D0 = pair(half_of_e4m3($1 >> 8), half_of_e4m3($1 & 255), 16);"),
    (r"cvt\.f64\.f32", "$E0 = R64((double)$f1);"),
    (r"cvt\.rn\.f32\.(?P<t>f64|u32|s32)", lambda m: f"$D0 = R32((float){value(1, m['t'])});"),
    (r"cvt\.rzi\.s32\.f32", "$D0 = to_int32($f1);"),
    (r"atom\.global\.cas\.b32", "$D0 = atomic_swap($q1, $2, $3, l);"),
    (r"atom\.global\.max\.u32", "$D0 = atomic_max($q1, $2, l);"),
    (r"membar\.sys", ""),
    (r"bar\.warp\.sync", "whole:"),
    (r"vote\.sync\.any\.pred", "whole: uint32_t votes = 0; for (unsigned l = 0; l < LANES; l++) "
     "votes |= (uint32_t)$p1 << l; votes &= active; EACH_LANE($P0 = votes != 0;)"),
    (r"shfl\.sync\.(?P<mode>bfly|idx)\.b32", lambda m: "whole: const uint32_t have = shuffle("
     f"{'true' if m['mode'] == 'bfly' else 'false'}, active, $r1, $r2, $r3, $r4); unsigned l = 0; (void)l; $P0 = false; n0 = have;"),
]
MEMORY = re.compile(r"(ld|st)(\.volatile)?(\.(?:global|local|param))?(?:\.v([24]))?\.([usbf])(8|16|32|64)")


def split(text):
    return [part.strip() for part in re.split(r",(?![^{\[(]*[}\])])", text)] if text else []


def functions(text):
    """Yields for each function: name, whether it is a kernel, names and sizes of parameters and results, body."""
    for match in re.finditer(r"(\.visible \.entry|\.func)\s*(\([^)]*\))?\s*([\w$]+)\s*\(([^)]*)\)[^{;]*\{", text):
        end, depth = match.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield match[3], match[1] != ".func", variables((match[2] or "") + match[4]), text[match.end():end - 1]


def variables(text):
    return [(m[3], int(m[4]) if m[4] else int(m[2]) // 8)
            for m in re.finditer(r"\.(?:param|local)\s+(?:\.align (\d+) )?\.[a-z](\d+) ([\w$]+)(?:\[(\d+)\])?", text)]


class Translation:
    """One kernel with its functions."""

    def __init__(self, name, known):
        self.kernel, self.known = Kernel(name, REGISTERS, PREDICATES), known
        self.begins, self.returns, self.calls, self.memory = {}, {}, [], 64
        self.kernel.parameters = (PARAMETERS, known[name][0][0][1])
        self.storage, waiting = {}, [name]
        while waiting:
            function = waiting.pop()
            if function in self.begins:
                continue
            self.function(function, function == name)
            waiting += [call for _, call in self.calls if call not in self.begins]
        for place, function in self.calls:
            self.kernel.instructions[place] = self.kernel.instructions[place][:5] + (self.begins[function], False)

    def variable(self, size):
        at = (self.memory + GAP + 15) // 16 * 16
        self.memory = at + size
        self.kernel.frames.append((at, at + size))
        return at

    def parameters_of(self, name):
        """Returns the locations of the parameters and results that a call passes."""
        if name not in self.storage:
            self.storage[name] = {n: self.variable(size) for n, size in self.known[name][0]}
        return self.storage[name]

    def return_row(self, name):
        if name not in self.returns:
            self.returns[name] = self.kernel.rows
            self.kernel.rows += 1
        return self.returns[name]

    def immediate(self, text):
        if re.fullmatch(r"0[fd][0-9A-Fa-f]+", text):
            return Operand("row", self.kernel.constant(-1, int(text[2:], 16), 2))
        return Operand("row", self.kernel.constant(-1, int(text, 0) & (1 << 64) - 1, 2))

    def operand(self, text):
        if text in self.registers:
            return self.registers[text]
        return self.immediate(text)

    def address(self, name, offset):
        """Returns the row of a variable's base, and the offset from it."""
        where = self.symbols[name]
        if where is None:  # a kernel's parameter: at PARAMETERS in constant bank 0, whose address is at BASE in the bank
            return self.kernel.constant(0, BASE, 2), PARAMETERS + offset
        return self.kernel.constant(-1, where, 2), offset

    def function(self, name, is_kernel):
        self.begins[name] = len(self.kernel.instructions)
        self.symbols = {n: None for n, _ in self.known[name][0]} if is_kernel else dict(self.parameters_of(name))
        self.registers, labels, jumps = {}, {}, []
        for statement in re.findall(r"[{}](?=\s)|[$\w]+:|[^\s;{}:][^;{}:]*(?:\{[^}]*\}[^;{}]*)*;", self.known[name][1]):
            statement = " ".join(statement.rstrip(";").split())
            if statement in ("{", "}", "") or statement.startswith(".pragma"):
                continue
            if statement.endswith(":"):
                labels[statement[:-1]] = len(self.kernel.instructions)
            elif statement.startswith(".reg"):
                self.declare(*re.fullmatch(r"\.reg \.(\w+) (%?\w+)(?:<(\d+)>)?", statement).groups())
            elif statement.startswith("."):
                found = variables(statement)
                if not found:
                    raise Unknown(statement)
                self.symbols.update((n, self.variable(size)) for n, size in found)
            else:
                jumps += self.instruction(name, is_kernel, statement)
        for place, label in jumps:
            self.kernel.instructions[place] = self.kernel.instructions[place][:5] + (labels[label], False)

    def declare(self, t, name, count):
        for number in range(int(count or 1)):
            full = f"{name}{number}" if count else name
            if t == "pred":
                self.registers[full] = Operand("mask", self.kernel.masks)
                self.kernel.masks += 1
            else:
                self.registers[full] = Operand("row", self.kernel.rows)
                self.kernel.rows += max(bits(t), 32) // 32

    def instruction(self, function, is_kernel, statement):
        """Adds a statement's instructions; returns those that branch to a label."""
        add, text = self.kernel.add, f"{function}: {statement}"
        match = re.fullmatch(r"(?:@(!?)(%p\d+) )?([a-z][\w.:]*)(?: (.*))?", statement)
        if not match:
            raise Unknown(statement)
        guard = (match[1] == "!", self.registers[match[2]].index) if match[2] else (False, TRUE)
        op, operands = match[3], split(match[4])
        here = len(self.kernel.instructions)
        if op in ("bra", "bra.uni"):
            add(text, "BRANCH", "", [], guard)
            return [(here, operands[0])]
        if op == "ret":
            if is_kernel:
                add(text, "END", "", [], guard)
            else:
                add(text, "JUMP", "", [Operand("row", self.return_row(function))], guard)
        elif op == "call.uni":
            results = split(operands.pop(0)[1:-1]) if operands[0].startswith("(") else []
            callee, passed = operands[0], results + (split(operands[1][1:-1]) if len(operands) > 1 else [])
            for (inner, where), outer in zip(self.parameters_of(callee).items(), passed):
                if outer not in results:
                    self.copy(text, self.symbols[outer], where, dict(self.known[callee][0])[inner])
            add(text, "PLAIN", "$D0 = $1;", [Operand("row", self.return_row(callee)), Operand("row", 0)])
            place = len(self.kernel.instructions) - 1
            add(text, "BRANCH", "", [])
            self.calls.append((place + 1, callee))
            back = self.kernel.constant(-1, 16 * (place + 2))
            self.kernel.instructions[place] = self.kernel.instructions[place][:3] + (
                [Operand("row", self.return_row(callee)), Operand("row", back)],) + self.kernel.instructions[place][4:]
            for outer, (inner, where) in zip(results, self.parameters_of(callee).items()):
                self.copy(text, where, self.symbols[outer], dict(self.known[callee][0])[inner])
        elif MEMORY.fullmatch(op):
            self.access(text, guard, operands, *MEMORY.fullmatch(op).groups())
        elif op.startswith("mov") and "{" in match[4]:
            self.move_parts(text, guard, op, operands)
        elif operands[1:] and operands[1] in self.symbols:
            row, offset = self.address(operands[1], 0)
            add(text, "PLAIN", "$E0 = $q1 + $q2;", [self.operand(operands[0]), Operand("row", row), self.immediate(str(offset))], guard)
        elif operands[1:] and operands[1] in SPECIAL:
            add(text, "PLAIN", f"$D0 = {SPECIAL[operands[1]]};", [self.operand(operands[0])], guard)
        else:
            for pattern, template in TABLE:
                found = re.fullmatch(pattern, op)
                if found:
                    break
            else:
                raise Unknown(text)
            template = template(found) if callable(template) else template
            operands = [re.sub(r"^\[(%rd\d+)\]$", r"\1", operand) for operand in operands]
            kind = "PLAIN"
            if ".sync" in op:
                kind = "MEET" if op.startswith("bar") else "UNIFORM_MEET"
                template = template.replace("whole:", f"whole: all_named(active, $r{len(operands) - (op[0] != 's')});")
            if op.startswith("shfl"):
                to, _, have = operands[0].partition("|")
                operands = [have, to] + operands[1:]
            if op == "lop3.b32":
                template = template.replace("$i4", operands.pop())
            if op == "mov.pred":
                add(text, kind, "$P0 = $p1;" if operands[1][0] == "%" else "$P0 = $1 != 0;", [self.operand(o) for o in operands], guard)
                return []
            add(text, kind, template, [self.operand(o) if o else Operand("mask", 1) for o in operands], guard)
        return []

    def copy(self, text, begin, to, size):
        for at in range(0, size, 4 if size % 4 == 0 else 1):
            kind = "uint32_t" if size % 4 == 0 else "uint8_t"
            template = f"uint32_t word[LANES]; load<{kind}, 1>(LOCAL, READ, $q0, word, l); " \
                       f"store<{kind}, 1>(LOCAL, WRITE, $q1, word, l);"
            self.kernel.add(text, "PLAIN", template, [Operand("row", self.kernel.constant(-1, begin + at, 2)),
                                                      Operand("row", self.kernel.constant(-1, to + at, 2))])

    def access(self, text, guard, operands, op, volatile, space, count, t, size):
        place, registers = operands if op == "st" else operands[::-1]
        base, offset = re.fullmatch(r"\[([%\w$]+)(?:\+(-?\d+))?\]", place).groups()
        offset = int(offset or 0)
        where = self.registers.get(base)
        if base in self.symbols:
            row, offset = self.address(base, offset)
            where = Operand("row", row)
        where = [where, self.immediate(str(offset))]
        space = {".global": "GLOBAL", ".local": "LOCAL", None: "GENERIC",
                 ".param": "LOCAL" if self.symbols.get(base) else "GENERIC"}[space]
        names = split(registers.strip("{}"))
        kind = {"8": "uint8_t", "16": "uint16_t"}.get(size, "uint32_t")
        if t == "s":
            kind = kind[1:]
        mode = ("STRONG_" if volatile else "") + ("WRITE" if op == "st" else "READ")
        words = 2 if size == "64" else 1
        # A vector's registers are not adjacent: they are gathered, so that it is one access.
        total = words * len(names)
        template = f"uint32_t words[{total} * LANES]; "
        rows = [self.operand(n) for n in names]
        moves = [(n, w) for n in range(len(names)) for w in range(words)]
        if op == "st":
            template += " ".join(f"words[{i} * LANES + l] = $r{n}[{w} * LANES + l];" for i, (n, w) in enumerate(moves))
        template += f" {'store' if op == 'st' else 'load'}<{kind}, {total}>({space}, {mode}, $q{len(names)} + $q{len(names) + 1}, words, l); "
        if op == "ld":
            narrow = "(uint16_t)" if t == "s" else ""
            template += " ".join(f"$r{n}[{w} * LANES + l] = {narrow}words[{i} * LANES + l];" for i, (n, w) in enumerate(moves))
            wide = [n for n, register in enumerate(names) if register.startswith("%rd") and size != "64"]
            if wide and t == "s":
                raise Unknown(text)
            template += " ".join(f"$r{n}[LANES + l] = 0;" for n in wide)
        self.kernel.add(text, "PLAIN", template, rows + where, guard)

    def move_parts(self, text, guard, op, operands):
        """Adds a mov between a register and several that hold its parts."""
        width = int(op[-2:])
        if operands[0].startswith("{"):
            parts = split(operands[0][1:-1])
            for i, name in enumerate(parts):
                part = width // len(parts)
                shifted = f"({value(1, f'u{width}')} >> {part * i})"
                if name != "_":
                    self.kernel.add(text, "PLAIN", f"$D0 = (uint{part}_t){shifted};",
                                    [self.operand(name), self.operand(operands[1])], guard)
            return
        parts = split(operands[1][1:-1])
        part = width // len(parts)
        joined = " | ".join(f"(uint{width}_t)(uint{part}_t)${i + 1} << {part * i}" for i in range(len(parts)))
        self.kernel.add(text, "PLAIN", f"${'E' if width == 64 else 'D'}0 = {joined};",
                        [self.operand(operands[0])] + [self.operand(p) for p in parts], guard)


def translate(path, output):
    text = re.sub(r"//[^\n]*", "", open(path).read())
    found = list(functions(text))
    known = {name: (parameters, body) for name, _, parameters, body in found}
    for name, is_kernel, _, _ in found:
        if is_kernel:
            output.kernel(Translation(name, known).kernel)
