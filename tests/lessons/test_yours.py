"""The backwards that a reader writes: what is right passes, each known mistake is told by name."""

import ast
import os
import subprocess
import sys

import numpy as np
import pytest

from conftest import PATH, ROOT, SMALL
from convsim_mini.common.cli import UserError
from convsim_mini.model import layers

sys.path.insert(0, str(ROOT))    # the lessons are no part of the package

from lessons.yours import __main__ as yours, training
from lessons.yours.exercises import EXERCISES
from lessons.yours.judge import (
    NOT_YET, RIGHT, STOPPED, WRONG, judge, judge_function, written,
)
from lessons.yours.page import bare_source, page

MISTAKES = [(name, *mistake) for name in EXERCISES for mistake in EXERCISES[name].mistakes]
TINY = [*SMALL, "--steps", 4, "--model.layers", 16, 16, "--model.heads", 2, "--model.hidden", 16,
        "--optim.batch_size", 32]


def answered(name, *changes):
    """A page with the reference's body, some texts of which are replaced."""
    exercise = EXERCISES[name]
    head, _, body = bare_source(exercise.backward).split('"""')
    names = {node.id for node in ast.walk(ast.parse(head + "0" + body))
             if isinstance(node, ast.Name)} & vars(exercise.module).keys() - {"np", "math"}
    for old, new in changes:
        assert old in body, f"{name}_backward no longer holds {old!r}: the mistake is none"
        body = body.replace(old, new)
    imports = "".join(f"from {exercise.module.__name__} import {name}\n" for name in names)
    return f"{page(name)}\n\n{imports}\n\n{head}0{body}"


def with_body(name, body):
    """A page with this text in the place of the line that raises."""
    stub = 'raise NotImplementedError("your lines, in the place of this one")'
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
def test_the_references_bodies_are_right(name, desk):
    state, (line,) = desk(name, answered(name))
    assert state == RIGHT and line.startswith("gradient check ")


@pytest.mark.parametrize("name", EXERCISES)
def test_an_untouched_page_is_not_yet_written(name, desk):
    assert desk(name, page(name)) == (NOT_YET, [])


@pytest.mark.parametrize("name, old, new, text", MISTAKES)
def test_each_known_mistake_is_told_by_its_own_message(name, old, new, text, desk):
    state, lines = desk(name, answered(name, (old, new)))
    assert state == WRONG and [line.partition(": ")[2] for line in lines[:-1]] == [text], lines
    assert lines[-1].startswith("(inputs ")


def test_every_function_has_mistakes_and_three_hints():
    for exercise in EXERCISES.values():
        texts = [text for *_, text in exercise.mistakes]
        assert len(texts) >= 3 and len(exercise.hints) == len(set(exercise.hints)) == 3


def test_two_mistakes_at_once_are_both_told(desk):
    changes = [(old, new) for old, new, _ in EXERCISES["layer_norm"].mistakes[:2]]
    _, lines = desk("layer_norm", answered("layer_norm", *changes))
    first, second = (text for *_, text in EXERCISES["layer_norm"].mistakes[:2])
    assert lines[0] == f"dx: {first} And: {second}"


def test_results_that_are_wrong_in_different_ways_are_told_apart(desk):
    _, lines = desk("linear", with_body("linear", "return dy @ weight, dy.T @ x, dy.sum(axis=0)"))
    assert lines[:-1] == ["dx: The weight has to be transposed here.",
                          "dweight: This is the transposed gradient."]


