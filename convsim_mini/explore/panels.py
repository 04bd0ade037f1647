"""The panels: each is a function of an Explored run and of those fields on the page that it reads.

Each returns a dict that page.js shows: a `status`, and `tables` of (caption, head, rows). A cell is
a text, a number, or a dict: its `content`, a `note` below it and, for a button, the `piece` that a
click asks for, and whether it is shown as `pressed`. The page shows the panels' docstrings.
"""

from functools import cached_property
from inspect import signature
from itertools import chain, islice

import numpy as np

from ..config import TITLES
from ..core.model import embed
from ..core.text import tokenize
from ..core.transformer import attention_weights
from ..inference.index import index_of
from ..inference.rows import LINE, rows_of_texts
from ..inference.replies import best_replies, pairs_of_run, replies_of_run
from ..inference.sentence_encoder import encoder_of

REPLIES, PAIRS, NEAREST = 5, 20_000, 10
LONGEST = 100    # words of a sentence of Compare, which embeds it again without each of them


class Explored:
    """A Run, and what its panels need, which is made when it is first used."""

    def __init__(self, run):
        self.run, self.encoder = run, encoder_of(run)

    @cached_property
    def replies(self):
        """An Index of the replies in the run's files."""
        return replies_of_run(self.encoder, self.run)

    @cached_property
    def lines(self):
        """An Index of the distinct texts in the first 20,000 pairs of the run."""
        texts = {*chain.from_iterable(islice(pairs_of_run(self.run.config), PAIRS))}
        return index_of(self.encoder, rows_of_texts(sorted(texts)))


def marked(explored, tokens):
    """A cell for each token, with a note of its pieces if it is several pieces or unknown."""
    vocabulary = explored.run.vocabulary
    notes = (" ".join(map(vocabulary.token, vocabulary.split(token))) for token in tokens)
    return [{"content": token, "note": "" if note == token else note}
            for token, note in zip(tokens, notes)]


def reply(explored, sentence):
    """The corpus's best-scoring replies to your sentence. Lesson 5, The batch softmax loss,
    explains the learned part of the scores; the rest is TF-IDF."""
    rows = best_replies(explored.replies, sentence, REPLIES)
    return {"status": f"The best of {len(explored.replies):,} replies.",
            "tables": [("Best replies", ["score", "reply", "once said to"], rows)]}


def compare(explored, compared):
    """The cosines between your sentences, and how the cosine of the first two changes when a word
    is left out and its neighbours close the gap."""
    sentences = [text for text in compared.split("\n") if tokenize(text)]
    tokens = [tokenize(text) for text in sentences]
    if not 2 <= len(sentences) <= 8 or max(map(len, tokens)) > LONGEST:
        return {"status": f"Type two to eight sentences of up to {LONGEST} words, one per line."}
    without = [some[:n] + some[n + 1:] for some in tokens[:2] for n in range(len(some))]
    vectors = embed(explored.encoder.model, explored.run.vocabulary.pack(tokens + without))
    whole, *shorter = np.split(vectors, [len(tokens), len(tokens) + len(tokens[0])])
    rows = zip(sentences, (whole @ whole.T).tolist())
    tables = [("cosine", ["", *map(str, range(1, len(sentences) + 1))],
               [[f"{k} {text}", *row] for k, (text, row) in enumerate(rows, start=1)])]
    cosine = whole[0] @ whole[1]
    for k, some in enumerate(shorter):
        tables.append((f"Sentence {k + 1}: change of the cosine without each word",
                       marked(explored, tokens[k]), [(some @ whole[1 - k] - cosine).tolist()]))
    return {"status": f"Sentences 1 and 2: cosine {cosine:.2f}.", "tables": tables}


def neighbours(explored, sentence):
    """The lines in the first 20,000 pairs that are nearest to your sentence. Their score is meaning
    (the cosine of the learned vectors) plus words (that of TF-IDF vectors). Lesson 22, The shape of
    the space, explains why some lines are near many sentences."""
    hits, = explored.lines.search([sentence], NEAREST)
    return {"status": f"The best of {len(explored.lines):,} lines.",
            "tables": [("Nearest lines", ["score", "meaning", "words", "line"],
                        [(*hit[:3], hit.row[LINE]) for hit in hits])]}


def attention(explored, sentence, piece=0):
    """How strongly each head attends from one piece of a word to every piece, layer by layer. Click
    a piece to choose it. Lesson 12, One attention head, explains attention."""
    if (encoder := explored.run.config.model.encoder) != "transformer":
        return {"status": f"A {TITLES.get(encoder, encoder)} has no attention; runs trained with "
                          "--encoder transformer have it."}
    vocabulary = explored.run.vocabulary
    packed = vocabulary.encode([sentence])
    pieces = [*map(vocabulary.token, packed.ids[:explored.run.config.model.max_tokens].tolist())]
    layers = attention_weights(explored.run.model, packed)
    weights = np.concatenate([layer[0] for layer in layers])              # (layers, heads, n, n)
    piece = min(piece, len(pieces) - 1)
    head = [{"content": text, "piece": k, "pressed": k == piece} for k, text in enumerate(pieces)]
    return {"status": f"From \u201c{pieces[piece]}\u201d.", "tables": [
        (f"Layer {number}", ["", *head],
         [[f"head {k}", *row] for k, row in enumerate(layer, start=1)])
        for number, layer in enumerate(weights[:, :, piece].tolist(), start=1)]}


PANELS = {"compare": compare, "reply": reply, "neighbours": neighbours, "attention": attention}


def fields(panel):
    """The names of the fields of a question that a panel reads."""
    return [*signature(PANELS[panel]).parameters][1:]
