"""Sentence embeddings from conversations (Yang et al. 2018), every gradient by hand in NumPy/CuPy.

An encoder that learns to pick the true reply to an input among the replies of other inputs learns
what sentences mean: two sentences mean the same if the same replies would answer them. The tree is
the road that a sentence takes, and each folder's __init__.py says what enters, what leaves, and
what to read first:

    data/         text → tokens → packed ids; pairs and corpora on disk
    model/        ids → vectors → loss, and every gradient back
    training/     batches → trained parameters
    evaluation/   a trained run → figures, one plain script a task
    report/       runs → every table and figure of the paper
    train.py  encode.py  tune.py       the commands; python -m convsim_mini lists them
    config.py  options.py              the settings of training, and its command line
    run.py                             a run's folder
    backend.py                         NumPy or CuPy: the arrays decide
    gradcheck.py                       how all of it is known to be right
    files.py  tables.py  figures.py  cli.py       what all of them share
"""

import os

# OpenBLAS's idle threads spin for 30 ms before they sleep and so hold a core while the other half
# of a step, copies and sparse products, wants it. 2¹⁰ cycles instead of 2²⁶ made a DAN step 15%
# faster and no matrix product slower. It is read when NumPy is first imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")


def load(run, device="cpu"):
    """Open a run's folder: `load(run).encode(list_of_str)` → float32 (n, 500) unit vectors."""
    from .encode import load

    return load(run, device)
