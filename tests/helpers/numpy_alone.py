"""An exported folder, used where only NumPy and regex can be imported."""

import os
import subprocess
import sys

import numpy as np

CODE = """
import sys
sys.modules |= dict.fromkeys(["convsim_mini", "scipy", "safetensors", "torch", "tqdm", "msgspec"])
sys.path.insert(0, sys.argv[1])
import model, numpy
encoder = model.SentenceEncoder()
numpy.save("vectors.npy", encoder.encode(sys.argv[2:]))
assert [name for name in sys.modules if name.startswith("convsim_mini")] == ["convsim_mini"]
print(encoder.encoder.__file__)
"""


def with_numpy_alone(folder, sentences, cwd):
    """The vectors that a folder's model.py gives, without the package: float32 (n, dimension)."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", CODE, folder, *sentences], cwd=cwd, env=clean,
                          capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(folder / "convsim_mini" / "core" / "model.py")
    return np.load(cwd / "vectors.npy")
