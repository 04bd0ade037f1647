"""What a lesson claims fails where it does not hold: no training, another loss, a lost factor.

Each test runs a lesson in this process with something taken away, up to a heading where it is long.
"""

import importlib
import re

import pytest

from conftest import ROOT

LESSONS = ROOT / "lessons"


@pytest.fixture
def run(monkeypatch):
    """A function: a lesson's number, texts to replace and the text before which it ends → names."""
    monkeypatch.syspath_prepend(str(LESSONS))
    shared = importlib.import_module("lesson")

    def run(number, *changes, until=None):
        path, = LESSONS.glob(f"{number:02}_*.py")
        text = path.read_text()
        for old, new in changes:
            assert old in text, f"{path.name} no longer holds {old!r}"
            text = text.replace(old, new)
        names = {"__name__": "__main__"}
        exec(compile(text[:text.index(until)] if until else text, path, "exec"), names)
        return names

    monkeypatch.setattr(shared, "show", lambda figure, name: shared.plt.close(figure))
    return run


@pytest.mark.long
def test_lesson_0_fails_without_training(run, monkeypatch):
    small = importlib.import_module("small_encoder")

    def no_step():
        corpus = small.some_chat(40_000, 8_000)
        model = small.initial_model(small.small_config(8_000), corpus)
        return corpus, model, model, 0.0
    monkeypatch.setattr(small, "trained_encoder", no_step)
    with pytest.raises(AssertionError, match="P@10 after less before"):
        run(0, until="# ## What training moves")


@pytest.mark.long
def test_lesson_6_fails_if_the_layer_has_a_bias(run):
    with pytest.raises(AssertionError, match="one linear layer: u under sum"):
        run(6, ("l2_normalize_forward(x @ weight)", "l2_normalize_forward(x @ weight + 1)"))


def test_lesson_1_fails_if_the_replies_are_shuffled(run):
    with pytest.raises(AssertionError, match="loss, last 50 batches"):
        run(1, ("for r in answer(s, rng)]", "for r in rng.permutation(answer(s, rng))]"))


@pytest.mark.parametrize("x", [0.66, 0.1])
def test_lesson_2s_gain_is_derived_wherever_x_is(run, x):
    run(2, ("x, epsilon = 1.0", f"x, epsilon = {x}"), until="# ## Why not ε = 10⁻¹²")


def test_lesson_2_fails_if_the_central_slope_is_one_sided(run):
    with pytest.raises(AssertionError, match="error of the central slope"):
        run(2, ("- np.tanh(x - epsilon)) / (2 * epsilon)", "- np.tanh(x)) / epsilon"))


def test_lesson_5_fails_if_adam_is_given_all_rows_twice(run):
    with pytest.raises(AssertionError, match="Adam for the rows in use"):
        run(5, ("else used\n", "else np.arange(5)\n"))


@pytest.mark.long
def test_lesson_7_fails_if_the_words_of_the_corpus_are_shuffled(run):
    shuffled = "world.corpus.train._replace(ids=rng.permutation(world.corpus.train.ids))"
    with pytest.raises(AssertionError, match="P@1 of the default start"):
        run(7, ("cooccurrences(world.corpus.train, known)", f"cooccurrences({shuffled}, known)"))


def test_lesson_10_fails_if_there_is_always_a_mask(run):
    with pytest.raises(AssertionError, match="without the mask: score of “yes” above its PMI"):
        run(10, ("j) if use_mask else None", "j)"), ("steps=4000", "steps=2000"))


def test_lesson_12_fails_if_both_heads_have_the_right_backward(run):
    with pytest.raises(AssertionError, match="the wrong backward's loss / the right one's"):
        run(12, ("train(right_backward=False)", "train(right_backward=True)"))


def test_lesson_12_fails_if_the_root_is_always_there(run):
    with pytest.raises(AssertionError, match="without, mean at m = 1024"):
        run(12, ("1 if scaled else np.sqrt(width)", "1"))


@pytest.mark.long
def test_lesson_26_fails_if_all_vectors_have_length_1(run):
    with pytest.raises(AssertionError, match="no bias over ‖b‖² = 100, own length"):
        run(26, ("[side / size for side in ours]", "[unit(side) for side in ours]"))


def test_files_and_names_that_lessons_mention_exist():
    files = [path for folder in ("convsim_mini", "data_scripts", "lessons", "tests")
             for path in (ROOT / folder).rglob("*.*") if path.suffix in (".py", ".cu", ".md")]
    words = set(re.findall(r"\w+", " ".join(path.read_text() for path in files
                                            if path.suffix == ".py" and path.parent != LESSONS)))
    for lesson in LESSONS.glob("[0-9]*.py"):
        text = lesson.read_text()
        lives = re.sub(r"\n# *", " ", text[text.index("## Where this lives"):])
        for quoted in re.findall(r"`([^`]+)`", lives):
            for name in re.findall(r"[\w/]+\.(?:py|cu|md)\b", quoted):
                assert any(str(path).endswith(f"/{name}") for path in files), (
                    f"{lesson.name}: {name}")
            if re.fullmatch(r"[a-z_]+", quoted):
                assert quoted in words, f"{lesson.name}: {quoted}"
