"""The lessons as a web site: links, figures, formulas, a failing lesson, widths in a browser."""

import os
import re
import shutil
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ElementTree
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
from lessons.book.__main__ import make_book, write_notebooks
from lessons.book.contents import PARTS, STATIONS, all_lessons, solutions
from lessons.book.formulas import mathml
from lessons.book.pages import LINKED, Page, is_formula, typeset

from convsim_mini.common.cli import UserError
from convsim_mini.core.attention import timing_signal
from convsim_mini.core.optim import adam

FAILING = '''# %% [markdown]
# # 30 · Fails

# %%
x = 1

# %%
assert x == 2, "two was expected"
'''


# ---------------------------------------------------------------- formulas

def structure(text):
    """What a formula became, in brackets: 1/(a b) → mfrac[1,ab]; None where it stays text."""
    def inside(element):
        parts = [inside(child) for child in element]
        if element.tag in ("math", "mrow"):
            return "".join(parts)
        return f"{element.tag}[{','.join(parts)}]" if parts else element.text or ""
    result = mathml(text)
    return result and inside(ElementTree.fromstring(result))


@pytest.mark.parametrize("text, expected", [
    ("∂y_i/∂x_j", "mfrac[∂msub[y,i],∂msub[x,j]]"),
    ("u (|f| + |x f′|)/ε", "mfrac[u(|f|+|xf′|),ε]"),
    ("s = q kᵀ/√m", "s=mfrac[qmsup[k,T],msqrt[m]]"),
    ("Σ_b c_b dy_b / √n_b", "munder[∑,b]mfrac[msub[c,b]dmsub[y,b],msqrt[msub[n,b]]]"),
    ("x/E‖y‖", "mfrac[x,E‖y‖]"), ("**a + b** c/d", "a+bmfrac[c,d]"), ("V_(l+1)", "msub[V,l+1]"),
    ("t^(k/(d/2 − 1))", "msup[t,k/(d/2−1)]"), ("√(1 − y²)", "msqrt[1−msup[y,2]]"),
    ("1 − f‴/6 · a b/c", "1−mfrac[f‴,6]·mfrac[ab,c]"), ("e^s_ij", "msup[e,msub[s,ij]]"),
    ("count_br²", "msubsup[count,br,2]"), ("σᵢ^{2p}", "msubsup[σ,i,2p]"), ("x̂ = c", "mover[x,^]=c"),
    ("p(c)^¾/Z", "mfrac[pmsup[(c),¾],Z]"), ("dv_j⁽ʷ⁾", "dmsubsup[v,j,(w)]"),
    ("x ← **(1 − η λ)** x", "x←(1−ηλ)x"), ("x / 10,000.5", "mfrac[x,10,000.5]"),
    # a slash whose reach the text leaves open stays one, and keeps the brackets around it
    ("ln n T/(n c)", "lnnT/(nc)"), ("(a + b)/c d", "(a+b)/cd"),
    ("‖Σ eᵢ‖² = Σ_{i≠j} eᵢ · eⱼ", "msup[‖Σmsub[e,i]‖,2]=munder[∑,i≠j]msub[e,i]·msub[e,j]"),
])
def test_a_formula_is_typeset(text, expected):
    assert structure(text) == expected


@pytest.mark.parametrize("text", [
    "a/b/c", "1/Σ a + b", "1/ln a · b", "x^2y", "√2π", "d|x| s", "p(a|b|c)", "(a + b", "a + b)",
    "**a**/b", "x_", "{a}", "a @ b", "a-b", "$x$", "f²′", "a constant · b", "()", "", "`x` = 1",
    "x_i_j", "**a + b**c/d", "a /", "∫ f",
])
def test_what_is_not_certain_stays_text(text):
    assert mathml(text) is None


def texts_of_all_lessons():
    """Each cell of text."""
    cells = [cell for lesson in all_lessons() for cell in jupytext.read(lesson.path).cells]
    return [cell.source for cell in cells if cell.cell_type == "markdown"]


def test_nothing_of_a_formula_is_lost():
    """Without brackets, slashes and spaces, text and MathML have the same characters in a row."""
    def characters(text):
        text = unicodedata.normalize("NFKD", text.replace("\u0302", "^").replace("\u0304", "¯"))
        text = text.replace("∑", "Σ").replace("\u0302", "^").replace(" \u0304", "¯")
        return sorted(re.sub(r"[][(){}/⁄_√*\s^¯\u0304]", "", text))

    parts = [part for text in texts_of_all_lessons() for part in re.split(r"\n\s*\n", text)]
    found = [part.rstrip(",.") for part in parts if is_formula(part)]
    typeset = {part: result for part in found if (result := mathml(part))}
    assert len(found) > 60 and len(typeset) > 0.9 * len({*found})
    for part, result in typeset.items():
        shown = "".join(ElementTree.fromstring(result).itertext())
        assert characters(shown) == characters(part), part


