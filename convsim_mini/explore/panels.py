"""What each panel shows: a function of an Explored run and a question, a dict of page.js's fields.

It returns a dict for JSON: a `status`; `tables` of (caption, head, rows); a `map`; `images` as SVG;
`again`, to be asked once more. A cell is a text, a number, or a dict: `content`, a `note` below it,
what to `ask` when it is pressed, and whether it is `pressed`. The page shows the docstrings.
"""

import json
import threading
from copy import copy
from functools import cached_property
from itertools import chain, combinations, islice

import numpy as np

from ..common.cli import UserError
from ..common.figures import as_svg, precisions
from ..core.model import ENCODERS
from ..core.text import tokenize
from ..evaluation import response
from ..evaluation.attention import of_sentence
from ..inference.index import Index, nearest
from ..inference.replies import COARSE, Replies, pairs_of_run, replies_of_run
from ..inference.sentence_encoder import SentenceEncoder, encoder_of
from ..core.layers import l2_normalize_forward
from ..report.blocks import Figure
from ..report.web_page import curves
from ..training.run import log_of

REPLIES, PAIRS, POINTS, NEAREST = 5, 20_000, 1_000, 10
ALONE = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '


class Explored:
    """A Run, and what its panels need, made when it is first asked for.

    index: the folder of an Index to search, or None for lines of the run's corpus
    """

    def __init__(self, run, index=None):
        self.run, self.encoder = run, encoder_of(run)
        self.index = Index(index, self.encoder) if index else None
        self.error = None    # a UserError of the thread below

    @cached_property
    def replies(self):
        """Name → Replies: a thread adds those after training and, later, those before it."""
        replies, corpus = {}, response.find(None, self.run)["test"]
        threading.Thread(target=self._add_replies, args=[replies, corpus], daemon=True).start()
        return replies

    def _add_replies(self, replies, corpus):
        try:
            trained = replies_of_run(self.encoder, self.run.folder)
            replies["after training"], index = trained, copy(trained.index)
            name, model = response.before_training(self.run.config, corpus)
            weight = self.encoder.word_weight
            index.encoder = SentenceEncoder(model, self.run.vocabulary, word_weight=weight)
            texts = [json.loads(index.line(row))[index.columns[1]] for row in range(len(index))]
            index.vectors, index.graph = index.encoder.encode_responses(texts), None
            replies[name] = Replies(index)
        except UserError as error:
            self.error = error

    @cached_property
    def lines(self):
        """The first 20,000 pairs of the run's files, each text once: vectors (n, e), texts.

        Coarse ones are left out, as among replies.
        """
        texts = set(chain.from_iterable(islice(pairs_of_run(self.run.config), PAIRS)))
        texts = sorted(text for text in texts if not COARSE.search(text))
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
    if explored.error:
        raise explored.error
    tables = [(name, ["score", "reply", "once said to"],
               [found[:3] for found in replies.best(question["sentence"], REPLIES)])
              for name, replies in [*explored.replies.items()]]
    status = ("The replies are being embedded.", "The model before training is being made again.",
              "Both models have answered.")[len(tables)]
    return {"status": status, "again": len(tables) < 2, "tables": tables}


def compare(explored, question):
    """The cosines of your sentences, and how the one that you choose changes when a word is left
    out and its neighbours close the gap. Lesson 21, Measuring similarity, explains the halves."""
    sentences = [text for text in question["compared"].split("\n") if tokenize(text)]
    if not 2 <= len(sentences) <= 8:
        return {"status": "Type two to eight sentences, one a line."}
    tokens = [tokenize(text) for text in sentences]
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
    """The lines whose vectors have the largest cosine with that of your sentence, of an index or of
    the first 20,000 pairs. Lesson 23, The shape of the space, says why some are near to many."""
    if index := explored.index:
        (hits,), number = index.search([question["sentence"]], NEAREST), len(index)
        hits = [hit._replace(row=hit.row[index.columns[index.side]]) for hit in hits]
    else:
        vectors, texts = explored.lines
        query = explored.encoder.encode([question["sentence"]])
        (hits,), number = nearest(query, [(vectors, texts)], NEAREST), len(texts)
    return {"status": f"The best of {number:,} lines has a cosine of {hits[0].score:.2f}.",
            "tables": [("Nearest lines", ["cosine", "line"],
                        [(hit.score, hit.row) for hit in hits])]}


def attention(explored, question):
    """How much each head looks from the word that you point at to each word, layer by layer. Lesson
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
    rows = [[f"{record['step']:,}", *map(str, precisions(record).values()), str(record["dev_loss"])]
            for record in log_of(explored.run) if "dev_p1" in record]
    return {"status": f"The weights of step {explored.run.step:,} are used.",
            "images": [as_svg(figure.plot, *figure.given).replace("<svg ", ALONE, 1)
                       for figure in curves(explored.run) if isinstance(figure, Figure)],
            "tables": [("Measured on dev", ["step", "P@1", "P@3", "P@10", "loss"], rows)]}


PANELS = {"reply": reply, "compare": compare, "neighbours": neighbours, "attention": attention,
          "map": sentence_map, "learning": learning}
