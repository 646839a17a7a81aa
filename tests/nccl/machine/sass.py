# SPDX-License-Identifier: Apache-2.0
"""Translates machine code, as nvdisasm prints it, to instructions of program.py.

    translate(cubin, listing, output)     listing: of nvdisasm -hex -c

TABLE has the effect of every instruction but those of control flow (KINDS). Suffixes of operands and modifiers of
instructions that it does not have are errors, except .reuse, .RECONVERGENT and .RELIABLE, which change no result."""
import itertools
import re
import struct

from program import Kernel, NOWHERE, Operand, PREDICATES, REGISTERS, SINK, TRUE, Unknown, ZERO

UNIFORM_REGISTERS, REGISTER_ROWS, UNIFORM_PREDICATES = REGISTERS + 256, REGISTERS + 256 + 128, PREDICATES + 7
ADD = "const uint64_t sum = $w3 + $w4 + $w5 + $p6 + $p7; $D0 = sum; $P1 = sum >> 32 >= 1; $P2 = sum >> 32 >= 2;"
WIDE = "const uint64_t product = (uint64_t)$2 * $3, sum = product + $q4; "
COMPARE = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
BOTH = {"AND": "&&", "OR": "||"}
WORDS = {"": ("uint32_t", 1), "U8": ("uint8_t", 1), "U16": ("uint16_t", 1), "S16": ("int16_t", 1), "64": ("uint32_t", 2), "128": ("uint32_t", 4)}
SPACE = {"LDG": "GLOBAL", "STG": "GLOBAL", "LD": "GENERIC", "ST": "GENERIC", "LDL": "LOCAL", "STL": "LOCAL"}


def compare(m):
    """ISETP: compares 32 bits, 64 bits, or the upper halves of 64 bits; operand 5 is then the lower halves' result."""
    sign, c = m["sign"] or "S32", COMPARE[m["compare"]]
    if sign in ("U64", "S64"):
        a, b = ("$q2", "$q3") if sign == "U64" else ("(int64_t)$q2", "(int64_t)$q3")
    else:
        a, b = ("$2", "$3") if sign == "U32" else ("(int32_t)$2", "(int32_t)$3")
    truth = f"{a} {c} {b}"
    if m["ex"]:
        truth = {"EQ": f"({a} == {b} && $p5)", "NE": f"({a} != {b} || $p5)"}.get(
            m["compare"], f"({a} {c[0]} {b} || ({a} == {b} && $p5))")
    return f"$P0 = ({truth}) {BOTH[m['both']]} $p4;" + "$P1 = false;"


def compare_floats(m):
    a, b = ("$d2", "$d3") if m["type"] == "D" else ("$f2", "$f3")
    if m["ftz"]:
        a, b = "F32(flush(bits32($f2)))", "F32(flush(bits32($f3)))"
    truth = {"NAN": f"isnan({a}) || isnan({b})", "NEU": f"!({a} == {b})", "EQ": f"{a} == {b}", "NE": f"{a} < {b} || {a} > {b}",
             "GEU": f"!({a} < {b})", "GTU": f"!({a} <= {b})", "LT": f"{a} < {b}"}[m["compare"]]
    return f"$P0 = ({truth}) && $p4;"


def smaller(kind, a, b, which):
    t = {"U32": "uint32_t", "U64": "uint64_t"}.get(kind, "int32_t")
    return f"({which} ? least<{t}>({a}, {b}) : most<{t}>({a}, {b}))"


def memory(m):
    kind, words = WORDS[m["width"] or ""]
    is_store, strong = m["op"].startswith("ST"), "STRONG_" if m["strong"] else ""
    at = "$q2 + $q3 + $q4" if m["op"][-1] != "L" else "(uint32_t)($2 + $4)"
    return f"{'store' if is_store else 'load'}<{kind}, {words}>({SPACE[m['op']]}, {strong}" \
           f"{'WRITE' if is_store else 'READ'}, {at}, $r1, l);"


