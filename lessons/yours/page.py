"""The pages that a reader writes on, made from the reference's source: they cannot become old."""

import ast
import inspect
import re
from textwrap import indent

from .exercises import EXERCISES

PAGE = '''"""{name}: the backward is for you to write.

    python -m lessons.yours check {name}
    python -m lessons.yours hint {name}

The forward is the project's. Your function gets the cache that it returns, and the gradient of the
loss with respect to y.{y_is}
Change neither: others still read them. When yours is right, compare it with the project's, in
{path}.
"""

{imports}


{shown}{forward}

{stub}'''


def page(name):
    """The text of one file: what the forward needs, the forward, a backward without a body."""
    exercise = EXERCISES[name]
    module, forward = exercise.module, bare_source(exercise.forward)
    used = {node.id for node in ast.walk(ast.parse(forward)) if isinstance(node, ast.Name)}
    names = used & vars(module).keys() | {*exercise.shown}
    imports = ["import math\n"] * ("math" in names) + ["import numpy as np"]
    imports += ["import scipy.sparse"] * ("scipy" in names)
    own = sorted(names - {"math", "np", "scipy"})
    imports += [""] * bool(own) + [f"from {module.__name__} import {other}" for other in own]
    shown = "".join(f"{inspect.getsource(getattr(module, other))}\n" for other in exercise.shown)
    return PAGE.format(
        name=name, path=module.__name__.replace(".", "/") + ".py", forward=forward,
        y_is=" Here y is the loss." * (name == "batch_softmax"), imports="\n".join(imports),
        shown=indent(shown, "# ") + "\n" * bool(shown), stub=stub(exercise.backward))


def bare_source(function):
    """The source of a NumPy function, without the decorator that leads to a GPU's kernel."""
    source = inspect.getsource(inspect.unwrap(function))
    return source[source.index("def "):]


def stub(backward):
    """A backward without its body and its derivation; what takes the cache apart stays."""
    source = bare_source(backward)
    function = ast.parse(source).body[0]
    doc = ast.get_docstring(function)
    forward = re.match(r".*?\.(?=\s|$)", doc, re.S)[0]        # its first sentence
    shapes = re.search(r"(dy: \([^→]*)?→[^→]*$", doc)
    kept = [ast.unparse(line) for line in function.body
            if isinstance(line, ast.Assign) and ast.unparse(line.value) == "cache"]
    lines = [f'"""{forward}' + (f'\n\n{shapes[0]}\n"""' if shapes else '"""'), *kept,
             'raise NotImplementedError("your lines, in the place of this one")']
    return source[:source.index("\n") + 1] + indent("\n".join(lines) + "\n", "    ")
