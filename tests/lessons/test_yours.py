"""The backwards that a reader writes: what is right passes, each known mistake is told by name."""

import inspect
import json
import sys
from unittest import mock

import numpy as np
import pytest

from conftest import ROOT, SMALL, python
from convsim_mini import minimal
from convsim_mini.common.cli import UserError
from convsim_mini.core import layers
from convsim_mini.core.embeddings import SparseRows
from convsim_mini.core.gradcheck import dense

sys.path.insert(0, str(ROOT))    # the lessons are no part of the package

from lessons.yours import __main__ as yours, plain, training
from lessons.yours.exercises import COUNTS, EXERCISES, WHOLE
from lessons.yours.judge import NOT_YET, RIGHT, STOPPED, WRONG, judge, judge_function, written
from lessons.yours.page import page

MISTAKES = [(name, *mistake) for name in EXERCISES for mistake in EXERCISES[name].mistakes]
TINY = [*SMALL, "--steps", 4, "--model.layers", 16, 16, "--model.heads", 2, "--model.hidden", 16,
        "--optim.batch_size", 32]


def answered(name, *changes):
    """A page with the body of `plain`, some texts of which are replaced."""
    head, _, body = inspect.getsource(getattr(plain, f"{name}_backward")).split('"""')
    for old, new in changes:
        assert old in body, f"{name}_backward no longer holds {old!r}: the mistake is none"
        body = body.replace(old, new)
    return f"{page(name)}\n\n{head}0{body}"


def with_body(name, body):
    """A page with this text in the place of the line that raises."""
    stub = 'raise NotImplementedError("replace this line with yours")'
    assert page(name).count(stub) == 1
    return page(name).replace(stub, body)


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """An empty current folder; → writes a page and judges it."""
    monkeypatch.chdir(tmp_path)

    def judged(name, text):
        path = tmp_path / f"{name}.py"
        path.write_text(text, encoding="utf-8")
        return judge(name, path)
    return judged


@pytest.mark.parametrize("name", EXERCISES)
def test_an_untouched_page_is_not_yet_written_and_plains_body_is_right(name, desk):
    assert desk(name, page(name)) == (NOT_YET, [])
    state, (line,) = desk(name, answered(name))
    assert state == RIGHT and line.startswith("gradient check ")


@pytest.mark.parametrize("name, old, new, text", MISTAKES)
def test_each_known_mistake_is_told_by_its_own_message(name, old, new, text, desk):
    state, lines = desk(name, answered(name, (old, new)))
    assert state == WRONG and [line.partition(": ")[2] for line in lines[:-1]] == [text], lines
    assert lines[-1].startswith("(inputs: ")


def test_two_mistakes_at_once_are_both_told(desk):
    changes = [(old, new) for old, new, _ in EXERCISES["layer_norm"].mistakes[:2]]
    _, lines = desk("layer_norm", answered("layer_norm", *changes))
    first, second = (text for *_, text in EXERCISES["layer_norm"].mistakes[:2])
    assert lines[0] == f"dx: {first} And: {second}"


