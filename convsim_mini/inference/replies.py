"""The replies of a corpus, ranked for a message by the response side of the model."""

from itertools import islice

from ..common.cli import progress
from ..data.layouts import FIELDS
from ..data.pairs import left_out, read_rows
from ..data.prepare import sources
from ..data.texts import text_of
from ..core.text import tokenize
from .index import index_of
from .rows import Rows

MOST_REPLIES = 200_000      # of a run: each takes 2 kB of memory
LOOKED_AT_PER_REPLY = 20    # hits that are looked at for each reply asked for
ECHO = 0.6          # of both texts' words are shared in an echo (ours: less would hit true replies)


def best_replies(index, message, k=3):
    """The k best replies to a message in an Index of replies, best first.

    → a list of (score as in a search, reply, the message that it once answered or ""). Echoes,
    which only repeat the message, are left out, and so are near copies of a better hit.
    """
    hits, = index.search([message], LOOKED_AT_PER_REPLY * k)
    words = set(tokenize(message))
    column, paired, *_ = index.held
    best = []
    for hit in hits:
        reply = text_of(hit.row.get(column))
        tokens = set(tokenize(reply))
        if tokens and len(words & tokens) < ECHO * len(words | tokens):
            said = "" if paired == column else text_of(hit.row.get(paired))
            best.append((hit.score, reply, said))
    return best[:k]


def replies_of_run(encoder, run):
    """The Index of a Run's own replies, the first 200,000 if there are more."""
    pairs = islice(pairs_of_run(run.config), MOST_REPLIES)
    rows = (dict(zip(FIELDS, pair)) for pair in progress(pairs, "reading replies", unit=" pairs"))
    return index_of(encoder, Rows("response", "input", True, rows))


def pairs_of_run(config):
    """Yield the pairs (message, reply) of a run's files that the filters keep, as written."""
    paths, reading = sources(config)
    for path in paths:
        for chunk in read_rows(path, reading=reading):
            yield from (pair[:2] for pair in chunk.pairs
                        if not left_out(pair, config.text.filters_off))
