"""The replies of a corpus, ranked for a message: an index by the response side of the model."""

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError, progress
from ..common.files import chunked
from ..data.pairs import parse, read_chunks, removed_by
from ..data.tables_and_logs import FIELDS, default_corpus
from ..data.text import tokenize
from ..training.run import load_config
from .index import Index, build_index
from .rows import CHUNK, Rows, rows_of_file

MOST = 200_000      # replies of a run; of more pairs a share is drawn
LOOKED_AT = 20      # replies that are looked at for each one asked for


class Reply(NamedTuple):
    """A reply to a message, as `Replies.ranked` gives it."""

    score: float         # of the reply to the message: a cosine
    reply: str
    message: str         # the one that it once answered, or ""
    fault: str = ""      # why it is passed over: "echo", "coarse"


class Replies:
    """Replies that can be ranked for a message. index: an Index of Rows with side 1"""

    def __init__(self, index):
        self.index = index

    def __len__(self):
        return len(self.index)

    def best(self, message, k=3, coarse=False):
        """The k best replies to a message, as Reply, best first.

        Echoes are left out, and coarse ones unless they are asked for.
        """
        return [reply for reply in self.ranked(message, k)
                if not reply.fault or (coarse and reply.fault == "coarse")][:k]

    def ranked(self, message, k=3):
        """The best replies to a message, as Reply, those with a fault among them; 20 k at most."""
        hits, = self.index.search([message], LOOKED_AT * k)
        asked, answer = self.index.columns
        words, found = set(tokenize(message)), {}
        for hit in hits:
            reply = hit.row[answer]
            said = "" if asked == answer else hit.row[asked] or ""
            found.setdefault(" ".join(tokenize(reply)),
                             Reply(hit.score, reply, said, _fault(reply, words)))
        return [*found.values()]


def _fault(reply, words):
    if set(tokenize(reply)) <= words:
        return "echo"
    return ""


def replies_of_file(encoder, path, folder):
    """The Replies of a file, embedded into the new folder. See `rows_of_file`."""
    build_index(encoder, rows_of_file(path, side=1), folder)
    return Replies(Index(folder, encoder))


def replies_of_run(encoder, run):
    """The Replies of a run's own pairs. They are embedded once, and kept in RUN/replies.

    Raises UserError where the pairs' files are gone.
    """
    folder = Path(run, "replies")
    try:
        return Replies(Index(folder, encoder))
    except UserError:                                         # none yet, or of another step
        shutil.rmtree(folder, ignore_errors=True)
    build_index(encoder, _rows_of_run(load_config(run)), folder)
    return Replies(Index(folder, encoder))


def _rows_of_run(config):
    """Rows of up to 200,000 replies, with the messages that they answer."""
    rng = np.random.Generator(np.random.Philox(config.seed))
    drawn = []
    for number, pair in enumerate(_pairs(config)):
        if len(drawn) < MOST:
            drawn.append(pair)
        elif (place := int(rng.integers(number + 1))) < MOST:
            drawn[place] = pair
    rows = (dict(zip(FIELDS, pair)) for pair in drawn)
    bar = progress(rows, "embedding replies", len(drawn), unit=" replies")
    return Rows(FIELDS, 1, chunked(bar, CHUNK))


def _pairs(config):
    """Yield (message, reply) of a run's files, those that the filters leave."""
    paths = [Path(path) for path in config.pairs or [default_corpus()]]
    off = [name.replace("_", " ") for name in config.text.filters_off]
    size = sum(path.stat().st_size for path in paths)
    with progress(total=size, desc="reading replies", unit="B", unit_scale=True) as bar:
        for path in paths:
            before = bar.n
            for chunk in read_chunks(path, lambda position: bar.update(before + position - bar.n),
                                     config.columns):
                for record in chunk.records:
                    try:
                        pair = parse(chunk.kind, record, chunk.fields)
                    except ValueError:                        # training has told of it
                        continue
                    if not (removed_by(pair.input, pair.input_author, off)
                            or removed_by(pair.response, pair.response_author, off)):
                        yield pair.input, pair.response
