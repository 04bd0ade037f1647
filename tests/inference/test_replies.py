"""Replies ranked for a message: the response side, what is passed over, the command chat."""

import os
import subprocess
import sys

import numpy as np
import pytest

import convsim_mini
from convsim_mini.common.cli import UserError
from convsim_mini.data.pairs import removed_by
from convsim_mini.evaluation import response
from convsim_mini.inference import replies as module
from convsim_mini.inference.index import Index, build_index
from convsim_mini.inference.replies import Replies, replies_of_file, replies_of_run
from convsim_mini.inference.rows import Rows
from convsim_mini.inference.sentence_encoder import SentenceEncoder
from convsim_mini.core.counting import side_by_side
from convsim_mini.training.run import load_run

from conftest import PATH


@pytest.fixture(scope="module")
def encoder(trained):
    return convsim_mini.load(trained[0])


def test_dot_products_rank_replies_as_training_does(trained, corpus, pairs):
    run = load_run(trained[0])
    plain = SentenceEncoder(run.model, run.vocabulary)
    which = np.arange(50)
    u, v = response.vectors(run.model, corpus.test, which)
    sides = response.sides(corpus.test, which)
    texts = [[" ".join(map(run.vocabulary.token, ids)) for ids in np.split(
        packed.ids, packed.offsets[1:-1])] for packed in sides]
    known = [k for k in range(50) if "<bucket" not in texts[0][k] + texts[1][k]]
    assert len(known) > 5
    found = [encode([side[k] for k in known]) for encode, side in zip(
        (plain.encode, plain.encode_responses), texts)]
    np.testing.assert_allclose(found[0] @ found[1].T, u[known] @ v[known].T, rtol=0, atol=1e-5)


def test_a_reply_has_the_words_beside_the_learned_half(trained, encoder):
    learned = convsim_mini.load(trained[0], words=False)
    texts = ["fudazi vobamu", "you?", ""]
    both = encoder.encode_responses(texts, batch_size=2)
    counts = encoder.encode(texts)[:, 16:] * np.sqrt(1.4 / 0.4)
    expected = side_by_side(learned.encode_responses(texts), counts, 0.4)
    np.testing.assert_allclose(both, expected, rtol=0, atol=1e-6)
    assert np.linalg.norm(both, axis=1) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(encoder.encode_responses("you?"), both[1], rtol=0, atol=1e-6)


def test_a_row_without_one_of_its_cells_is_a_reply_or_is_left_out(encoder, tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"question": "who?", "answer": "me"}\n{"answer": "fine"}\n{"question": "why?"}\n')
    found = replies_of_file(encoder, tmp_path / "a.jsonl", tmp_path / "index").best("so")
    assert {(reply.message, reply.reply) for reply in found} == {("who?", "me"), ("", "fine")}


def test_vectors_of_replies_that_are_not_finite_are_an_error(trained):
    encoder = convsim_mini.load(trained[0])
    name = next(name for name in encoder.model.params if name.startswith("response."))
    encoder.model.params[name][:] = np.nan
    assert np.isfinite(encoder.encode("you?")).all()
    with pytest.raises(FloatingPointError, match="not finite: its weights are damaged"):
        encoder.encode_responses("you?")


TALK = [("how are you?", "fine."), ("who is it?", "How old are you?"), ("really?", "shit, yes"),
        ("well?", "fine."), ("are you sure?", "FINE ."), ("is it you?", "no, it is ann"),
        ("who the fuck?", "Ben"), ("what?", "How old are you shit?")]


@pytest.fixture(scope="module")
def replies(encoder, tmp_path_factory):
    folder = tmp_path_factory.mktemp("replies") / "index"
    rows = [{"message": message, "reply": reply, "id": k} for k, (message, reply) in
            enumerate(TALK)]
    build_index(encoder, Rows(("message", "reply"), 1, iter([rows])), folder)
    return Replies(Index(folder, encoder))


def test_echoes_and_coarse_replies_are_passed_over_and_equal_ones_shown_once(replies):
    best, passed_over = replies.ranked("how old are you")
    assert {(reply.reply, reply.message) for reply in best} == {
        ("fine.", "how are you?"), ("no, it is ann", "is it you?")}
    assert {(reply.reply, reply.fault) for reply in passed_over} == {
        ("How old are you?", "echo"), ("shit, yes", "coarse"), ("Ben", "coarse"),
        ("How old are you shit?", "coarse")}
    assert len(replies.best("how old are you", 9, coarse=True)) == 4
    assert replies.best("how old are you", 1) == best[:1]
    for shown in (best, passed_over):
        assert [r.score for r in shown] == sorted([r.score for r in shown], reverse=True)


