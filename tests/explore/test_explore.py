"""The page that explores a run: what its panels answer, whom it answers, and in a real browser."""

import base64
import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.common.cli import UserError
from convsim_mini.core.text import tokenize
from convsim_mini.evaluation.attention import of_sentence
from convsim_mini.explore.__main__ import Server
from convsim_mini.explore import panels
from convsim_mini.explore.panels import PANELS, Explored
from convsim_mini.inference.index import build_index
from convsim_mini.inference.rows import rows_of_texts
from convsim_mini.inference.sentence_encoder import load
from convsim_mini.training.initial import initial_model
from convsim_mini.core.model import embed, respond
from convsim_mini.training.options import parse_config
from convsim_mini.training.run import load_run

from browser import Browser
from conftest import ROOT

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def explored(trained, tmp_path_factory):
    """A run of a DAN; its folder may be written to."""
    return Explored(load_run(shutil.copytree(trained[0], tmp_path_factory.mktemp("dan") / "run")))


@pytest.fixture(scope="module")
def transformer(arguments, tmp_path_factory):
    """A run of a Transformer with two layers of two heads, whose vectors have one half alone."""
    folder, *_ = train.train(parse_config(list(map(str, [
        *arguments, "--encoder", "transformer", "--model.heads", 2, "--model.hidden", 16,
        "--model.transformer_layers", 2, "--model.word_weight", 0, "--steps", 2,
        "--evaluations", 1, "--run", tmp_path_factory.mktemp("transformer") / "run"]))))
    return Explored(load_run(folder))


def ask(explored, panel, **question):
    """A panel's answer, as it is sent."""
    asked = {"sentence": "", "compared": "", "search": "", "pair": [0, 1], "word": 0} | question
    return json.loads(json.dumps(PANELS[panel](explored, asked)))


def ask_until_both(explored, sentence):
    """The answer of Reply with both models."""
    until = time.monotonic() + 300
    while (answer := ask(explored, "reply", sentence=sentence))["again"]:
        assert time.monotonic() < until
        time.sleep(0.05)
    return answer


# ---------------------------------------------------------------- what the panels answer

def test_replies_are_ranked_by_the_run_and_by_the_model_before_training(explored, corpus, pairs):
    (after, _, rows), (before, _, rows_before) = ask_until_both(explored, pairs[0][0])["tables"]
    assert (after, before) == ("after training", "the same, untrained")
    assert rows == [list(found[:3]) for found in
                    explored.replies["after training"].best(pairs[0][0], 5)]
    assert rows_before != rows
    model = initial_model(explored.run.config, corpus)
    texts = [[pairs[0][0]], [row[1] for row in rows_before]]
    u, v = (embed(model, corpus.vocabulary.encode(side)) for side in texts)
    learned = respond(model, v) @ u[0]
    counted = [(1.4 * row[0] - cosine) / 0.4 for row, cosine in zip(rows_before, learned)]
    halves = [load(explored.run.folder).encode(side)[:, 16:] for side in texts]
    np.testing.assert_allclose(counted, halves[1] @ halves[0][0] * 1.4 / 0.4, atol=1e-4)


def test_a_mistake_while_replies_are_made_is_told(explored, monkeypatch):
    def fail(*_):
        raise UserError("no room")
    monkeypatch.setattr(panels, "replies_of_run", fail)
    with pytest.raises(UserError, match="no room"):
        ask_until_both(Explored(explored.run), "a")


def test_a_word_changes_a_cosine_by_what_the_sentence_without_it_has(
        explored, transformer, pairs):
    texts = [pairs[0][0], pairs[0][1], "notaword " + pairs[1][0]]
    answer = ask(explored, "compare", compared="\n".join(["", *texts]), pair=[1, 2])
    *matrices, one, two = answer["tables"]
    encoders = load(explored.run.folder), load(explored.run.folder, words=False)
    vectors = [encoder.encode(texts) for encoder in encoders]
    vectors.append(vectors[0][:, 16:] * np.sqrt(1.4 / 0.4))
    for (name, head, rows), some in zip(matrices, vectors):
        shown = [[cell["content"] if isinstance(cell, dict) else cell for cell in row[1:]]
                 for row in rows]
        np.testing.assert_allclose(shown, some @ some.T, atol=1e-5)
        assert head == ["", "1", "2", "3"] and rows[0][0] == f"1 {texts[0]}"
    assert [name for name, *_ in matrices] == ["cosine", "learned half", "counting half"]
    assert [[(a, b + 1) for b, cell in enumerate(row[1:]) if isinstance(cell, dict)
             and cell["pressed"]] for a, row in enumerate(matrices[0][2])] == [[], [(1, 3)], []]
    for (_, head, rows), text, other in ((one, texts[1], 2), (two, texts[2], 1)):
        tokens = tokenize(text)
        assert [cell["content"] for cell in head[1:]] == tokens
        assert [bool(cell["note"]) for cell in head[1:]] == [
            token not in explored.run.vocabulary.ids for token in tokens]
        without = [" ".join(tokens[:k] + tokens[k + 1:]) for k in range(len(tokens))]
        for row, encoder, some in zip(rows, encoders, vectors):
            expected = (encoder.encode(without) - encoder.encode([text])) @ some[other]
            np.testing.assert_allclose(row[1:], expected, atol=1e-5)
        assert len(rows) == 3
    assert two[1][1] == {"content": "notaword", "note": "unknown"}
    assert len(ask(transformer, "compare", compared="a\nb")["tables"]) == 3    # it counts no words
    for compared in ("", "one", "\n".join("abcdefghi")):
        assert "two to eight" in ask(explored, "compare", compared=compared)["status"]


