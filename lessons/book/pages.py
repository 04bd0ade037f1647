"""A lesson that has run becomes the body of a page: text, code, output, figures, folds."""

import re
from base64 import b64decode
from html import escape

from nbconvert.filters import markdown2html
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

from .contents import HERE, LESSONS, minimal, solutions

LINKED = re.compile(r"""\b[Ll]essons?\s(?:\d+|[ABC])(?:(?:,|,?\sand|\sto|\sor)\s(?:\d+|[ABC]))*\b
    | \b(?P<author>[A-Z][^\W\d_]+)(?:\s+et\s+al\.|(?:,\s+[A-Z]\w+)?\s+and\s+[A-Z]\w+)?
      (?:'s?)?\s+\(?(?P<year>\d{4})\b""", re.VERBOSE)

# Where a text no longer answers a prediction: a heading, a bold beginning ("**Sums.** They are"),
# or the next prediction.
NEW = re.compile(r"#|\*\*[^*]+[.:]\*\*\s|.*\*\*Predict", re.DOTALL)

DRAWING = re.compile(r"^figure\b.*?^show\(figure, \"(\w+)\"\)\n?", re.MULTILINE | re.DOTALL)


# x_i, Σ_{t−1}, e^x, e^(−s K/(K − 1)), e^s_ij
LOW = re.compile(r"(?<![\w.])((?:[∂dδ]?[A-Za-zΑ-ω]|Σ)[\u0300-\u036f′]*)"
                 r"_(?:\{([^{}]+)\}|([A-Za-z0-9]{1,4})(?![A-Za-z0-9_]))")
HIGH = re.compile(r"\^(?:\{([^{}]+)\}|\(((?:[^()]|\([^()]*\))*)\)"
                  r"|([−-]?[A-Za-z0-9Α-ω]+(?:<sub>[^<]*</sub>)?))")


# y = x W + b, dx = dy Wᵀ: stays on one line or, if it is long, breaks before a sign of relation
FACTOR = r"(?:(?<![,.;:])\s(?:d?[A-Za-zΣ][ᵀ′]?(?:_\w+)?(?:/\S+)?(?![^\s.,;:)*])|\(\S+))*"
JOINED = re.compile(rf"(?:\b[a-zA-Z] |\bln )?\S+(?:\s[=≈≤≥<>∝·×+−/∗←]\s\S+{FACTOR})+|\bln \S+")


def joined(found):
    """A formula in a text with spaces that do not break, but for those before = in a long one."""
    formula = re.sub(r"\s", "\N{NO-BREAK SPACE}", found[0])
    return formula if len(formula) < 32 else re.sub("\N{NO-BREAK SPACE}(?=[=≈≤≥])", " ", formula)


def typeset(text):
    """Subscripts and superscripts of formulas as HTML. Some bold fonts draw ᵀ like a raised S."""
    text = text.replace("ᵀ", "<sup>T</sup>")
    text = LOW.sub(lambda found: f"{found[1]}<sub>{found[2] or found[3]}</sub>", text)
    return HIGH.sub(lambda found: f"<sup>{found[1] or found[2] or found[3]}</sup>", text)


def with_links(text, pages, papers=()):
    """Markdown of a cell: names of lessons and papers become links, a formula a block of its own.

    pages: number of a lesson → its page; papers: ids of after.md's references, such as polyak-1964.
    """
    def link(found):
        if found["author"]:
            paper = f"{found['author']}-{found['year']}".lower()
            return f"[{found[0]}](after.html#{paper})" if paper in papers else found[0]
        return re.sub(r"\b(?:\d+|[ABC])\b", lambda number: linked(number[0], pages), found[0])

    parts = re.split(r"\n\s*\n", text)
    for k, part in enumerate(parts):
        if is_formula(part):
            line = escape(re.sub(r"^\*\*([^*]+)\*\*$", r"\1", part.rstrip(",.")))
            line = typeset(re.sub(r"\*\*(.*?)\*\*", r"<strong>\1</strong>", line))
            parts[k] = f'<div class="formula">{line}</div>'
        elif "| Lesson |" in part:    # its last column holds numbers of lessons
            parts[k] = re.sub(r"[\dABC, ]+(?= \|$)", lambda cell: re.sub(
                r"\d+|[ABC]", lambda number: linked(number[0], pages), cell[0]), part,
                flags=re.MULTILINE)
        elif not part.startswith(("    ", "#", "![", "- <a")):    # code, headings, pictures, papers
            pieces = re.split(r"(`[^`]*`|https?:[^\s)]*)", part)    # every second one stays
            pieces[::2] = [typeset(JOINED.sub(joined, LINKED.sub(link, piece)))
                           for piece in pieces[::2]]
            parts[k] = "".join(pieces)
    return "\n\n".join(parts)


def linked(number, pages):
    """The number of a lesson as Markdown, a link where the book has its page."""
    page = pages.get(number)
    return f"[{number}]({page})" if page else number


def is_formula(part):
    """Whether a paragraph is one line with a sign of mathematics, and not a sentence."""
    text = part.replace("**", "")
    text = text[:-1] if part.endswith("**.") else text
    return bool(re.search("[=≤≥≈←/√·]", text) and not re.search(
        r"[\n`]|^(    |#|\||- |!\[|\d+\. )|[.:?!;](\s|$)|([A-Za-z]{2,} ){5}[A-Za-z]{2,}", text))


def machine(stations, pages):
    """The picture of the whole, with the stations that a page is about marked; all, if it is None.

    Its links name lessons by their numbers.
    """
    picture = (HERE / "machine.svg").read_text(encoding="utf-8")
    for station in (stations or "").split():
        picture = picture.replace(f'id="{station}" class="', f'id="{station}" class="here ')
    return re.sub(r'href="(\w+)"', lambda found: f'href="{pages[found[1]]}"'
                  if found[1] in pages else "", picture)