def constants(m):
    return " ".join(f"$r0[{w} * LANES + l] = bank_word($2, $1 + {4 * w});" for w in range(int(m["bits"] or 32) // 32))


VOTE = "whole: uint32_t votes = 0; for (unsigned l = 0; l < LANES; l++) votes |= (uint32_t)$p{} << l; votes &= active; "
# Name of an instruction, without the U of those in UNIFORM, and its effect. Listing.normal() adds operands that the
# listing omits.
TABLE = [
    (r"IADD3(\.X)?", ADD),
    (r"IADD3?\.64", "$E0 = $q1 + $q2;"),
    (r"VIADD", "$D0 = $1 + $2;"),
    (r"IMAD(\.MOV|\.IADD|\.SHL|\.X)?(\.U32)?", "$D0 = $1 * $2 + $3 + (uint32_t)$p4;"),
    (r"IMAD\.WIDE\.U32", WIDE + "$E0 = sum; $P1 = sum < product;"),
    (r"IMAD\.HI\.U32", WIDE + "$D0 = sum >> 32; $P1 = sum < product;"),
    (r"V?IMNMX(\.(?P<kind>U32|S32))?", lambda m: f"$D0 = {smaller(m['kind'], '$1', '$2', '$p3')};"),
    (r"IMNMX\.U64", f"$E0 = {smaller('U64', '$q1', '$q2', '$p3')};"),
    (r"VIMNMX3\.U32", lambda m: f"$D0 = {smaller('U32', smaller('U32', '$1', '$2', '$p4'), '$3', '$p4')};"),
    (r"VIADDMNMX(\.(?P<kind>U32))?", lambda m: f"$D0 = {smaller(m['kind'], '$1 + $2', '$3', '$p4')};"),
    (r"VIMNMX(\.S32)?\.RELU", f"$D0 = most<int32_t>({smaller(None, '$1', '$2', '$p3')}, 0);"),
    (r"VIADDMNMX(\.S32)?\.RELU", f"$D0 = most<int32_t>({smaller(None, '$1 + $2', '$3', '$p4')}, 0);"),
    (r"LEA", "const uint64_t sum = (uint64_t)(uint32_t)($2 << ($4 & 31)) + $w3; $D0 = sum; $P1 = sum >> 32 != 0;"),
    (r"LEA minus", "const uint64_t sum = (uint64_t)(uint32_t)~((0u - $2) << ($4 & 31)) + 1 + $w3; $D0 = sum; $P1 = sum >> 32 != 0;"),
    (r"LEA\.HI(\.X)?", "const uint64_t sum = ((((uint64_t)$4 << 32 | $2) << ($5 & 31)) >> 32) + $w3 + $p6; "
     "$D0 = sum; $P1 = sum >> 32 != 0;"),
    (r"LEA\.HI\.X\.SX32", "$D0 = (((uint64_t)(int64_t)(int32_t)$2 << ($4 & 31)) >> 32) + $3 + $p5;"),
    (r"LOP3\.LUT", "const uint32_t result = lop3<$i5>($2, $3, $4); $D1 = result; $P0 = result != 0 || $p6;"),
    (r"PLOP3\.LUT", "$P0 = $i5 >> ($p2 * 4 + $p3 * 2 + $p4) & 1;"),
    (r"SHF\.L\.U32", "$D0 = left32($1, $2);"),
    (r"SHF\.L\.U64\.HI", "$D0 = left64((uint64_t)$3 << 32 | $1, $2) >> 32;"),
    (r"SHF\.L\.W\.U32\.HI", "$D0 = ((uint64_t)$3 << 32 | $1) << ($2 & 31) >> 32;"),
    (r"SHF\.R\.U64", "$D0 = right64((uint64_t)$3 << 32 | $1, $2);"),
    (r"SHF\.R\.U32\.HI", "$D0 = right32($3, $2);"),
    (r"SHF\.R\.S32\.HI", "$D0 = signed_right32((int32_t)$3, $2);"),
    (r"SHF\.R\.W\.U32", "$D0 = ((uint64_t)$3 << 32 | $1) >> ($2 & 31);"),
    (r"SGXT", "$D0 = sign_extend($1, $2);"),
    (r"PRMT", "$D0 = permute($1, $3, $2);"),
    (r"BREV", "$D0 = reverse($1);"),
    (r"FLO\.U32(?P<shift>\.SH)?", lambda m: f"$D0 = leading($1, {'true' if m['shift'] else 'false'});"),
    (r"F?SEL", "$D0 = $p3 ? $1 : $2;"),
    (r"SEL\.64", "$E0 = $p3 ? $q1 : $q2;"),
    (r"MOV", "$D0 = $1;"),
    (r"MOV\.64", "$E0 = $q1;"),
    (r"HFMA2(\.MMA)?", "$D0 = $3;"),  # only as -0 * 0 + two immediates
    (r"CS2R", "$E0 = $q1;"),
    (r"S2R", "$D0 = $s1;"),
    (r"P2R", "$D0 = ($p1 | $p2 << 1 | $p3 << 2 | $p4 << 3 | $p5 << 4 | $p6 << 5 | $p7 << 6) & $8;"),
    (r"ISETP\.(?P<compare>\w\w)(\.(?P<sign>U32|U64|S64))?\.(?P<both>AND|OR)(?P<ex>\.EX)?", compare),
    (r"(?P<type>F|D)SETP\.(?P<compare>NAN|NEU|NE|EQ|GEU|GTU|LT)(?P<ftz>\.FTZ)?\.AND", compare_floats),
    (r"FADD", "$D0 = R32($f1 + $f2);"),
    (r"FMNMX\.NAN", "if ($p3) fail(\"is a minimum\"); $D0 = most_float($f1, $f2);"),
    (r"FMNMX3\.NAN", "if ($p4) fail(\"is a minimum\"); $D0 = most_float(F32(most_float($f1, $f2)), $f3);"),
    (r"FADD\.FTZ", "$D0 = flush(R32(F32(flush(bits32($f1))) + F32(flush(bits32($f2)))));"),
    (r"FMUL", "$D0 = R32($f1 * $f2);"),
    (r"FFMA", "$D0 = R32(__builtin_fmaf($f1, $f2, $f3));"),
    (r"FFMA\.R(?P<to>P|M|Z)", lambda m: f"$D0 = R32(fma_towards($f1, $f2, $f3, {dict(P=1, M=-1, Z=0)[m['to']]}));"),
    (r"DADD", "$E0 = R64($d1 + $d2);"),
    (r"DMUL", "$E0 = R64($d1 * $d2);"),
    (r"MUFU\.RCP", "$D0 = reciprocal($1);"),
    (r"MUFU\.RSQ", "if (!isnan($f1)) fail(\"is a root\"); $D0 = 0x7fffffffu;"),
    (r"FCHK", "$P0 = is_hard_division($f1, $f2);"),
    (r"I2FP?(\.F32\.S32)?", "$D0 = bits32((float)(int32_t)$1);"),
    (r"I2F\.U32|I2FP\.F32\.U32", "$D0 = bits32((float)$1);"),
    (r"I2F\.U(?P<bits>32|64)\.RP", lambda m: f"$D0 = bits32(float_above({'$q1' if m['bits'] == '64' else '$1'}));"),
    (r"F2I\.FTZ\.U32\.TRUNC\.NTZ", "$D0 = to_uint32($1);"),
    (r"F2I\.TRUNC\.NTZ", "$D0 = to_int32($f1);"),
    (r"F2I\.U64\.TRUNC", "$E0 = to_uint64($f1);"),
    (r"F2F\.F32\.F64", "$D0 = R32((float)$d1);"),
    (r"F2F\.F64\.F32", "$E0 = R64((double)$f1);"),
    (r"F2F\.F16\.F32", "$D0 = half_of($f1);"),
    (r"HADD2\.F32", "$D0 = float_of_half($1);"),  # only for a half plus zero
    (r"F2FP(\.F16\.F32)?\.PACK_AB", "$D0 = pair(half_of($f1), half_of($f2), 16);"),
    (r"F2FP\.SATFINITE\.(?P<to>E4M3|E5M2)\.F32\.PACK_AB_MERGE_C",
     lambda m: f"$D0 = pair($3 & 0xffffu, pair({m['to'].lower()}_of($f1), {m['to'].lower()}_of($f2), 8), 16);"),
    (r"F2FP\.F16\.E4M3\.UNPACK_B", "$D0 = pair(half_of_e4m3($1 >> 8 & 255), half_of_e4m3($1 & 255), 16);"),
    (r"LDCU?(\.(?P<bits>64|128))?", constants),
    (r"(?P<op>LDG|STG|LD|ST)\.E(\.(?P<width>U8|U16|64|128))?(?P<strong>\.STRONG)?(\.SYS)?", memory),
    (r"(?P<op>LDL|STL)(\.LU)?(\.(?P<width>U8|U16|S16|64|128))?(?P<strong>!)?", memory),
    (r"ATOMG\.E\.CAS\.STRONG\.GPU", "$D1 = atomic_swap($q2 + $q3 + $q4, $5, $6, l);"),
    (r"REDG?\.E\.MAX\.STRONG\.GPU", "atomic_max($q2 + $q3 + $q4, $1, l);"),
    (r"SHFL\.(?P<mode>BFLY|IDX)", lambda m: f"whole: const uint32_t have = shuffle("
     f"{'true' if m['mode'] == 'BFLY' else 'false'}, active, $r1, $r2, $r3, $r4); unsigned l = 0; (void)l; $P0 = false; n0 = have;"),
    (r"VOTE\.ANY mask", VOTE.format(2) + "EACH_LANE($r0[l] = votes;)"),
    (r"VOTEU\.ANY mask", VOTE.format(2) + "give_all($r0, votes);"),
    (r"VOTEU\.ALL", VOTE.format(1) + "EACH_LANE($P0 = votes == active;)"),
    (r"VOTE\.ANY", VOTE.format(1) + "EACH_LANE($P0 = votes != 0;)"),
    (r"C?REDUX\.MAX", "whole: give_all($r0, largest_of(active, $r1));"),
    (r"R2UR", "whole: if (active != 0) give_all($r0, common_value(active, $r1));"),
    (r"DEPBAR\.LE|NOP|MEMBAR\.SC\.SYS|ERRBAR|CGAERRBAR|CCTL\.IVALL", ""),
]
KINDS = {"BRA": "BRANCH", "BRA.U": "BRANCH", "CALL.REL.NOINC": "BRANCH", "RET.REL.NODEC": "JUMP", "BRX": "JUMP",
         "BRXU": "JUMP", "BSSY": "GATHER", "BSYNC": "JOIN", "BREAK": "LEAVE", "BMOV.32.CLEAR": "FORGET",
         "BRA.DIV": "IF_DIVERGED", "BRA.CONV": "IF_CONVERGED", "EXIT": "END", "YIELD": "YIELDS",
         "WARPSYNC": "MEET", "WARPSYNC.ALL": "MEET", "WARPSYNC.COLLECTIVE": "NEVER", "ENDCOLLECTIVE": "NEVER"}
UNIFORM = r"U(?=IADD|IMAD|ISETP|LEA|LOP|MOV|PRMT|SEL|SHF|LDC|BREV|FLO|F2I|I2F|VIMNMX)|LDCU"
FLOATS = ("MUFU", "FADD", "FMNMX", "FMNMX3", "FMUL", "FFMA", "FSEL", "FSETP", "HFMA2", "DADD", "DMUL", "DSETP")


def split(text):
    """Splits operands at commas outside brackets."""
    return [part.strip() for part in re.split(r",(?![^\[]*\])", text)] if text else []


class Listing:
    """The instructions of a kernel during translation."""

    def __init__(self, kernel, labels):
        self.kernel, self.labels = kernel, labels

    def register(self, name, words=1, sink=False):
        if name in ("RZ", "URZ", "SRZ"):
            return SINK if sink else ZERO
        return (UNIFORM_REGISTERS if name[0] == "U" else REGISTERS) + int(name.lstrip("UR"))

    def predicate(self, text, sink=False):
        match = re.fullmatch(r"(!?)(U?)P(\d|T)", text)
        if not match:
            raise Unknown(f"predicate {text}")
        number = TRUE if match[3] == "T" else (UNIFORM_PREDICATES if match[2] else PREDICATES) + int(match[3])
        return Operand("mask", NOWHERE if sink and match[3] == "T" else number, match[1])

    def operand(self, text, op, raw, wide, sink):
        """Returns a source or destination; raw: the instruction's 32 bits that hold an immediate."""
        if re.fullmatch(r"!?U?P(\d|T)", text):
            return self.predicate(text, sink)
        match = re.fullmatch(r"([-~]?)(\|?)(U?R(?:\d+|Z)|SRZ)\|?((?:\.\w+)*)", text)
        if match:
            change = [c for c in (match[1], match[2], *match[4].split(".")) if c]
            if set(change) - {"-", "~", "|", "H0_H0", "H1_H1", "H1"}:
                raise Unknown(f"operand {text}")
            return Operand("row", self.register(match[3], sink=sink), change)
        match = re.fullmatch(r"([-~]?)c\[(0x\w)\]\[(0x\w+)\]", text)
        if match:
            return Operand("row", self.kernel.constant(int(match[2], 16), int(match[3], 16), 2 if wide else 1), match[1])
        if op.split(".")[0] in FLOATS:
            return Operand("row", self.kernel.constant(-1, raw << 32 if op[0] == "D" else raw, 2 if op[0] == "D" else 1))
        if re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", text):
            value = int(text, 0)
            return Operand("row", self.kernel.constant(-1, value & (1 << 64) - 1 if wide else value & (1 << 32) - 1, 2 if wide else 1))
        if text in ("SR_TID.X", "SR_CTAID.X", "SR_LANEID"):
            return Operand("row", ZERO, [text])
        raise Unknown(f"operand {text}")

    def address(self, text):
        """Returns [R2.64+UR4+0x10] as three operands; omitted ones are zero. In some architectures' listings
        64-bit addresses have no suffix, and 32-bit ones .U32."""
        match = re.fullmatch(r"\[(U?R(?:\d+|Z))?(?:\.64|\.U32)?(?:\+?(UR\d+))?(?:\+?(-?0x\w+))?\]", text)
        if not match:
            raise Unknown(f"address {text}")
        offset = int(match[3] or "0", 16) & (1 << 64) - 1
        return [Operand("row", self.register(match[1] or "RZ")), Operand("row", self.register(match[2] or "RZ")),
                Operand("row", self.kernel.constant(-1, offset, 2))]

    def access(self, template, address, first, last=()):
        """Returns template and operands of a memory access, possibly with a descriptor, desc[UR4]."""
        match = re.fullmatch(r"(?:desc\[(UR\d+)\])?(.*)", address)
        if match[1]:
            template = "check_descriptor($q0); " + template
        descriptor = Operand("row", self.register(match[1])) if match[1] else Operand("none", 0)
        return template, [descriptor, *first, *self.address(match[2]), *last]

    def normal(self, base, texts):
        """Returns the operands' texts as TABLE numbers them: adds omitted ones, removes those without effect."""
        is_predicate = lambda text: re.fullmatch(r"!?U?P(\d|T)", text)
        if re.fullmatch(r"IADD3(\.X)?|IMAD\.WIDE.*|IMAD\.HI.*|LEA", base):
            rest = texts[1:]
            outputs = list(itertools.takewhile(is_predicate, rest))
            outputs += ["PT"] * ((2 if base.startswith("IADD") else 1) - len(outputs))
            rest = list(itertools.dropwhile(is_predicate, rest))
            return texts[:1] + outputs + rest + ["!PT"] * (5 - len(rest))
        if base in ("IADD.64", "IADD3.64"):
            return [texts[0]] + [t for t in texts[1:] if not is_predicate(t) and t != "URZ"][:2]
        if "MNMX" in base and is_predicate(texts[0]):
            return texts[2:6]  # the operands are PT, PT, d, a, b, which, !PT
        if "MNMX" in base and is_predicate(texts[1]):
            if texts[1:3] != ["PT", "PT"]:
                raise Unknown(f"{base} says which it takes")
            return texts[:1] + texts[3:]
        if base.startswith("LEA.HI"):
            texts = texts if is_predicate(texts[1]) else texts[:1] + ["PT"] + texts[1:]
            return texts + ["!PT"] * (7 - len(texts))
        if base.startswith("IMAD"):
            return texts + ["!PT"] * (6 - len(texts))
        if base == "LOP3.LUT" and not is_predicate(texts[0]):
            return ["PT"] + texts
        if base == "P2R":
            return texts[:1] + [f"P{i}" for i in range(7)] + texts[3:]
        if base == "HADD2.F32":
            return [texts[0], next(t for t in texts[1:] if not re.search(r"RZ", t))]
        if base.startswith("HFMA2"):
            return texts[:4]
        return texts

    def plain(self, op, base, texts, raw):
        """Returns template and operands of an instruction that KINDS lacks."""
        name = base
        if base.startswith("VOTE") and texts[1].endswith("PT") and not re.match(r"U?P", texts[0]):
            name = base + " mask"
        if base == "LEA" and any(text[0] == "-" for text in texts):
            name = base + " minus"
        for pattern, template in TABLE:
            match = re.fullmatch(pattern, name)
            if match:
                break
        else:
            raise Unknown(f"instruction {op}")
        template = template(match) if callable(template) else template
        if any(re.match(r"(desc\[UR\d+\])?\[R\d+\.U32", text) for text in texts):
            template = template.replace("$q2", "$w2")
        if base.split(".")[0] in ("LDG", "LD", "LDL"):
            return self.access(template, texts[1], [self.operand(texts[0], op, 0, False, True)])
        if base.split(".")[0] in ("STG", "ST", "STL") or re.match(r"REDG?\.", base):
            return self.access(template, texts[0], [self.operand(texts[1], op, 0, False, False)])
        if base.startswith("ATOMG"):
            return self.access(template, texts[2], [self.operand(texts[1], op, 0, False, True)],
                               [self.operand(t, op, 0, False, False) for t in texts[3:]])
        if base.startswith("REDUX"):
            return template, [self.operand(t, op, raw, False, not i) for i, t in enumerate(texts)]
        if base.startswith("LDC"):
            match = re.fullmatch(r"c\[(0x\w)\]\[(?:(U?R\d+)\+?)?(-?0x\w+)?\]", texts[1])
            at = self.register(match[2] or "RZ")
            return template.replace("bank_word($2, $1", f"bank_word({int(match[1], 16)}, {int(match[3] or '0', 16)}u + $1"), \
                [self.operand(texts[0], op, 0, False, True), Operand("row", at)]
        texts = self.normal(base, texts)
        operands = []
        for number, text in enumerate(texts):
            if f"$i{number}" in template:
                template = template.replace(f"$i{number}", str(int(text, 16)))
            if f"${number}" not in template and not re.search(rf"\$\w{number}", template):
                operands.append(Operand("none", 0))
                continue
            wide = re.search(rf"\$[qd]{number}", template) is not None
            is_output = re.search(rf"\$[DEP]{number} =", template) is not None or (
                template.startswith("whole") and re.search(rf"\$r{number}", template) and number < 2)
            operands.append(self.operand(text, op, raw, wide, is_output))
        if "$s1" in template:
            template = template.replace("$s1", {"SR_TID.X": "warp_of_block * LANES + l", "SR_CTAID.X": "lane_block",
                                                "SR_LANEID": "l"}[texts[1]])
        return template, operands

    def condition(self, texts):
        """Returns a list of the predicate of a branch, besides the guard; an empty list if there is none."""
        operands = [self.predicate(t) for t in texts if re.fullmatch(r"!?U?P\d", t)]
        if operands and "!" in operands[0].change:
            operands[0] = Operand("mask", operands[0].index | 0x8000)
        return operands

    def add(self, at, guard, op, texts, raw, text):
        guard_negated, guard_mask = False, TRUE
        if guard:
            predicate = self.predicate(guard)
            guard_negated, guard_mask = "!" in predicate.change, predicate.index
        base = re.sub(r"\.(RECONVERGENT|RELIABLE)", "", op)
        uniform = re.match(UNIFORM, base) is not None and op != "R2UR"
        base = re.sub(r"^U(?=\w)", "", base) if uniform else base
        kind, template, operands, target = KINDS.get(base, "PLAIN"), "", [], 0
        texts = [re.sub(r"\(\*.*", "", t).strip() for t in texts]
        if kind in ("BRANCH", "IF_DIVERGED", "IF_CONVERGED"):
            target = self.labels[re.search(r"`\((.*)\)", texts[-1])[1]] // 16
            operands = self.condition(texts[:-1])
        elif kind == "JUMP":
            match = re.match(r"(U?R\d+)(?: (-0x\w+))?", texts[-1])
            operands = [Operand("row", self.register(match[1]))] + self.condition(texts[:-1])
            target = at + 16 + int(match[2], 16) if match[2] else 0
        elif kind in ("GATHER", "JOIN", "LEAVE", "FORGET"):
            operands = [Operand("barrier", int(texts[1 if kind == "FORGET" else 0][1:]))]
        elif kind == "MEET":
            if texts and texts[0][0] == "R":
                kind = "NEVER"  # code for warps that have diverged
            elif texts and texts[0] != "0xffffffff":
                raise Unknown(text)
        elif kind == "PLAIN":
            template, operands = self.plain(op, base, texts, raw)
            if base.startswith("SHFL") or (base.startswith("VOTE.") and "PT, PT" not in text):
                kind = "UNIFORM_MEET"
        self.kernel.add(f"{at:#x} {text}", kind, template, operands, (guard_negated, guard_mask), target, uniform)


def sections(cubin):
    data = open(cubin, "rb").read()
    start, count, names = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3C)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + 64 * i) for i in range(count)]
    strings = headers[names][4]
    return {data[strings + h[0]:data.index(b"\0", strings + h[0])].decode(): (data[h[4]:h[4] + h[5]], h) for h in headers}


