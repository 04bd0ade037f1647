"""The report's page for a browser: nothing from elsewhere, all texts escaped, every point there."""

import html
import json
import re
import shutil
import subprocess

import pytest

from convsim_mini import train
from convsim_mini.training.options import parse_config
from convsim_mini.report.blocks import Figure, Table, to_html, to_markdown
from convsim_mini.report.results import Data, measure
from convsim_mini.report.web_page import run_blocks
from convsim_mini.training.run import load_run

from conftest import command

NOTHING = Data({}, {}, {})
BAD = "<script>throw 1</script> & \"quotes\""
TYPE = """<script>
const field = document.querySelector("input[type=search]");
field.value = "{}";
field.dispatchEvent(new Event("input"));
</script>"""


@pytest.fixture(scope="module")
def page(trained, pairs, tmp_path_factory):
    """The file that the command writes of a run and an STS dev of 41 pairs."""
    folder = tmp_path_factory.mktemp("page")
    genres = ("captions", "forums", "news")
    rows = [(f"main-{genres[k % 3]}", "file", "2012", "1", str(k % 6), *pair)
            for k, pair in enumerate([*pairs[:40], (BAD, "Another.")])]
    (folder / "sts-dev.csv").write_text("".join("\t".join(row) + "\n" for row in rows))
    done = command("report", trained[0], "--data", folder, "--out", folder, cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "report.html"


def part_of(text, title):
    """What stands below a run's first heading with this title."""
    return re.search(rf'<h3 id="part\d+">{title}</h3>(.*?)(<h\d|</body>)', text, re.DOTALL)[1]


def texts_of_points(text, title):
    """The titles of all circles in a part of a page, as a reader sees them."""
    inside = part_of(text, title)
    return [html.unescape(title) for title in re.findall(
        r"<circle [^>]*><title>(.*?)</title></circle>", inside, re.DOTALL)]


def test_the_page_is_one_file_without_anything_from_elsewhere(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', text) + re.findall(r"url\((.*?)\)", text)
    assert {name[0] for name in named} == {"#"}
    assert "@import" not in text and "<link" not in text and "<img" not in text
    assert ">run, untrained</text>" in text and ">TF-IDF cosine</text>" in text    # among the bars
    ids = re.findall(r'<h[23] id="(.*?)"', text)
    assert re.findall(r'<a href="#(.*?)"', text) == ids and len(set(ids)) == len(ids) == 17


def test_both_pages_show_the_same_tables(page):
    of_html = [html.unescape(re.sub(r"\s*<[^>]*>\s*", "|", row)).split("|")
               for row in re.findall(r"<tr>.*?</tr>", page.read_text(encoding="utf-8"), re.DOTALL)]
    of_html = [[cell for cell in row if cell] for row in of_html]
    lines = page.with_name("report.md").read_text(encoding="utf-8").splitlines()
    of_markdown = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines
                   if line.startswith("| ")]
    of_markdown = [[cell for cell in row if cell] for row in of_markdown]
    assert len(of_markdown) > 40 and of_html[:len(of_markdown)] == of_markdown


def test_a_list_of_blocks_becomes_markdown_and_html(tmp_path):
    blocks = ["## A & B", "### C", "Run `a < b`.", Table(["x"], [["<b>|"]]), Figure(
        "line", lambda path, text: path.write_text("<svg viewBox=\"0 0 72 36\"></metadata>"
                                                   f"{text}</svg>"), ("drawn",))]
    text = to_markdown("T", blocks, tmp_path)
    assert text.startswith("# T\n\n## A & B\n\n### C\n\nRun `a < b`.\n\n| x ")
    assert "| <b>\\|" in text and text.endswith("![line](line.png)\n")
    assert "drawn" in (tmp_path / "line.png").read_text()
    text = to_html("T", blocks)
    assert '<h2 id="part0">A &amp; B</h2>' in text and '<a href="#part1">C</a>' in text
    assert "<p>Run <code>a &lt; b</code>.</p>" in text and "&lt;b&gt;|" in text
    assert '<svg viewBox="0 0 72 36" width="72" role="img">drawn</svg>' in text


def test_every_text_is_escaped(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script") == 1
    assert html.escape(BAD) in text and BAD not in text


def test_each_pair_and_each_sentence_is_a_point(page, corpus):
    text = page.read_text(encoding="utf-8")
    pairs, sentences = (texts_of_points(text, title)
                        for title in ("Similarity", "Map of sentences"))
    assert len(pairs) == 41 and len(sentences) == 2 * corpus.dev.pairs
    assert re.fullmatch(rf"{re.escape(BAD)}\nAnother.\npeople 4.0, run \d\.\d", pairs[-1])
    first = corpus.dev.ids[:corpus.dev.offsets[1]]
    tokens = " ".join(map(corpus.vocabulary.token, first))
    assert sentences[0] == tokens.replace(" .", ".")


def test_points_lie_where_the_axes_say(page):
    text = page.read_text(encoding="utf-8")
    inside = part_of(text, "Similarity")
    at = {}
    for x, title in re.findall(r'<circle cx="(.*?)".*?<title>(.*?)</title>', inside, re.DOTALL):
        if found := re.search(r"people (\d\.\d)", title):
            at.setdefault(float(found[1]), set()).add(float(x))
    ticks = {float(label): float(x) for x, label in re.findall(
        r'<text style="[^"]*text-anchor: middle" x="(.*?)"[^>]*>(\d)</text>', inside)}
    assert len(at) == len(ticks) == 6
    for label, places in at.items():
        assert list(places) == pytest.approx([ticks[label]], abs=0.2)


def test_the_model_card_shows_what_the_run_is_and_what_departs_from_its_preset(page):
    text = part_of(page.read_text(encoding="utf-8"), "Model card")
    rows = [re.findall(r"<td>(.*?)\s*</td>", row) for row in text.split("</tr>")]
    assert ["optim.batch_size", "64", "1024"] in rows
    assert not {"seed", "optim.rate", "run"} & {row[0] for row in rows if len(row) == 3}
    assert "It is a deep averaging network" in text and "License: whoever publishes" in text
    assert "and on sentence pairs of SNLI" not in text


def test_what_is_not_here_is_named(run_copy, tmp_path):
    config = json.loads((run_copy / "config.json").read_text())
    (run_copy / "config.json").write_text(json.dumps(config | {"pairs": [str(tmp_path / "gone")]}))
    (run_copy / "log.jsonl").unlink()
    text = to_html("", run_blocks(measure(load_run(run_copy), NOTHING), NOTHING))
    assert "<code>log.jsonl</code> holds no curves" in text
    assert text.count("its pair files are not here") == 1     # the map
    assert "<code>python -m data_scripts.download stsbenchmark</code>" in text
    assert "<circle" not in text


def test_a_transformer_shows_its_attention(arguments, trained, tmp_path):
    folder, *_ = train.train(parse_config(list(map(str, [
        *arguments, "--encoder", "transformer", "--model.heads", 2, "--model.hidden", 16,
        "--steps", 2, "--evaluations", 1, "--run", tmp_path / "transformer"]))))
    runs = [measure(load_run(run), NOTHING) for run in (trained[0], folder)]
    text = to_html("", [block for run in runs for block in run_blocks(run, NOTHING)])
    assert text.count(">Attention</h3>") == 1
    assert text.index(">Attention</h3>") > text.index(">transformer</h2>")
    assert "layer 1, head 2" in text and text.count("data:image/png;base64,") == 2


# ---------------------------------------------------------------- in a browser

@pytest.fixture
def browse(tmp_path):
    """A function: text of a page → its DOM after its scripts ran, and what the console said."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser = next(filter(None, map(shutil.which, names)), None)
    if not browser:
        pytest.skip("no Chromium is installed: Debian's package chromium")

    def browse(text):
        (tmp_path / "page.html").write_text(text, encoding="utf-8")
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
             f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", tmp_path / "page.html"],
            capture_output=True, text=True, timeout=120)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return browse


def test_a_browser_finds_no_error_and_typing_changes_which_points_stand_out(page, browse):
    text = page.read_text(encoding="utf-8")
    dom, console = browse(text)
    assert console == [] and "<circle" in dom and 'class="faded"' not in dom
    sentences = texts_of_points(text, "Map of sentences")
    word = sentences[0].split()[0]
    found = sum(word in sentence for sentence in sentences)
    assert 0 < found < len(sentences)
    dom, console = browse(text.replace("</body>", TYPE.format(word.upper()) + "</body>"))
    assert console == [] and dom.count('class="faded"') == len(sentences) - found
    assert f"<output>{found} of {len(sentences)} sentences</output>" in dom
    _, console = browse(text.replace("</body>", "<script>no_such_thing()</script></body>"))
    assert "no_such_thing is not defined" in console[0]       # or silence would mean nothing
