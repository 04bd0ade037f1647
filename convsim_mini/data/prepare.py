"""Pairs on disk as packed ids: filtered, split and encoded once.

A prepared corpus is a file in the cache, with three arrays for each of train, dev and test: the ids
of all sentences end to end (input, response, input, …), their offsets, and a hash of each text. It
also holds the vocabulary and a report.
"""

import dataclasses
import hashlib
import json
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np

from ..common.arrays_file import load_arrays, save_arrays
from ..common.cli import UserError, one_line, say, user_errors
from ..common.files import locked, workplace
from ..common.tables import table
from ..core.pairs import Split
from ..core.text import Vocabulary
from .corpus import SPLITS, Corpus, share_of, some_pairs, split_of
from .formats import default_corpus
from .layouts import FIELDS, Reading
from .pairs import RULES
from .passes import count_words, read_splits

FORMAT = 13
ARRAYS = ("ids", "offsets", "keys")    # of a Split
FEWEST = 100    # pairs in a split, and replies to choose among


def open_corpus(config, vocabulary=None):
    """The Corpus of a Config's pairs. With --init, `vocabulary` gives the ids."""
    corpus = load_corpus(config.pairs or [default_corpus()], config.text, config.cache,
                         Reading(config.columns, config.encoding),
                         vocabulary if config.init else None)
    if config.pairs_fraction == 1:
        return corpus
    kept = share_of(corpus.train.pairs, config.pairs_fraction, config.seed)
    return corpus._replace(train=some_pairs(corpus.train, kept))


def load_corpus(paths, text, cache, reading=Reading(), vocabulary=None):
    """Open a corpus from the cache; if it is missing or damaged, prepare it first.

    paths: files of pairs; reading: as in `read_rows`; vocabulary: gives the ids; None: the corpus
    gets its own. Raises UserError if files cannot be read or hold too few pairs.
    """
    folder = Path(cache).expanduser()
    path = folder / f"{_cache_key(paths, text, reading)}.safetensors"
    corpus = _open(path)
    if vocabulary and not (corpus and corpus.vocabulary == vocabulary):
        path = path.with_stem(f"{path.stem}-{zlib.crc32(repr(vocabulary).encode()):08x}")
        corpus = _open(path)
    if corpus:
        return corpus
    advice = "make room there or choose another folder with --cache"
    with user_errors(f"{folder}: cannot be written", advice):
        folder.mkdir(parents=True, exist_ok=True)
        # if two processes need the same corpus, the second waits and opens what the first prepared
        with locked(folder, name=f"{path.stem}.lock"):
            if not (corpus := _open(path)):
                with workplace(folder) as parts:
                    save_arrays(path, *_prepare(paths, text, reading, vocabulary, parts))
                corpus = _open(path)
    return corpus


def corpus_report(report):
    """What became of the pairs that were read, as a table."""
    counts = [("pairs read", report["read"]), ("malformed", report["malformed"]),
              *((f"removed, {side}: {text}", report["removed"].get(f"{side}: {rule}", 0))
                for rule, text in RULES.items() for side in FIELDS),
              *((f"kept for {split}", number) for split, number in report["kept"].items())]
    rows = [[what, f"{number:,}"] for what, number in counts]
    shown = "".join(f"  {one_line(text, 50)} → {one_line(reply, 50)}\n"
                    for text, reply in report["examples"])
    counted = table(["the corpus, after the paper's filters", ""], rows)
    return f"{counted}\n\nThe first pairs:\n{shown}"


def _cache_key(paths, text, reading):
    files = []
    for path in map(Path, paths):
        with user_errors(f"{path}: cannot be read", "name a file of pairs", (OSError, ValueError)):
            stat = path.stat()
        named = str(path.parent.resolve() / path.name)        # a link's own name shows the kind
        # `cp -p`, `rsync -t` and tar set mtime even if the text has changed; nothing can set ctime
        files.append([named, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino])
    key = json.dumps([FORMAT, files, text.pieces, text.filters_off, reading.columns,
                      reading.encoding])
    return hashlib.blake2b(key.encode(), digest_size=10).hexdigest()


def _open(path):
    """The Corpus in a file of the cache; None if it is missing or damaged, and then deleted."""
    if not path.exists():
        return None
    try:
        arrays, about = load_arrays(path, "it will be prepared again")
    except UserError as error:
        say(str(error))
        with suppress(OSError):
            path.unlink()
        return None
    splits = {split: Split(*(arrays[f"{split}.{name}"] for name in ARRAYS)) for split in SPLITS}
    return Corpus(Vocabulary(**about["vocabulary"]), **splits, report=about["report"],
                  checksum=about["checksum"])


def _prepare(paths, text, reading, vocabulary, parts):
    """A corpus as arrays and a dict, in two passes: filter and tokenise; then split into pieces.

    parts: an empty folder for what the first pass hands to the second.
    """
    counts, keys, report = count_words(paths, text.filters_off, reading, parts)
    own = vocabulary or Vocabulary.of_pieces(counts, text.pieces)
    splits = read_splits(parts, own, _tenths(keys) if vocabulary else None)
    kept = report["kept"] = {name: split.pairs for name, split in splits.items()}
    if min(kept.values()) < FEWEST:
        enough = "500" if vocabulary else "3,500 (500 with --init RUN)"
        raise UserError(f"{', '.join(map(str, paths))}: {len(keys):,} of {report['read']:,} pairs "
                        f"are left (train {kept['train']}, dev {kept['dev']}, test {kept['test']})"
                        f"; expected at least {FEWEST} in each, about {enough} in all; "
                        f"{_where_pairs_went(report, keys[:, 0])}")
    arrays = {f"{split}.{name}": getattr(splits[split], name) for split in SPLITS
              for name in ARRAYS}
    return arrays, {"vocabulary": dataclasses.asdict(own), "report": report}


def _where_pairs_went(report, inputs):
    """What to do if too few pairs are left. inputs: keys of the pairs' inputs, (n,)"""
    went = []
    for name, number in report["removed"].most_common(2):
        side, _, rule = name.partition(": ")
        off = f" (to keep them: --text.filters_off {rule})" * (rule != "no_text")
        went.append(f"{number:,} of the rest were removed due to their {side}: {RULES[rule]}{off}")
    if len(inputs) > FEWEST > (different := len(np.unique(inputs))):
        went.append(f"there are only {different} different inputs, and pairs with equal inputs go "
                    "to the same split: are the columns swapped?")
    return "; ".join([*went, "or add files to --pairs"]).removeprefix("or ")


def _tenths(keys):
    """How many tenths of the pairs go to test, and as many to dev; None if there are enough pairs.

    keys: (n, 2). If possible, each reply in test and in dev has FEWEST others that differ from it.
    """
    for tenths in (None, 1, 2):
        names = split_of(keys[:, 0], tenths)
        replies = [keys[names == split, 1] for split in ("dev", "test")]
        if all(len(some) - np.unique(some, return_counts=True)[1].max(initial=0) >= FEWEST
               for some in replies):
            return tenths
    return 3
