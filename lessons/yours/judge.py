"""Judge a backward that a reader has written: form, known mistakes, gradient check, parity."""

import itertools
import pickle
import re
import traceback
from contextlib import contextmanager, suppress
from functools import cache
from typing import NamedTuple

import numpy as np

from convsim_mini.common.cli import UserError
from convsim_mini.model.gradcheck import layer_error, relative_error
from convsim_mini.model.sparse_rows import joined

from .exercises import EXERCISES
from .page import bare_source

RIGHT, WRONG, STOPPED, NOT_YET = "right", "not right yet", "stopped", "not yet"
SMALL = 1e-6                                                  # of a gradient check
CLOSE = {np.float64: 1e-10, np.float32: 1e-5}                 # to the reference


class Verdict(NamedTuple):
    """state: one of the four above; lines: what there is to say."""

    state: str
    lines: list = []


@contextmanager
def errors_of(path):
    """Turn what a reader's file raises into a UserError that names the file and the line."""
    try:
        yield
    except NotImplementedError:
        raise
    except Exception as error:    # whatever half-written code runs into
        lines = [error.lineno] if isinstance(error, SyntaxError) else [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else path
        said = str(getattr(error, "msg", error)).partition("\n")[0]
        raise UserError(f"{place}: {type(error).__name__}: {said}") from None


def written(name, path):
    """The backward in a reader's file. Raises UserError, now and when it is called."""
    namespace = {"__name__": name}
    with errors_of(path):
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), namespace)
    backward = namespace.get(f"{name}_backward")
    if backward is None:
        raise UserError(f"{path}: has no function {name}_backward; write it again, or delete the "
                        "file: the next command makes a new one")

    def guarded(*arguments):
        with errors_of(path):
            return backward(*arguments)
    return guarded


def judge(name, path):
    """→ Verdict on the backward of this name in a reader's file."""
    try:
        with np.errstate(all="ignore"):
            return judge_function(name, written(name, path))
    except NotImplementedError:
        return Verdict(NOT_YET)
    except UserError as error:
        return Verdict(STOPPED, [str(error)])


def judge_function(name, backward):
    """→ Verdict. Each case in float64, with a gradient check, then each in float32."""
    backward, errors = upstream_first(name, backward), []
    for dtype, case in itertools.product(CLOSE, EXERCISES[name].cases):
        forward, inputs = drawn(name, case, dtype)
        said = complaints(name, backward, forward, inputs)
        if not said and dtype is np.float64:
            errors.append(layer_error(forward, backward, inputs, np.random.default_rng(1)))
            said = [] if errors[-1] < SMALL else [f"the gradient check gives {errors[-1]:.1e}"]
        if said:
            shapes = " and ".join(map(str, case[0]))
            return Verdict(WRONG, [*said, f"(inputs {shapes}, {dtype.__name__})"])
    return Verdict(RIGHT, [f"gradient check {max(errors):.0e}; the reference's numbers on "
                           f"{len(errors)} sets of shapes, in float64 and float32"])


def complaints(name, backward, forward, inputs):
    """What is wrong with a backward on one set of inputs, in lines; none if nothing is."""
    y, kept = forward(*inputs)
    dy = np.asarray(np.random.default_rng(0).standard_normal(np.shape(y)), inputs[0].dtype)
    before = pickle.dumps((dy, kept))
    found = backward(dy, kept)
    if pickle.dumps((dy, kept)) != before:
        return ["it changes dy or the cache, which others still read; work on a copy"]
    right = mutant(name)(dy, kept)
    if kind(found) != kind(right):
        names = ", ".join(EXERCISES[name].gradients)
        said = f"it returns {kind(found)}, expected {kind(right)}: {names}"
        no_dtype = [re.sub(r"float\d+|int\d+", "", kind(x)) for x in (found, right)]
        return [said + "; follow the dtype of dy" * (no_dtype[0] == no_dtype[1])]
    found, right, told = parts(name, found), parts(name, right), {}
    for part in right:
        if not close(found[part], right[part]):
            text = known_mistake(name, dy, kept, part, found[part])
            text = text or unknown_mistake(found[part], right[part])
            told[text] = [*told.get(text, []), part]
    return [f"{' and '.join(names)}: {text}" for text, names in told.items()]