def test_formulas_in_sentences_are_typeset_and_words_are_not():
    text = ("If p_ij, 1/√(n − 3) and `q_i` are in batch_size, E_{ids n} (with P(r_j|i)/P(r_j)) is "
            "a K × K matrix (B, 1). *Of* a GPU and I, e.g. P@1: **Of w_0, (c_j/c_k)^2 (or d_k)**.")
    shown = typeset(text, {})
    assert re.sub(r"<math>.*?</math>", "@", shown) == (
        "If @, @ and `q_i` are in batch_size, @ (with @) is a "
        "@ matrix @. *Of* a GPU and I, e.g. P@1: **Of @, @ (or @)**.")
    assert "<msub><mi>p</mi><mrow><mi>i</mi><mi>j</mi></mrow></msub>" in shown


def test_cells_get_formulas_links_and_nothing_else():
    text = ("See lessons 2, 3 and 99 (Mu and\nHe 2018, Li 2018).\n\n    x_i = 0\n\n"
            "d|x| = **x & y** < 1\n\n**y = x²**")
    linked, code, left, shown = typeset(text, {2: "02_a.html", 3: "03.html"}, ["mu-2018"]).split(
        "\n\n")
    assert code == "    x_i = 0"
    assert linked == ("See lessons [2](02_a.html), [3](03.html) and 99 "
                      "([Mu and\nHe 2018](after.html#mu-2018), Li 2018).")
    text = "Mu and He's (2018), de Mu et al.'s (2018), Mu'\n(2018), Mu's 2018; not Mus (2018)"
    assert typeset(text, {}, ["mu-2018"]).count("](after.html#mu-2018)") == 4
    assert left == '<div class="formula"><code>d|x| = x &amp; y &lt; 1</code></div>'
    assert "<math" in shown and "<msup>" in shown and "key" not in shown


def test_every_paper_that_a_lesson_names_stands_among_the_references():
    page = (ROOT / "lessons" / "book" / "after.md").read_text()
    papers = re.findall(r'<a id="(.*?)">', page)
    named = {f"{found['author']}-{found['year']}".lower() for cell in texts_of_all_lessons()
             for found in LINKED.finditer(cell) if found["author"]}
    assert named <= set(papers) and {"glorot-2010", "levy-2014", "williams-1959"} <= named


def test_every_lesson_has_its_place_and_every_exercise_its_solution():
    lessons = {lesson.number: lesson for lesson in all_lessons()}
    picture = (ROOT / "lessons" / "book" / "machine.svg").read_text()
    stations = set(re.findall(r'<g id="(\w+)"', picture))
    assert set(STATIONS) | set(PARTS) <= set(lessons)
    assert set(lessons) - set(STATIONS) == {0, 24, 25}    # these are about all of it
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
    readme.write_text(readme.read_text().replace("\n\nSeconds of", f"\n{row}\n\nSeconds of"))
    done = book(folder, "25", "14", "02")
    assert (done.returncode, done.stdout) == (0, "book/index.html\n"), done.stderr
    return folder


def pages_of(folder):
    """The pages of the book, without those that show a file of the project."""
    return sorted(set((folder / "book").glob("*.html")) - set(files_of(folder)))


def files_of(folder):
    return sorted((folder / "book").glob("*.py.html"))


def test_all_links_lead_somewhere_and_nothing_comes_from_elsewhere(clone):
    assert [page.name for page in pages_of(clone)] == [
        "02_finite_differences.html", "13_timing_signal.html", "Cb_precision.html", "after.html",
        "index.html", "notation.html"]
    for page in [*pages_of(clone), *files_of(clone)]:
        text = page.read_text()
        assert "book.css" in text and "@import" not in text
        named = re.findall(r'\b(src|href)="([^"]*)"', text)
        for kind, name in named:
            if re.match(r"\w+:|/", name):
                assert kind == "href" and name.startswith("https:") and page.name == "after.html"
                continue
            file, _, anchor = name.partition("#")
            target = page.parent / file if file else page
            assert target.is_file(), f"{page.name}: {name}"
            assert not anchor or f'id="{anchor}"' in target.read_text(), f"{page.name}: {name}"
    urls = re.findall(r"url\((.*?)\)", (clone / "book" / "book.css").read_text())
    assert urls == ["math.woff"]
    assert 10_000 < (clone / "book" / "math.woff").stat().st_size < 100_000