def test_neighbours_are_lines_of_the_corpus_or_of_an_index(explored, pairs, tmp_path):
    line = explored.lines[1][0]
    (_, _, rows), = ask(explored, "neighbours", sentence=line)["tables"]
    assert rows[0] == [pytest.approx(1, abs=1e-5), line] and len(rows) == 10
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)
    texts = [pair[1] for pair in pairs[:50]]
    build_index(explored.encoder, rows_of_texts(texts), tmp_path / "index")
    searched = Explored(explored.run, tmp_path / "index")
    (_, _, rows), = ask(searched, "neighbours", sentence=texts[7])["tables"]
    assert rows[0] == [pytest.approx(1, abs=1e-5), texts[7]]
    assert "of 50 lines" in ask(searched, "neighbours", sentence="")["status"]


def test_lines_that_are_coarse_are_left_out(explored, monkeypatch):
    monkeypatch.setattr(panels, "pairs_of_run", lambda config: [("b", "oh shit"), ("a", "b")])
    vectors, texts = Explored(explored.run).lines
    assert texts == ["a", "b"] and len(vectors) == 2


def test_attention_is_that_of_the_word_that_is_pointed_at(explored, transformer, pairs):
    tokens, weights = of_sentence(transformer.run, pairs[0][0])
    tables = ask(transformer, "attention", sentence=pairs[0][0], word=2)["tables"]
    assert [rows[1][0] for _, _, rows in tables] == ["head 2"] * 2
    shown = [[row[1:] for row in rows] for _, _, rows in tables]
    np.testing.assert_allclose(shown, weights[:, :, 2], atol=1e-6)
    for _, head, _ in tables:
        assert [cell["content"] for cell in head[1:]] == tokens
        assert [cell["pressed"] for cell in head[1:]] == [k == 2 for k in range(len(tokens))]
    assert "tables" in ask(transformer, "attention", sentence="", word=9)
    assert "DAN has no attention" in ask(explored, "attention", sentence="a")["status"]


def test_the_map_shows_what_is_near_and_what_is_searched_for(explored):
    vectors, texts, _ = explored.map
    answer = ask(explored, "map", sentence=texts[3], search=texts[3].split()[0].upper())
    points, yours = answer["map"]["points"], answer["map"]["yours"]
    assert len(points) == len(texts) == 1_000
    assert points[3] == [texts[3], pytest.approx(yours, abs=1e-5), 1, True]
    places = np.array([place for _, place, _, _ in points])
    assert places.min(0).tolist() == [0, 0] and places.max(0).tolist() == [1, 1]
    centred = vectors - vectors.mean(axis=0)
    spread = (places - places.mean(axis=0)).std(axis=0) * np.ptp(centred @ explored.map[2].T, 0)
    np.testing.assert_allclose(spread, np.linalg.svd(centred)[1][:2] / np.sqrt(1_000), rtol=1e-3)
    (_, _, rows), = answer["tables"]
    found = [text for text, _, _, is_found in points if is_found]
    assert found == [text for text in texts if texts[3].split()[0] in text.lower()]
    assert rows[0] == [pytest.approx(1, abs=1e-5), texts[3]]
    assert {row[1] for row in rows} <= set(found) and f"{len(found)} of 1,000" in answer["status"]


def test_learning_shows_the_log_and_the_step_that_is_used(explored):
    answer = ask(explored, "learning")
    (_, _, rows), = answer["tables"]
    assert [row[0] for row in rows] == ["0", "30"] and "step 30" in answer["status"]
    assert len(answer["images"]) == 2
    assert all("kept: step 30" in image for image in answer["images"])


