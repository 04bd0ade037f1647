"""The lessons as a small web site, each with its output and figures, to be read without running.

    python -m lessons.book                     all, from the repository's folder: book/index.html
    python -m lessons.book 2 16 --out FOLDER   these two, into another folder
    python -m lessons.book --notebooks FOLDER  notebooks instead, not run; FOLDER may be moved

Needs tests/requirements.txt. The site works from the disk and loads nothing from elsewhere.
"""

import atexit
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from html import escape
from string import Template
from zlib import crc32

from convsim_mini.common.cli import (
    Parser, UserError, errors_in_one_line, path_of, progress, python_m, user_errors)
from convsim_mini.common.files import OURS, check_folder, new_folder, workplace, write_text

from .. import claims
from .contents import HERE, LESSONS, PARTS, STATIONS, chosen, section

try:
    import jupytext
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, DeadKernelError
    from nbconvert.filters import markdown2html
    from nbformat.v4 import new_code_cell
    from pygments.formatters import HtmlFormatter

    from .pages import Page, fold, linked, machine, python, with_links
except ModuleNotFoundError as error:
    jupytext = None
    missing = error.name

MADE = f"{OURS}.book"    # lists a book's files and their checksums: no others are replaced
MORE = {"notation": "Notation", "after": "After the lessons"}    # pages besides the lessons

HOME = ('<a href="index.html">All lessons</a><a href="notation.html">Notation</a>'
        '<a href="after.html">After</a>')

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


