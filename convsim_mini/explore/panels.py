"""What each panel shows: a function of an Explored run and a question, a dict of page.js's fields.

It returns a dict for JSON: a `status`; `tables` of (caption, head, rows); a `map`; `images` as SVG.
A cell is a text, a number, or a dict: `content`, a `note` below it, what to `ask` when it is
pressed, and whether it is `pressed`. The page shows the docstrings.
"""

from copy import copy
from functools import cached_property
from itertools import chain, combinations, islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from matplotlib import rc_context

from ..common.figures import plot_loss, plot_precision, precisions
from ..core.model import ENCODERS
from ..core.text import tokenize
from ..evaluation import response
from ..evaluation.attention import of_sentence
from ..inference.index import nearest
from ..inference.replies import Replies, pairs_of_run, replies_of_run
from ..inference.sentence_encoder import SentenceEncoder, encoder_of
from ..core.layers import l2_normalize_forward
from ..training.monitor import choices_of
from ..training.run import log_of

REPLIES, PAIRS, POINTS, NEAREST = 5, 20_000, 1_000, 10
LONGEST = 100    # words of a sentence of Compare, which embeds it once without each of them


class Explored:
    """A Run, and what its panels need, made when it is first asked for."""

    def __init__(self, run):
        self.run, self.encoder = run, encoder_of(run)

    @cached_property
    def replies(self):
        """Name → Replies, by the run's model and by the model before training."""
        trained = replies_of_run(self.encoder, self.run)
        corpus = response.find(None, self.run)["test"]
        name, model = response.before_training(self.run.config, corpus)
        index, weight = copy(trained.index), self.encoder.word_weight
        texts = [index.row(k)[index.columns[1]] for k in range(len(index))]
        index.encoder = SentenceEncoder(model, self.run.vocabulary, word_weight=weight)
        index.vectors = index.encoder.encode_responses(texts)
        return {"after training": trained, name: Replies(index)}

    @cached_property
    def lines(self):
        """The first 20,000 pairs of the run's files, each text once: vectors (n, e), texts."""
        texts = sorted(set(chain.from_iterable(islice(pairs_of_run(self.run.config), PAIRS))))
        return self.encoder.encode(texts), texts

    @cached_property
    def map(self):
        """1,000 of these lines: vectors, texts, the two directions in which they differ most."""
        vectors, texts = (every[::max(1, len(every) // POINTS)][:POINTS] for every in self.lines)
        axes = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)[2]
        return vectors, texts, axes[:2]


def marked(explored, tokens):
    """A cell for each token; a note marks those that the vocabulary does not hold."""
    known = explored.run.vocabulary.ids
    return [{"content": token, "note": "" if token in known else "unknown"} for token in tokens]


def reply(explored, question):
    """The replies of the corpus with the best scores for your sentence, after training and before
    it. Lesson 9, The batch softmax loss, explains the scores."""
    tables = [(name, ["score", "reply", "once said to"],
               [found[:3] for found in replies.best(question["sentence"], REPLIES)])
              for name, replies in explored.replies.items()]
    number = len(explored.replies["after training"])
    return {"status": f"The best of {number:,} replies.", "tables": tables}


def compare(explored, question):
    """The cosines of your sentences, and how the one that you choose changes when a word is left
    out and its neighbours close the gap. Lesson 21, Measuring similarity, explains the halves."""
    sentences = [text for text in question["compared"].split("\n") if tokenize(text)]
    tokens = [tokenize(text) for text in sentences]
    if not 2 <= len(sentences) <= 8 or max(map(len, tokens)) > LONGEST:
        return {"status": f"Type two to eight sentences of up to {LONGEST} words, one a line."}
    i, j = pair = question["pair"] if max(question["pair"]) < len(tokens) else [0, 1]
    without = [tokens[k][:n] + tokens[k][n + 1:] for k in pair for n in range(len(tokens[k]))]
    vectors = explored.encoder.embed(explored.run.vocabulary.pack(tokens + without))
    scores, matrices, changes, e = [], [], ([], []), explored.run.config.model.layers[-1]
    parts = {"cosine": slice(None), "learned half": slice(e), "counting half": slice(e, None)}
    for name, part in [*parts.items()][:3 if explored.encoder.word_weight else 1]:
        part, _ = l2_normalize_forward(vectors[:, part])
        whole, *without = np.split(part, [len(tokens), len(tokens) + len(tokens[i])])
        cosines = whole @ whole.T
        scores.append(f"{name} {cosines[i, j]:.2f}")
        matrices.append((name, ["", *map(str, range(1, len(tokens) + 1))], [
            [f"{k + 1} {text}", *cosines[k].tolist()] for k, text in enumerate(sentences)]))
        for rows, some, other in zip(changes, without, (j, i)):
            rows.append([name, *(some @ whole[other] - cosines[i, j]).tolist()])
    for a, b in combinations(range(len(tokens)), 2):
        row = matrices[0][2][a]
        row[b + 1] = {"content": row[b + 1], "ask": {"pair": [a, b]}, "pressed": [a, b] == pair}
    return {"status": f"Sentences {i + 1} and {j + 1}: {', '.join(scores)}.", "tables": matrices + [
        (f"Sentence {k + 1}: what changes without a word",
         ["", *marked(explored, tokens[k])], rows) for k, rows in zip(pair, changes)]}


def neighbours(explored, question):
    """The lines whose vectors have the largest cosine with that of your sentence, of the first
    20,000 pairs. Lesson 23, The shape of the space, says why some are near to many."""
    vectors, texts = explored.lines
    query = explored.encoder.encode([question["sentence"]])
    hits, = nearest(query, [(vectors, texts)], NEAREST)
    return {"status": f"The best of {len(texts):,} lines has a cosine of {hits[0].score:.2f}.",
            "tables": [("Nearest lines", ["cosine", "line"],
                        [(hit.score, hit.row) for hit in hits])]}


def attention(explored, question):
    """How much each head looks from the word that you choose to each word, layer by layer. Lesson
    12, One attention head, explains it."""
    encoder = ENCODERS[explored.run.config.model.encoder]
    if not encoder.attention:
        return {"status": f"A {encoder.short} has no attention. A run with --encoder transformer "
                          "has."}
    tokens, weights = of_sentence(explored.run, question["sentence"])
    word = min(question["word"], len(tokens) - 1)
    head = [cell | {"ask": {"word": k}, "pressed": k == word}
            for k, cell in enumerate(marked(explored, tokens))]
    return {"status": f"From \u201c{tokens[word]}\u201d.", "tables": [
        (f"Layer {number}", ["", *head],
         [[f"head {k}", *row] for k, row in enumerate(layer, start=1)])
        for number, layer in enumerate(weights[:, :, word].tolist(), start=1)]}


def sentence_map(explored, question):
    """Lines of the corpus in the two directions in which they differ most: the bluer, the nearer to
    yours in all directions. Lesson 23, The shape of the space, explains such directions."""
    vectors, texts, axes = explored.map
    yours = explored.encoder.encode([question["sentence"]])
    cosines = (vectors @ yours[0]).tolist()
    places = np.concatenate([vectors, yours]) @ axes.T
    places = ((places - places.min(axis=0)) / np.ptp(places, axis=0)).tolist()    # 0 to 1
    typed, best = question["search"].strip().lower(), max(map(abs, cosines))
    points = [(text, place, max(0, cosine / best), typed in text.lower())
              for text, place, cosine in zip(texts, places, cosines)]
    found = sorted((cosine, point[0]) for point, cosine in zip(points, cosines) if point[3])
    return {"status": f"{len(found):,} of {len(texts):,} sentences hold what is searched for.",
            "map": {"points": points, "yours": places[-1]},
            "tables": [("Nearest to yours", ["cosine", "sentence"], found[:-NEAREST - 1:-1])]}


def learning(explored, question):
    """Loss and P@N, the share of messages whose true reply is among the best N of 100, while the
    run learned. Lesson 17, Train it, explains such curves."""
    run, log = explored.run, log_of(explored.run)
    losses = [record for record in log if {"loss", "nli_loss"} & record.keys()]
    measured = [record for record in log if "dev_p1" in record]
    images = [svg(plot_precision, measured, run.step)] if measured else []
    if measured and losses:
        images.append(svg(plot_loss, losses, measured, choices_of(run.config), run.step))
    rows = [[f"{record['step']:,}", *map(str, precisions(record).values()), str(record["dev_loss"])]
            for record in measured]
    return {"status": f"The weights of step {run.step:,} are used.", "images": images,
            "tables": [("Measured on dev", ["step", "P@1", "P@3", "P@10", "loss"], rows)]}


def svg(plot, *given):
    """What plot(path, *given) draws, as the text of an SVG file; text stays text."""
    with TemporaryDirectory() as folder, rc_context({"svg.fonttype": "none"}):
        path = Path(folder, "figure.svg")
        plot(path, *given)
        return path.read_text(encoding="utf-8")


PANELS = {"reply": reply, "compare": compare, "neighbours": neighbours, "attention": attention,
          "map": sentence_map, "learning": learning}
