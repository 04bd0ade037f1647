"""Pairs on disk as packed ids: filtered, split and encoded once, then mapped into memory.

A prepared corpus is a folder in the cache, with three files for each of train, dev and test: the
ids of all sentences end to end (input, response, input, …), their offsets, and a hash of each text.
`meta.json` holds the vocabulary, a report, the files' checksums and a checksum of all this. Memory
use grows by 16 bytes per pair.
"""

import dataclasses
import hashlib
import json
import shutil
import zlib
from pathlib import Path

import numpy as np

from ..common.cli import UserError, one_line, say, user_errors
from ..common.files import UNREADABLE, checksum, locked, new_folder
from ..common.tables import table
from ..core.pairs import Split
from ..core.text import Vocabulary
from .corpus import SPLITS, Corpus, share_of, some_pairs, splits_of
from .formats import default_corpus
from .layouts import Reading
from .pairs import RULES
from .passes import FILES, count_words, write_splits

FORMAT = 11
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
    folder = Path(cache).expanduser() / _cache_key(paths, text, reading)
    corpus = _open(folder)
    if vocabulary and not (corpus and corpus.vocabulary == vocabulary):
        folder = folder.with_name(f"{folder.name}-{zlib.crc32(repr(vocabulary).encode()):08x}")
        corpus = _open(folder)
    if corpus:
        return corpus
    advice = "make room there or choose another folder with --cache"
    with user_errors(f"{folder.parent}: cannot be written", advice):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # if two processes need the same corpus, the second waits and opens what the first prepared
        with locked(folder.parent, name=f"{folder.name}.lock"):
            if not (corpus := _open(folder)):
                with new_folder(folder, advice) as new:
                    _prepare(paths, text, reading, vocabulary, new)
                corpus = _open(folder)
    return corpus


def corpus_report(report):
    """What became of the pairs that were read, as a table."""
    counts = {"pairs read": report["read"], "malformed": report["malformed"]}
    for rule, text in RULES.items():
        for side in ("input", "response"):
            counts[f"removed, {side}: {text}"] = report["removed"].get(f"{side}: {rule}", 0)
    counts |= {f"kept for {split}": number for split, number in report["kept"].items()}
    rows = [[what, f"{number:,}"] for what, number in counts.items()]
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


def _open(folder):
    """The Corpus in a cache folder, mapped into memory, or None; a damaged folder is deleted."""
    if not folder.exists():
        return None
    try:
        crc, text = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
        if zlib.crc32(text.encode()) != crc:
            raise ValueError("the checksum of meta.json is wrong")
        about = json.loads(text)
        for name, known in about["files"].items():
            if checksum(folder / name) != known:
                raise ValueError(f"the checksum of {name} is wrong")
        splits = {}
        for split in SPLITS:
            ids, offsets, keys = (np.memmap(folder / f"{split}.{name}", dtype, "r")
                                  for name, dtype in FILES.items())
            splits[split] = Split(ids, offsets, keys.reshape(-1, 2))
        return Corpus(Vocabulary(**about["vocabulary"]), **splits, report=about["report"],
                      checksum=crc)
    except UNREADABLE as error:
        say(f"{folder}: the prepared corpus is damaged ({error}); it will be prepared again")
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _prepare(paths, text, reading, vocabulary, folder):
    """Fill a folder in two passes: filter, tokenise, count; then split, cut words into pieces."""
    parts = folder.with_name("parts")
    parts.mkdir()
    counts, keys, report = count_words(paths, text.filters_off, reading, parts)
    own = vocabulary or Vocabulary.of_pieces(counts, text.pieces)
    tenths = _tenths(keys) if vocabulary else None
    kept = report["kept"] = write_splits(parts, folder, own, tenths)
    if min(kept.values()) < FEWEST:
        enough = "500" if vocabulary else "3,500 (500 with --init RUN)"
        raise UserError(f"{', '.join(map(str, paths))}: {len(keys):,} of {report['read']:,} pairs "
                        f"are left (train {kept['train']}, dev {kept['dev']}, test {kept['test']})"
                        f"; expected at least {FEWEST} in each, about {enough} in all; "
                        f"{_where_pairs_went(report, keys[:, 0])}")
    files = {path.name: checksum(path) for path in sorted(folder.iterdir())}
    about = json.dumps({"files": files, "vocabulary": dataclasses.asdict(own), "report": report})
    meta = json.dumps([zlib.crc32(about.encode()), about])
    (folder / "meta.json").write_text(meta, encoding="utf-8")


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
        names = splits_of(keys[:, 0], tenths)
        replies = [keys[names == split, 1] for split in ("dev", "test")]
        if all(len(some) - np.unique(some, return_counts=True)[1].max(initial=0) >= FEWEST
               for some in replies):
            return tenths
    return 3
