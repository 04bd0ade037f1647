"""The replies of a corpus, ranked for a message: an index by the response side of the model."""

import re
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError, progress
from ..common.files import chunked
from ..data.pairs import pair_of, read_rows, removed_by
from ..data.tables_and_logs import FIELDS, default_corpus
from ..core.text import tokenize
from ..training.run import load_config
from .index import Index, build_index
from .rows import CHUNK, Rows, rows_of_file

MOST = 200_000      # replies of a run; of more pairs a share is drawn
LOOKED_AT = 20      # replies that are looked at first for each one asked for
# An echo has no word that the message has not; or this share of all their words is common to both
# (ours: a smaller share would also pass over true replies)
ECHO = 0.6
COARSE = re.compile(    # anywhere, at the beginning of a word, and whole words
    r"fuck|shit|bitch|asshole|dumbass|blowjob|\b(cunt|nigg|faggot|retard|slut|whore|wank|porn|twat|"
    r"dildo)|\b(ass|arse|cocks?|dicks?|pussy|tits|cum|fags?|spic|kike|chink|gook|coon|paki|tranny|"
    r"dyke|raped?|rapist)\b", re.IGNORECASE)


class Reply(NamedTuple):
    """A reply to a message."""

    score: float         # of the reply to the message: a cosine
    reply: str
    message: str         # the one that it once answered, or ""
    fault: str = ""      # why it is passed over: "echo"; "coarse", it or the message


class Replies:
    """Replies that can be ranked for a message: an Index of replies, opened.

    Raises UserError where the Index holds messages.
    """

    def __init__(self, index):
        if not index.side:
            raise UserError(f"{index.folder}: holds messages, expected replies; make it with "
                            "encode --replies")
        self.index = index

    def __len__(self):
        return len(self.index)

    def best(self, message, k=3, coarse=False):
        """The k best replies to a message: a list of Reply, best first. The rest as `ranked`."""
        return self.ranked(message, k, coarse)[0]

    def ranked(self, message, k=3, coarse=False):
        """The k best replies to a message, and those that are passed over on the way to them.

        Echoes are passed over, and coarse language unless `coarse` asks for it. Of equal replies
        the first is taken. → two lists of Reply, best first
        """
        top = LOOKED_AT * k
        while True:
            hits, = self.index.search([message], top)
            best, passed_over = self._sorted_out(message, hits, coarse)
            if len(best) >= k or len(hits) < top:
                break
            top *= 4
        worst = best[k - 1].score if len(best) >= k else -1
        return best[:k], [reply for reply in passed_over if reply.score >= worst]

    def _sorted_out(self, message, hits, coarse):
        asked, answered = self.index.columns
        words, seen = set(tokenize(message)), set()
        best, passed_over = [], []
        for hit in hits:
            tokens = tokenize(hit.row[answered])
            if " ".join(tokens) in seen:
                continue
            seen.add(" ".join(tokens))
            said = "" if asked == answered else hit.row.get(asked) or ""
            fault = ""
            if not coarse and COARSE.search(f"{said} {hit.row[answered]}"):
                fault = "coarse"
            elif _is_echo(set(tokens), words):
                fault = "echo"
            reply = Reply(hit.score, hit.row[answered], said, fault)
            if fault:
                passed_over.append(reply)
            else:
                best.append(reply)
        return best, passed_over


def _is_echo(words, words_of_message):
    common = len(words & words_of_message)
    return common == len(words) or common >= ECHO * len(words | words_of_message)


def replies_of_file(encoder, path, folder, columns=()):
    """The Replies of a file, which are embedded into the new folder, or of an index's folder.

    columns: the file's two columns of messages and replies, if their names do not tell
    """
    if path.is_dir():
        return Replies(Index(path, encoder))
    build_index(encoder, rows_of_file(path, columns, side=1), folder)
    return Replies(Index(folder, encoder))


def replies_of_run(encoder, run):
    """The Replies of a run's own pairs. They are embedded once, and kept in RUN/replies.

    Raises UserError where the pairs' files cannot be read.
    """
    folder = Path(run, "replies")
    try:
        return Replies(Index(folder, encoder))
    except UserError:                                         # none yet, or of another step
        rows = _rows_of_run(load_config(run))
    shutil.rmtree(folder, ignore_errors=True)
    build_index(encoder, rows, folder)
    return Replies(Index(folder, encoder))


def _rows_of_run(config):
    """Rows of up to 200,000 replies, with the messages that they answer."""
    rng = np.random.Generator(np.random.Philox(config.seed))
    drawn = []
    for number, pair in enumerate(progress(pairs_of_run(config), "reading replies", unit=" pairs")):
        if len(drawn) < MOST:
            drawn.append(pair)
        elif (place := int(rng.integers(number + 1))) < MOST:
            drawn[place] = pair
    rows = (dict(zip(FIELDS, pair)) for pair in drawn)
    bar = progress(rows, "embedding replies", len(drawn), unit=" replies")
    return Rows(FIELDS, 1, chunked(bar, CHUNK))


def pairs_of_run(config):
    """Yield (message, reply) of a run's files, as written, those that the filters leave."""
    off = [name.replace("_", " ") for name in config.text.filters_off]
    for path in config.pairs or [default_corpus()]:
        for part in read_rows(path, columns=config.columns):
            for row in part.rows:
                pair = pair_of(row, part.fields)
                if not (removed_by(pair.input, pair.input_author, off)
                        or removed_by(pair.response, pair.response_author, off)):
                    yield pair.input, pair.response
