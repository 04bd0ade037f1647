"""What lessons claim: the opposite of a claim has to fail the lesson's own assertion.

A lesson's text is changed (no training, shuffled labels, another measurement) and run up to the
claim's `expect`. All other assertions are passed over, so that slow parts can be shortened.
"""

import importlib
import re
import sys

import pytest

from conftest import ROOT
from test_lessons import LONG

sys.path.insert(0, str(ROOT))    # the lessons are no part of the package

from lessons import claims

LESSONS = ROOT / "lessons"
QUICK = {
    "18": {"some_chat(40_000, PIECES)": "some_chat(6_000, PIECES)", "steps=80,": "steps=40,"},
    "19": {"steps=4000": "steps=2000"},
    "20": {"train_model(6000,": "train_model(400,", "labels, steps=400)": "labels, steps=1)"},
    "21": {"= trained_encoder()": "= trained_encoder(4_000, 2_000)"},
    "22": {"dict(training(scale, steps))": "{80: started, 140: started}",
           "direction(then) for step, then in some": "direction(started) for step in (0, 80, 140)",
           "training(10.0, 80)": "0", "training(20.0, 80)": "0"}}
OPPOSITES = [    # lesson, how its claim begins, text, the text in its place
    ("00", "P@10 after minus before",    # no training
     "corpus, untrained, trained, _ = trained_encoder()",
     "corpus, untrained, *_ = trained_encoder(); trained = untrained"),
    ("01", "loss, last 50 batches",
     "for r in answer(s, rng, world)]", "for r in rng.permutation(answer(s, rng, world))]"),
    ("01", "replies at random", "train(deaf, np.tile(P.mean(axis=0), (len(P), 1)))",
     "train(deaf, P)"),
    ("02", "error of the central slope",    # one-sided
     "- np.tanh(x - epsilon)) / (2 * epsilon)", "- np.tanh(x)) / epsilon"),
    ("04", "with a random dp", "distance(backward, random))", "distance(backward, ones))"),
    ("05", "before training: loss minus ln 200",    # scores of length 0
     "minimal.batch_softmax(u, v_prime)", "minimal.batch_softmax(0 * u, v_prime)"),
    ("06", "new tokens, met / promised, turns in order",
     '("in order", in_order,', '("in order", shuffled,'),
    ("07", "cosine between the hasty gradient",    # the right one in its place
     "hasty = hasty_backward(dy, ids, R)\nclaim", "hasty = right\nclaim"),
    ("08", "the same under the mean", '("mean", 1.0, "C0")', '("mean", 0.0, "C0")'),    # a sum
    ("08", "the mean without unit length",    # with it
     'norms_of_gradients(bags[name], ends == "unit length")',
     "norms_of_gradients(bags[name], True)"),
    ("09", "any W: loss in the end",    # the symmetric one
     ".get(kind, R)", ".get(kind, (R + R.T) / 2)"),
    ("11", "with the path forgotten", """"dy"), copy)""", """'dy + dy @ params["R"].T'), copy)"""),
    ("12", "the wrong backward's loss / the right one's",
     '"dk = ds q": ds,', '"dk = ds q": ds.swapaxes(1, 2),'),
    ("13", "who won, without the signal",    # with one
     "with signal_as(no_signal):\n    without_losses",
     "with signal_as(random_signal):\n    without_losses"),
    ("14", "scores padded / needed for a batch of 256",    # all sentences are of one length
     "np.array([min(len(tokens), 256) or 1 for tokens in chat])", "np.full(20_000, 18)"),
    ("15", "the gradient's sign, pre-norm: 48",    # at random
     "for by_gradient in (False, True)", "for by_gradient in (False, False)"),
    ("15", "a Transformer's P@1",    # not trained
     "losses, P = train(model, config, corpus)", "losses, P = [0.0] * 9"),
    ("16", "20 directions turned at random",    # not turned
     '("turned at random", turn20,', '("turned at random", np.eye(20),'),
    ("17", "words 101 to 1000: error of SGD",    # no sum of squares
     'squares if kind == "Adagrad" else None', "None"),
    ("18", "healthy: the gap in spreads", '"healthy": {}', '"healthy": {"shuffled": True}'),
    ("19", "score of “yes” above its PMI",    # rows whose reply is "yes" do not pull
     "2 * step / steps) * ds)", "2 * step / steps) * ds * (j > 0)[:, None])"),
    ("20", "NLI accuracy: an encoder that learns it",    # it does not
     "train_model(800, share=0.5, start=on_replies)",
     "train_model(800, share=0.5, start=on_replies, frozen=True)"),
    ("20", "conversations: AUC within a topic",    # the second kind for the first
     "auc(*values[:2])", "auc(*values[1::-1])"),
    ("21", "r of the trained encoder",
     "labels = sts.labels", "labels = rng.permutation(sts.labels)"),
    ("21", "trained less words, binary",    # weighted ones
     '"words, binary": cosine}', '"words, binary": weighted}'),
    ("22", "largest N after 80 steps", "at_15[80], at_40[80]", "at_15[80], started"),    # untrained
    ("23", "neighbours, all bigrams",    # the neighbours are strangers, too
     "np.concatenate([near, rng.permutation(others)[len(near):]])", "rng.permutation(others)"),
    ("23", "luck of the best of 100",    # drawn, not chosen
     "best = [np.argmax(dev[:m]) for m in counts]", "best = [rng.integers(m) for m in counts]"),
    ("A", "P@1 of the default start", "cooccurrences(world.corpus.train, known)",
     "cooccurrences(world.corpus.train._replace(ids=rng.permutation(world.corpus.train.ids)),"
     " known)"),
    ("B", "own copies alone",    # all copies
     "copy[part] for copy, part in zip(copies, parts)", "summed[part] for part in parts"),
    ("B", "P@1 that the mistake costs",    # none is made
     "in parts_of(len(u), workers):", "in [slice(0, len(u))]:"),
    ("C", "22 mantissas: measured / derived",    # one factor keeps all its bits
     "round_mantissa(a, k) @ round_mantissa(b, k)", "round_mantissa(a, k) @ b"),
]


