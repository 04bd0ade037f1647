"""Every array function, method and keyword that device code uses exists in CuPy, without a GPU."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

cupy = pytest.importorskip("cupy", reason="the CuPy wheel is not installed: pip install cupy-cuda12x")

PACKAGE = Path(__file__).parents[1] / "convsim_mini"
# The files whose functions see device arrays. The others stay on the host.
DEVICE_FILES = ("layers.py", "encoders.py", "losses.py", "model.py", "optim.py", "text.py")
# What these files do on the host, before arrays reach a device or after they came back.
HOST_FUNCTIONS = {"__init__", "pack", "probabilities", "drop_words", "false_negatives", "_equal_pairs",
                  "initial_model", "initial_parameters", "embed"}


def device_functions():
    """(file:function, syntax tree) of every function that may be handed device arrays."""
    for name in DEVICE_FILES:
        for node in ast.walk(ast.parse((PACKAGE / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name not in HOST_FUNCTIONS:
                yield f"{name}:{node.lineno}:{node.name}", node


def module_attributes(node, module):
    """Names that are looked up on `module` (np, xp) within a syntax tree."""
    return {part.attr for part in ast.walk(node)
            if isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == module}


FUNCTIONS = dict(device_functions())


def test_something_is_checked():
    used = set().union(*(module_attributes(node, "xp") for node in FUNCTIONS.values()))
    assert {"exp", "sqrt", "argsort"} <= used


@pytest.mark.parametrize("where", FUNCTIONS)
def test_functions_exist_in_cupy(where):
    assert not {name for name in module_attributes(FUNCTIONS[where], "xp") if not hasattr(cupy, name)}


@pytest.mark.parametrize("where", FUNCTIONS)
def test_device_code_calls_no_numpy_function(where):
    used = {name for name in module_attributes(FUNCTIONS[where], "np") if not isinstance(getattr(np, name), type)}
    assert not used, f"on a CuPy array np.{used} fails or copies to the host: use the array's own module"


@pytest.mark.parametrize("where", FUNCTIONS)
def test_array_methods_exist_in_cupy(where):
    methods = {part.attr for part in ast.walk(FUNCTIONS[where]) if isinstance(part, ast.Attribute)}
    assert not {name for name in methods if hasattr(np.ndarray, name) and not hasattr(cupy.ndarray, name)}


@pytest.mark.parametrize("where", FUNCTIONS)
def test_keywords_exist_in_cupy(where):
    for call in (part for part in ast.walk(FUNCTIONS[where]) if isinstance(part, ast.Call)):
        if not (isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
                and call.func.value.id == "xp"):
            continue
        function = getattr(cupy, call.func.attr)
        if inspect.isfunction(function):                      # ufuncs take the same keywords as NumPy's
            accepted = inspect.signature(function).parameters
            takes_any = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
            assert takes_any or all(keyword.arg in accepted for keyword in call.keywords), ast.unparse(call)


def test_sparse_matrices_exist_in_cupy():
    import cupyx.scipy.sparse
    assert {"tocsr", "T"} <= set(dir(cupyx.scipy.sparse.csr_matrix)) & set(dir(cupyx.scipy.sparse.csc_matrix))


def test_nothing_else_imports_cupy():
    for path in PACKAGE.rglob("*.py"):
        if path.name in ("backend.py", "kernels.py", "distributed.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            assert not [name for name in names if name.startswith("cupy")], path
