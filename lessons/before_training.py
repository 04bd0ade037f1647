"""Sentences as bags of a table that nothing has trained, and their scores: for lesson A."""

from lesson import seed
import numpy as np

from convsim_mini.core.embeddings import embedding_bag_forward
from convsim_mini.core.layers import l2_normalize_forward
from convsim_mini.core.ranking import draw_candidates
from convsim_mini.evaluation.metrics import pearson
from convsim_mini.training.measures import ranks_of_truth
from convsim_mini.evaluation.sts import OWN, read
from small_encoder import some_chat

PIECES, D, A = 8_000, 200, 3e-4


def unit(x):
    """Each row of x at length 1."""
    return l2_normalize_forward(x)[0]


class Untrained:
    """80,000 pairs of chat, random rows, the weights a/(a + p), and what scores a table."""

    def __init__(self):
        self.corpus = some_chat(80_000, PIECES)
        vocabulary, dev = self.corpus.vocabulary, self.corpus.dev
        self.draw = np.random.Generator(np.random.Philox(seed(1)))  # as the library draws
        self.random_rows = self.draw.standard_normal((vocabulary.size, D), np.float32)
        self.weight = (A / (A + vocabulary.probabilities())).astype(np.float32)[:, None]
        pairs, self.candidates = draw_candidates(dev, 4_000)  # 100 replies for each input
        self.own = read(OWN)
        # inputs, replies, the left and the right sentences of the 120 pairs
        self.texts = [dev.sentences(2 * pairs), dev.sentences(2 * pairs + 1),
                      *(vocabulary.encode(side) for side in self.own[2:4])]

    def table_of(self, rows):
        """The table with these rows for the first words, of the same size as the random others."""
        table = self.random_rows.copy()
        table[:len(rows)] = rows * np.sqrt(D * len(rows) / (rows * rows).sum())
        return table

    def bags(self, table):
        """The four sides of `texts`: (B, 200) each."""
        return [embedding_bag_forward(table, packed, packed.lengths)[0] for packed in self.texts]

    def score(self, name, sides):
        """Print P@1 and r × 100 of four sides of any length; → bool (B,) hits, (120,) cosines."""
        inputs, replies, left, right = map(unit, sides)
        hits = ranks_of_truth(inputs, replies, self.candidates) == 1
        cosine = (left * right).sum(axis=1)
        print(f"{name:36} P@1 {hits.mean():6.1%}   "
              f"STS {100 * pearson(cosine, self.own.labels):.1f}")
        return hits, cosine