def attributes(info):
    """Yields the attributes of a section .nv.info, with their values."""
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        yield attribute, info[at + 4:at + 4 + size] if form == 4 else info[at + 2:at + 4]
        at += 4 + (size if form == 4 else 0)


PARAMETERS, LEAST_STACK, STACK_TOP = 0x0A, 0x12, 4096


def translate(cubin, listing, output):
    parts = sections(cubin)
    symbols, strings = parts[".symtab"][0], parts[".strtab"][0]
    symbol = lambda n: strings[struct.unpack_from("<I", symbols, 24 * n)[0]:].split(b"\0")[0].decode()
    stacks = dict((symbol(struct.unpack("<II", value)[0]), struct.unpack("<II", value)[1])
                  for attribute, value in attributes(parts[".nv.info"][0]) if attribute == LEAST_STACK)
    texts = re.split(r"^\.text\.(\w+):$", open(listing).read(), flags=re.M)
    for name, body in zip(texts[1::2], texts[2::2]):
        kernel = Kernel(name, REGISTER_ROWS, UNIFORM_PREDICATES + 7)
        kernel.parameters = next(struct.unpack_from("<HH", value, 4) for attribute, value
                                 in attributes(parts[f".nv.info.{name}"][0]) if attribute == PARAMETERS)
        kernel.frames.append((STACK_TOP - stacks[name], STACK_TOP))
        kernel.bank2 = parts.get(f".nv.constant2.{name}", (b"",))[0]
        labels, pending, lines = {}, [], []
        for line in body.split("\n"):
            label = re.match(r"([$.\w]+):$", line)
            match = re.match(r"\s+/\*([0-9a-f]{4,5})\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][A-Z0-9_.]*)\s*(.*?)\s*;\s*/\* 0x([0-9a-f]{8})", line)
            if label:
                pending.append(label[1])
            elif match:
                labels.update((label, int(match[1], 16)) for label in pending)
                pending = []
                lines.append(match)
        state = Listing(kernel, labels)
        for number, match in enumerate(lines):
            at, guard, op, rest, raw = match.groups()
            if int(at, 16) != 16 * number:
                raise Unknown(f"{name}: the listing lacks what is before {at}")
            rest = re.sub(r"\(\*.*?\*\)", "", rest).replace(".reuse", "").strip()
            text = f"{'@' + guard + ' ' if guard else ''}{op} {rest}"
            if op == "DEPBAR.LE":  # waits for loads, which complete at once here
                rest = ""
            try:
                state.add(int(at, 16), guard, op, split(rest), int(raw, 16), text)
            except (Unknown, KeyError, IndexError) as error:
                raise Unknown(f"{name} {at}: {text}: {error!r}") from error
        output.kernel(kernel)