def test_a_run_whose_pairs_and_log_are_gone_says_so(run_copy, tmp_path):
    config = json.loads((run_copy / "config.json").read_text())
    config["pairs"] = [str(tmp_path / "gone.tsv")]
    (run_copy / "config.json").write_text(json.dumps(config))
    (run_copy / "log.jsonl").unlink()
    with Server(Explored(load_run(run_copy))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for panel in ("reply", "neighbours", "map"):
            assert "gone.tsv: cannot be read" in json.loads(request(server, panel, {})[1])["status"]
        assert json.loads(request(server, "learning", {})[1])["images"] == []
        server.shutdown()


# ---------------------------------------------------------------- whom it answers

@pytest.fixture(scope="module")
def server(explored):
    with Server(explored) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def request(server, name, question=None, token=None, **headers):
    """Ask for a file, or a panel's answer to a question; → status, body, headers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    if question is not None:
        question = json.dumps({"sentence": "", "compared": "", "search": "", "pair": [0, 1],
                               "word": 0} | question)
    path = f"/{server.token if token is None else token}/{name}"
    connection.request("GET" if question is None else "POST", path, question, headers)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body, response.headers


def test_only_who_knows_the_token_and_names_the_right_host_is_answered(server):
    host = f"127.0.0.1:{server.server_port}"
    assert request(server, "", Host=host)[0] == request(server, "page.js")[0] == 200
    assert request(server, "learning", {})[0] == 200
    for question in (None, {}):
        name = "page.js" if question is None else "compare"
        for token in ("", "x", server.token[:-1], server.token + "x", f"x/{server.token}"):
            status, body, _ = request(server, name, question, token=token)
            assert (status, server.token in body) == (403, False)
        for other in ("127.0.0.1", "evil.example", f"evil.example:{server.server_port}",
                      f"{host}.evil.example", f"127.0.0.1:{server.server_port + 1}", ""):
            assert request(server, name, question, Host=other)[0] == 403
    with socket.create_connection(server.server_address) as raw:          # no client sends this
        raw.sendall(f"GET /\xe9/ HTTP/1.0\r\nHost: {host}\r\n\r\n".encode("latin-1"))
        assert b" 403 " in raw.recv(100)
    for name in ("../panels.py", "panels.py", "%2e%2e/config.json", "compare"):
        assert request(server, name)[0] == 403


def test_only_this_computer_reaches_it(server):
    assert server.server_address[0] == "127.0.0.1"
    with pytest.raises(OSError), socket.socket() as other:
        other.settimeout(5)
        other.connect((socket.gethostbyname(socket.gethostname()), server.server_port))
        if other.getpeername()[0] == "127.0.0.1":             # this name may mean the loopback
            raise OSError


def test_nothing_of_it_is_from_elsewhere_or_stays_in_a_cache(server):
    headers = request(server, "")[2]
    policy = headers["Content-Security-Policy"].split("; ")
    assert policy[0] == "default-src 'none'" and "unsafe" not in " ".join(policy)
    assert headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"
    for name in ("", "page.css", "page.js"):
        text = request(server, name)[1].replace("http://www.w3.org/", "")
        assert "http" not in text.lower() and "innerHTML" not in text


def test_the_command_prints_the_address_and_ends_with_ctrl_c(explored):
    process = subprocess.Popen([sys.executable, "-m", "convsim_mini.explore", explored.run.folder],
                               cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline().strip()
    _, _, host, token, _ = address.split("/")
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", f"/{token}/")
    assert b"Explore" in connection.getresponse().read() and len(base64.urlsafe_b64decode(
        token + "=")) == 32
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[1] == "" and process.returncode == 130


# ---------------------------------------------------------------- in a browser

@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    browser.look(1280, 900)
    yield browser
    browser.close()


def visit(browser, server, panel):
    """Open a panel and wait until it has answered."""
    browser.send("Page.navigate", url="about:blank")          # or only the fragment would change
    browser.console.clear()
    browser.send("Page.navigate", url=f"{server.address}#{panel}")
    browser.wait_for("document.getElementById('about')?.textContent")


def fill(browser, field, text):
    """Type over what a field holds."""
    browser.run(f"document.getElementById('{field}').select()")
    browser.run(f"document.getElementById('{field}').focus()")
    browser.type(text)


def rows(browser, table=0):
    """The texts of a table's cells, without its head."""
    return browser.run(f"[...document.querySelectorAll('table')[{table}].tBodies[0].rows].map("
                       "row => [...row.cells].map(cell => cell.innerText))")


def status(browser):
    return browser.run("document.getElementById('status').textContent")


def test_replies_stand_side_by_side_as_one_types(browser, server, explored, pairs):
    ask_until_both(explored, "")
    visit(browser, server, "reply")
    fill(browser, "sentence", pairs[5][0])
    expected = ask(explored, "reply", sentence=pairs[5][0])["tables"]
    browser.wait_for(f"document.querySelector('#shown').innerText.includes("
                     f"{json.dumps(expected[0][2][0][1])})")
    for table, (_, _, found) in enumerate(expected):
        assert [row[1:] for row in rows(browser, table)] == [row[1:] for row in found]
    lefts = browser.run("[...document.querySelectorAll('table')].map("
                        "table => table.getBoundingClientRect().top)")
    assert lefts[0] == lefts[1] and browser.console == []


def test_sentences_are_compared_with_the_keyboard_alone_and_are_no_html(browser, server, pairs):
    visit(browser, server, "compare")
    fill(browser, "compared", f"{pairs[0][0]}\n{pairs[0][1]}\n{HOSTILE}")
    browser.wait_for("document.querySelectorAll('table')[0].rows.length === 4 && "
                     "document.querySelector('table').innerText.includes('onerror')")
    assert rows(browser)[2][0] == f"3 {HOSTILE}"
    assert browser.run("document.querySelectorAll('#shown img').length") == 0
    for _ in range(2):
        browser.press("Tab")
    browser.press("Enter")
    browser.wait_for("document.getElementById('status').textContent.includes('s 1 and 3')")
    focused = browser.run("document.activeElement.getAttribute('aria-pressed')")
    assert focused == "true" and browser.console == []
    assert "unknown" in browser.run("document.querySelectorAll('table')[4].tHead.innerText")


def test_neighbours_appear_as_one_types(browser, server, explored):
    visit(browser, server, "neighbours")
    line = explored.lines[1][11]
    fill(browser, "sentence", line)
    browser.wait_for(f"document.querySelector('td:last-child')?.innerText === {json.dumps(line)}")
    assert rows(browser)[0] == ["1.00", line] and browser.console == []


def test_the_map_has_a_cross_and_dims_what_is_not_found(browser, server, explored):
    visit(browser, server, "map")
    word = explored.map[1][0].split()[0]
    fill(browser, "search", word)
    found = sum(word in text for text in explored.map[1])
    browser.wait_for("document.getElementById('status').textContent.startsWith("
                     f"'{found} of 1,000')")
    counts = [browser.run(f"document.querySelectorAll('{what}').length")
              for what in ("circle", "circle.faded", "path", "circle > title")]
    assert counts == [1_000, 1_000 - found, 1, 1_000] and browser.console == []


def test_curves_are_drawn(browser, server):
    visit(browser, server, "learning")
    browser.wait_for("[...document.querySelectorAll('img')].every(image => image.complete)")
    assert browser.run("[...document.querySelectorAll('img')].map(image => image.naturalWidth > 0)"
                       ) == [True, True]
    assert [row[0] for row in rows(browser)] == ["0", "30"] and browser.console == []


def test_attention_is_shown_from_the_word_under_the_pointer(browser, transformer):
    with Server(transformer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        visit(browser, server, "attention")
        fill(browser, "sentence", "fudazi vobamu setodi")
        browser.wait_for("document.querySelectorAll('table')[1]?.innerText.includes('setodi')")
        place = browser.run("(({x, y}) => [x, y])(document.querySelectorAll("
                            "'table button')[2].getBoundingClientRect())")
        browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=place[0] + 3, y=place[1] + 3)
        browser.wait_for("document.getElementById('status').textContent.includes('setodi')")
        assert len(rows(browser, 1)) == 2 and len(rows(browser, 1)[0]) == 4
        assert browser.console == []
        server.shutdown()


def test_no_panel_is_wider_than_its_window_and_dark_is_dark(browser, server):
    for panel in PANELS:
        visit(browser, server, panel)
        for width, dark in ((1280, False), (390, True), (390, False)):
            browser.look(width, 900, dark)
            assert browser.run("document.documentElement.scrollWidth") <= width, panel
            paper = browser.run("getComputedStyle(document.body).backgroundColor")
            assert paper == ("rgb(22, 24, 28)" if dark else "rgb(255, 255, 255)")
    browser.look(1280, 900)


def test_a_mistake_in_the_page_would_be_seen(browser, server):
    visit(browser, server, "learning")
    browser.run("setTimeout(() => no_such_thing())")
    browser.run("fetch('nothing')")
    browser.wait_for("new Promise(done => setTimeout(() => done(true), 300))")
    assert "no_such_thing is not defined" in str(browser.console) and "403" in str(browser.console)
