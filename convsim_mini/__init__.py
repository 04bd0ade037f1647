"""Sentence embeddings from conversations (Yang et al. 2018), every gradient by hand in NumPy/CuPy.

An encoder that learns to pick the true reply to an input among the replies of other inputs
learns what sentences mean: two sentences mean the same if the same replies would answer them.
Text becomes packed ids, ids become sentence vectors, vectors become a loss, and the gradient
takes the same way back. The files in reading order:

    text.py          text → tokens → word ids → rows of words and bigrams
    layers.py        linear, tanh, norms, embeddings, dropout: forward beside backward
    attention.py     self-attention over sentences of equal length; the timing signal
    encoders.py      DAN and Transformer: layers composed forward, unwound backward
    losses.py        the batch softmax over a batch's responses
    model.py         the input-response model: one call gives the loss and all gradients
    nli.py           the second task: natural language inference on the same encoder
    optim.py         SGD, and Adam with row-wise Adagrad
    schedule.py      what each step is: its task, its batch, its learning rates
    train.py         the loop: start, resume, stop
    monitor.py       what it shows and records
    gradcheck.py     how all of it is known to be right
    files.py         lines of files, plain or compressed; files written whole
    pairs.py         conversation files and the paper's filters
    corpus.py        pairs on disk as packed ids; batches in random order
    snli.py          the files of natural language inference as packed ids
    word_vectors.py  what the corpus's statistics say of words before training
    config.py        every setting and where its default comes from
    checkpoint.py    a run's folder
    encode.py        a trained run at work: embed, compare, search
    tune.py          one matrix on top, learned from human scores
    backend.py       NumPy or CuPy: the arrays decide
    cli.py           options, and mistakes in one line
    evaluation/      P@N, STS, NLI, question ranking, attention, baselines, metrics, figures; the report of them all
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
