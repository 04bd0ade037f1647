"""What each panel shows: a function of an Explored run and a question → an answer, dicts for JSON.

A question has the reader's `sentence` and `sentences`, what is searched, and the pair and the word
that are looked at. An answer has a `status`, to be read aloud, and what is drawn: `tables`, a `map`
of points, `images` as SVG; `again`: ask again soon. A table's cell is a text, a number to be
coloured, or a `cell`.
"""

import json
import tempfile
import threading
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np

from ..common.figures import as_svg
from ..data.text import tokenize
from ..evaluation import response
from ..evaluation.attention import of_sentence
from ..inference.index import BLOCK, Index, build_index, nearest
from ..inference.replies import Replies, replies_of_run
from ..inference.rows import Rows
from ..inference.sentence_encoder import SentenceEncoder, encoder_of
from ..model.layers import l2_normalize_forward
from ..report.blocks import Figure
from ..report.web_page import curves, drawn
from ..training.run import log_of

REPLIES, LINES, POINTS, SHOWN = 5, 20_000, 1_000, 10
ALONE = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '


class Explored:
    """A Run, and what its panels need, made when it is first asked for.

    index: the folder of an Index to search, or None for lines of the run's corpus
    """

    def __init__(self, run, index=None):
        self.run, self.encoder = run, encoder_of(run)
        self.index = Index(index, self.encoder) if index else None

    @cached_property
    def corpus(self):
        """The run's Corpus. Raises UserError where its pair files are gone."""
        return response.find(None, self.run)["test"]

    @cached_property
    def replies(self):
        """Name → Replies: after training; and before it, once a thread has made them."""
        replies = {"after training": replies_of_run(self.encoder, self.run.folder)}
        threading.Thread(target=self._add_untrained, args=[replies, self.corpus],
                         daemon=True).start()
        return replies

    def _add_untrained(self, replies, corpus):
        index = replies["after training"].index
        name, model = response.before_training(self.run.config, corpus)
        encoder = SentenceEncoder(model, self.run.vocabulary, {}, self.encoder.word_weight)
        blocks = np.array_split(np.arange(len(index)), len(index) // BLOCK + 1)
        rows = ([json.loads(index.line(row)) for row in block] for block in blocks)
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        folder = Path(self.folder.name, "replies")
        build_index(encoder, Rows(index.columns, 1, rows), folder)
        replies[name] = Replies(Index(folder, encoder))

    @cached_property
    def lines(self):
        """Up to 20,000 lines of train, each once: vectors (n, e), texts."""
        _, packed, texts = drawn(self.corpus.train, LINES, self.run.vocabulary)
        texts, first = np.unique(texts, return_index=True)
        return self.encoder.embed(packed.take(first)), texts.tolist()

    @cached_property
    def map(self):
        """Up to 1,000 lines of dev: vectors (n, e), texts, and two directions (2, e) (PCA)."""
        _, packed, texts = drawn(self.corpus.dev, POINTS, self.run.vocabulary)
        vectors = self.encoder.embed(packed)
        axes = np.linalg.svd(vectors - vectors.mean(axis=0), full_matrices=False)[2]
        return vectors, texts, axes[:2]


def cell(content, small="", ask=None, pressed=False):
    """A cell with small print, or one that asks: its dict becomes part of the question."""
    return {"content": content, "small": small, "ask": ask, "pressed": pressed}


def table(caption, head, rows, most=1.0):
    """A table; most: the number that has the fullest colour."""
    return {"caption": caption, "head": head, "rows": rows, "most": most}


def reply(explored, question):
    """The best replies to the sentence, as in `chat`, after training and before it."""
    replies = explored.replies.copy()
    waits = len(replies) == 1
    return {"status": "The model before training is being made: a minute or more." if waits else
            f"The best of {len(replies['after training']):,} replies.", "again": waits, "tables": [
                table(name, ["score", "reply", "once said to"],
                      [found[:3] for found in some.best(question["sentence"], REPLIES)])
                for name, some in replies.items()]}


def compare(explored, question):
    """The cosines of two to eight sentences, and what each word of a pair adds to its cosine."""
    sentences = [text for text in question["sentences"].split("\n") if tokenize(text)]
    if not 2 <= len(sentences) <= 8:
        return {"status": "Type two to eight sentences, one a line."}
    tokens = [tokenize(text) for text in sentences]
    i, j = pair = question["pair"] if max(question["pair"]) < len(tokens) else [0, 1]
    without = [tokens[k][:n] + tokens[k][n + 1:] for k in pair for n in range(len(tokens[k]))]
    vectors = explored.encoder.embed(explored.run.vocabulary.pack(tokens + without))
    scores, matrices, changes = [], [], ([], [])
    for name, part in parts(explored.encoder, vectors).items():
        whole, *without = np.split(part, [len(tokens), len(tokens) + len(tokens[i])])
        cosines = whole @ whole.T
        scores.append(f"{name} {cosines[i, j]:.2f}")
        matrices.append(table(name, ["", *map(str, range(1, len(tokens) + 1))], [
            [f"{k + 1} {text}", *cosines[k].tolist()] for k, text in enumerate(sentences)]))
        for rows, some, other in zip(changes, without, (j, i)):
            rows.append([name, *(some @ whole[other] - cosines[i, j]).tolist()])
    for a, b in combinations(range(len(tokens)), 2):
        row = matrices[0]["rows"][a]
        row[b + 1] = cell(row[b + 1], ask={"pair": [a, b]}, pressed=[a, b] == pair)
    most = max(abs(change) for rows in changes for row in rows for change in row[1:])
    return {"status": f"Sentences {i + 1} and {j + 1}: {', '.join(scores)}.",
            "tables": matrices + [
                table(f"Sentence {k + 1}: what changes without a word",
                      ["", *marked(explored, tokens[k])], rows, most)
                for k, rows in zip(pair, changes)]}


def parts(encoder, vectors):
    """Vectors (n, e) of a SentenceEncoder, and their halves: name → (n, …) unit vectors."""
    named = {"cosine": vectors}
    if encoder.word_weight:
        e = encoder.model.config.layers[-1]
        named["learned half"] = l2_normalize_forward(vectors[:, :e])[0]
        named["counting half"] = l2_normalize_forward(vectors[:, e:])[0]
    return named


def marked(explored, tokens):
    """A cell for each token, which says where the vocabulary does not hold it."""
    known = explored.run.vocabulary.ids
    return [cell(token, "" if token in known else "unknown") for token in tokens]


def neighbours(explored, question):
    """The ten lines nearest to the sentence."""
    if index := explored.index:
        (hits,), number = index.search([question["sentence"]], SHOWN), len(index)
        hits = [hit._replace(row=hit.row[index.columns[index.side]]) for hit in hits]
    else:
        vectors, texts = explored.lines
        query = explored.encoder.encode([question["sentence"]])
        (hits,), number = nearest(query, [(vectors, texts)], SHOWN), len(texts)
    return {"status": f"The best of {number:,} lines has a cosine of {hits[0].score:.2f}.",
            "tables": [table("Nearest lines", ["cosine", "line"],
                             [[hit.score, hit.row] for hit in hits])]}


def attention(explored, question):
    """How much each head of each layer looks from one word of the sentence at all its words."""
    if explored.run.config.model.encoder != "transformer":
        return {"status": "This run is a DAN, which has no attention. Train one with --encoder "
                          "transformer."}
    tokens, weights = of_sentence(explored.run, question["sentence"])
    word = min(question["word"], len(tokens) - 1)
    head = marked(explored, tokens)
    for k in range(len(tokens)):
        head[k] |= {"ask": {"word": k}, "pressed": k == word}
    return {"status": f"Where {tokens[word]} looks.", "tables": [
        table(f"Layer {number}", ["", *head],
              [[f"head {k}", *row] for k, row in enumerate(layer, start=1)])
        for number, layer in enumerate(weights[:, :, word].tolist(), start=1)]}


def sentence_map(explored, question):
    """The map's points, the reader's own, and the lines nearest to it, or those searched for."""
    vectors, texts, axes = explored.map
    yours = explored.encoder.encode([question["sentence"]])
    cosines = vectors @ yours[0]
    places = np.concatenate([vectors, yours]) @ axes.T
    places = (places - places.min(axis=0)) / np.ptp(places, axis=0)       # 0 to 1
    typed = question["search"].strip().lower()
    found = [k for k in np.argsort(-cosines) if typed in texts[k].lower()]
    shares = np.clip(cosines / np.abs(cosines).max(), 0, 1).tolist()
    points = [{"text": texts[k], "place": places[k].tolist(), "share": shares[k],
               "faded": typed not in texts[k].lower()} for k in range(len(texts))]
    return {"status": f"{len(found):,} of {len(texts):,} sentences hold what is searched for.",
            "map": {"points": points, "yours": places[-1].tolist()},
            "tables": [table("Nearest to your sentence", ["cosine", "sentence"],
                             [[float(cosines[k]), texts[k]] for k in found[:SHOWN]])]}


def learning(explored, question):
    """The curves in the run's log.jsonl, and what was measured on dev, a row for each time."""
    run = explored.run
    rows = [[f"{record['step']:,}", *map(str, record["dev"].values()), str(record["dev_loss"])]
            for record in log_of(run) if "dev" in record]
    return {"status": f"The weights of step {run.step:,} are used.",
            "images": [as_svg(figure.plot, *figure.given).replace("<svg ", ALONE, 1)
                       for figure in curves(run) if isinstance(figure, Figure)],
            "tables": [table("Measured on dev", ["step", "P@1", "P@3", "P@10", "loss"], rows)]}


PANELS = {"reply": reply, "compare": compare, "neighbours": neighbours, "attention": attention,
          "map": sentence_map, "learning": learning}