def test_more_replies_are_looked_at_where_the_best_are_passed_over(encoder, tmp_path):
    rows = [*[{"reply": f"fudazi vobamu {'!' * k}"} for k in range(1, 100)], {"reply": "setodi"}]
    build_index(encoder, Rows(("reply", "reply"), 1, iter([rows])), tmp_path / "index")
    best, passed_over = Replies(Index(tmp_path / "index", encoder)).ranked("fudazi vobamu!", 1)
    assert [reply.reply for reply in best] == ["setodi"] and best[0].message == ""
    assert {reply.fault for reply in passed_over} == {"echo"}


def test_an_index_of_messages_is_refused(encoder, tmp_path):
    build_index(encoder, Rows(("line", "line"), 0, iter([[{"line": "a"}]])), tmp_path / "index")
    with pytest.raises(UserError, match="holds messages, expected replies"):
        Replies(Index(tmp_path / "index", encoder))


def test_a_run_s_replies_are_embedded_once_and_again_for_other_weights(
        run_copy, pairs, encoder, monkeypatch):
    kept = [reply for message, reply in pairs if not (removed_by(message) or removed_by(reply))]
    assert len(replies_of_run(encoder, run_copy)) == len(kept)
    made = (run_copy / "replies" / "meta.json").stat().st_ino
    monkeypatch.setattr(module, "MOST", 500)
    assert len(replies_of_run(encoder, run_copy)) == len(kept)
    assert (run_copy / "replies" / "meta.json").stat().st_ino == made
    learned = convsim_mini.load(run_copy, words=False)
    drawn = replies_of_run(learned, run_copy)                 # a share of them, without words
    texts = [hit.row["response"] for hit in drawn.index.search(["a"], 1_000)[0]]
    assert len(drawn) == len(texts) == 500
    first = set(map(kept.index, texts))
    assert min(first) < len(kept) / 10 and max(first) > len(kept) * 0.8


def test_pairs_that_are_gone_are_named_and_old_replies_stay(
        run_copy, encoder, monkeypatch, tmp_path):
    replies_of_run(encoder, run_copy)
    config = (run_copy / "config.json").read_text()
    (run_copy / "config.json").write_text(config.replace("pairs.tsv", "gone.tsv"))
    with pytest.raises(UserError, match="gone.tsv: cannot be read"):
        replies_of_run(convsim_mini.load(run_copy, words=False), run_copy)
    assert len(replies_of_run(encoder, run_copy)) > 1_000


def chat(text, *options, cwd):
    done = subprocess.run([sys.executable, "-m", "convsim_mini.chat", *map(str, options)], cwd=cwd,
                          input=text, capture_output=True,
                          env={**os.environ, "PYTHONPATH": PATH})
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_the_command_answers_line_by_line_and_shows_what_it_passed_over(trained, tmp_path):
    (tmp_path / "table.csv").write_text("Frage,Antwort\n" + "".join(
        f'"{message}","{reply}"\n' for message, reply in TALK))
    code, out, err = chat(b"how old are you\n\nok\xff", trained[0], "--replies", "table.csv",
                          "--columns", "Frage", "Antwort", "--k", 2, cwd=tmp_path)
    unknown = [line for line in err.splitlines() if "words are known" in line]
    assert code == 0 and len(unknown) == 2, err               # the small run knows neither line
    title, first, passed_over, last = out.split("> ")
    assert title.startswith("8 replies. ")
    assert "fine." in first and "to: how are you?" in first and "shit" not in out
    assert "(echo)  How old are you?" in passed_over and last.startswith("ok")
    assert "coarse replies, which --all shows: 3\n" in passed_over
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.csv"]


@pytest.mark.parametrize("text", [b"", b"\n\n"])
def test_an_end_without_a_message_is_no_error(run_copy, tmp_path, text):
    code, out, err = chat(text, run_copy, cwd=tmp_path)
    assert code == 0 and "error" not in err and out.count("\n") == 1 + 2 * len(text)
