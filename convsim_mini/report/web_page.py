"""What the page for a browser shows of each run, below the tables: blocks.

Wherever a function takes `result`, that is a Results; `data` is a Data.
"""

import dataclasses
import re

import numpy as np

from ..common.figures import plot_accuracy, plot_loss, plot_precision
from ..config import PRESETS, Config, flat
from ..core.nli import LABELS
from ..core.model import ENCODERS
from ..evaluation import attention, sts
from ..evaluation.metrics import pearson
from ..export.model_card import limits, training_data, what_it_is
from ..core.model import embed
from ..training.monitor import choices_of
from ..training.run import log_of
from .blocks import Figure, Points, Table
from .page import MISSING, table_5

EXAMPLES = 3
SENTENCES, SEED = 2_000, 2018    # on the map
SENTENCE = "How old are you, and where do you live?"    # to look at attention
FACTS = ("preset", "pairs", "seed", "run", "data", "cache")    # no departures from a preset


def run_blocks(result, data):
    """All blocks of one run."""
    blocks = [f"## {result.name}", *model_card(result), "### Training", *curves(result.run),
              "### Similarity", *similarity(result, data),
              "### Map of sentences", *sentence_map(result)]
    if ENCODERS[result.run.config.model.encoder].attention:
        blocks += ["### Attention", Figure("attention", attention.plot,
                                           attention.of_sentence(result.run, SENTENCE))]
    return blocks


def model_card(result):
    """What the run is, what it learned from, its limits, and how it departs from its preset."""
    config = result.run.config
    preset = flat(dataclasses.asdict(Config())) | PRESETS[config.preset]
    departures = [[name, value, preset[name]]
                  for name, value in flat(dataclasses.asdict(config)).items()
                  if value != preset[name] and name not in FACTS]
    return ["### Model card", f"{what_it_is(config)} {training_data(result.run)}", *limits(config),
            "These settings depart from its preset:",
            Table(["setting", "this run", "preset"], departures)]


def curves(run):
    """What the log.jsonl of a Run holds, as figures; or why there are none."""
    log = log_of(run)
    losses = [record for record in log if {"loss", "nli_loss"} & record.keys()]
    measured = [record for record in log if "dev_p1" in record]
    if not measured:
        return ["`log.jsonl` holds no curves."]
    figures = [Figure("p_at_n", plot_precision, (measured, run.step))]
    if losses:
        given = losses, measured, choices_of(run.config), run.step
        figures.append(Figure("loss", plot_loss, given))
    if any("nli" in record for record in measured):
        figures.append(Figure("nli", plot_accuracy, (measured, len(LABELS))))
    return figures


def similarity(result, data):
    """STS dev: a point for each pair, and the pairs nearest to people's ranks and furthest."""
    if "dev" not in data.sts:
        return [MISSING.format("STS dev", "stsbenchmark")]
    pairs, scores = data.sts["dev"], sts.score_0_to_5(result.sts["dev"])
    r = pearson(scores, pairs.labels)
    texts = [f"{one}\n{two}\npeople {label:.1f}, run {score:.1f}" for one, two, label, score
             in zip(pairs.sentences1, pairs.sentences2, pairs.labels, scores)]
    labels = {"xlabel": "people's score (0 unrelated … 5 the same)",
              "ylabel": "run's score, 5 (1 − arccos(cos)/π)",
              "title": f"STS dev: Pearson's r = {r:.3f} over {len(scores):,} pairs"}
    return ["A point is a pair of sentences, which appears under the pointer. Good pairs have "
            "almost the same rank by the run and by people. Bad pairs have very different ranks.",
            Points(np.stack([pairs.labels, scores], axis=1), pairs.genres, texts, labels),
            table_5(result, pairs, EXAMPLES)]


def sentence_map(result):
    """Up to 2,000 sentences of the dev split as points, and a field to search them.

    They lie on two principal components (PCA), from the SVD of their centred vectors.
    """
    if result.test is None:
        return ["Not drawn: its pair files are not here."]
    dev = result.test.corpus.dev
    number = 2 * dev.pairs
    rng = np.random.Generator(np.random.Philox(SEED))
    which = np.sort(rng.choice(number, min(SENTENCES, number), replace=False))
    packed = dev.sentences(which)
    vectors = embed(result.run.model, packed)                             # (n, e)
    left, sizes, _ = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)
    first, second = 100 * sizes[:2] ** 2 / (sizes ** 2).sum()
    texts = [" ".join(map(result.run.vocabulary.token, sentence))
             for sentence in np.split(packed.ids, packed.offsets[1:-1])]
    texts = [re.sub(r" (?=[.,!?:;)])", "", text) for text in texts]       # no space before a mark
    labels = {"xlabel": f"direction 1: {first:.1f}% of the variance",
              "ylabel": f"direction 2: {second:.1f}% of the variance"}
    return [f"{len(texts):,} sentences of the dev split, as the encoder reads them, on the two "
            "directions in which their vectors differ most (PCA).",
            Points(left[:, :2] * sizes[:2], np.where(which % 2, "replies", "messages"), texts,
                   labels, search=True)]
