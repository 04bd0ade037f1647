"""The page that explores a run: what its panels answer, whom it answers, and in a real browser."""

import base64
import dataclasses
import http.client
import json
import signal
import socket
import struct
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from convsim_mini import train
from convsim_mini.core.transformer import attention_weights
from convsim_mini.core.text import tokenize
from convsim_mini.explore import __main__ as explore
from convsim_mini.explore.__main__ import Server
from convsim_mini.explore.panels import PANELS, Explored, fields
from convsim_mini.inference.replies import best_replies, replies_of_run
from convsim_mini import load
from convsim_mini.training.run import load_run

from browser import Browser
from conftest import ROOT, parse_config

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def explored(trained):
    """A run of a DAN."""
    return Explored(load_run(trained[0]))


@pytest.fixture(scope="module")
def transformer(arguments, tmp_path_factory):
    """A run of a Transformer with two layers of two heads."""
    folder = tmp_path_factory.mktemp("transformer") / "run"
    train.train(parse_config(list(map(str, [
        *arguments, "--encoder", "transformer", "--model.heads", 2, "--model.hidden", 16,
        "--model.transformer_layers", 2, "--steps", 2, "--evaluations", 1, "--run", folder]))))
    return Explored(load_run(folder))


def ask(explored, panel, **question):
    """A panel's answer, as it is sent."""
    return json.loads(json.dumps(PANELS[panel](explored, **question)))


# ---------------------------------------------------------------- what the panels answer

def test_replies_are_those_of_the_run(explored, pairs):
    (_, _, rows), = ask(explored, "reply", sentence=pairs[0][0])["tables"]
    assert rows == [[*found] for found in best_replies(
        replies_of_run(explored.encoder, explored.run), pairs[0][0], 5)]


def test_a_word_changes_a_cosine_by_what_the_sentence_without_it_has(explored, pairs):
    texts = [pairs[0][0], "notafox \u2603 " + pairs[1][0], pairs[0][1]]
    whole, one, two = ask(explored, "compare", compared="\n".join(["", *texts]))["tables"]
    vectors = load(explored.run.folder).encode(texts)
    np.testing.assert_allclose([row[1:] for row in whole[2]], vectors @ vectors.T, atol=1e-5)
    assert whole[:2] == ["cosine", ["", "1", "2", "3"]] and whole[2][0][0] == f"1 {texts[0]}"
    for (_, head, rows), text, other in ((one, texts[0], 1), (two, texts[1], 0)):
        tokens = tokenize(text)
        assert [cell["content"] for cell in head] == tokens
        assert [cell["note"] == "" for cell in head] == [
            token in explored.run.vocabulary.ids for token in tokens]
        without = [" ".join(tokens[:k] + tokens[k + 1:]) for k in range(len(tokens))]
        expected = (explored.encoder.encode(without) - explored.encoder.encode([text])
                    ) @ vectors[other]
        np.testing.assert_allclose(rows, [expected], atol=1e-5)
    assert two[1][0]["note"].replace(" ##", "") == "notafox" != two[1][0]["note"]
    assert two[1][1] == {"content": "\u2603", "note": "<unknown>"}
    for compared in ("", "one", "\n".join("abcdefghi"), "a\n" + "b " * 20_000):    # no n² texts
        answer = ask(explored, "compare", compared=compared)
        assert "two to eight sentences of up to 100 words" in answer["status"]
        assert "tables" not in answer
    assert "tables" in ask(explored, "compare", compared="a\n" + "b " * 100)


def test_neighbours_are_lines_of_the_corpus(explored):
    line = explored.lines.texts[0]
    (_, _, rows), = ask(explored, "neighbours", sentence=line)["tables"]
    assert rows[0] == [*map(pytest.approx, (2, 1, 1)), line] and len(rows) == 10
    assert [row[0] for row in rows] == sorted((row[0] for row in rows), reverse=True)


def test_attention_is_that_of_the_piece_that_is_chosen(explored, transformer, pairs):
    run = transformer.run
    packed = run.vocabulary.encode([pairs[0][0]])
    pieces = [*map(run.vocabulary.token, packed.ids)]
    layers = attention_weights(run.model, packed)
    weights = np.concatenate([layer[0] for layer in layers])
    tables = ask(transformer, "attention", sentence=pairs[0][0], piece=2)["tables"]
    assert [rows[1][0] for _, _, rows in tables] == ["head 2"] * 2
    shown = [[row[1:] for row in rows] for _, _, rows in tables]
    np.testing.assert_allclose(shown, weights[:, :, 2], atol=1e-6)
    for _, head, _ in tables:
        assert [cell["content"] for cell in head[1:]] == pieces
        assert [cell["pressed"] for cell in head[1:]] == [k == 2 for k in range(len(pieces))]
    assert "tables" in ask(transformer, "attention", sentence="", piece=9)
    assert "DAN has no attention" in ask(explored, "attention", sentence="a")["status"]


def test_what_is_missing_and_a_name_that_is_not_unicode_are_shown(explored, tmp_path):
    run = explored.run._replace(path=Path("r\udcff", "model.safetensors"))
    run = run._replace(config=dataclasses.replace(run.config, pairs=[str(tmp_path / "gone.tsv")]))
    with served(Explored(run)) as server:
        for panel in ("reply", "neighbours"):
            answer = request(server, panel, {"sentence": "a"})[1]
            assert "gone.tsv: cannot be read" in json.loads(answer)["status"]
        assert "r?" in request(server, "")[1]