def run(path, folder, clients):
    """A lesson as a notebook, with its output; its kernel has settings of its own in `folder`.

    clients: list to which the one that runs it is added
    Raises UserError, which names the cell, where one fails.
    """
    notebook = jupytext.read(path)
    notebook.cells.insert(0, new_code_cell(NAME_FIGURES))
    started = []
    client = NotebookClient(notebook, kernel_name="python3",
                            extra_arguments=["--IPKernelApp.log_level=ERROR"],
                            resources={"metadata": {"path": str(path.parent)}},
                            on_cell_start=lambda cell, cell_index: started.append(cell))
    clients.append(client)
    environment = {**os.environ, "IPYTHONDIR": str(folder), "OMP_NUM_THREADS": "1",
                   "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    try:
        client.execute(env=environment)
    except (CellExecutionError, DeadKernelError, RuntimeError) as error:    # it may not even start
        code = path.read_text(encoding="utf-8")
        line = code.partition(started[-1].source)[0].count("\n") + 1 if started else 1
        reason = f"{error.ename}: {error.evalue}" if hasattr(error, "ename") else str(error)
        raise UserError(f"lessons/{path.name}, cell at line {line}: "
                        f"{' '.join(reason.split())}; run python lessons/{path.name} to see more; "
                        "no book was made") from None
    del notebook.cells[0]
    return notebook


def names_in(folder):
    """What is below a folder but for MADE and unfinished work: "CHECKSUM NAME"; "NAME/": no file"""
    return {f"{crc32(path.read_bytes()):08x} {path.relative_to(folder).as_posix()}"
            if path.is_file() and not path.is_symlink() else f"{path.relative_to(folder)}/"
            for path in folder.rglob("*")
            if not path.relative_to(folder).parts[0].startswith(OURS)}


def made_in(folder):
    """Those that belong to the book there, or to the old and the new one until it is complete."""
    path = folder / MADE
    return {*path.read_text("utf-8", "replace").split("\n")} if path.exists() else set()


def is_book(folder):
    """Whether a folder holds a book that nobody has changed, or nothing but unfinished work."""
    if all(path.name.startswith(OURS) for path in folder.iterdir()):
        return True
    return (folder / MADE).is_file() and names_in(folder) <= made_in(folder)


def write_book(folder, lessons, notebooks):
    """All pages, figures and the style into a folder."""
    template = Template((HERE / "page.html").read_text(encoding="utf-8"))
    pages = {lesson.number: lesson.page for lesson in lessons}
    texts = {name: (HERE / f"{name}.md").read_text(encoding="utf-8") for name in MORE}
    papers = re.findall(r'<a id="(.*?)">', texts["after"])
    (folder / "figures").mkdir()
    shutil.copytree(LESSONS / "pictures", folder / "pictures")

    def write(name, title, body, navigation="", headings=()):
        items = "".join(f'<li><a href="#{anchor}">{text}</a></li>' for anchor, text in headings)
        contents = (f'<nav class="contents" aria-label="On this page"><details>'
                    f"<summary>On this page</summary><ol>{items}</ol></details></nav>")
        page = template.substitute(title=escape(title), navigation=HOME + navigation, body=body,
                                   contents=contents if items else "")
        (folder / name).write_text(page, encoding="utf-8")

    made, files = [], {}
    for before, lesson, after in zip([None, *lessons], lessons, [*lessons[1:], None]):
        page = Page(lesson, notebooks[lesson], pages, papers)
        made.append((lesson, page))
        files.update(page.files)
        for name, data in page.figures.items():
            (folder / name).write_bytes(data)
        ways = [(before, "prev", "←"), (after, "next", "→")]
        links = [f'<a rel="{rel}" href="{to.page}">{arrow} {to.number} · {escape(to.title)}</a>'
                 for to, rel, arrow in ways if to]
        about = "" if lesson.number in STATIONS else (
            "<figcaption>This lesson is about the whole picture.</figcaption>")
        table = claims.read().get(lesson.path.name, "")
        claimed = table and fold("What it claims, over five seeds", markdown2html(table), "claims")
        body = (f"<figure>{machine(STATIONS.get(lesson.number), pages)}{about}</figure>{page.body}"
                f"{claimed}<p>{mark(lesson, 'I have read this lesson')}</p>")
        write(lesson.page, f"{lesson.number} · {lesson.title}", body, "".join(links), page.headings)
    for name, title in MORE.items():
        write(f"{name}.html", title, markdown2html(with_links(texts[name], pages)))
    for name, path in files.items():
        functions = re.split(r"\n\n\n(?=def |class |@)", path.read_text(encoding="utf-8"))
        names = [re.match(r"(?:@.*\n)*(?:def|class) (\w+)|", code)[1] or "" for code in functions]
        title = path.relative_to(LESSONS.parent).as_posix()
        write(name, title, f"<h1>{title}</h1>" + "".join(
            f'<div id="{function or "top"}">{python(code)}</div>'
            for function, code in zip(names, functions)),
            headings=[(function, function) for function in names if function])
    write("index.html", "Contents", index(made, pages))
    colours = [HtmlFormatter(style=style).get_style_defs(".highlight")
               for style in ("default", "github-dark")]
    (folder / "book.css").write_text(
        "{}\n@media (prefers-color-scheme: dark) {{\n{}\n}}\n".format(*colours)
        + (HERE / "book.css").read_text(encoding="utf-8"), encoding="utf-8")
    for script in [HERE / "book.js", *(HERE / "live").glob("*.js")]:
        shutil.copy(script, folder)


def mark(lesson, text):
    """A box to tick when a lesson is read; the browser keeps it."""
    box = f'<input type="checkbox" data-lesson="{lesson.number}">'
    return f'<label class="script">{box} {text}</label>'


def index(made, pages):
    """The body of the first page. made: (Lesson, Page) of each."""
    rows = []
    for lesson, page in made:
        if lesson.number in PARTS:
            rows.append(f"</ul><h2>{PARTS[lesson.number]}</h2><ul>")
        picture = f'<img loading="lazy" alt="" src="{list(page.figures)[-1]}">'
        rows.append(f'<li><a href="{lesson.page}">{picture}{lesson.number} · '
                    f"{escape(lesson.title)}</a> <small>{lesson.minutes} minutes "
                    f"{mark(lesson, 'read')}</small>{markdown2html(lesson.shows)}</li>")
    paths = re.sub(r"\d+", lambda found: linked(found[0], pages), section("Four paths"))
    headings = "".join(
        f'<li><a href="{lesson.page}#{anchor}">{lesson.number} · {text}</a></li>'
        for lesson, page in made for anchor, text in page.headings)
    return Template((HERE / "index.html").read_text(encoding="utf-8")).substitute(
        machine=machine(None, pages), rows="".join(rows), headings=headings,
        paths=markdown2html(paths), yours=markdown2html(section("Write it yourself")))


def write_notebooks(folder, lessons):
    """The lessons as notebooks that have not run, with all that they import: they run anywhere."""
    names = ("__pycache__", "figures", "solutions", f"{OURS}*",
             *(lesson.path.name for lesson in lessons))
    for source in (LESSONS, LESSONS.parent / "convsim_mini"):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns(*names))
    shutil.copy(LESSONS.parent / "requirements.txt", folder)
    for lesson in lessons:
        jupytext.write(jupytext.read(lesson.path),
                       folder / "lessons" / f"{lesson.path.stem}.ipynb")