# What people write: name of the page, body or a change of the right one, what is said ("": right).
SUBMISSIONS = [
    # right, in other forms than `plain`'s
    ("l2_normalize", "return np.stack([d @ (np.eye(len(a), dtype=a.dtype) - np.outer(a, a)) / n\n"
                     "                     for a, n, d in zip(y, norm, dy)])", ""),
    ("embedding_bag", "some, place = np.unique(rows, return_inverse=True)\n"
     "    total = np.zeros((len(some), dy.shape[1]), dy.dtype)\n"
     "    np.add.at(total, place, (dy * scale)[sources])\n    return some, total", ""),
    # wrong in a way that any page can be
    ("tanh", "return dy * (y * y - 1)", "dx: has the wrong sign"),
    ("tanh", "return 0 * dy", "dx: is all zeros"),
    ("tanh", "return (dy * (1 - y * y))[:, ::-1]", "dx: has the right numbers in the wrong places"),
    ("tanh", "return None", "it returns NoneType, expected float64 array: dx"),
    ("tanh", "return dy * (1 - y * y),", "it returns a tuple of float64 array, expected float64"),
    ("tanh", "dy *= 1 - y * y\n    return dy", "it changes dy or the cache"),
    ("linear", "return dy @ weight.T, dy.T @ x, dy.sum(0)",
     "dweight: is the transpose of what it should be"),
    ("layer_norm", "x, g = normal / normal.std(1, keepdims=True), dy * weight\n    "
     "g -= g.mean(1, keepdims=True) + x * (g * x).mean(1, keepdims=True)\n    "
     "return scale * g, (dy * x).sum(0), dy.sum(0)", "dx: is nearly right, relative error "),
    ("embedding_bag", "return rows, dy * scale", "places has shape (11,) and values (5, 3): each"),
    ("embedding_bag", "return rows + 20, (dy * scale)[sources]", "places names the row 24; "),
    # wrong, and once taken for right
    ("embedding_bag", "return np.arange(12), np.zeros((12, dy.shape[1]), dy.dtype)", "values: is"),
    ("embedding_bag", "return rows, np.repeat(dy * scale, np.bincount(sources), 0)",
     "values: is right in row"),
    ("mean_pool", "return np.repeat(dy * share[:, None], np.bincount(sentences), 0)",
     "dx: is right in row"),
    ("batch_softmax", ("    ds =", "    e = np.exp(scale * u @ v.T)\n"
     "    p = e / e.sum(1)[:, None]\n    ds ="), "du and dv: holds nan or inf"),
    ("batch_softmax", ("    return", "    ds = np.clip(ds, -0.2, 0.2)\n    return"), "du: is n"),
    ("attention", ("    dp =", "    e = np.exp(q @ k.T * scale)\n"
     "    p = e / e.sum(1)[:, None]\n    dp ="), "ds: holds nan or inf"),
    ("tanh", "return dy * np.maximum(1 - y * y, 1e-3)", "dx: is "),
    ("batch_softmax", ("/ len(p)", "/ u.shape[1]"), "du and dv: is 1.67 times wha"),
    ("attention", ("ds @ k * scale, ds.T @ q", "ds.T @ q * scale, ds @ k"),
     "dq: is dk; the order is dp, ds, dq, dk, dv"),
]


@pytest.mark.parametrize("name, body, said", SUBMISSIONS)
def test_what_people_write_is_judged_rightly(name, body, said, desk):
    text = with_body(name, body) if type(body) is str else answered(name, body)
    state, lines = desk(name, text)
    assert state == (WRONG if said else RIGHT) and lines[0].startswith(said), lines
    assert lines[-1].startswith("(inputs: " if said else "gradient check "), lines


def test_another_dtype_is_right_all_the_same_and_a_lost_axis_is_named(desk):
    state, lines = desk("batch_softmax", answered("batch_softmax", (", dtype=p.dtype", "")))
    assert state == RIGHT and lines[-1].startswith("right, but float64: ")
    state, lines = desk("l2_normalize", answered("l2_normalize", (", keepdims=True", "")))
    assert state == STOPPED and lines[0].endswith("lack keepdims=True?")


