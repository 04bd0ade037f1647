"""The report's page for a browser: nothing from elsewhere, all texts escaped, every point there."""

import html
import json
import re
import shutil
import subprocess

import pytest

from convsim_mini import train
from convsim_mini.options import parse_config
from convsim_mini.report.results import Data, measure
from convsim_mini.report.web_page import web_page
from convsim_mini.run import load_run

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


def texts_of_points(text, part):
    """The titles of all circles in a part of a page, as a reader sees them."""
    inside = re.search(rf'<h3 id="run1-{part}">(.*?)<h3', text, re.DOTALL)[1]
    return [html.unescape(title) for title in re.findall(
        r"<circle [^>]*><title>(.*?)</title></circle>", inside, re.DOTALL)]


def test_the_page_is_one_file_without_anything_from_elsewhere(page):
    text = page.read_text(encoding="utf-8")
    named = re.findall(r'(?:src|href)\s*=\s*"([^"]*)"', text) + re.findall(r"url\((.*?)\)", text)
    assert {name[0] for name in named} == {"#"}
    assert "@import" not in text and "<link" not in text and "<img" not in text
    ids = re.findall(r'<h3 id="(.*?)"', text)
    assert re.findall(r'<a href="#(.*?)"', text) == ids and len(ids) == 5


def test_every_text_is_escaped(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script") == 1
    assert html.escape(BAD) in text and BAD not in text


def test_each_pair_and_each_sentence_is_a_point(page, corpus):
    text = page.read_text(encoding="utf-8")
    pairs, sentences = (texts_of_points(text, part) for part in ("similarity", "map"))
    assert len(pairs) == 41 and len(sentences) == 2 * corpus.dev.pairs
    assert re.fullmatch(rf"{re.escape(BAD)}\nAnother.\npeople 4.0, run \d\.\d", pairs[-1])
    first = corpus.dev.ids[:corpus.dev.offsets[1]]
    tokens = " ".join(map(corpus.vocabulary.token, first))
    assert sentences[0] == tokens.replace(" .", ".")


def test_points_lie_where_the_axes_say(page):
    text = page.read_text(encoding="utf-8")
    inside = text.partition('id="run1-similarity"')[2]
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
    text = page.read_text(encoding="utf-8").partition('id="run1-card"')[2]
    rows = [re.findall(r"<td>(.*?)\s*</td>", row) for row in text.split("</tr>")]
    assert ["optim.batch_size", "64", "1024"] in rows and ["pairs of", "pairs.tsv"] in rows
    assert not {"seed", "optim.rate", "run"} & {row[0] for row in rows if len(row) == 3}
    assert "It is a deep averaging network" in text and "License: whoever publishes" in text
    assert "and on sentence pairs of SNLI" not in text


def test_what_is_not_here_is_named(run_copy, tmp_path):
    config = json.loads((run_copy / "config.json").read_text())
    (run_copy / "config.json").write_text(json.dumps(config | {"pairs": [str(tmp_path / "gone")]}))
    (run_copy / "log.jsonl").unlink()
    text = web_page([measure(load_run(run_copy), NOTHING)], NOTHING)
    assert "<code>log.jsonl</code> holds no curves" in text
    assert text.count("its pair files are not here") == 2     # P@N and the map
    assert "<code>python -m data_scripts.download stsbenchmark</code>" in text
    assert "<circle" not in text


def test_a_transformer_shows_its_attention(arguments, trained, tmp_path):
    folder, _ = train.train(parse_config(list(map(str, [
        *arguments, "--encoder", "transformer", "--model.heads", 2, "--model.hidden", 16,
        "--steps", 2, "--evaluations", 1, "--run", tmp_path / "transformer"]))))
    runs = [measure(load_run(run), NOTHING) for run in (trained[0], folder)]
    text = web_page(runs, NOTHING)
    assert text.count(">Attention</h3>") == 1 and 'id="run2-attention"' in text
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
    sentences = texts_of_points(text, "map")
    word = sentences[0].split()[0]
    found = sum(word in sentence for sentence in sentences)
    assert 0 < found < len(sentences)
    dom, console = browse(text.replace("</body>", TYPE.format(word.upper()) + "</body>"))
    assert console == [] and dom.count('class="faded"') == len(sentences) - found
    assert f"<output>{found} of {len(sentences)} sentences</output>" in dom
    _, console = browse(text.replace("</body>", "<script>no_such_thing()</script></body>"))
    assert "no_such_thing is not defined" in console[0]       # or silence would mean nothing