# ---------------------------------------------------------------- whom it answers

@contextmanager
def served(explored, **options):
    """A Server that answers."""
    with Server(explored, **options) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def server(explored):
    with served(explored) as server:
        yield server


def request(server, name, question=None, token=None, **headers):
    """Ask for a file, or a panel's answer to a question; → status, body, headers."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    path = f"/{server.token if token is None else token}/{name}"
    if question is None:
        connection.request("GET", path, headers=headers)
    else:
        connection.request("POST", path, json.dumps(question), headers)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, body, response.headers


def test_only_who_knows_the_token_and_names_the_right_host_is_answered(server):
    host = f"127.0.0.1:{server.server_port}"
    assert server.server_address[0] == "127.0.0.1"            # no other computer reaches it
    assert request(server, "", Host=host)[0] == request(server, "page.js")[0] == 200
    assert request(server, "compare", {"compared": ""})[0] == 200
    for question in (None, {}):
        name = "page.js" if question is None else "compare"
        for token in ("", "x", server.token[:-1], server.token + "x", f"x/{server.token}"):
            status, body, _ = request(server, name, question, token=token)
            assert (status, server.token in body) == (403, False)
        for other in ("127.0.0.1", "evil.example", f"evil.example:{server.server_port}",
                      f"{host}.evil.example", f"127.0.0.1:{server.server_port + 1}", ""):
            status, body, _ = request(server, name, question, Host=other)
            assert status == 403 and body.endswith(f"start it with --host {other}")
    for name in ("../panels.py", "panels.py", "%2e%2e/config.json", "compare"):
        assert request(server, name)[0] == 403


def test_a_forwarded_port_is_answered_under_its_name_once_that_is_given(explored, server, capsys):
    with served(explored, host="here.example:9000") as other:
        assert other.address == f"http://here.example:9000/{other.token}/"
        for host in ("here.example:9000", f"localhost:{other.server_port}"):
            assert request(other, "", Host=host)[0] == 200
    with pytest.raises(SystemExit, match="2"):
        explore.main([str(explored.run.folder), "--port", str(server.server_port)])
    assert f"--port {server.server_port}: cannot be used" in capsys.readouterr().err


def test_connections_that_break_print_nothing(server, capfd):
    for _ in range(5):
        with socket.create_connection(server.server_address) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.sendall(b"GET /x")                     # and closed by a reset
    assert request(server, "page.js")[0] == 200 and capfd.readouterr().err == ""


def test_nothing_of_it_is_from_elsewhere(server):
    policy = request(server, "")[2]["Content-Security-Policy"].split("; ")
    assert policy[0] == "default-src 'self'" and "unsafe" not in " ".join(policy)
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


TABLES = """[...document.querySelectorAll("table")].map(table => [...table.rows].map(
    row => [...row.cells].map(cell => cell.textContent)))"""


def text_of(cell):
    """A cell as the page writes it."""
    cell = cell if isinstance(cell, dict) else {"content": cell}
    content = cell["content"]
    if isinstance(content, float):
        content = f"{round(content, 2) + 0:.2f}"              # no −0.00
    return content + cell.get("note", "")


@pytest.mark.parametrize("panel", PANELS)
def test_the_page_shows_what_a_panel_answers(browser, server, explored, transformer, pairs, panel):
    question = {"sentence": f"{pairs[5][0]} notafox",
                "compared": f"{pairs[0][0]}\n{pairs[0][1]}\n{HOSTILE}"}
    asked = transformer if panel == "attention" else explored
    answer = ask(asked, panel, **{name: question[name] for name in fields(panel)
                                  if name in question})
    tables = [[[*map(text_of, row)] for row in (head, *rows)]
              for _, head, rows in answer.get("tables", ())]
    with served(asked) as server:
        visit(browser, server, panel)
        for field, text in question.items():
            if browser.run(f"document.getElementById('{field}').offsetParent !== null"):
                fill(browser, field, text)
        written = json.dumps(tables, ensure_ascii=False, separators=(",", ":"))
        browser.wait_for(f"JSON.stringify({TABLES}) === {json.dumps(written)}")
        assert browser.run("document.getElementById('status').textContent") == answer["status"]
        assert browser.run("document.images.length") == 0    # HOSTILE is text
        assert browser.console == []


def test_a_piece_is_chosen_with_the_keyboard_alone(browser, transformer):
    with served(transformer) as server:
        visit(browser, server, "attention")
        fill(browser, "sentence", "f q z")
        browser.wait_for("document.querySelectorAll('table')[1]?.innerText.includes('z')")
        for _ in range(3):
            browser.press("Tab")
        browser.press("Enter")
        browser.wait_for("document.getElementById('status').textContent.includes('z')")
        assert browser.run("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_no_panel_is_wider_than_its_window_and_dark_is_dark(browser, server):
    for panel in PANELS:
        visit(browser, server, panel)
        for width, dark in ((1280, False), (390, True), (390, False)):
            browser.look(width, 900, dark)
            assert browser.run("document.documentElement.scrollWidth") <= width, panel
            ink = browser.run("getComputedStyle(document.body).color")
            assert ink == ("rgb(255, 255, 255)" if dark else "rgb(0, 0, 0)")
    browser.look(1280, 900)
