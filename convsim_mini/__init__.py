"""Sentence embeddings from conversations (Yang et al. 2018), every gradient by hand in NumPy/CuPy.

An encoder that learns to pick the true reply to an input among the replies of other inputs learns
what sentences mean: two sentences mean the same if the same replies would answer them. The tree is
the road that a sentence takes, and each folder's __init__.py says what enters, what leaves, and
what to read first:

    data/         text → tokens → packed ids; pairs and corpora on disk
    model/        ids → vectors → loss, and every gradient back
    training/     batches → trained parameters
    evaluation/   a trained run → scores, one plain script a task
    report/       runs → every table and figure of the paper
    train.py  encode.py  tune.py  export.py   the commands; python -m convsim_mini lists them
    exported/                          what export.py writes beside a run's numbers
    sources.py  snli_files.py          tables, logs and SNLI's files as people have them
    config.py  options.py              the settings of training, and its command line
    run.py  sentence_encoder.py        a run's folder; sentences in, vectors out
    index.py                           lines and their vectors, to be searched
    backend.py                         NumPy or CuPy: the arrays decide
    gradcheck.py                       how all of it is known to be right
    decompress.py  files.py  arrays_file.py       text in, within limits; files out, with checksums
    workspace.py  processes.py                    folders that processes share; other processes
    tables.py  figures.py  cli.py                 what all of them share

PROMISES.md says what holds when something goes wrong.
"""

import os
import signal
import sys

from .evaluation import EVALUATIONS

COMMANDS = {    # python -m convsim_mini.NAME
    "train": "train a sentence encoder on conversations",
    "encode": "embed sentences, compare them, search lines",
    "evaluation": "measure a run on every task whose data are there",
    **{f"evaluation.{name}": f"… {purpose}" for name, purpose in EVALUATIONS.items()},
    "evaluation.attention": "draw a Transformer's attention to a sentence",
    "tune": "learn one matrix on top from people's similarity scores",
    "export": "write a run as a folder for sentence_transformers, or for NumPy alone",
    "report": "write every table and figure of the paper from your own runs",
    "report.fractions": "train the runs of the paper's figure 8",
    "report.learning_curve": "draw P@1 and STS against the number of pairs",
    "report.against_words": "where a run beats words alone, and where it loses",
}
_started = sys.orig_argv[sys.orig_argv.index("-m") + 1] if "-m" in sys.orig_argv[:-1] else ""
if _started.startswith("convsim_mini."):
    if _started.split(".", 1)[1] not in COMMANDS:
        sys.stderr.write(f"error: {_started}: is no command; python -m convsim_mini lists them\n")
        sys.exit(2)
if _started.startswith(("convsim_mini", "data_scripts.")) and (
        signal.getsignal(signal.SIGINT) == signal.default_int_handler):
    signal.signal(signal.SIGINT, signal.SIG_DFL)              # no traceback while modules load

# OpenBLAS's idle threads spin for 30 ms and so hold a core that copies and sparse products want.
# 2¹⁰ cycles, not 2²⁶, made a DAN step 15% faster. It is read when NumPy is first imported.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")


def load(run, device="cpu", tuned=False):
    """Open a run's folder: `load(run).encode(list_of_str)` → float32 (n, 500) unit vectors."""
    from .sentence_encoder import load
    return load(run, device, tuned)
