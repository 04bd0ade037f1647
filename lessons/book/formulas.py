"""A formula in plain text, as the lessons write it, becomes MathML; what is not sure stays text.

What the notation leaves open is not decided here: a fraction is built only where it is certain how
far it reaches, else its slash stays; a text with anything that has no rule here is no formula.
"""

import re
import unicodedata
from html import escape

FUNCTIONS = set("ln log exp sin cos tan tanh min max mean rms sign softmax".split())
TERMS = "=≤≥≈≠<>←→↦∈∩∝±∓,+−"    # they end a product
BRACKETS = {"(": ")", "[": "]", "⌈": "⌉", "{": "}", "|": "|", "‖": "‖", "**": "**"}
TOKEN = re.compile(rf"""(\s*)(?:
    (?P<number>\d+(?:,\d{{3}})*(?:\.\d+)?|[¼½¾]) | (?P<accent>[^\W\d_][\u0302-\u0304])
    | (?P<word>(?:[A-Za-z](?![\u0302-\u0304]))+\d*) | (?P<letter>[α-ωΑ-Ω∂…])
    | (?P<raised>[⁰¹²³⁴-⁹⁺⁻⁽⁾ⁿⁱᵀᵗᴮᴸʷᵇˣᶻ]+) | (?P<lowered>[₀-₉₊₋ᵢⱼ]+) | (?P<prime>[′″‴])
    | (?P<sign>\*\*|[]()[{{}}⌈⌉|‖^_/√·∗×{TERMS}]))""", re.VERBOSE)
SPACE = '<mspace width="0.25em"/>'


class Unsure(Exception):
    """The text has no certain meaning here."""


def mathml(text, display=True):
    """A text → a <math> element, or None where it is not surely understood.

    display: as a line of its own; in a sentence slashes stay
    """
    try:
        block = ' display="block"' * display
        return f"<math{block}><mrow>{_Reader(text.strip(), display).all()}</mrow></math>"
    except Unsure:
        return None


def _tag(name, *inside):
    return f"<{name}>{''.join(inside)}</{name}>"


def _script(characters):
    """The MathML of raised or lowered characters, such as ⁿ⁻¹."""
    parts = re.findall(r"\d+|\D", unicodedata.normalize("NFKD", characters))
    return "".join(_tag("mn" if part.isdigit() else "mi" if part.isalpha() else "mo", part)
                   for part in parts)


