"""Replies ranked for a message: the response side, echoes, the command chat."""

import io
import re
import sys
from dataclasses import replace

import pytest

from convsim_mini import chat as command
from convsim_mini.data.filters import removed_by
from convsim_mini.inference import replies as module
from convsim_mini.data.layouts import Reading
from convsim_mini.inference.index import index_of
from convsim_mini.inference.rows import Rows, rows_of_texts
from convsim_mini.inference.replies import best_replies, pairs_of_run, replies_of_run
from convsim_mini.inference.stored import build_index, index_at
from convsim_mini.training.run import load_run


REPLIES = Reading(side="response")


def test_a_reply_may_lack_its_message_and_a_message_without_one_is_left_out(encoder, tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"question": "who?", "answer": "me"}\n{"answer": "fine"}\n{"question": "why?"}\n')
    found = best_replies(index_at(encoder, tmp_path / "a.jsonl", REPLIES), "so")
    assert {reply[1:] for reply in found} == {("me", "who?"), ("fine", "")}
    build_index(encoder, rows_of_texts(["a"], REPLIES), tmp_path / "replies")
    best, = best_replies(index_at(encoder, tmp_path / "replies", REPLIES), "you")
    assert best[1:] == ("a", "")


TALK = [("how are you?", "fine."), ("who is it?", "How old are you?"), ("well?", "fine."),
        ("are you sure?", "FINE ."), ("is it you?", "no, it is ann"), ("what?", "old"),
        ("why?", "How old am I?"), ("and?", "how old are they")]


def test_echoes_are_left_out_and_equal_replies_shown_once(encoder):
    """An echo shares at least 6 in 10 of both texts' words; "how old are they" shares 3 in 5."""
    rows = [{"message": message, "reply": reply} for message, reply in TALK]
    index = index_of(encoder, Rows("reply", "message", True, rows))
    best = best_replies(index, "how old are you", 9)
    assert {reply[1:] for reply in best} == {
        ("fine.", "how are you?"), ("no, it is ann", "is it you?"), ("old", "what?"),
        ("How old am I?", "why?")} and len(best) == 4
    scores = {hit.row["reply"]: hit.score for hit in index.search(["how old are you"])[0]}
    assert [score for score, *_ in best] == [scores[reply] for _, reply, _ in best]
    assert best == sorted(best, key=lambda reply: -reply[0])
    assert best_replies(index, "how old are you", 1) == best[:1]


def test_the_replies_of_a_run_are_those_of_its_pairs(run_copy, pairs, encoder, monkeypatch):
    kept = [reply for message, reply in pairs if not (removed_by(message) or removed_by(reply))]
    run = load_run(run_copy)
    assert replies_of_run(encoder, run).texts == kept
    monkeypatch.setattr(module, "MOST_REPLIES", 500)
    assert replies_of_run(encoder, run).texts == kept[:500]


def test_the_pairs_of_a_run_are_read_as_training_reads_them(trained, tmp_path):
    path, config = tmp_path / "a.csv", load_run(trained[0]).config
    path.write_text("id,Frage,Antwort\n1,who?,mé\n2,why?,@you\n3,when?,12 3\n", "cp1252")
    config = replace(config, pairs=[str(path)], columns=["Frage", "Antwort"], encoding="cp1252",
                     text=replace(config.text, filters_off=["link_or_mention"]))
    assert [*pairs_of_run(config)] == [("who?", "mé"), ("why?", "@you")]


@pytest.fixture
def chat(monkeypatch, capsys):
    """A function: typed bytes, options of chat → what it prints, its errors."""
    def chat(text, *options):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        command.main([*map(str, options)])
        return capsys.readouterr()
    return chat


def test_the_command_answers_line_by_line(trained, tmp_path, chat):
    table = tmp_path / "table.csv"
    table.write_text("Frage,Antwort\n" + "".join(
        f'"{message}","{reply}"\n' for message, reply in TALK))
    out, err = chat(b"how old are you\n\n\xff", trained[0], "--replies", table,
                    "--columns", "Frage", "Antwort", "--k", 2)
    assert err.count("none of its words is known") == 1        # for the last line
    title, first, empty, last, end = out.split("> ")
    assert title.startswith("8 replies. ") and (empty, end) == ("", "\n")
    assert re.match(r"  \d\.\d\d  How old am I", first) and last.startswith("  0.")
    assert first.count("        to: ") == last.count("        to: ") == 2
    assert [*tmp_path.iterdir()] == [table]


def test_an_end_without_a_message_is_no_error(run_copy, chat):
    out, err = chat(b"", run_copy)
    assert "known" not in err and out.count("\n") == 2
