"""Any encoder → its figures, by one plain script per task, which defines an Evaluation.

    from convsim_mini.evaluation.results import measured, show
    print(*map(show, measured(SentenceTransformer("…").encode, "DIR", ["sts"])), sep="\\n\\n")

A new task is a file that defines the functions of an Evaluation, and a name in EVALUATIONS, by
which `evaluation` finds it. Read response.py, then sts.py, nli.py, cqa.py and senteval.py; they
share metrics.py and baselines.py. results.py calls their functions and makes every table.
__main__.py is their command, compare.py what it adds for several runs, page.py what --out writes,
after_training.py what training shows. search.py measures on rows and queries of anyone's own.
"""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

EVALUATIONS = {
    "response": "picking the true reply among 100 (the paper's Table 1)",
    "sts": "semantic textual similarity (Tables 3 and 4; SemEval's years are ours)",
    "nli": "natural language inference (Table 2)",
    "cqa": "ranking forum questions (Table 6)",
    "senteval": "vectors as features of a classifier (SentEval's tasks; ours)",
}
BUILT_IN = "built-in set"    # the name of a data set that comes with the package


class Evaluation(NamedTuple):
    """What a task's file defines under these names. Names with a default may be missing.

    encode: a function from a list of n texts to vectors (n, d) of any norm; run: the Run that
    encodes, or None for another library's function
    """

    find: Callable         # (data, run) → name → source: the task's files in the folder `data`
    read: Callable         # (source) → data set: one of them, read
    scores: Callable       # (run, dataset, encode) → row → predictions of what is evaluated
    baselines: Callable    # (run, dataset) → row → predictions that it has to beat
    figures: Callable      # (dataset, predictions) → metric → (value, low, high), low and high of
    #                        the 95% interval or nan; systems are compared by the first metric
    lead: Callable         # (dataset, one, other) → `one`'s lead in that metric, paired
    title: Callable        # (name, dataset) → the heading of the table
    note: Callable = lambda name, dataset, scores: ""    # what to know along with the figures
    OWN_NOTE: str = ""     # what the built-in set can and cannot show
    COMPARED: str = ""     # the row by which runs are compared (compare.py); "": they are not
    same: Callable = lambda dataset, other: True    # do two runs' data sets hold the same inputs?


def evaluation_of(task):
    """The Evaluation of a name in EVALUATIONS. Raises TypeError if its file lacks a function."""
    module = vars(import_module(f".{task}", __package__))
    return Evaluation(**{name: module[name] for name in Evaluation._fields if name in module})
