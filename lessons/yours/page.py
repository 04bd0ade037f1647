"""The pages that a reader writes on, made from `plain`'s source: they cannot become old."""

import ast
import inspect
from textwrap import indent

from . import plain
from .exercises import EXERCISES, WHOLE

PARTS = """
from lessons.yours.plain import (
    batch_softmax_backward, batch_softmax_forward, l2_normalize_backward, l2_normalize_forward)
"""

PAGE = '''"""{name}: the backward is for you to write.

    python -m lessons.yours check {name}
    python -m lessons.yours hint {name}

The forward is given. Your function gets the gradient of the loss with respect to y, and the cache
that the forward returns.{y_is} Change neither: others still read them.
When yours is right, compare it with the project's, in {path}.
"""

import numpy as np
{parts}

{forward}

{stub}'''


def page(name):
    """The text of one file: the forward, and a backward without a body."""
    module = EXERCISES[name].library.__module__
    return PAGE.format(name=name, path=module.replace(".", "/") + ".py",
                       y_is=" Here y is the loss." * (name in ("batch_softmax", WHOLE)),
                       parts=PARTS * (name == WHOLE),
                       forward=inspect.getsource(getattr(plain, f"{name}_forward")),
                       stub=stub(getattr(plain, f"{name}_backward")))


def stub(backward):
    """A backward without its body; what takes the cache apart stays."""
    source = inspect.getsource(backward)
    head, doc, _ = source.split('"""')
    kept = [ast.unparse(line) for line in ast.parse(source).body[0].body
            if isinstance(line, ast.Assign) and ast.unparse(line.value) == "cache"]
    lines = [*kept, 'raise NotImplementedError("replace this line with yours")']
    return f'{head}"""{doc}"""\n' + indent("\n".join(lines) + "\n", "    ")