@pytest.mark.parametrize("name, body, said", [
    ("tanh", "return 3 * dy * (1 - y * y)", "dx: is 3 times what it should be"),
    ("tanh", "return 0 * dy", "dx: is 0 times what it should be"),
    ("tanh", "return dy[:, :1]", "dx: has shape (4, 1), expected (4, 3)"),
    ("tanh", "return dy / np.zeros(1)", "dx: holds nan or inf"),
    ("tanh", "return dy + 1", "dx: is none of the mistakes known here; its relative error is"),
    ("tanh", "return None", "it returns NoneType, expected float64 array: dx"),
    ("tanh", "return dy, y", "it returns a tuple of float64 array, float64 array, expected float"),
    ("tanh", "return dy * (1 - y * y),", "it returns a tuple of float64 array, expected float64"),
    ("tanh", "return (2 * dy * (1 - y * y)).astype(float)", "dx: is 2 times what it should be"),
    ("tanh", "return (dy * (1 - y * y)).astype(float)",
     "it returns float64 array, expected float32 array: dx; follow the dtype of dy"),
    ("tanh", "dy *= 1 - y * y\n    return dy", "it changes dy or the cache"),
    ("linear", "return dy @ weight.T, x.T @ dy", "it returns a tuple of float64 array, "
     "float64 array, expected a tuple of float64 array, float64 array, float64 array: dx, dweight, "
     "dbias"),
    ("layer_norm", "x, d = normal / normal.std(1, keepdims=True), dy * weight\n    "
     "d -= d.mean(1, keepdims=True) + x * (d * x).mean(1, keepdims=True)\n    "
     "return scale * d, (dy * x).sum(0), dy.sum(0)",
     "dx: is nearly right, relative error "),
    ("l2_normalize", "y *= 2\n    return dy", "it changes dy or the cache"),
    ("embedding_bag", "return dy", "it returns float64 array, expected a list of SparseRows: r"),
    ("embedding_bag", "return [SparseRows(rows[:5], dy * scale, sources[:5])]",
     "it returns a list of SparseRows: rows [1 3 4], values (3, 3) in float64, expected a list of "
     "SparseRows: rows [0 1 2 3 4], values (5, 3) in float64: dtable"),
    ("embedding_bag", "return SparseRows(rows, dy * scale, sources)",
     "it returns SparseRows, expected a list of SparseRows: rows [0 1"),
    ("embedding_bag", "return [SparseRows(rows, dy * scale, sources[::-1])]", "dtable: is none of"),
    ("embedding_bag", "return [SparseRows(np.arange(5), dy.astype(np.float16))]",
     "it returns a list of SparseRows: rows [0 1 2 3 4], values (5, 3) in float16"),
    ("embedding_bag", "return [SparseRows([0, 1, 2, 3, 4], dy)]", "dtable: is none of the mist"),
    ("embedding_bag", "return [(np.arange(5), dy)]", "it returns list, expected a list of S"),
    ("embedding_bag", "return [SparseRows(np.arange(5), 0)]", "it returns list, expected a list"),
    ("embedding_bag", "return []", "it returns list, expected a list of SparseRows"),
    ("attention", "return dy", "dq: has shape (11, 2), expected (11, 4)"),
    ("attention", "return dy[0]", "dq: has shape "),
])
def test_what_is_no_known_mistake_is_described(name, body, said, desk):
    state, lines = desk(name, with_body(name, body))
    assert state == WRONG and lines[0].startswith(said), lines


# What the third hints say, as a reader would write it, and not as the reference does it.
FROM_HINTS = {
    "tanh": "return dy * (1 - y ** 2)",
    "linear": "return dy @ weight.T, x.T @ dy, dy.sum(0)",
    "l2_normalize": "return (dy - y * (y * dy).sum(1, keepdims=True)) / norm",
    "embedding_bag": "return [SparseRows(rows, dy * scale, sources)]",
    "batch_softmax": """ds, i = p.copy(), np.arange(len(p))
    ds[i, first + i] -= 1
    ds *= dloss / len(v)
    return scale * ds @ v, scale * ds.T @ u""",
    "mean_pool": "return (dy * share[:, None])[sentences]",
    "layer_norm": """g = dy * weight
    along = normal * (g * normal).mean(1, keepdims=True)
    return (g - g.mean(1, keepdims=True) - along) * scale, (dy * normal).sum(0), dy.sum(0)""",
    "attention": """dqkv = np.empty_like(qkv)
    for group, p, factor in zip(sentences, p_of_groups, factors):
        q, k, v = _split_heads(qkv, group, heads, 3)
        dq, dk, dv = _split_heads(dqkv, group, heads, 3)
        (dout,) = _split_heads(dy, group, heads, 1)
        factor = 1 if factor is None else factor
        dv[...] = (p * factor).swapaxes(2, 3) @ dout
        dp = dout @ v.swapaxes(2, 3) * factor
        ds = p * (dp - (p * dp).sum(3, keepdims=True)) / math.sqrt(q.shape[3])
        dq[...] = ds @ k
        dk[...] = ds.swapaxes(2, 3) @ q
    return dqkv""",
}


@pytest.mark.parametrize("name", EXERCISES)
def test_what_the_last_hint_says_is_right(name, desk):
    assert desk(name, with_body(name, FROM_HINTS[name])).state == RIGHT


def test_the_gradient_check_refuses_what_equals_a_wrong_reference(desk, monkeypatch):
    wrong = EXERCISES["tanh"]._replace(forward=lambda x: (2 * np.tanh(x), np.tanh(x)))
    monkeypatch.setitem(EXERCISES, "tanh", wrong)
    assert judge_function("tanh", layers.tanh_backward).lines[0].startswith("the gradient check")


