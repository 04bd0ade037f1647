"""An exported folder, used where only NumPy, SciPy and regex can be imported."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
CODE = """
import sys
sys.modules |= dict.fromkeys(["convsim_mini", "safetensors", "torch", "tqdm", "msgspec"])
sys.path.append(sys.argv[1])    # behind the package, which it must not take
import model, numpy
encoder = model.load()
numpy.save(sys.argv[2], encoder.encode(sys.argv[3:]))
assert [name for name in sys.modules if name.startswith("convsim_mini")] == ["convsim_mini"]
print(type(encoder).encode.__code__.co_filename)
"""


def with_numpy_alone(folder, sentences, cwd):
    """The vectors that a folder's model.py gives, without the package: float32 (n, dimension)."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", CODE, folder, cwd / "vectors.npy", *sentences],
                          cwd=ROOT, env=clean, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(folder / "core" / "model.py")
    return np.load(cwd / "vectors.npy")
