"""Everything that the report says of a run, measured once: P@N, SNLI, STS, questions, attention."""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..cli import UserError
from ..data.packed import Packed
from ..data.snli import encode_snli
from ..evaluation import cqa, response, sts
from ..evaluation.attention import reach_on_dev
from ..evaluation.nli import classify
from ..model.input_response import embed
from ..run import Run, load_run
from ..snli_files import find_snli, read_snli
from ..training.schedule import pairs_before

ENCODER = "trained, all but the top, as cosine"    # the row of `sts.scores` of what `encode` gives
SENTENCES, SEED = 2_000, 2018    # on a Map


class Data(NamedTuple):
    """The labelled sets at hand, each by split or file name, and empty where there is none."""

    sts: dict
    snli: dict
    cqa: dict


class Map(NamedTuple):
    """n sentences of dev, and where they lie on the two directions in which they differ most.

    replies: which are replies, bool (n,); places: (n, 2); shares: of the variance, (2,)
    """

    sentences: Packed
    replies: np.ndarray
    places: np.ndarray
    shares: np.ndarray


class Results(NamedTuple):
    """What was measured of one Run; None, or an empty dict, for what could not be.

    ranks: of the true reply among 100, (n,); readings: row of `sts.scores` → split → similarity
    (n,) of each pair; snli: split → class of each pair, (n,); cqa: file name → list of scores;
    reach: (layers, sentences), how far attention reaches; map: of sentences of its corpus.
    """

    run: Run
    ranks: np.ndarray | None
    readings: dict
    snli: dict
    cqa: dict
    reach: np.ndarray | None
    map: Map | None

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
        return {"dan": "DAN", "transformer": "Transformer"}[self.run.config.model.encoder]


def read_data(folder):
    """The Data in a folder or None, as far as it is there. Raises UserError for damaged files."""
    def read_all(read, find, *run):
        try:
            sources = find(folder, *run) if folder else {}
        except UserError:
            return {}
        return {name: read(source) for name, source in sources.items()}
    return Data(read_all(sts.read, sts.find, None), read_all(read_snli, find_snli),
                read_all(cqa.read, cqa.find, None))


def measure(run, data):
    """The Results of a Run on a Data."""
    of_sts = {split: sts.scores(run, pairs) for split, pairs in data.sts.items()}
    readings = {row: {split: scores[row] for split, scores in of_sts.items()}
                for of_split in of_sts.values() for row in of_split}
    of_snli = {split: classify(run.model, encode_snli(data.snli[split], run.vocabulary))
               for split in ("dev", "test") if run.config.classifies and split in data.snli}
    of_cqa = {name: cqa.scores(run, questions)["trained"] for name, questions in data.cqa.items()}
    try:
        corpus = response.find(None, run)["test"]
    except UserError:                                         # its pair files are elsewhere
        ranks = reach = places = None
    else:
        ranks = response.model_ranks(run.model, corpus.test, *response.read(corpus)[1:])
        reach = reach_on_dev(run)[0] if run.config.model.encoder == "transformer" else None
        places = map_of(run, corpus.dev)
    return Results(run, ranks, readings, of_snli, of_cqa, reach, places)


def map_of(run, split):
    """The Map of up to 2,000 sentences of a Split: PCA, by the SVD of their centred vectors."""
    number = 2 * split.pairs
    rng = np.random.Generator(np.random.Philox(SEED))
    which = np.sort(rng.choice(number, min(SENTENCES, number), replace=False))
    sentences = split.sentences(which)
    vectors = embed(run.model, sentences)                                 # (n, e)
    left, sizes, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    shares = sizes[:2] ** 2 / (sizes ** 2).sum()
    return Map(sentences, which % 2 == 1, left[:, :2] * sizes[:2], shares)


def pairs_seen(run):
    """Pairs in all batches of a Run's training, those of the run that it started from included."""
    init = run.config.init
    before = pairs_seen(load_run(init)) if init and Path(init).is_dir() else 0
    return before + pairs_before(run.config, run.step)
