"""Every array function, method and keyword that device code uses exists in CuPy, without a GPU."""

import ast
import inspect
from pathlib import Path

import numpy as np
import pytest

cupy = pytest.importorskip(
    "cupy", reason="the CuPy wheel is not installed: pip install cupy-cuda12x")

PACKAGE = Path(__file__).parents[1] / "convsim_mini"
# The files whose functions see device arrays. The others stay on the host.
DEVICE_FILES = ("backend.py", "data/packed.py", "model/layers.py", "model/embeddings.py",
                "model/attention.py", "model/dan.py", "model/transformer.py", "model/losses.py",
                "model/input_response.py", "model/nli.py", "training/optim.py")
# What these files do on the host, before arrays reach a device or after they came back.
HOST_FUNCTIONS = {"device_module", "machine", "to_host", "fair_shares", "Packed.take",
                  "offsets_of", "add_to", "drop_words", "similarity_forward", "similarity_backward",
                  "correlation_forward", "embed", "SGD.__init__", "by_rows", "_share_out", "groups",
                  "_on_all_cores", "sort_by_length", "_mix_python"}


def device_functions():
    """(file:Class.function, syntax tree) of every function that may be handed device arrays."""
    for name in DEVICE_FILES:
        for node in ast.parse((PACKAGE / name).read_text(encoding="utf-8")).body:
            inside = node.body if isinstance(node, ast.ClassDef) else [node]
            owner = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
            for function in inside:
                if (isinstance(function, ast.FunctionDef)
                        and owner + function.name not in HOST_FUNCTIONS):
                    yield f"{name}:{owner}{function.name}", function


def is_module(node, module):
    """Is this expression the name np or xp, or, for xp, a call of array_module?"""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id
    return ((isinstance(node, ast.Name) and node.id == module)
            or (module == "xp" and called == "array_module"))


def module_attributes(node, module):
    """Names that are looked up on a module (np, xp) within a syntax tree."""
    return {part.attr for part in ast.walk(node)
            if isinstance(part, ast.Attribute) and is_module(part.value, module)}


FUNCTIONS = dict(device_functions())


def test_something_is_checked():
    used = set().union(*(module_attributes(node, "xp") for node in FUNCTIONS.values()))
    assert {"exp", "sqrt", "argsort", "tanh", "concatenate", "arange", "full",
            "broadcast_to"} <= used


@pytest.mark.parametrize("where", FUNCTIONS)
def test_functions_exist_in_cupy(where):
    assert not {name for name in module_attributes(FUNCTIONS[where], "xp")
                if not hasattr(cupy, name)}


@pytest.mark.parametrize("where", FUNCTIONS)
def test_device_code_calls_no_numpy_function(where):
    used = {name for name in module_attributes(FUNCTIONS[where], "np")
            if not isinstance(getattr(np, name), type)}
    used -= {"zeros"} if "Adaptive.__init__" in where else set()   # the step count, on the host
    assert not used, (f"on a CuPy array np.{used} fails or copies to the host: "
                      f"use the array's own module")


@pytest.mark.parametrize("where", FUNCTIONS)
def test_array_methods_exist_in_cupy(where):
    methods = {part.attr for part in ast.walk(FUNCTIONS[where]) if isinstance(part, ast.Attribute)}
    assert not {name for name in methods
                if hasattr(np.ndarray, name) and not hasattr(cupy.ndarray, name)}


@pytest.mark.parametrize("where", FUNCTIONS)
def test_keywords_exist_in_cupy(where):
    for call in (part for part in ast.walk(FUNCTIONS[where]) if isinstance(part, ast.Call)):
        if not (isinstance(call.func, ast.Attribute) and is_module(call.func.value, "xp")):
            continue
        function = getattr(cupy, call.func.attr)
        if inspect.isfunction(function):                # ufuncs take the same keywords as NumPy's
            accepted = inspect.signature(function).parameters
            takes_any = any(p.kind is p.VAR_KEYWORD for p in accepted.values())
            assert (takes_any
                    or all(keyword.arg in accepted for keyword in call.keywords)), ast.unparse(call)


def test_sparse_matrices_exist_in_cupy():
    import cupyx.scipy.sparse
    assert {"T", "__matmul__"} <= (set(dir(cupyx.scipy.sparse.csr_matrix))
                                   & set(dir(cupyx.scipy.sparse.csc_matrix)))


def test_nothing_else_imports_cupy():
    for path in PACKAGE.rglob("*.py"):
        if path.name in ("backend.py", "kernels.py", "distributed.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else (
                [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
            assert not [name for name in names if name.startswith("cupy")], path