def make_book(lessons, out):
    """Run these lessons on all cores, write the book, then put it where the old one was.

    Raises UserError where a lesson fails or `out` holds anything but a book.
    """
    advice = "choose another folder with --out"
    with user_errors(f"{out}: cannot be written", advice):
        out = check_folder(out, advice, is_book)
    # in the folder itself, as it may be a mount
    with (user_errors(f"{out}: cannot be written", advice),
          workplace(out if out.is_dir() else out.parent) as beside):
        new, notebooks, clients = beside / "new", {}, []
        new.mkdir()
        pool = ThreadPoolExecutor(os.cpu_count())
        try:
            waiting = {pool.submit(run, lesson.path, beside, clients): lesson for lesson in lessons}
            for done in progress(as_completed(waiting), total=len(lessons), unit="lesson"):
                notebooks[waiting[done]] = done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for client in clients:             # after an error or Ctrl-C some are at work
                atexit.unregister(client._cleanup_kernel)     # which cannot end what is gone
                if client.km and client.km.has_kernel:
                    client.km.provisioner.process.kill()
            pool.shutdown()
        write_book(new, lessons, notebooks)
        put_in_place(new, out)


def put_in_place(new, out):
    """Move the files of the book `new` to `out`, then delete those of the old book that it lacks.

    So `out` keeps its mode, owner and links, and is always a book.
    """
    out.mkdir(parents=True, exist_ok=True)
    names, made = names_in(new), made_in(out)
    write_text(out / MADE, "\n".join(names | made))
    for name in (name.partition(" ")[2] for name in names if not name.endswith("/")):
        (out / name).parent.mkdir(exist_ok=True)
        if (out / name).exists():                             # it keeps its mode and owner
            shutil.copymode(out / name, new / name)
            with suppress(OSError, AttributeError):
                shutil.chown(new / name, (out / name).stat().st_uid, (out / name).stat().st_gid)
        os.replace(new / name, out / name)
    for name in made & names_in(out) - names:                 # never outside, whatever MADE says
        (out / name.partition(" ")[2]).unlink()
    write_text(out / MADE, "\n".join(sorted(names)))


@errors_in_one_line()
def main(argv=None):
    """The command."""
    parser = Parser("lessons.book", __doc__)
    parser.add_argument("numbers", nargs="*", help="which lessons (default: all)")
    parser.add_argument("--out", type=path_of, default="book", help="folder (default: book)")
    parser.add_argument("--notebooks", type=path_of, metavar="FOLDER",
                        help="write notebooks that have not run into this new folder, and no book")
    options = parser.parse_args(argv)
    if not jupytext:
        raise UserError(f"it needs {missing}: {python_m('pip install -r tests/requirements.txt')}")
    lessons = chosen(options.numbers)
    if options.notebooks:
        with new_folder(options.notebooks, "choose another folder") as folder:
            write_notebooks(folder, lessons)
        print(options.notebooks)
    else:
        make_book(lessons, options.out)
        print(options.out / "index.html")


if __name__ == "__main__":
    main()
