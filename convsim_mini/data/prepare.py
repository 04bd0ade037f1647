"""Pairs on disk as packed ids: filtered, split and encoded once, then mapped into memory.

A prepared corpus is a folder in the cache. It holds the vocabulary, and three files for each of the
splits train, dev and test: the ids of all sentences end to end (input, response, input, …), their
offsets, and a hash of each text. `meta.json`, written last, holds sizes and checksums. Memory grows
with the corpus by 16 bytes a pair.
"""

import hashlib
import json
import os
import pickle
import shutil
import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError, progress, user_errors
from ..common.files import checksum, checksum_of
from ..common.processes import local_processes, map_in_order
from ..common.workspace import locked, workplace
from ..core.packed import offsets_of
from ..core.pairs import Split
from ..core.text import UNKNOWN, Vocabulary, stable_hash, tokenize
from .corpus import SPLITS, Corpus, share_of_pairs, some_pairs, split_of, text_key
from .pairs import left_out, read_rows
from .tables_and_logs import default_corpus

FORMAT = 6
FILES = {"ids": np.int32, "offsets": np.int64, "keys": np.uint64}
MOST_WORDS_COUNTED = 5_000_000
FEWEST = 100    # pairs in a split, and replies to choose among
EXAMPLES = 3
MIX = np.array([1, 0x9E3779B97F4A7C15], np.uint64)    # two keys to one: equal pairs, equal numbers
DAMAGE = (OSError, ValueError, KeyError, TypeError, RecursionError)    # what damage raises


def open_corpus(config, vocabulary=None):
    """The Corpus of a Config's pairs. With --init `vocabulary` gives its ids."""
    corpus = load_corpus(config.pairs or [default_corpus()], config.text, config.cache,
                         config.columns, vocabulary if config.init else None)
    return corpus._replace(
        train=share_of_pairs(corpus.train, config.pairs_fraction, config.seed))


def load_corpus(paths, text, cache, columns=(), vocabulary=None):
    """Open a corpus from the cache; where it is not there or is damaged, prepare it first.

    paths: pair files; columns: as in `read_rows`; vocabulary: gives the ids, or None for the
    corpus's own. Raises UserError for files that cannot be read, or hold too few pairs.
    """
    folder = Path(cache).expanduser() / _cache_key(paths, text, columns)
    corpus = _open(folder)
    if vocabulary and not (corpus and corpus.vocabulary == vocabulary):
        folder = folder.with_name(f"{folder.name}-{stable_hash(repr(vocabulary)):08x}")
        corpus = _open(folder)
    if corpus:
        return corpus
    advice = "make room there or choose another folder with --cache"
    with user_errors(f"{folder.parent}: cannot be written", advice):
        folder.parent.mkdir(parents=True, exist_ok=True)
        # of two processes that prepare it, the second takes the first's
        with locked(folder.parent, name=f"{folder.name}.lock"):
            if not (corpus := _open(folder)):
                with workplace(folder.parent) as work:
                    (work / "new").mkdir()
                    _prepare(paths, text, columns, vocabulary, work / "new")
                    os.replace(work / "new", folder)
                with user_errors(f"{folder}: cannot be read back", "check the disk", DAMAGE):
                    corpus = _read(folder)
    return corpus


def _cache_key(paths, text, columns):
    files = []
    for path in map(Path, paths):
        with user_errors(f"{path}: cannot be read", "name a pair file"):
            stat = path.stat()
        named = str(path.parent.resolve() / path.name)        # a link's own name tells the kind
        # `cp -p`, `rsync -t` and tar keep mtime though the text is another; nothing can set ctime
        files.append([named, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino])
    key = json.dumps([FORMAT, files, text.words, text.oov_buckets, text.filters_off, columns])
    return hashlib.blake2b(key.encode(), digest_size=10).hexdigest()


