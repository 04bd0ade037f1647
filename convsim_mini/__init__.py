"""Sentence embeddings from conversations (Yang et al. 2018), every gradient by hand in NumPy/CuPy.

An encoder learns to pick the true reply to an input among the replies to other inputs. So it learns
what sentences mean: two sentences mean the same if the same replies would answer them.

minimal.py shows the whole idea in one file. The core are the 13 files that carry a sentence to a
loss and a gradient back. Read them in this order:

    data/packed.py              sentences of any lengths, end to end
    data/text.py                text → tokens → ids
    model/layers.py             linear layer, tanh, dropout, unit length, each with its gradient
    model/sparse_rows.py        the gradient of a table
    model/embeddings.py         ids → vectors of words → bags of them
    model/dan.py                the encoder: a bag through fully connected layers
    model/losses.py             batch softmax: the other replies of a batch are the wrong ones
    model/input_response.py     one step: encoder, response network, loss, and all gradients
    data/corpus.py              pairs → batches
    training/optim.py           gradients → new parameters
    training/schedule.py        which pairs each step sees, and how fast it learns
    training/loop.py            step after step
    evaluation/response.py      P@N: how often the true reply is picked

You may skip everything else until you need it: common/ for commands and files on disk, data/ for
your own pairs, model/ for the Transformer and the GPU, training/ for a run's folder and several
workers, evaluation/ for the paper's tasks, inference/ to use a run, export/ to pass it on, report/
for tables and figures, explore/ to look at a run in a browser. Each folder says in its __init__.py
what enters and what leaves.

train.py, encode.py, chat.py, tune.py and minimal.py are commands; `python -m convsim_mini` lists
them all. config.py holds every setting, and backend.py chooses between NumPy and CuPy. DESIGN.md
says how the parts fit and what to open for a change, PROMISES.md what holds when something goes
wrong.
"""

import os

from .evaluation import EVALUATIONS

COMMANDS = {    # python -m convsim_mini.NAME
    "minimal": "the whole idea in one file: NumPy, every gradient by hand",
    "train": "train a sentence encoder on conversations",
    "encode": "embed sentences, compare them, search lines",
    "chat": "type a message, get the best replies of the corpus",
    "explore": "look at a run in a browser: replies, words, neighbours, attention, map",
    "evaluation": "measure a run on every task whose data are there",
    **{f"evaluation.{name}": f"… {purpose}" for name, purpose in EVALUATIONS.items()},
    "evaluation.attention": "draw a Transformer's attention to a sentence",
    "tune": "learn one matrix on top from people's similarity scores",
    "export": "write a run as a folder for sentence_transformers, or for NumPy alone",
    "report": "write every table and figure of the paper from your own runs",
    "report.fractions": "train the runs of the paper's figure 8",
    "report.learning_curve": "draw P@1 and STS against the number of pairs",
    "report.compare": "runs side by side, with paired differences and what differs",
    "report.against_words": "where a run beats words alone, and where it loses",
}

# OpenBLAS's idle threads spin for 30 ms and so hold a core that copies and sparse products want.
# With 2¹⁰ cycles instead of 2²⁶ a DAN step was 15% faster. NumPy reads this when it is loaded.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "10")


def load(run, device="cpu", tuned=False, words=True):
    """Open a run's folder: `load(run).encode(list_of_str)` → float32 (n, 1012) unit vectors.

    500 numbers are learned and 512 count words. words=False: the 500 of the paper.
    """
    from .inference.sentence_encoder import load
    return load(run, device, tuned, words)