@pytest.mark.parametrize("text, said", [
    (with_body("tanh", "return dy @ y"), ", line {last}: ValueError: matmul: "),
    (with_body("tanh", "return dz"), ", line {last}: NameError: name 'dz' is not defined"),
    (with_body("tanh", "return dy *"), ", line {last}: SyntaxError: invalid syntax"),
    ("import nowhere_at_all", ", line 1: ModuleNotFoundError: No module named 'nowhere_at_all'"),
    (page("tanh").replace("(dy, y)", "(dy)"), ": TypeError: tanh_backward() takes 1 positional"),
    ("", ": has no function tanh_backward; write it again, or delete the file"),
])
def test_what_raises_gives_one_line_with_the_place(text, said, desk, tmp_path):
    state, (line,) = desk("tanh", text)
    said = said.format(last=len(page("tanh").splitlines()))
    assert state == STOPPED and line.startswith(f"{tmp_path / 'tanh.py'}{said}"), line
    assert "\n" not in line


@pytest.mark.parametrize("name", EXERCISES)
def test_a_page_holds_the_forward_and_nothing_of_the_derivation(name, tmp_path):
    text, namespace = page(name), {}
    exec(text, namespace)
    assert bare_source(EXERCISES[name].forward) in text and "\n\n\n\n" not in text
    for module in ("math", "scipy"):
        used = f"{module}." in bare_source(EXERCISES[name].forward)
        assert (f"import {module}" in text) == used
    stub = text[text.index("_backward("):]
    assert "∂" not in text and "projected" not in stub and len(stub.splitlines()) <= 7
    assert all(len(line) <= 102 for line in text.splitlines())


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
    yours.main(["check", "tanh", "linear"])
    capsys.readouterr()
    for number in (1, 2, 3, 3):
        yours.main(["hint", "layer_norm"])
        told = capsys.readouterr().out
        hint = EXERCISES["layer_norm"].hints[number - 1]
        assert " ".join(told.split()) == f"layer_norm, hint {number} of 3: {hint}"
    yours.main([])
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()[2:10]}
    assert list(rows) == list(EXERCISES)
    assert rows["tanh"][1:5] == ["right", "0", "of", "3"]
    assert rows["linear"][1:4] == ["not", "right", "yet"]
    assert rows["layer_norm"][1:6] == ["not", "yet", "3", "of", "3"]


@pytest.mark.parametrize("arguments, said", [
    (["check", "layernorm"], "layernorm: is none of tanh, linear, "),
    (["hint"], "hint: expected check, hint NAME, train, or nothing; see --help"),
    (["grade"], "grade: expected check"),
    (["train"], "none of your functions is right yet; first: "),
])
def test_a_wrong_command_gives_one_line(arguments, said, desk, capsys):
    with pytest.raises(SystemExit) as exit:
        yours.main(arguments)
    error = capsys.readouterr().err
    assert exit.value.code == 2 and error.startswith(f"error: {said}") and error.count("\n") == 1


def test_damaged_progress_gives_one_line(desk, capsys):
    yours.main([])
    yours.PROGRESS.write_text("{")
    with pytest.raises(SystemExit):
        yours.main([])
    assert capsys.readouterr().err.startswith("error: yours/progress.json: cannot be read (")


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


@pytest.fixture
def functions(tmp_path):
    """The reference's bodies as a reader's functions, each of which counts its calls."""
    calls, written_ones = dict.fromkeys(EXERCISES, 0), {}
    for name in EXERCISES:
        path = tmp_path / f"{name}.py"
        path.write_text(answered(name), encoding="utf-8")

        def counted(*arguments, name=name, function=written(name, path)):
            calls[name] += 1
            return function(*arguments)
        written_ones[name] = counted
    return written_ones, calls


DAN = ["tanh", "linear", "l2_normalize", "embedding_bag", "batch_softmax"]


@pytest.mark.parametrize("names", [DAN, list(EXERCISES)], ids=["dan", "transformer"])
def test_training_on_the_references_bodies_gives_its_curve_bit_for_bit(
        names, functions, curves, arguments, tmp_path):
    some, calls = functions
    told = run_training({name: some[name] for name in names}, arguments[:4], tmp_path)
    reference, own = curves
    assert reference == own and len(own) == 4 and len(set(own)) == 4
    assert all((calls[name] > 0) == (name in names) for name in EXERCISES), calls
    preset = "chat" if names == DAN else "transformer-small"
    assert "at most 0 apart" in told and f"4 steps of the preset {preset} on your tanh, " in told
    assert layers.ACTIVATIONS["tanh"][1] is layers.tanh_backward    # all is as before
    assert layers.linear_backward is EXERCISES["linear"].backward


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
        done = subprocess.run([sys.executable, "-m", "lessons.yours", *map(str, arguments)],
                              cwd=tmp_path, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": PATH})
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout
    assert "python -m lessons.yours check tanh" in run()
    (tmp_path / "yours" / "linear.py").write_text(answered("linear"), encoding="utf-8")
    told = run("train", *arguments[:4], *TINY)
    assert told.count(NOT_YET) == 7 and "4 steps of the preset chat on your linear; " in told
    assert (tmp_path / "yours" / "curve.png").exists()