def fold(title, body, kind=""):
    """A part of a page that is folded behind its title."""
    return f'<details class="{kind}"><summary>{title}</summary>\n{body}\n</details>'


def told_and_new(text):
    """The text after a prediction's answer in two: paragraph and table that tell it, the rest."""
    first, _, rest = text.partition("\n\n")
    if rest.startswith("|"):
        table, _, rest = rest.partition("\n\n")
        first += f"\n\n{table}"
    return ("", text) if NEW.match(first) else (first, rest)


def python(code):
    """Python with colours."""
    code = code.strip("\n")
    return highlight(code, PythonLexer(), HtmlFormatter()) if code else ""


class Page:
    """The body of a lesson's page. headings: (id, HTML); figures, files: name → bytes, → path."""

    def __init__(self, lesson, notebook, pages, papers):
        self.lesson, self.pages, self.papers = lesson, pages, papers
        self.figures, self.files, self.solutions = {}, {}, solutions(lesson)
        self.live = ""    # a figure to play with, after the fold that holds its picture
        parts, told, hides, first = [], [], False, True
        for cell in [*notebook.cells, None]:
            if cell and cell.cell_type == "code":
                into = told if hides else parts
                into += [fold("Imports", python(cell.source)), *self.outputs(cell.outputs)] if (
                    first) else self.code(cell)
                first = False
                continue
            text = cell.source if cell else ""
            if told:
                answer, text = told_and_new(text)
                told.append(self.markdown(answer))
                parts.append(fold("Predicted? See what happens", "\n".join(told), "told"))
                told = []
            parts += [self.live, self.markdown(text)]
            self.live, hides = "", "<strong>Predict" in parts[-1]
        self.body = "\n".join(parts)
        if self.figures and not any("figures/" in x and x[:8] != "<details" for x in parts):
            name, end = list(self.figures)[-1], '<h2 id="What-you-know-now"'
            self.body = self.body.replace(    # for whoever skims, one is open
                end, f'<a class="figure" href="{name}"><img alt="" src="{name}"></a>{end}')
        self.headings = re.findall(r'<h[23] id="(.*?)">(.*?)<a class="anchor-link"', self.body)

    def markdown(self, source):
        """The HTML of a cell of text."""
        text = markdown2html(with_links(source, self.pages, self.papers))
        text = re.sub("<strong>(?=Gives|Time)", "<br><strong>", text)
        text = re.sub('<img [^>]*src="(pictures/.*?)"[^>]*>',
                      r'<a class="figure" href="\1">\g<0></a>', text)
        text = re.sub(r"<code>(python -m lessons\.yours.*?)</code>",
                      r'<a href="index.html#Write-it-yourself"><code>\1</code></a>', text)
        text = re.sub(r"<code>((?!yours/)[\w/]+\.py)(?:: \w+)?</code>", self.file, text)
        if self.lesson.number != "11" or "## Where this lives" in source:
            return text
        names = re.findall(r"^def (\w+)", minimal(), re.MULTILINE)    # lesson 11 walks through them
        return re.sub(f"<code>({'|'.join(names)})</code>",
                      r'<a href="convsim_mini.minimal.py.html#\1"><code>\1</code></a>', text)

    def file(self, found):
        """A file's name, as a link to its page where the project has the file."""
        for root in (LESSONS.parent / "convsim_mini", LESSONS.parent, LESSONS):
            if (root / found[1]).is_file():
                name = found[1].replace("/", ".") + ".html"
                self.files[name] = root / found[1]
                return f'<a href="{name}">{found[0]}</a>'
        return found[0]

    def code(self, cell):
        """A cell, with drawings and judges folded."""
        if number := re.search(r"^check\((\d+), ", cell.source, re.MULTILINE):
            stub, _, judge = cell.source.partition("\ndef judge")
            outputs = "".join(self.outputs(cell.outputs))
            why, answers = self.solutions.get(int(number[1]), ("", ""))
            parts = [python(stub), fold("The judge", python("def judge" + judge) + outputs)]
            if answers:    # a course may delete the folder of solutions
                parts.append(fold("A solution, and wrong answers that tempt",
                                  self.markdown(why) + python(answers), "solution"))
            return parts
        if not (drawing := DRAWING.search(cell.source)):
            return [python(cell.source), *self.outputs(cell.outputs)]
        figure = next(k for k, output in enumerate(cell.outputs) if "data" in output) + 1
        live = HERE / "live" / f"{drawing[1]}.js"
        parts = [python(cell.source[:drawing.start()]), fold("The drawing", python(drawing[0])),
                 *self.outputs(cell.outputs[:figure]),
                 python(cell.source[drawing.end():]), *self.outputs(cell.outputs[figure:])]
        if live.exists():
            self.live = f'<div id="live"></div><script src="{live.name}"></script>'
        return parts

    def outputs(self, outputs):
        """Texts and figures in order; the line that names a figure goes: the figure follows."""
        shown, said = [], ""
        for output in [*outputs, None]:
            data = output.get("data", {}) if output else {}
            if output and "image/png" not in data:
                said += output.get("text", data.get("text/plain", ""))
                continue
            if said := re.sub(r"^figure: .*\n", "", said, flags=re.MULTILINE):
                shown.append(f'<pre class="output">{escape(said)}</pre>')
            said = ""
            if output:
                name = f"figures/{self.lesson.path.stem}_{len(self.figures)}.png"
                self.figures[name] = b64decode(data["image/png"])
                alt = escape(output.metadata.get("image/png", {}).get("alt", ""))
                shown.append(f'<a class="figure" href="{name}"><img alt="{alt}" src="{name}"></a>')
        return shown
