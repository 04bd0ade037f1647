"""Everything that the report says of a run, measured once: P@N, SNLI, STS, question ranking, attention."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..cli import UserError
from ..data.corpus import open_corpus
from ..data.snli import encode_snli
from ..evaluation import cqa, response
from ..evaluation.attention import reach_on_dev
from ..evaluation.nli import classify
from ..evaluation.sts import model_similarity
from ..run import Run, check_corpus, load_matrix, load_run, read_log
from ..training.schedule import pairs_before

TRAINED_ON = {"conversation": "conversations", "multitask": "conversations + SNLI", "nli": "SNLI"}


class Data(NamedTuple):
    """The labelled sets at hand, each by split or file name, and empty where there is none."""

    sts: dict
    snli: dict
    cqa: dict


class Results(NamedTuple):
    """What was measured of one Run; None, or an empty dict, for what could not be.

    ranks: of the true reply among 100, (n,); sts: split → similarity (n,) of each pair, and the same
    under the tuned matrix in `tuned`; snli: split → class of each pair, (n,); cqa: file name → list of
    scores; reach: (layers, sentences), how far attention reaches.
    """

    run: Run
    ranks: np.ndarray | None
    sts: dict
    tuned: dict
    snli: dict
    cqa: dict
    reach: np.ndarray | None

    @property
    def name(self):
        """The folder's name."""
        return self.run.folder.resolve().name

    @property
    def encoder(self):
        """The encoder as the paper spells it."""
        return {"dan": "DAN", "transformer": "Transformer"}[self.run.config.model.encoder]

    @property
    def trained_on(self):
        """The tasks it was trained on."""
        return TRAINED_ON[self.run.config.task]


def measure(run, data):
    """The Results of a Run on a Data."""
    matrix = load_matrix(run)
    similarity = lambda matrix: {split: model_similarity(run.model, run.vocabulary, sts, matrix)
                                 for split, sts in data.sts.items()}
    of_snli = {split: classify(run.model, encode_snli(data.snli[split], run.vocabulary))
               for split in ("dev", "test") if run.config.classifies and split in data.snli}
    ranking = {name: cqa.model_scores(questions, run) for name, questions in data.cqa.items()}
    try:
        corpus = open_corpus(run.config)
        check_corpus(run, corpus)
    except UserError:                                         # its pair files are elsewhere
        ranks = reach = None
    else:
        ranks = response.model_ranks(run.model, corpus.test, *response.draw_candidates(corpus.test))
        reach = reach_on_dev(run)[0] if run.config.model.encoder == "transformer" else None
    tuned = {} if matrix is None else similarity(matrix)
    return Results(run, ranks, similarity(None), tuned, of_snli, ranking, reach)


def pairs_seen(run):
    """Pairs in all batches of a Run's training, those of the run that it started from included."""
    before = 0
    if run.config.init and Path(run.config.init).is_dir():
        before = pairs_seen(load_run(run.config.init))
    return before + pairs_before(run.config, run.step)


def training_log(run):
    """Seconds of training, without measuring and saving, and the machines it ran on; as far as its log says."""
    records = read_log(run.folder / "log.jsonl")
    seconds = [record["seconds"] for record in records if "seconds" in record]
    machines = dict.fromkeys(record["machine"] for record in records if "machine" in record)
    return seconds[-1] if seconds else None, " and ".join(machines) or None
