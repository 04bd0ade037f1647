"""Judge a backward that a reader has written: form, known mistakes, gradient check, parity."""

import inspect
import itertools
import pickle
import re
import traceback
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np

from convsim_mini.common.cli import UserError
from convsim_mini.core.embeddings import SparseRows
from convsim_mini.core.gradcheck import layer_error, relative_error

from . import plain
from .exercises import EXERCISES

RIGHT, WRONG, STOPPED, NOT_YET = "right", "not right yet", "stopped", "not yet"
SMALL = 1e-6                                                  # of a gradient check
CLOSE = {np.float64: 1e-8, np.float32: 1e-4}                 # to `plain`'s numbers
NO_KEEPDIMS = re.compile(r"shapes (\((\d+),\d+\) \(\2,\)|\((\d+),\) \(\3,\d+\))")    # (4,3) (4,)


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
    except (Exception, SystemExit) as error:    # whatever half-written code runs into
        lines = [error.lineno] if isinstance(error, SyntaxError) else [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == str(path)]
        place = f"{path}, line {lines[-1]}" if lines else path
        said = str(getattr(error, "msg", error)).partition("\n")[0].strip()
        if NO_KEEPDIMS.search(said):
            said += "; does a sum or a mean over axis 1 lack keepdims=True?"
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


def judge(name, path, seed=0):
    """→ Verdict on the backward of this name in a reader's file. seed: of the cases' numbers"""
    try:
        with np.errstate(all="ignore"):
            return judge_function(name, written(name, path), seed)
    except NotImplementedError:
        return Verdict(NOT_YET)
    except UserError as error:
        return Verdict(STOPPED, [str(error)])


def judge_function(name, backward, seed=0):
    """→ Verdict. Each case in float64, with a gradient check, then each in float32."""
    forward, errors, other_dtypes = getattr(plain, f"{name}_forward"), [], set()
    for dtype, (shapes, others, *normal) in itertools.product(CLOSE, EXERCISES[name].cases):
        rng = np.random.default_rng(seed)
        inputs = [rng.normal(*normal or (0, 1), shape).astype(dtype) for shape in shapes]

        def run(*inputs):
            return forward(*inputs, *others)

        def in_dtype(dy, cache):
            return in_dtype_of(dy, backward(dy, cache), other_dtypes)

        def gradients(dy, cache):
            return of_inputs(name, in_dtype(dy, cache))

        try:
            state, said = WRONG, complaints(name, in_dtype, run, inputs)
        except UserError as error:
            state, said = STOPPED, [str(error)]
        if normal and dtype is np.float32:                      # whose digits do not reach that far
            said = [line for line in said if "nan or inf" in line]
        if not said and dtype is np.float64 and not normal:
            errors.append(layer_error(run, gradients, inputs, rng, epsilon=1e-6))
            said = [] if errors[-1] < SMALL else [f"the gradient check gives {errors[-1]:.1e}"]
        if said:
            return Verdict(state, [*said, named_inputs(forward, inputs, others)])
    return Verdict(RIGHT, [f"gradient check {max(errors):.0e}; the project's numbers on "
                           f"{len(EXERCISES[name].cases)} sets of inputs, in float64 and float32",
                           *(f"right, but {other}: dy can be float32, and so should be what you "
                             "return; a new array takes dtype=dy.dtype" for other in other_dtypes)])


def complaints(name, backward, forward, inputs):
    """What is wrong with a backward on one set of inputs, in lines; none if nothing is."""
    y, kept = forward(*inputs)
    dy = np.asarray(np.random.default_rng(10**7).normal(0, 4, np.shape(y)), inputs[0].dtype)
    before = pickle.dumps((dy, kept))
    found = backward(dy, kept)
    if pickle.dumps((dy, kept)) != before:
        return ["it changes dy or the cache, which others still read; work on a copy"]
    exercise, right = EXERCISES[name], mutant(name)(dy, kept)
    rows = len(inputs[0])                                     # of a table
    if said := wrong_form(exercise, found, right, rows):
        return [said]
    found, right, told = parts(name, found, rows), parts(name, right, rows), {}
    for k, part in enumerate(right):
        if not close(found[part], right[part]):
            text = (known_mistake(name, dy, kept, part, found[part], rows)
                    or unknown_mistake(found[part], right, part))
            told[text] = [*told.get(text, []), part]
            if k < exercise.steps:    # what comes after a wrong step is wrong as well
                break
    return [f"{' and '.join(names)}: {text}" for text, names in told.items()]


def wrong_form(exercise, found, right, rows):
    """What is wrong with the kind of a result, in one line, or None. rows: of the table"""
    if kind(found) != kind(right):
        return f"it returns {kind(found)}, expected {kind(right)}: {', '.join(exercise.gradients)}"
    if exercise.gradients == ("places", "values"):
        places, values = found
        if places.ndim != 1 or values.ndim != 2 or len(places) != len(values):
            return (f"places has shape {places.shape} and values {values.shape}: each place needs "
                    "a row of values of its own; `sources` says of which sentence")
        if len(places) and not 0 <= places.min() <= places.max() < rows:
            return f"places names the row {places.max()}; the table has {rows}"
    return None


