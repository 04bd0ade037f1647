"""Which functions of core are unchanged since their faster twins were tested against them.

A fingerprint is a checksum of a function's code, without comments and docstrings, and of everything
in core that it uses. tests/fast/write_fingerprints.py writes fingerprints.json once tests pass.
"""

import ast
import inspect
import json
import sys
import zlib
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("fingerprints.json")    # name → fingerprint
CORE = __package__.replace("fast", "core")


def changed(functions):
    """Which of these functions of core have a fingerprint that differs from the one in FILE."""
    tested = json.loads(FILE.read_text(encoding="utf-8"))
    return [one for one in functions if fingerprint(one) != tested.get(name_of(one))]


def name_of(function):
    """A function's file and name, such as core/losses.py: batch_softmax_forward."""
    return f"{place_of(function)}: {function.__name__}"


def place_of(function):
    """A function's file, such as core/losses.py."""
    return f"core/{function.__module__.rpartition('.')[2]}.py"


def layer_of(function):
    """A function's file and name, without _forward or _backward."""
    return name_of(function).removesuffix("_forward").removesuffix("_backward")


def fingerprint(function):
    """CRC-32, in hexadecimal, of a function's code and of everything in core that it uses."""
    code, todo = {}, [function]
    while todo:
        part = inspect.unwrap(todo.pop())                     # the function below a decorator
        name = f"{part.__module__}.{part.__qualname__}"
        if name in code:
            continue
        code[name], used = code_of(part)
        values = [vars(sys.modules[part.__module__]).get(word) for word in used]
        todo += [value for value in values if inspect.isroutine(value) or inspect.isclass(value)
                 if value.__module__.startswith(CORE)]
        code |= {f"{name}: {word}": repr(value) for word, value in zip(used, values)
                 if isinstance(value, (int, float, str))}
    return f"{zlib.crc32(json.dumps(code, sort_keys=True).encode()):08x}"


@cache
def code_of(part):
    """The code of a function or class, without comments and docstrings, and its names, sorted."""
    tree = definitions(part.__module__)[part.__name__]
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node):
            node.body[0] = ast.Pass()
    words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return ast.unparse(tree), sorted(words)


@cache
def definitions(module):
    """The syntax trees of a module's functions and classes, by name."""
    tree = ast.parse(Path(sys.modules[module].__file__).read_text(encoding="utf-8"))
    kinds = ast.FunctionDef, ast.ClassDef
    return {node.name: node for node in tree.body if isinstance(node, kinds)}