def _open(folder):
    """The Corpus in a cache folder, or None. A damaged one is told and deleted."""
    if not folder.exists():
        return None
    try:
        return _read(folder)
    except DAMAGE as error:
        print(f"{folder}: the prepared corpus is damaged ({error}); it is prepared again",
              file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _read(folder):
    """The Corpus in a cache folder, its files mapped into memory. Raises one of DAMAGE."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    for name, _, crc in meta["files"]:
        if checksum(folder / name) != crc:
            raise ValueError(f"the checksum of {name} is wrong")
    if meta["crc32"] != checksum_of(meta["report"]):
        raise ValueError("the checksum of the report in meta.json is wrong")
    words = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
    splits = {}
    for split in SPLITS:
        arrays = {name: np.memmap(folder / f"{split}.{name}", dtype, "r")
                  for name, dtype in FILES.items()}
        splits[split] = Split(arrays["ids"], arrays["offsets"], arrays["keys"].reshape(-1, 2))
    return Corpus(Vocabulary(**words), **splits, report=meta["report"],
                  checksum=checksum_of(meta["files"]))


class Tokenized(NamedTuple):
    """What a process makes of some Pairs."""

    removed: Counter      # "input: long" … → number of pairs
    examples: list        # the first pairs that are kept, as written
    counts: Counter       # word → how often it stands in the train split
    kept: bytes           # pickled: a list of words, and a Split of numbers into the words


def _prepare(paths, text, columns, vocabulary, folder):
    """Fill a folder in two passes: filter, tokenise and count; split, and turn words into ids."""
    path = folder.with_name("tokenized")
    counts, report = _tokenize_files(paths, text.filters_off, columns, path)
    tenths = _tenths([pairs.keys for _, pairs in _kept(path)]) if vocabulary else None
    own = vocabulary or Vocabulary.from_counts(counts, text.words, text.oov_buckets)
    report["kept"] = kept = _encode(path, folder, own, tenths)
    if min(kept.values()) < FEWEST:
        enough = "500" if vocabulary else "3,500 (500 with --init RUN)"
        raise UserError(f"{', '.join(map(str, paths))}: {sum(kept.values()):,} pairs are left "
                        f"after the filters (train {kept['train']}, dev {kept['dev']}, test "
                        f"{kept['test']}); expected at least {FEWEST} in each, about {enough} in "
                        "all: add files to --pairs")
    report["repeated"] = sum(_repeated(folder / f"{split}.keys") for split in SPLITS)
    (folder / "vocabulary.json").write_text(json.dumps(own.to_dict()), encoding="utf-8")
    files = [(path.name, path.stat().st_size, checksum(path)) for path in sorted(folder.iterdir())]
    meta = json.dumps({"files": files, "report": report, "crc32": checksum_of(report)})
    (folder / "meta.json").write_text(meta, encoding="utf-8")


def _repeated(path):
    """How many pairs in a file of keys are there before."""
    both = np.memmap(path, np.uint64, "r").reshape(-1, 2) @ MIX
    return len(both) - len(np.unique(both))


def _tenths(keys):
    """How many tenths of few pairs go to test, and as many to dev; None for enough pairs.

    keys: list of (n, 2) arrays
    """
    inputs, replies = np.concatenate([np.empty((0, 2), np.uint64), *keys]).T
    for tenths in (None, 1, 2):
        names = _splits_of(inputs, tenths)
        if all(_are_enough(replies[names == split]) for split in ("dev", "test")):
            return tenths
    return 3


def _splits_of(inputs, tenths):
    return np.array([split_of(key, tenths) for key in inputs.tolist()], "U5")


def _are_enough(replies):
    """Whether each reply has FEWEST wrong ones beside it. replies: (n,) keys of their texts"""
    _, counts = np.unique(replies, return_counts=True)
    return len(replies) - counts.max(initial=0) >= FEWEST


def _tokenize_files(paths, filters_off, columns, path):
    """The first pass: write what is kept to a file; → the words of train with counts, a report."""
    counts = Counter()
    report = {"read": 0, "malformed": 0, "kept": {}, "removed": Counter(), "examples": []}
    off = [name.replace("_", " ") for name in filters_off]    # as RULES names them
    advice = "stop what else uses it and run the same command again"

    def pairs_of(path):
        before = bar.n
        parts = read_rows(path, lambda position: bar.update(before + position - bar.n), columns)
        for part in parts:
            report["read"] += part.records
            report["malformed"] += len(part.malformed)
            yield part.pairs

    with (open(path, "wb") as file, local_processes(os.cpu_count(), advice) as workers,
          progress(total=sum(Path(path).stat().st_size for path in paths), desc="reading", unit="B",
                   unit_scale=True) as bar):
        pairs = chain.from_iterable(map(pairs_of, paths))
        # few ahead, or results would pile up before they are written
        for part in map_in_order(workers, partial(_tokenize, off=off), pairs, 4 * os.cpu_count()):
            report["removed"] += part.removed
            report["examples"] = (report["examples"] + part.examples)[:EXAMPLES]
            counts.update(part.counts)
            prune(counts, MOST_WORDS_COUNTED)
            file.write(part.kept)
    return counts, report


def prune(counts, limit):
    """Drop the rarest entries of a Counter until at most `limit` are left, so memory is bounded.

    A dropped word that comes again starts at 0. Its count then lacks at most `threshold`.
    """
    threshold = 1
    while len(counts) > limit:
        for word in [word for word, count in counts.items() if count <= threshold]:
            del counts[word]
        threshold *= 2


def _tokenize(pairs, off=()):
    """What one process does with some Pairs: filter, tokenise, hash; → Tokenized."""
    removed, examples, counts = Counter(), [], Counter()
    numbers = {"": 0}    # word → its number here; "" stands for an empty sentence
    sentences, keys = [], []
    for pair in pairs:
        if rule := left_out(pair, off):
            removed[rule] += 1
            continue
        if len(examples) < EXAMPLES:
            examples.append((pair.input, pair.response))
        sides = [tokenize(pair.input), tokenize(pair.response)]
        keys.append([text_key(" ".join(tokens)) for tokens in sides])
        if split_of(keys[-1][0]) == "train":
            counts.update(chain(*sides))
        sentences += [[numbers.setdefault(word, len(numbers)) for word in tokens or [""]]
                      for tokens in sides]
    kept = Split(np.array([*chain(*sentences)], np.int32), offsets_of([*map(len, sentences)]),
                 np.array(keys, np.uint64).reshape(-1, 2))
    return Tokenized(removed, examples, counts, pickle.dumps(([*numbers], kept)))


def _kept(path):
    """Yield what the first pass kept: a list of words, and a Split of numbers into it."""
    with open(path, "rb") as parts:
        while parts.peek(1):
            yield pickle.load(parts)


def _encode(path, folder, vocabulary, tenths):
    """The second pass: write ids, offsets and keys of each split; → split → number of pairs."""
    base, pairs = dict.fromkeys(SPLITS, 0), dict.fromkeys(SPLITS, 0)
    with ExitStack() as files:
        out = {(split, name): files.enter_context(open(folder / f"{split}.{name}", "wb"))
               for split in SPLITS for name in FILES}
        for split in SPLITS:
            out[split, "offsets"].write(np.zeros(1, np.int64))
        for words, kept in _kept(path):
            id_of = np.array([UNKNOWN, *map(vocabulary.id, words[1:])], np.int32)
            names = _splits_of(kept.keys[:, 0], tenths)
            for split in SPLITS:
                some = some_pairs(kept, np.flatnonzero(names == split))
                out[split, "ids"].write(id_of.take(some.ids))
                out[split, "offsets"].write(some.offsets[1:] + base[split])
                out[split, "keys"].write(some.keys)
                base[split] += some.offsets[-1]
                pairs[split] += some.pairs
    return pairs