class Holds(Exception):
    """The claim was reached, and it held."""


@pytest.mark.parametrize("number, claim, old, new", [
    pytest.param(*case, id=f"{case[0]} {case[1]}",
                 marks=pytest.mark.long if case[0] in LONG else ())
    for case in OPPOSITES])
def test_the_opposite_of_a_claim_fails(monkeypatch, number, claim, old, new):
    monkeypatch.syspath_prepend(str(LESSONS))
    lesson = importlib.import_module("lesson")
    asserted = lesson.expect

    def expect(value, low, high, what):
        if what.startswith(claim):
            asserted(value, low, high, what)
            raise Holds

    for name, stub in (("expect", expect), ("check", lambda *given: None),
                       ("show", lambda figure, name: lesson.plt.close(figure))):
        monkeypatch.setattr(lesson, name, stub)
    path, = LESSONS.glob(f"{number}_*.py")
    text = path.read_text()
    for before, after in {**QUICK.get(number, {}), old: new}.items():
        assert text.count(before) == 1, f"{path.name} no longer holds {before!r} once"
        text = text.replace(before, after)
    with pytest.raises(AssertionError, match="is not within"):
        exec(compile(text, path, "exec"), {"__name__": "__main__"})


def test_a_lesson_that_does_not_exist_is_told(capsys):
    with pytest.raises(SystemExit) as end:
        claims.main(["zz"])
    error = capsys.readouterr().err
    assert end.value.code == 2 and error.startswith("error: zz: not a lesson; there are 0, 1, ")


@pytest.mark.long
@pytest.mark.parametrize("path", [
    path for path in sorted(LESSONS.glob("[0-9A-C]*_*.py"))
    if path.stem.split("_")[0] not in LONG and path.name in claims.read()],
    ids=lambda path: path.stem)
def test_claims_hold_under_another_seed_and_stand_in_their_table(path):
    """One of the five seeds, for the short lessons; `python -m lessons.claims` runs all."""
    found, error = claims.run(path, 1 + len(path.name) % 5)
    assert not error, error
    rows = re.findall(r"^\| (.+?) \| .* \| .* \| (.*) \|$", claims.read()[path.name], re.MULTILINE)
    wanted = [(what, claims.refuted(low, high)) for what, _, low, high in found]
    assert wanted and [row for row in rows if row in wanted] == wanted
