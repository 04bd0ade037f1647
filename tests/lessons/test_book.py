"""The lessons as a web site: links, figures, a failing lesson, widths in a browser."""

import itertools
import os
import re
import shutil
import subprocess
import sys
from collections import Counter

import pytest

from conftest import ROOT

for package in ("jupytext", "nbconvert", "ipykernel"):
    pytest.importorskip(package)

sys.path.insert(0, str(ROOT))

import jupytext
import numpy as np
from browser import Browser
from nbformat.v4 import new_markdown_cell, new_notebook, new_output
from lessons.book.__main__ import names_in, made_in, make_book, put_in_place, write_notebooks
from lessons.book.contents import PARTS, STATIONS, all_lessons, solutions
from lessons.book.pages import LINKED, Page, typeset, with_links

from convsim_mini.common.cli import UserError
from convsim_mini.common.files import OURS

FAILING = '''# %% [markdown]
# # 30 · Fails

# %%
x = 1

# %%
assert x == 2, "two was expected"
'''


# ---------------------------------------------------------------- texts

def texts_of_all_lessons():
    """Each cell of text."""
    cells = [cell for lesson in all_lessons() for cell in jupytext.read(lesson.path).cells]
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


def test_cells_get_links_and_formulas_a_block_and_nothing_else():
    text = ("See lessons 2, 3, A and 99 (Mu and\nHe 2018, Li 2018).\n\n    x_i = 0\n\n"
            "d|x| = **x & y** < 1\n\n**y = x_i²**\n\nSo y = x_i * 2_i.")
    linked, code, formula, key, left = with_links(
        text, {"2": "02_a.html", "3": "03.html", "A": "A.html"}, ["mu-2018"]).split("\n\n")
    assert code == "    x_i = 0" and left == "So y~=~x<sub>i</sub> * 2_i.".replace("~", "\xa0")
    assert typeset("e^s_ij, σ^{2p} e^(−K/(K − 1)), dx̂_i some_name a.b_c 2^k") == (
        "e<sup>s<sub>ij</sub></sup>, σ<sup>2p</sup> e<sup>−K/(K − 1)</sup>, dx̂<sub>i</sub> "
        "some_name a.b_c 2<sup>k</sup>")
    text = "so dx\n= dy Wᵀ, p (dp − 2) and 2 · 1 + 1 · 1 + 1 · 1 + 1 · 1 = 4 with ln 2"
    assert with_links(text, {}).replace("\xa0", "~") == (    # a long formula may break before its =
        "so dx~=~dy~W<sup>T</sup>, p~(dp~−~2) and 2~·~1~+~1~·~1~+~1~·~1~+~1~·~1 =~4 with ln~2")
    assert linked == ("See lessons [2](02_a.html), [3](03.html), [A](A.html) and 99 "
                      "([Mu and\nHe 2018](after.html#mu-2018), Li 2018).")
    text = "Mu and He's (2018), de Mu et al.'s (2018), Mu'\n(2018), Mu's 2018; not Mus (2018)"
    assert with_links(text, {}, ["mu-2018"]).count("](after.html#mu-2018)") == 4
    assert formula == '<div class="formula">d|x| = <strong>x &amp; y</strong> &lt; 1</div>'
    assert key == '<div class="formula">y = x<sub>i</sub>²</div>'


def test_every_paper_that_a_lesson_names_stands_among_the_references():
    page = (ROOT / "lessons" / "book" / "after.md").read_text()
    papers = re.findall(r'<a id="(.*?)">', page)
    named = {f"{found['author']}-{found['year']}".lower() for cell in texts_of_all_lessons()
             for found in LINKED.finditer(cell) if found["author"]}
    assert named <= set(papers) and {"glorot-2010", "levy-2014", "efron-1979"} <= named


def test_every_lesson_has_its_place_and_every_exercise_its_solution():
    lessons = {lesson.number: lesson for lesson in all_lessons()}
    picture = (ROOT / "lessons" / "book" / "machine.svg").read_text()
    stations = set(re.findall(r'<g id="(\w+)"', picture))
    assert set(STATIONS) | set(PARTS) <= set(lessons)
    assert set(lessons) - set(STATIONS) == {"0", "11", "C"}    # these are about all of it
    assert set(" ".join(STATIONS.values()).split()) == stations
    for lesson in lessons.values():
        exercises = re.findall(r"^check\((\d+), ", lesson.path.read_text(), re.MULTILINE)
        assert sorted(map(str, solutions(lesson))) == exercises


