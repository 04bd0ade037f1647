"""What the report measures of a run, once: P@N, SNLI, STS, questions, attention."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError, python_m, user_errors
from ..core.model import ENCODERS
from ..data.snli import encode_snli
from ..data.snli_files import find_snli, read_snli
from ..evaluation import cqa, response, sts
from ..evaluation.attention import reach_on_dev
from ..evaluation.nli import classify
from ..evaluation.response import TestSet
from ..training.run import Run, load_run
from ..training.tasks import pairs_before

# rows of `sts.scores`: the learned half of what `encode` gives, and all of it
LEARNED, BOTH = "trained, all but the top, as cosine", "trained, all but the top + words"


class Data(NamedTuple):
    """The labelled sets at hand, each by split or file name, and empty where there is none."""

    sts: dict
    snli: dict
    cqa: dict


class Results(NamedTuple):
    """What was measured of one Run; None, or an empty dict, for what could not be."""

    run: Run
    ranks: np.ndarray | None    # (n,): of the true reply among 100
    readings: dict              # row of `sts.scores` → split → similarity of each pair: (n,)
    snli: np.ndarray | None     # (n,): class of each pair of the test set
    cqa: dict                   # row of `cqa.scores` → file name → score of each candidate: (n,)
    reach: np.ndarray | None    # (layers, sentences): how far attention reaches
    test: TestSet | None        # of the run's own corpus

    @property
    def sts(self):
        """Split → similarity of each pair as the paper reads it."""
        return self.readings.get("trained", {})

    @property
    def name(self):
        """The folder's name."""
        return self.run.folder.resolve().name

    @property
    def encoder(self):
        """The encoder as the paper spells it."""
        return ENCODERS[self.run.config.model.encoder].short


def read_data(folder):
    """The Data that a folder holds; none for None. Raises UserError for damaged files."""
    def read_all(read, find, *run):
        try:
            sources = find(folder, *run) if folder else {}
        except UserError:
            return {}
        return {name: read(source) for name, source in sources.items()}
    return Data(read_all(sts.read, sts.find, None), read_all(read_snli, find_snli),
                read_all(cqa.read, cqa.find, None))


def to_choose_by(names):
    """Those names of files that one may choose by: no test set."""
    return [name for name in names if "dev" in name or name == "own set"]


def read_dev(folder):
    """The Data to choose by in a folder; for None the own sets. Raises UserError without STS."""
    pairs = sts.find(folder, None)
    try:
        questions = cqa.find(folder, None)
    except UserError:
        questions = {}
    return Data({name: sts.read(pairs[name]) for name in to_choose_by(pairs)}, {},
                {name: cqa.read(questions[name]) for name in to_choose_by(questions)})


def measure(run, data):
    """The Results of a Run on a Data."""
    readings, of_cqa = {}, {}
    for split, pairs in data.sts.items():
        for row, similarity in sts.scores(run, pairs).items():
            readings.setdefault(row, {})[split] = similarity
    classes = None
    if run.config.classifies and "test" in data.snli:
        classes = classify(run.model, encode_snli(data.snli["test"], run.vocabulary))
    for name, questions in data.cqa.items():
        for row, scores in cqa.scores(run, questions).items():
            of_cqa.setdefault(row, {})[name] = scores
    try:
        test = response.read(response.find(None, run)["test"])
    except UserError:                                         # its pair files are elsewhere
        return Results(run, None, readings, classes, of_cqa, None, None)
    ranks = response.model_ranks(run.model, test.corpus.test, test.pairs, test.candidates)
    has_attention = ENCODERS[run.config.model.encoder].attention is not None
    reach = reach_on_dev(run)[0] if has_attention else None
    return Results(run, ranks, readings, classes, of_cqa, reach, test)


def encoder_cosines(run, pairs):
    """Of each pair of an Sts, LEARNED and BOTH: (n,) each. Raises UserError without the matrix."""
    with user_errors(f"{run.folder}: was stopped and holds no all_but_the_top.safetensors",
                     "go on: " + python_m(f"convsim_mini.train --resume {run.folder}"), KeyError):
        scores = sts.scores(run, pairs)
        return scores[LEARNED], scores[BOTH]


def pairs_seen(run):
    """Pairs in all batches of a Run's training, with the pairs of the run that it started from."""
    init = run.config.init
    before = pairs_seen(load_run(init)) if init and Path(init).is_dir() else 0
    return before + pairs_before(run.config, run.step)
