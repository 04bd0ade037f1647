"""The lessons as a small web site, each with its output and figures, to be read without running.

    python -m lessons.book               all of them, from the repository's folder: book/index.html
    python -m lessons.book 2 16          these two
    python -m lessons.book --out FOLDER  into another folder

Needs tests/requirements.txt. The site works from the disk and loads nothing from elsewhere.
"""

import os
import re
from concurrent.futures import ThreadPoolExecutor, as_completed
from html import escape
from pathlib import Path
from string import Template
from tempfile import TemporaryDirectory
from typing import NamedTuple

from convsim_mini.common.cli import Parser, UserError, errors_in_one_line, progress, user_errors

from .formulas import mathml

try:
    import jupytext
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from nbconvert import HTMLExporter
    from nbconvert.filters import markdown2html
    from nbformat.v4 import new_code_cell
    from pygments.formatters import HtmlFormatter
except ModuleNotFoundError as error:
    jupytext = None
    missing = error.name

HERE = Path(__file__).resolve().parent
LESSONS = HERE.parent
STYLE = "book.css"    # a folder that holds it is a book, which a new one may replace

# What changes inside of sentences: the names of lessons, words with an index or an exponent; NAME
# is a part of a word that holds more than its formula.
IN_A_LINE = re.compile(r"""\b[Ll]esson\ (?P<number>\d+)\b
    | (?<!\S)(?P<word>[^\s|]*[_^][^\s|]*?)(?=[.,:;?!)]*(?:\s|$))""", re.VERBOSE)
NAME = re.compile(r"""(?<![\w.])(?:\d+|[^\W\d_]{1,2})
    (?:[_^]−?(?:\{[^{}]*\}|\([^()]*\)|[^\W_]+))+(?!\w)""", re.VERBOSE)

# Runs before a lesson: plt.show() gives each figure its titles for those who cannot see it.
NAME_FIGURES = """
from IPython.display import display
from matplotlib import pyplot

def show():
    for figure in map(pyplot.figure, pyplot.get_fignums()):
        titles = [figure.get_suptitle(), *(axes.get_title("left") for axes in figure.axes)]
        alt = "; ".join(" ".join(title.split()) for title in titles if title)
        display(figure, metadata={"image/png": {"alt": alt}})

pyplot.show = show
"""


class Lesson(NamedTuple):
    """A row of the table in lessons/README.md."""

    number: int
    title: str
    path: Path
    shows: str    # Markdown

    @property
    def page(self):
        """The name of its page."""
        return f"{self.path.stem}.html"


