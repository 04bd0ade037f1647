"""core/ is complete: it runs with nothing else imported, and its docstring lists its files."""

import re

from convsim_mini import core

from conftest import ROOT, python

FILES = sorted(path.stem for path in (ROOT / "convsim_mini" / "core").glob("[!_]*.py"))
REFUSED = "convsim_mini msgspec tqdm safetensors filelock threadpoolctl cupy matplotlib"

ALONE = """
import importlib, sys
from types import SimpleNamespace

class Refuse:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in sys.argv[2].split() and not (
                name == "convsim_mini" or f"{name}.".startswith("convsim_mini.core.")):
            raise ImportError(f"{name} is refused")

sys.meta_path.insert(0, Refuse)
for name in sys.argv[1].split():
    importlib.import_module(f"convsim_mini.core.{name}")

import numpy as np
from convsim_mini.core.model import ENCODERS, Model, loss_and_gradients
from convsim_mini.core.batches import Batch
from convsim_mini.core.text import Vocabulary

rng = np.random.default_rng(0)
vocabulary = Vocabulary(["how", "are", "you"], [3, 2, 1])
config = SimpleNamespace(encoder="dan", layers=[5], residual_response=True, unit_response=True,
                         scale=20.0, dropout=0.1, embedding_dim=4, transformer_layers=1, heads=2,
                         hidden=3, bag=False, max_tokens=9)
batch = Batch(vocabulary.encode(["how are you?", "are you", "fine", "you, how?"]))
for config.encoder in ("dan", "transformer"):
    shapes = {"encoder.embedding.weight": (vocabulary.size + 7, 4),
              "encoder.linear0.weight": (4, 5), "response.linear0.weight": (5, 5)}
    own = ENCODERS[config.encoder].shapes(config)
    shapes |= {name: shape for name, (shape, kind) in own.items()}
    model = Model({name: rng.standard_normal(shape) for name, shape in shapes.items()}, config,
                  vocabulary.size)
    loss, grads = loss_and_gradients(model, batch, key=(1, 0))
    assert loss > 0 and grads.keys() == model.params.keys()
"""


def test_core_imports_and_trains_where_everything_else_is_refused():
    done = python("-c", ALONE, " ".join(FILES), REFUSED)
    assert (done.returncode, done.stderr) == (0, "")


def test_its_door_names_each_file_once():
    assert sorted(re.findall(r"^    (\w+)  ", core.__doc__, re.MULTILINE)) == FILES