def drawn(name, case, dtype):
    """A case's forward as a function of its float inputs alone, and these inputs."""
    (shapes, others), rng = case, np.random.default_rng(2)
    forward = EXERCISES[name].forward
    return (lambda *inputs: forward(*inputs, *others),
            [rng.standard_normal(shape).astype(dtype) for shape in shapes])


def upstream_first(name, backward):
    """A backward as a function of (dy, cache); a loss takes them the other way round."""
    return backward if name != "batch_softmax" else lambda dy, cache: backward(cache, dy)


def kind(x):
    """What a result is, in words. Two of one kind can be compared number by number."""
    if type(x) is tuple:
        return f"a tuple of {', '.join(map(kind, x))}"
    if isinstance(x, list):
        with suppress(AttributeError, IndexError, TypeError, ValueError):     # no SparseRows
            rows, values = merged(x)
            return f"a list of SparseRows: rows {rows}, values {values.shape} in {values.dtype}"
    return f"{x.dtype} array" if isinstance(x, (np.ndarray, np.generic)) else type(x).__name__


def merged(table):
    """The distinct rows of a list of SparseRows, and the sum of each one's places."""
    grad = joined(table)
    rows, place = np.unique(grad.rows, return_inverse=True)
    values = np.zeros((len(rows), grad.values.shape[1]), grad.values.dtype)
    np.add.at(values, place, grad.values if grad.sources is None else grad.values[grad.sources])
    return rows, values


def parts(name, result):
    """A backward's results by name: of a table the values, attention's as three."""
    if name == "attention":
        return dict(zip(("dq", "dk", "dv"), np.array_split(np.atleast_2d(result), 3, axis=1)))
    results = result if type(result) is tuple else (result,)
    return {part: merged(x)[1] if isinstance(x, list) else x
            for part, x in zip(EXERCISES[name].gradients, results)}


def close(a, b):
    """Whether two arrays have one shape and nearly the same numbers."""
    return a.shape == b.shape and relative_error(a, b) < CLOSE[b.dtype.type]


@cache
def mutant(name, *changes):
    """The reference's backward (dy, cache) with texts of its body replaced; None: they overlap."""
    exercise = EXERCISES[name]
    head, doc, body = bare_source(exercise.backward).split('"""')
    for old, new in changes:
        if old not in body:
            return None
        body = body.replace(old, new)
    namespace = dict(vars(exercise.module))
    exec('"""'.join([head, doc, body]), namespace)
    return upstream_first(name, namespace[f"{name}_backward"])


def known_mistake(name, dy, kept, part, found):
    """What to say if a known mistake, or two of them together, give just this result."""
    mistakes = EXERCISES[name].mistakes
    for made in itertools.chain(*(itertools.combinations(mistakes, n) for n in (1, 2))):
        backward = mutant(name, *((old, new) for old, new, _ in made))
        try:
            result = parts(name, backward(dy, kept))[part]
        except (TypeError, ValueError):                       # None; shapes that do not fit
            continue
        if close(found, result):
            return " And: ".join(text for *_, text in made)
    return None


def unknown_mistake(found, right):
    """What a wrong result is like, where no known mistake explains it."""
    if found.shape != right.shape:
        return f"has shape {found.shape}, expected {right.shape}"
    if not np.isfinite(found).all():
        return "holds nan or inf"
    error = relative_error(found, right)
    if error < 1e-3:
        return (f"is nearly right, relative error {error:.1e}: is something small left out, "
                "such as ε?")
    factor = float((found * right).sum() / (right * right).sum())
    if relative_error(found, factor * right) < CLOSE[np.float32]:
        return f"is {factor:.3g} times what it should be"
    return f"is none of the mistakes known here; its relative error is {error:.1e}"