def named_inputs(forward, inputs, others):
    """The inputs by name: the shapes of the floats, the values of the others."""
    names = list(inspect.signature(forward).parameters)
    said = [f"{name} {x.shape}" for name, x in zip(names, inputs)]
    said += [f"{name} {x}" for name, x in zip(names[len(inputs):], others)]
    return f"(inputs: {', '.join(said)}; {inputs[0].dtype})"


def kind(x):
    """What a result is, in words. Two of one kind can be compared number by number."""
    if type(x) is tuple:
        return f"a tuple of {', '.join(map(kind, x))}"
    if not isinstance(x, (np.ndarray, np.generic)):
        return type(x).__name__
    return "int array" if x.dtype.kind in "iu" else f"{x.dtype} array"


def in_dtype_of(dy, result, others):
    """A backward's result with its floats in the dtype of dy; `others` gets any other dtype."""
    if type(result) is tuple:
        return tuple(in_dtype_of(dy, x, others) for x in result)
    if getattr(getattr(result, "dtype", None), "kind", "") != "f" or result.dtype == dy.dtype:
        return result
    others.add(str(result.dtype))
    return result.astype(dy.dtype)


def added_up(places, values, rows):
    """A table's gradient from its places: (rows, d)."""
    table = np.zeros((rows, values.shape[1]), values.dtype)
    np.add.at(table, places, values)
    return table


def of_inputs(name, result):
    """The gradients of the forward's inputs among a backward's results."""
    if name == "embedding_bag":
        return [SparseRows(*result, np.arange(len(result[0]), dtype=np.int32))]
    return result[EXERCISES[name].steps:] if EXERCISES[name].steps else result


def parts(name, result, rows):
    """A backward's results by name: a table's places added up. rows: of the table"""
    if name == "embedding_bag":
        return {"values": added_up(*result, rows)}
    return dict(zip(EXERCISES[name].gradients, result if type(result) is tuple else (result,)))


def close(a, b):
    """Whether two arrays have one shape and nearly the same numbers."""
    return a.shape == b.shape and relative_error(a, b) < CLOSE[b.dtype.type]


@cache
def mutant(name, *changes):
    """plain's backward with texts of its body replaced; None: they overlap."""
    head, doc, body = inspect.getsource(getattr(plain, f"{name}_backward")).split('"""')
    for old, new in changes:
        if old not in body:
            return None
        body = body.replace(old, new)
    namespace = dict(vars(plain))
    exec('"""'.join([head, doc, body]), namespace)
    return namespace[f"{name}_backward"]


def known_mistake(name, dy, kept, part, found, rows):
    """What to say if a known mistake, or up to three together, give just this result."""
    mistakes = EXERCISES[name].mistakes
    for made in itertools.chain(*(itertools.combinations(mistakes, n) for n in (1, 2, 3))):
        backward = mutant(name, *((old, new) for old, new, _ in made))
        try:
            result = parts(name, backward(dy, kept), rows)[part]
        except (TypeError, ValueError):                       # None; shapes that do not fit
            continue
        if close(found, result):
            return " And: ".join(text for *_, text in made)
    return None


def unknown_mistake(found, right, part):
    """What a wrong result is like, where no known mistake explains it.

    found: array; right: the right results by name, of which `part` should be found
    """
    for other, array in right.items():
        if other != part and close(found, array):
            return f"is {other}; the order is {', '.join(right)}"
    right = right[part]
    if close(found, right.T):
        return "is the transpose of what it should be"
    if found.shape != right.shape:
        return f"has shape {found.shape}, expected {right.shape}"
    if not np.isfinite(found).all():
        return "holds nan or inf"
    if not found.any():
        return "is all zeros; is a new name filled, and not the array that is returned?"
    error = relative_error(found, right)
    if error < 1e-3:
        return (f"is nearly right, relative error {error:.1e}: is something small left out, "
                "such as ε?")
    factor = float((found * right).sum() / (right * right).sum())
    if relative_error(found, factor * right) < CLOSE[np.float32]:
        return "has the wrong sign" if close(-found, right) else (
            f"is {factor:.3g} times what it should be")
    rows = [close(a, b) and b.any() for a, b in zip(np.atleast_2d(found), np.atleast_2d(right))]
    if any(rows):
        return f"is right in row {rows.index(True)} and wrong in row {rows.index(False)}"
    if close(np.sort(found, axis=None), np.sort(right, axis=None)):
        return "has the right numbers in the wrong places"
    return f"is none of the mistakes known here; its relative error is {error:.1e}"