def all_lessons():
    """The lessons in their order."""
    rows = re.findall(r"^\| (\d+) \| \[(.+?)\]\((.+?)\) \|.*?\| (.+) \|$",
                      (LESSONS / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    return [Lesson(int(number), title, LESSONS / name, shows)
            for number, title, name, shows in rows]


def run(path, folder, clients):
    """A lesson as a notebook, with its output; its kernel has settings of its own in `folder`.

    clients: list to which the one that runs it is added
    Raises UserError, which names the cell, where one fails.
    """
    notebook = jupytext.read(path)
    notebook.cells.insert(0, new_code_cell(NAME_FIGURES))
    started = []
    client = NotebookClient(notebook, kernel_name="python3", coalesce_streams=True,
                            extra_arguments=["--IPKernelApp.log_level=ERROR"],
                            resources={"metadata": {"path": str(path.parent)}},
                            on_cell_start=lambda cell, cell_index: started.append(cell))
    clients.append(client)
    environment = {**os.environ, "IPYTHONDIR": str(folder), "OMP_NUM_THREADS": "1",
                   "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    try:
        client.execute(env=environment)
    except (CellExecutionError, DeadKernelError) as error:
        before = path.read_text(encoding="utf-8").partition(started[-1].source)[0]
        line = before.count("\n") + 1
        reason = f"{error.ename}: {error.evalue}" if hasattr(error, "ename") else str(error)
        raise UserError(f"lessons/{path.name}, cell at line {line}: "
                        f"{' '.join(reason.split())}; run python lessons/{path.name} to see more; "
                        "no book was made") from None
    del notebook.cells[0]
    return notebook


def typeset(text, pages):
    """Markdown of a cell: formulas that stand alone become MathML, and so does p_ij in a sentence;
    "lesson 7" becomes a link.

    pages: number of a lesson → its page. A formula that `mathml` is not sure of stays as it is.
    """
    def in_a_line(found):
        if word := found["word"]:
            whole = not re.search("[A-Za-z]{3}_[A-Za-z]{2}", word) and mathml(word, display=False)
            return whole or NAME.sub(
                lambda name: mathml(name[0], display=False) or name[0], word)
        page = pages.get(int(found["number"]))
        return f"[{found[0]}]({page})" if page else found[0]

    parts = re.split(r"\n\s*\n", text)
    for k, part in enumerate(parts):
        if is_formula(part):
            line = re.sub(r"^\*\*([^*]+)\*\*$", r"\1", part.rstrip(",."))
            shown = mathml(line) or f"<code>{escape(line.replace('**', ''))}</code>"
            parts[k] = f'<div class="formula">{shown}</div>'
        elif not part.startswith("    "):           # code
            pieces = re.split("(`[^`]*`)", part)    # every second one is code
            pieces[::2] = [IN_A_LINE.sub(in_a_line, piece) for piece in pieces[::2]]
            parts[k] = "".join(pieces)
    return "\n\n".join(parts)


def is_formula(part):
    """Whether a paragraph is one line with a sign of mathematics, and is no sentence."""
    text = part.replace("**", "")
    text = text[:-1] if part.endswith("**.") else text
    return bool(re.search("[=≤≥≈←/√·]", text) and not re.search(
        r"[\n`]|^(    |#|\||- |\d+\. )|[.:?!;](\s|$)|([A-Za-z]{2,} ){5}[A-Za-z]{2,}", text))


def rendered(lesson, notebook, pages):
    """The page's HTML of a notebook, and its figures: name → bytes."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = typeset(cell.source, pages)
        for output in cell.get("outputs", []):
            if "text" in output:               # the figure itself follows
                output.text = re.sub(r"^figure: .*\n", "", output.text, flags=re.MULTILINE)
        if "outputs" in cell:
            cell.outputs = [output for output in cell.outputs if output.get("text") != ""]
    exporter = HTMLExporter(
        template_name="basic", exclude_input_prompt=True, exclude_output_prompt=True,
        exclude_anchor_links=True,
        preprocessors=["nbconvert.preprocessors.ExtractOutputPreprocessor"])
    body, resources = exporter.from_notebook_node(
        notebook, {"output_files_dir": "figures", "unique_key": lesson.path.stem})
    body = re.sub('<img [^>]*src="(.*?)"[^>]*>', r'<a href="\1">\g<0></a>', body)
    return body, resources["outputs"]


def write_book(folder, lessons, notebooks):
    """All pages, figures and the style into a folder."""
    template = Template((HERE / "page.html").read_text(encoding="utf-8"))
    pages = {lesson.number: lesson.page for lesson in lessons}

    def write(name, title, navigation, body):
        page = template.substitute(title=escape(title), navigation=navigation, body=body)
        (folder / name).write_text(page, encoding="utf-8")

    (folder / "figures").mkdir()
    for before, lesson, after in zip([None, *lessons], lessons, [*lessons[1:], None]):
        body, figures = rendered(lesson, notebooks[lesson], pages)
        for name, data in figures.items():
            (folder / name).write_bytes(data)
        ways = [(before, "prev", "←"), (after, "next", "→")]
        links = [f'<a rel="{rel}" href="{to.page}">{arrow} {to.number} · {escape(to.title)}</a>'
                 for to, rel, arrow in ways if to]
        write(lesson.page, lesson.title, '<a href="index.html">All lessons</a>' + "".join(links),
              body)
    rows = "".join(f'<li value="{lesson.number}"><a href="{lesson.page}">{escape(lesson.title)}</a>'
                   f"{markdown2html(lesson.shows)}</li>" for lesson in lessons)
    write("index.html", "Lessons", "",
          "<h1>Lessons</h1><p>Each page is a lesson with its output and figures. To change one and "
          "to do its exercises, open its file in <code>lessons/</code>.</p>"
          f'<ol class="lessons">{rows}</ol>')
    colours = [HtmlFormatter(style=style).get_style_defs(".highlight")
               for style in ("default", "github-dark")]
    (folder / STYLE).write_text(
        "{}\n@media (prefers-color-scheme: dark) {{\n{}\n}}\n".format(*colours)
        + (HERE / STYLE).read_text(encoding="utf-8"), encoding="utf-8")


def make_book(lessons, out):
    """Run these lessons on all cores, write the book, then put it in the place of the one before.

    Raises UserError where a lesson fails or `out` holds anything but a book.
    """
    empty = out.is_dir() and not any(out.iterdir())
    if out.exists() and not empty and not (out / STYLE).exists():
        raise UserError(f"{out}: exists and is no book; choose another folder with --out")
    advice = "choose another folder with --out"
    with (user_errors(f"{out}: cannot be written", advice),
          TemporaryDirectory(dir=out.resolve().parent, prefix=".book-") as beside):
        new, notebooks, clients = Path(beside, "new"), {}, []
        new.mkdir()
        pool = ThreadPoolExecutor(os.cpu_count())
        try:
            waiting = {pool.submit(run, lesson.path, beside, clients): lesson for lesson in lessons}
            for done in progress(as_completed(waiting), total=len(lessons), unit="lesson"):
                notebooks[waiting[done]] = done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for client in clients:             # after an error or Ctrl-C some are at work
                if client.km and client.km.has_kernel:
                    client.km.provisioner.process.kill()
            pool.shutdown()
        write_book(new, lessons, notebooks)
        if out.exists():
            os.replace(out, Path(beside, "old"))
        os.replace(new, out)


@errors_in_one_line()
def main(argv=None):
    """The command."""
    parser = Parser(prog="python -m lessons.book", description=__doc__.split("\n")[0])
    parser.add_argument("numbers", nargs="*", type=int, help="which lessons (default: all)")
    parser.add_argument("--out", type=Path, default="book", help="folder (default: book)")
    options = parser.parse_args(argv)
    if not jupytext:
        raise UserError(f"the book needs {missing}, which is not installed; "
                        "pip install -r tests/requirements.txt")
    known = {lesson.number: lesson for lesson in all_lessons()}
    for number in options.numbers:
        if number not in known:
            raise UserError(f"{number}: is no lesson; there are {min(known)} to {max(known)}")
    make_book([known[number] for number in sorted(set(options.numbers)) or known], options.out)
    print(options.out / "index.html")


if __name__ == "__main__":
    main()