def test_the_whole_is_minimals():
    rng = np.random.default_rng(3)
    params = {name: rng.standard_normal(shape)
              for name, shape in (("table", (5, 4)), ("W", (4, 4)), ("R", (4, 4)), ("b", (4,)))}
    sides = [(np.repeat(np.arange(5), counts), counts.sum()) for counts in COUNTS]
    loss, grads = minimal.loss_and_gradients(params, list(zip(sides[:3], sides[3:])))
    own, cache = plain.loss_and_gradients_forward(*(params[k] for k in ("table", "W", "R", "b")),
                                                  COUNTS, minimal.SCALE)
    rows, values = grads["table"]
    right = dense([SparseRows(rows, values, np.arange(len(rows)))], params["table"])
    for one, other in zip((own, *plain.loss_and_gradients_backward(1.0, cache)),
                          (loss, right, grads["W"], grads["R"], grads["b"]), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_the_gradient_check_refuses_what_equals_a_wrong_reference(desk, monkeypatch):
    monkeypatch.setattr(plain, "tanh_forward", lambda x: (2 * np.tanh(x), np.tanh(x)))
    assert judge_function("tanh", plain.tanh_backward).lines[0].startswith("the gradient check")


@pytest.mark.parametrize("text, said", [
    (with_body("tanh", "return dy @ y"), ", line {last}: ValueError: matmul: "),
    (with_body("tanh", "return dy *"), ", line {last}: SyntaxError: invalid syntax"),
    ("import nowhere_at_all", ", line 1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
    (page("tanh").replace("(dy, cache)", "(dy)"),
     ": TypeError: tanh_backward() takes 1 positional"),
    ("", ": has no function tanh_backward; write it again, or delete the file"),
])
def test_what_raises_gives_one_line_with_the_place(text, said, desk, tmp_path):
    state, (line, *inputs) = desk("tanh", text)
    said = said.format(last=len(page("tanh").splitlines()))
    assert state == STOPPED and line.startswith(f"{tmp_path / 'tanh.py'}{said}"), line
    assert "\n" not in line and inputs in ([], ["(inputs: x (4, 3); float64)"])


def test_a_grader_gets_json_and_whoever_is_right_is_asked_why(desk, capsys):
    yours.main([])
    yours.path_of("tanh").write_text(f"{answered('tanh')}\nprint('here')\n", encoding="utf-8")
    yours.path_of("linear").write_text("import sys\nsys.exit(0)\n", encoding="utf-8")
    capsys.readouterr()
    yours.main(["check", "--json", "--seed", "7", "tanh", "linear"])
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert found["output"] == "--seed 7" and [test["score"] for test in found["tests"]] == [1, 0]
    assert "linear.py, line 2: SystemExit: 0" in found["tests"][1]["output"] and "here" in said.err
    question, answer = EXERCISES["tanh"].why
    assert question in found["tests"][0]["output"] and answer not in found["tests"][0]["output"]
    yours.main(["why", "tanh"])
    assert " ".join(capsys.readouterr().out.split()) == f"tanh: {question} {answer}"


def test_nothing_written_is_overwritten_and_a_deleted_page_comes_back(desk, capsys):
    yours.main([])
    assert capsys.readouterr().out.count(NOT_YET) == len(EXERCISES)
    yours.path_of("tanh").write_text("# mine\n")
    yours.path_of("linear").unlink()
    yours.main([])
    assert yours.path_of("tanh").read_text() == "# mine\n"
    assert yours.path_of("linear").read_text(encoding="utf-8") == page("linear")


def test_verdicts_and_hints_are_kept(desk, capsys):
    yours.main([])
    yours.path_of("tanh").write_text(answered("tanh"), encoding="utf-8")
    yours.path_of("linear").write_text(with_body("linear", "return 1"), encoding="utf-8")
    with pytest.raises(SystemExit) as exit:
        yours.main(["check", "tanh", "linear"])
    assert exit.value.code == 1
    yours.main(["check", "tanh"])
    capsys.readouterr()
    for number in (1, 2, 3, 3):
        yours.main(["hint", "layer_norm"])
        told = capsys.readouterr().out
        hint = EXERCISES["layer_norm"].hints[number - 1]
        assert " ".join(told.split()) == f"layer_norm, hint {number} of 3: {hint}"
    yours.main([])
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()[2:11]}
    assert list(rows) == list(EXERCISES)
    assert rows["tanh"][1:5] == ["right", "0", "of", "3"]
    assert rows["linear"][1:4] == ["not", "right", "yet"]
    assert rows["layer_norm"][1:6] == ["not", "yet", "3", "of", "3"]


@pytest.mark.parametrize("arguments, said", [
    (["check"], "yours/progress.json: is not what this command wrote; "),
    (["check", "layernorm"], "layernorm: is none of tanh, linear, "),
    (["hint"], "hint: expected check, hint NAME, why NAME, train, or nothing; see --help"),
    (["train"], "none of your functions is right yet; first: "),
    ([], "yours/progress.json: cannot be read ("),
])
def test_a_mistake_gives_one_line(arguments, said, desk, capsys):
    yours.main([])
    if not arguments or arguments == ["check"]:
        yours.PROGRESS.write_text('{"states": 12}' if arguments else "{")
    with pytest.raises(SystemExit) as exit:
        yours.main(arguments)
    error = capsys.readouterr().err
    assert exit.value.code == 2 and error.startswith(f"error: {said}") and error.count("\n") == 1


# ---------------------------------------------------------------- training

def run_training(functions, arguments, folder):
    """Train for four steps; → what is said."""
    told = training.train(functions, [*map(str, arguments), *map(str, TINY)], folder / "curve.png")
    assert (folder / "curve.png").stat().st_size > 10_000
    return told


@pytest.fixture
def curves(monkeypatch):
    """The losses of every training, in order."""
    kept, plain = [], training.curve

    def curve(*arguments):
        losses, seconds = plain(*arguments)
        kept.append(losses)
        return losses, seconds
    monkeypatch.setattr(training, "curve", curve)
    return kept


DAN = ["tanh", "linear", "l2_normalize", "embedding_bag", "batch_softmax"]


@pytest.mark.parametrize("names", [DAN, [name for name in EXERCISES if name != WHOLE]],
                         ids=["dan", "transformer"])
def test_training_on_plains_bodies_gives_the_projects_curve(names, curves, arguments, tmp_path):
    functions = {}
    for name in names:
        path = tmp_path / f"{name}.py"
        path.write_text(answered(name), encoding="utf-8")
        functions[name] = mock.Mock(side_effect=written(name, path))
    told = run_training(functions, arguments[:4], tmp_path)
    reference, own = curves
    np.testing.assert_allclose(own, reference, rtol=1e-5)
    assert len(own) == 4 and len(set(own)) == 4
    assert all(function.called for function in functions.values()), functions
    preset = "chat" if names == DAN else "transformer-small"
    assert f"4 steps of the preset {preset} on your tanh, " in told
    assert layers.linear_backward is EXERCISES["linear"].library    # all is as before


def test_a_wrong_function_changes_the_curve_and_one_that_raises_gives_its_place(
        curves, arguments, tmp_path):
    path = tmp_path / "linear.py"
    path.write_text(answered("linear", ("x.T @ dy", "0 * (x.T @ dy)")), encoding="utf-8")
    run_training({"linear": written("linear", path)}, arguments[:4], tmp_path)
    reference, own = curves
    assert reference[0] == own[0] and reference[1:] != own[1:]
    path.write_text(with_body("linear", "return nothing"), encoding="utf-8")
    with pytest.raises(UserError, match="linear.py, line .*: NameError: name 'nothing' is not"):
        run_training({"linear": written("linear", path)}, arguments[:4], tmp_path)


def test_the_command_makes_the_pages_and_trains_on_what_is_right(tmp_path, arguments):
    def run(*arguments):
        done = python("-m", "lessons.yours", *arguments, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout
    assert "python -m lessons.yours check tanh" in run()
    (tmp_path / "yours" / "linear.py").write_text(answered("linear"), encoding="utf-8")
    told = run("train", *arguments[:4], *TINY)
    assert told.count(NOT_YET) == 8 and "4 steps of the preset chat on your linear; " in told
    assert (tmp_path / "yours" / "curve.png").exists()