# ---------------------------------------------------------------- the site

def book(folder, *arguments):
    """Run the command in a folder that holds lessons/; → the finished process."""
    env = {name: value for name, value in os.environ.items() if name != "CONVSIM_DATA"}
    return subprocess.run([sys.executable, "-m", "lessons.book", *arguments], cwd=folder, env=env,
                          capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A copy of the lessons with a failing one, and a book of two of them."""
    folder = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "lessons", folder / "lessons",
                    ignore=shutil.ignore_patterns("figures", "__pycache__"))
    (folder / "convsim_mini").symlink_to(ROOT / "convsim_mini")
    (folder / "lessons" / "30_fails.py").write_text(FAILING)
    readme = folder / "lessons" / "README.md"
    row = "| 30 | [Fails](30_fails.py) | 1 | an error |"
    readme.write_text(readme.read_text().replace("\n\nMinutes are", f"\n{row}\n\nMinutes are"))
    done = book(folder, "C", "13", "02")
    assert (done.returncode, done.stdout) == (0, "book/index.html\n"), done.stderr
    return folder


def pages_of(folder):
    """The pages of the book, without those that show a file of the project."""
    return sorted(set((folder / "book").glob("*.html")) - set(files_of(folder)))


def files_of(folder):
    return sorted((folder / "book").glob("*.py.html"))


def test_all_links_lead_somewhere_and_nothing_comes_from_elsewhere(clone):
    assert [page.name for page in pages_of(clone)] == [
        "02_finite_differences.html", "13_timing_signal.html", "C_what_a_gpu_does_differently.html",
        "after.html", "index.html", "notation.html"]
    for page in [*pages_of(clone), *files_of(clone)]:
        text = page.read_text()
        assert "book.css" in text and "@import" not in text
        named = re.findall(r'\b(src|href)="([^"]*)"', text)
        for kind, name in named:
            if re.match(r"\w+:|/", name):
                assert kind == "href" and name.startswith("https:")
                continue
            file, _, anchor = name.partition("#")
            target = page.parent / file if file else page
            assert target.is_file(), f"{page.name}: {name}"
            assert not anchor or f'id="{anchor}"' in target.read_text(), f"{page.name}: {name}"
    assert "url(" not in (clone / "book" / "book.css").read_text()


def test_output_figures_and_formulas_are_there(clone):
    text = pages_of(clone)[0].read_text()
    assert 'rel="next" href="13_timing_signal.html"' in text and 'rel="prev"' not in text
    assert "exercise 1: not solved yet" in text and "(expected 0.99 to 1.01)" in text
    assert ('<img alt="A smaller step bends less and rounds more: float64 gives eleven digits, '
            'float32 five" src="figures/02_finite_differences_1.png"') in text
    assert text.count('<div class="formula">') >= 2
    figures = list((clone / "book" / "figures").iterdir())
    assert figures and all(figure.read_bytes()[:4] == b"\x89PNG" for figure in figures)


def test_files_that_a_lesson_names_are_links_to_pages_with_their_code(clone):
    text = pages_of(clone)[0].read_text()
    assert '<a href="core.gradcheck.py.html"><code>core/gradcheck.py</code></a>' in text
    shown = (clone / "book" / "core.gradcheck.py.html").read_text()
    assert "<h1>convsim_mini/core/gradcheck.py</h1>" in shown and 'class="highlight"' in shown
    assert '<div id="relative_error">' in shown and 'href="#relative_error"' in shown
    names = "`core/optim.py: update_rows`, `yours/linear.py`, `no/file.py`, `config.py x`"
    notebook = new_notebook(cells=[new_markdown_cell(names)])
    page = Page(all_lessons()[3], notebook, {}, [])
    assert page.files == {"core.optim.py.html": ROOT / "convsim_mini" / "core" / "optim.py"}
    assert page.body.count("<a ") == 1


def test_answers_imports_and_drawings_are_folded_and_the_station_is_marked(clone):
    text = pages_of(clone)[1].read_text()
    assert Counter(re.findall("<summary>(.*?)</summary>", text)) == {
        "On this page": 1, "Imports": 1, "Predicted? See what happens": 4, "The drawing": 1,
        "The judge": 2, "A solution, and wrong answers that tempt": 2,
            "What it claims, over five seeds": 1}
    before = text.partition("at distance 100: 1 − 5.18/9.21 = 0.44:")[0]
    assert before.count("<details") == before.count("</details>") + 1
    assert 'id="bag" class="here station"' in text and text.count('class="here ') == 1


@pytest.mark.parametrize("lesson", all_lessons(), ids=lambda lesson: lesson.path.stem)
def test_each_prediction_has_a_fold_with_its_answer_alone(lesson):
    notebook = jupytext.read(lesson.path)
    for cell in notebook.cells:
        if cell.cell_type == "code":    # as if it had run
            cell.outputs = [new_output("display_data", data={"image/png": ""})]
    page = Page(lesson, notebook, {}, [])
    body = page.body
    flat = re.sub(r'<details class="(?:solution)?">.*?\n</details>', "", body, flags=re.DOTALL)
    shown, *after = re.split(r'<details class="told">.*?\n</details>', flat, flags=re.DOTALL)
    assert len(after) == lesson.path.read_text().count("**Predict") > 0
    assert all("<strong>Predict" in text for text in (shown, *after[:-1]))
    texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    for asks, tells in itertools.pairwise(texts):    # the answer is not below the closed fold
        answer = tells.partition("\n\n")[0]
        if "**Predict" in asks and not re.match(r"#|\*\*", answer) and "**Predict" not in answer:
            assert not any(page.markdown(answer) in text for text in after), answer
    before = body.partition('<div id="live">')[0]    # a figure to play with is in no fold
    assert before.count("<details") == before.count("</details>")


def test_notebooks_run_in_another_folder(tmp_path):
    lesson = all_lessons()[7]    # it imports a file of lessons/ besides lesson.py
    (tmp_path / "made").mkdir()
    write_notebooks(tmp_path / "made", [lesson])
    (tmp_path / "made").rename(tmp_path / "moved")
    env = {**os.environ, "OMP_NUM_THREADS": "1", "IPYTHONDIR": str(tmp_path / "ipython")}
    for set_here in ("PYTHONPATH", "MPLBACKEND"):             # the second by lesson.py
        env.pop(set_here, None)
    notebook = tmp_path / "moved" / "lessons" / f"{lesson.path.stem}.ipynb"
    done = subprocess.run([sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute",
                           "--inplace", notebook], cwd=tmp_path, env=env, capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    text = notebook.read_text()
    assert "exercise 1: not solved yet" in text and '"image/png"' in text
    assert "Warning" not in text and str(ROOT) not in text


def test_a_failing_lesson_leaves_the_old_book(clone):
    before = {page: page.read_bytes() for page in pages_of(clone)}
    done = book(clone, "30")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(                              # ZeroMQ may say a word before it
        "error: lessons/30_fails.py, cell at line 8: AssertionError: two was expected; "
        "run python lessons/30_fails.py to see more; no book was made\n")
    assert {page: page.read_bytes() for page in pages_of(clone)} == before
    assert {path.name for path in clone.iterdir()} == {"lessons", "convsim_mini", "book"}


def test_a_book_takes_the_place_of_a_book_and_of_nothing_else(clone):
    shutil.copytree(clone / "book", clone / "other")
    done = book(clone, "C", "--out", "other")
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (clone / "other").glob("*")}
    assert "C_what_a_gpu_does_differently.html" in names and "13_timing_signal.html" not in names
    own = clone / "other" / "C_what_a_gpu_does_differently.html"
    own.write_text((made := own.read_text()) + "<p>my note</p>")
    with pytest.raises(UserError, match="other: already exists and was not changed; choose"):
        make_book([], clone / "other")
    assert own.read_text().endswith("my note</p>")
    own.write_text(made)
    with pytest.raises(UserError, match="lessons: already exists"):    # it is not even read
        make_book([], clone / "lessons")
    for make in (os.mkdir, os.mkfifo, lambda path: path.symlink_to(own),
                 lambda path: path.write_text("a year of work")):
        make(mine := clone / "other" / "mine")
        with pytest.raises(UserError, match="other: already exists and was not changed; choose"):
            make_book([], clone / "other")
        mine.rmdir() if mine.is_dir() else mine.unlink()
    shutil.rmtree(clone / "other")
    done = book(clone, "77")
    assert (done.returncode, done.stderr[:40]) == (2, "error: 77: not a lesson; there are 0, 1,")


def test_a_book_that_is_cut_while_it_is_put_in_place_is_still_a_book(tmp_path, monkeypatch):
    def new(text):
        (folder := tmp_path / text).mkdir()
        (folder / "page").write_text(text)
        (folder / f"{text}.html").write_text(text)
        return folder

    put_in_place(new("one"), out := tmp_path / "out")
    with monkeypatch.context() as patch, pytest.raises(TypeError):
        patch.setattr(shutil, "copymode", None)               # called before a page is replaced
        put_in_place(new("two"), out)
    assert names_in(out) <= made_in(out)
    (out / f"{OURS}-abc").mkdir()                             # of a command that was killed
    (out / f"{OURS}-abc" / "page").touch()
    assert names_in(out) <= made_in(out)
    put_in_place(new("three"), out)
    assert {name[9:] for name in names_in(out)} == {"page", "three.html"}
    assert names_in(out) == made_in(out)


# ---------------------------------------------------------------- in a browser

@pytest.fixture
def browser(tmp_path):
    """A Browser. Tests are skipped without Chromium."""
    browser = Browser(tmp_path / "profile")
    yield browser
    browser.close()


def opened(browser, page):
    """The browser, once it shows a page."""
    browser.send("Page.navigate", url=page.as_uri())
    browser.wait_for(f"location.href.endsWith('{page.name}') && document.readyState === 'complete'")
    return browser


def test_no_page_is_wider_than_its_window_and_no_script_fails(clone, browser):
    for width in (1280, 390):
        browser.look(width, 800)
        for page in [*pages_of(clone), files_of(clone)[0]]:
            needed = opened(browser, page).run("document.documentElement.scrollWidth")
            assert needed <= width, page.name
    opened(browser, pages_of(clone)[0]).run("document.querySelector('.figure').click()")
    assert browser.run("document.querySelector('.figure').className") == "figure large"
    assert browser.console == []


def test_each_piece_to_play_with_belongs_to_a_figure():
    lessons = "".join(lesson.path.read_text("utf-8") for lesson in all_lessons())
    for path in (ROOT / "lessons" / "book" / "live").glob("*.js"):
        assert f'show(figure, "{path.stem}")' in lessons, path.name


# What the library gives: the loss of four pairs on a circle; the mean of a head's g, m = 256,
# without the √m; the cosine of two positions; the steps to a thousandth of momentum and of Adam.
@pytest.mark.parametrize("piece, sliders, expected", [
    ("05_batch_softmax_loss", {"scale": 5}, [0.0907]),
    ("12_who_gets_the_gradient", {"power": 8}, [0.0672443]),
    ("13_timing_signal", {"distance": 7}, [0.7349]),
    ("16_optimisers", {"rate": -3, "momentum": 0.9, "adam": -2, "angle": 30}, [289, 588])])
def test_a_piece_to_play_with_has_the_library_s_numbers(
        tmp_path, browser, piece, sliders, expected):
    script = (ROOT / "lessons" / "book" / "live" / f"{piece}.js").as_uri()
    page = tmp_path / "page.html"
    page.write_text(f'<div id="live"></div><script src="{script}"></script>')
    opened(browser, page)
    for name, value in sliders.items():
        browser.run(f"document.querySelector('[name={name}]').value = {value}; "
                    "document.querySelector('#live').dispatchEvent(new Event('input'))")
    said = browser.run("document.querySelector('#said').textContent")
    numbers = [float(number) for number in re.findall(r"\d+(?:\.\d+)?", said)]
    for number in expected:
        assert any(np.isclose(number, found, rtol=1e-4, atol=0) for found in numbers), said


def test_marks_are_kept_and_the_search_finds_headings(clone, browser):
    opened(browser, clone / "book" / "index.html")
    browser.run("""document.querySelector("input[data-lesson='13']").click();
        search.value = "exercise clock"; search.dispatchEvent(new Event("input"))""")
    found = browser.run("""[...document.querySelectorAll("#headings li:not([hidden])")]
        .map(item => item.textContent).join("; ")""")
    assert found == ("13 · Exercise 1: wind the clock forward; "
                     "13 · Exercise 2: break the clock")
    assert browser.run("localStorage.getItem('convsim lesson 13')") == "read"