def test_output_figures_and_formulas_are_there(clone):
    text = pages_of(clone)[0].read_text()
    assert 'rel="next" href="13_timing_signal.html"' in text and 'rel="prev"' not in text
    assert "exercise 1: not solved yet" in text and "(expected 0.99 to 1.01)" in text
    assert ('<img alt="A smaller step bends less and rounds more: float64 gives eleven digits, '
            'float32 five" src="figures/02_finite_differences_0.png"') in text
    assert text.count("<math") >= 4 and "<mfrac>" in text
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
        "Imports": 1, "Predicted? See what happens": 3, "The drawing": 2,
        "The judge": 2, "A solution, and wrong answers that tempt": 2}
    before = text.partition("at distance 100: 1 − 5.18/9.21 = 0.44:")[0]
    assert before.count("<details") == before.count("</details>") + 1
    assert 'id="bag" class="here station"' in text and text.count('class="here ') == 1


@pytest.mark.parametrize("lesson", all_lessons(), ids=lambda lesson: lesson.path.stem)
def test_what_explains_an_answer_is_folded_with_it(lesson):
    """After each prediction come its fold and a new section: no sentence tells the answer."""
    notebook = jupytext.read(lesson.path)
    for cell in notebook.cells:
        if cell.cell_type == "code":    # as if it had run
            cell.outputs = [new_output("display_data", data={"image/png": ""})]
    body = Page(lesson, notebook, {}, []).body
    open_ones = re.sub(r'<details class="(?!told).*?</details>', "", body, flags=re.DOTALL)
    shown, *after = re.split(r'<details class="told">.*?</details>', open_ones, flags=re.DOTALL)
    assert len(after) == lesson.path.read_text().count("**Predict") > 0
    assert all("<strong>Predict" in text for text in (shown, *after[:-1]))
    for text in after:    # what leads to the next prediction stays outside, too
        assert re.match(r"\s*<(h2|h3|p><strong>(?!Predict))", text), text[:200]


@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.long), 25])
def test_notebooks_run_in_another_folder(number, tmp_path):
    lesson = all_lessons()[number]
    write_notebooks(tmp_path / "made", [lesson])
    env = {**os.environ, "OMP_NUM_THREADS": "1", "IPYTHONDIR": str(tmp_path / "ipython")}
    notebook = tmp_path / "made" / f"{lesson.path.stem}.ipynb"
    done = subprocess.run([sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute",
                           "--inplace", notebook], cwd=tmp_path, env=env, capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    text = notebook.read_text()
    assert "exercise 1: not solved yet" in text and '"image/png"' in text
    assert "Warning" not in text


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
    done = book(clone, "25", "--out", "other")
    assert done.returncode == 0, done.stderr
    names = {path.name for path in (clone / "other").glob("*")}
    assert "Cb_precision.html" in names and "13_timing_signal.html" not in names
    (clone / "other" / "book.css").unlink()
    with pytest.raises(UserError, match="exists and is no book"):
        make_book([], clone / "other")
    shutil.rmtree(clone / "other")
    done = book(clone, "77")
    assert (done.returncode, done.stderr) == (
        2, "error: 77: is no lesson; there are 0 to 30\n")


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
    assert browser.console == []


def clock():
    signal = timing_signal(8, 512, np.float64)
    return [f"{signal[0] @ signal[7] / 256:.4f}"]


def bowl():
    """The losses after 40 steps of momentum and of the library's Adam, in a bowl turned by 30°."""
    c, s, start = np.cos(np.radians(30)), 0.5, [3, 0.8]
    turn = np.array([[c, -s], [s, c]])
    A = turn @ np.diag([1.0, 20.0]) @ turn.T
    x, v, y, m, squares = turn @ start, np.zeros(2), turn @ start, np.zeros(2), np.zeros(2)
    for t in range(1, 41):
        v = 0.5 * v - 0.05 * A @ x
        x = x + v
        adam([y], [A @ y], [m], [squares], t, 0.05, 0.5, 0.999, 1e-8)
    return [f"{z @ A @ z / 2:.2e}" for z in (x, y)]


@pytest.mark.parametrize("piece, sliders, expected", [
    ("13_timing_signal", {"words": 50, "distance": 7}, clock),
    ("16_bowl", {"rate": 0.05, "momentum": 0.5, "angle": 30}, bowl)])
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
    numbers = [float(number) for number in re.findall(r"\d+\.\d+(?:e-?\d+)?", said)]
    for number in map(float, expected()):
        assert any(np.isclose(number, found, rtol=6e-3, atol=0) for found in numbers), said


def test_marks_are_kept_and_the_search_finds_headings(clone, browser):
    opened(browser, clone / "book" / "index.html")
    browser.run("""document.querySelector("input[data-lesson='14']").click();
        search.value = "exercise clock"; search.dispatchEvent(new Event("input"))""")
    found = browser.run("""[...document.querySelectorAll("#headings li:not([hidden])")]
        .map(item => item.textContent).join("; ")""")
    assert found == ("14 · Exercise 1: wind the clock forward; "
                     "14 · Exercise 2: break the clock")
    assert browser.run("localStorage.getItem('convsim lesson 14')") == "read"