class _Reader:
    """Reads tokens from left to right. `bare` MathML lacks the brackets around the whole."""

    def __init__(self, text, display):
        self.tokens, self.at, self.opened, self.low = [], 0, [], not display
        text = "".join(unicodedata.normalize("NFD", c) if c.isalpha() else c for c in text)
        end = 0
        while end < len(text):
            if not (found := TOKEN.match(text, end)):
                raise Unsure(text[end:])
            self.tokens.append((found.lastgroup, found[found.lastgroup], bool(found[1])))
            end = found.end()
        self.tokens.append(("end", "", True))

    # of the next token: its kind, its text, whether a space stands before it
    kind, text, spaced = (property(lambda self, n=n: self.tokens[self.at][n]) for n in range(3))

    def take(self):
        """The text of the next token, which is then behind us."""
        self.at += 1
        return self.tokens[self.at - 1][1]

    def starts_operand(self):
        """Whether an operand begins here, after another one."""
        if self.text == "|":    # opens after a space and before none
            return "|" not in self.opened and self.spaced and not self.tokens[self.at + 1][2]
        return self.kind in ("number", "accent", "word", "letter") or (
            self.text in ("(", "[", "⌈", "√") or self.text in ("‖", "**") and (
                self.text not in self.opened))

    def all(self):
        """The MathML of the whole text."""
        result = self.expression("")
        if self.kind != "end":
            raise Unsure(self.text)
        return result

    def expression(self, closing):
        """Operands and operators up to `closing`."""
        parts, after_operand, applied, given = [], False, False, False
        product = 0    # from which part on the factors stand that a fraction may take
        while self.text != closing and self.kind != "end":
            sign = self.text
            if after_operand and not self.starts_operand() and sign == "|":    # p(a|b)
                if closing != ")" or given:
                    raise Unsure("a bar")
                given, operator = True, True
            else:
                operator = self.kind == "sign" and sign in TERMS + "·∗×"
            if operator:
                form = ' form="prefix"' * (sign == "−" and not after_operand)
                wide = '<mspace width="1em"/>' * (sign == "," and not closing)
                parts.append(f"<mo{form}>{escape(self.take())}</mo>{wide}")
                after_operand, product, applied = False, len(parts), applied and sign not in TERMS
                continue
            factors = [part for part in parts[product:] if part != SPACE]
            result, kind, taken = self.fraction(applied, factors)
            if taken:
                del parts[product:]
            elif after_operand:
                parts.append(SPACE)
            parts.append(result)
            after_operand, applied = True, applied or kind == "function"
            product = len(parts) if kind or taken else product
        if not parts:
            raise Unsure("nothing between brackets")
        return "".join(parts)

    def fraction(self, applied, factors):
        """One operand, or two with a slash between; applied: a function's name stands before them.

        factors: MathML of the operands right before, in the same product
        → MathML, its kind as `run` names it, whether the factors are now above its line
        """
        above, bare_above, kind = self.run()
        if self.text != "/":
            return above, kind, False
        self.take()
        below, bare_below, kind_below = self.run()
        if kind_below:                         # 1/Σ λ² and 1/ln K end with the next operand
            below = bare_below = below + SPACE + self.run()[0]
            if self.starts_operand() or self.text in ("·", "∗", "×") or (
                    kind_below == "sum" and self.text in ("+", "−")):
                raise Unsure("how far the denominator reaches")
        if kind or self.text == "/":
            raise Unsure("a slash")
        if self.low or applied or self.starts_operand():
            return f"{above}<mo>/</mo>{below}", "", False
        derivative = bare_above.startswith("<mi>∂")
        if factors and not derivative:
            bare_above = SPACE.join([*factors, above])
        fraction = _tag("mfrac", _tag("mrow", bare_above), _tag("mrow", bare_below))
        return fraction, "", not (derivative and factors)

    def run(self):
        """Operands without a space between → MathML, bare, "function", "sum", "word" or ""."""
        results, first, start = [], self.text, self.at
        while not results or self.starts_operand() and not self.spaced:
            results.append(self.scripted())
        if len(results) > 1:
            if ("sign", "**", False) in self.tokens[start:self.at] or first == "**":
                raise Unsure("emphasis without a space around")
            return *2 * ("".join(result for result, _ in results),), ""
        result, bare = results[0]
        return result, bare, ("function" if first in FUNCTIONS else "sum" if first == "Σ" else
                              "word" if first == "**" or result.startswith("<mtext") else "")

    def scripted(self):
        """An operand and what is raised and lowered at it → MathML, bare."""
        name, is_sum = self.text, self.text == "Σ" and self.tokens[self.at + 1][1] != "^"
        ahead, base, bare = self.atom()
        low = high = ""
        while not self.spaced and (self.kind in ("raised", "lowered", "prime")
                                   or self.text in ("^", "_")):
            is_low, kind, mark = self.kind == "lowered" or self.text == "_", self.kind, self.take()
            if (low if is_low else high) or name == "**" or is_sum and not is_low:
                raise Unsure("two scripts, or one where none belongs")
            if kind == "prime":
                base = bare = _tag("mrow", base, f'<mo lspace="0" rspace="0">{mark}</mo>')
            elif is_low:
                low = self.index() if mark == "_" else _script(mark)
            else:
                high = self.exponent(name) if mark == "^" else _script(mark)
        if not low + high:
            return ahead + base, bare if bare != base else ahead + base
        if is_sum:
            base = "<mo>∑</mo>"
        tag = "munder" if is_sum else "m" + "sub" * bool(low) + "sup" * bool(high)
        return 2 * (ahead + _tag(tag, base, *(_tag("mrow", part) for part in (low, high) if part)),)

    def exponent(self, base):
        """What follows ^: a group, or one number or name, perhaps with a minus before."""
        sign = self.text == "−" and f'<mo form="prefix">{self.take()}</mo>' or ""
        if self.text in ("(", "{"):
            _, group, bare = self.atom(script=True)
            return sign + group if sign else bare
        if not self.starts_operand() or self.spaced or self.kind == "sign":
            raise Unsure("an exponent")
        ahead, result, _ = self.atom()
        if self.text == "_" and base == "e":
            self.take()
            result = _tag("msub", result, _tag("mrow", self.index()))
        if self.starts_operand() and not self.spaced or self.text in ("_", "^"):
            raise Unsure("where the exponent ends")
        return sign + ahead + result

    def index(self):
        """What follows _: a group, or letters, of which two are two indices."""
        if self.text in ("(", "{"):
            return self.atom(script=True)[2]
        if self.kind not in ("word", "number", "letter") or self.spaced:
            raise Unsure("an index")
        if self.kind == "word" and len(self.text) == 2:
            return "".join(_tag("mi", letter) for letter in self.take())
        return _tag("mn" if self.kind == "number" else "mi", self.take())

    def atom(self, script=False):
        """One operand → what stands before its base (the d of dx), the base, bare."""
        kind, text, before = self.kind, self.take(), ""
        if text in BRACKETS:
            return "", *self.group(text, script)
        if text == "√":
            bracket = self.text == "("
            _, bare = self.scripted()
            if bare.startswith("<msu") if bracket else self.starts_operand() and not self.spaced:
                raise Unsure("how far the root reaches")
            base = _tag("msqrt", bare)
        elif kind == "accent":
            mark = {"\u0302": "^", "\u0303": "~", "\u0304": "¯"}[text[1]]
            base = f'<mover accent="true"><mi>{text[0]}</mi><mo>{mark}</mo></mover>'
        elif kind == "number":
            base = _tag("mn", text)
        elif kind == "word" and re.fullmatch(r"d[A-Za-z]", text):
            before, base = _tag("mi", "d"), _tag("mi", text[1])
        elif kind == "letter" or kind == "word" and (
                len(text) == 1 or text in FUNCTIONS or text[0].isupper() or text[-1].isdigit()):
            if text == "a" and re.fullmatch("[a-z]{3,}", self.text) and self.text not in FUNCTIONS:
                raise Unsure("an article, or a name")
            base = _tag("mi", text)
        elif kind == "word":
            base = _tag("mtext", text)
        else:
            raise Unsure(text)
        return before, base, before + base

    def group(self, opening, script):
        """What stands between two brackets, bars or stars → with them, without them."""
        if opening == "{" and not script:
            raise Unsure("braces with nothing raised or lowered")
        self.low += script
        self.opened.append(opening)
        inside = self.expression(BRACKETS[opening])
        self.opened.pop()
        self.low -= script
        if self.take() != BRACKETS[opening]:
            raise Unsure("a bracket without its other")
        if opening == "**":
            if self.text == "/":
                raise Unsure("emphasis in a fraction")
            return 2 * (f'<mrow class="key">{inside}</mrow>',)
        if opening == "{":
            return 2 * (_tag("mrow", inside),)
        high = "true" if "<mfrac" in inside or "<munder" in inside else "false"
        result = _tag("mrow", f'<mo form="prefix" stretchy="{high}">{opening}</mo>', inside,
                      f'<mo form="postfix" stretchy="{high}">{BRACKETS[opening]}</mo>')
        return result, _tag("mrow", inside) if opening == "(" else result
