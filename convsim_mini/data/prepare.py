"""Pairs on disk as packed ids: filtered, split and encoded once, then mapped into memory.

A prepared corpus is a folder in the cache. It holds the vocabulary, and three files for each of the
splits train, dev and test: the ids of all sentences end to end (input, response, input, …), their
offsets, and a hash of each text. `meta.json`, written last, holds sizes and checksums. Memory does
not grow with the corpus.
"""

import hashlib
import json
import os
import pickle
import sys
from collections import Counter
from contextlib import ExitStack, suppress
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import UserError, progress, user_errors
from ..common.files import checksum, checksum_of
from ..common.processes import local_processes, map_in_order
from ..common.workspace import locked, workplace
from ..core.pairs import Split
from .corpus import SPLITS, Corpus, share_of_pairs, split_of, text_key
from ..core.packed import Packed, offsets_of
from .pairs import default_corpus, parse, parsed, read_chunks, removed_by, watched
from ..core.text import UNKNOWN, Vocabulary, stable_hash, tokenize

FORMAT = 6
FILES = {"ids": np.int32, "offsets": np.int64, "keys": np.uint64}
MOST_WORDS_COUNTED = 5_000_000
FEWEST = 100    # pairs in a split, and replies to choose among
EXAMPLES = 3
PAIRS_AT_ONCE = 4_000_000
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

    paths: pair files; columns: as in `read_chunks`; vocabulary: gives the ids, or None for the
    corpus's own. Raises UserError for files that cannot be read, or hold too few pairs.
    """
    folder = Path(cache).expanduser() / _cache_key(paths, text, columns)
    corpus = _open(folder)
    if vocabulary and not (corpus and corpus.vocabulary == vocabulary):
        folder = folder.with_name(f"{folder.name}-{stable_hash(repr(vocabulary)):08x}")
        corpus = _open(folder)
    if corpus is None:
        advice = "make room there or choose another folder with --cache"
        with user_errors(f"{folder.parent}: cannot be written", advice):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with workplace(folder.parent) as work:
                (work / "new").mkdir()
                _prepare(paths, text, columns, vocabulary, work / "new")
                with locked(folder.parent):
                    if not folder.exists():                   # no other process was faster
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
    """The Corpus in a cache folder, or None. A damaged one is reported and deleted."""
    if not folder.exists():
        return None
    try:
        return _read(folder)
    except DAMAGE as error:
        print(f"{folder}: the prepared corpus is damaged ({error}); it is prepared again",
              file=sys.stderr)
    with workplace(folder.parent) as work, locked(folder.parent), suppress(FileNotFoundError):
        os.replace(folder, work / "damaged")                  # unless another process did so
    return None


def _read(folder):
    """The Corpus in a cache folder, its files mapped into memory. Raises one of DAMAGE."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    for name, size, crc in meta["files"]:
        if (found := (folder / name).stat().st_size) != size:
            raise ValueError(f"{name} has {found:,} bytes, expected {size:,}")
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
    """What a process makes of one Chunk."""

    records: int          # number of records that it has read
    malformed: list       # (line number, reason)
    removed: Counter      # "input: long" … → number of pairs
    examples: list        # the first pairs that are kept, as written
    counts: dict          # word → how often it stands in the train split
    sentences: bytes      # pickled: the words, and split → Packed of numbers into the words
    keys: dict            # split → (n, 2) uint64


def _prepare(paths, text, columns, vocabulary, folder):
    """Fill a folder in two passes: filter, split, tokenise and count; turn words into ids."""
    tokenized = folder.with_name("tokenized")
    read = partial(_tokenize_files, paths, text.filters_off, columns, tokenized, folder)
    counts, report = read()
    if vocabulary and (tenths := _tenths(folder)):
        counts, report = read(tenths)
    _check_enough(paths, report["kept"], vocabulary)
    vocabulary = vocabulary or Vocabulary.from_counts(counts, text.words, text.oov_buckets)
    _encode(tokenized, folder, vocabulary)
    report["repeated"] = sum(_repeated(folder / f"{split}.keys") for split in SPLITS)
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary.to_dict()), encoding="utf-8")
    files = [(path.name, path.stat().st_size, checksum(path)) for path in sorted(folder.iterdir())]
    meta = json.dumps({"files": files, "report": report, "crc32": checksum_of(report)})
    (folder / "meta.json").write_text(meta, encoding="utf-8")


def _repeated(path):
    """How many pairs in a file of keys are there before. In parts, so that memory does not grow."""
    keys = np.memmap(path, np.uint64, "r").reshape(-1, 2)
    parts = 1 + len(keys) // PAIRS_AT_ONCE
    repeated = 0
    for part in range(parts):
        blocks = (keys[k:k + PAIRS_AT_ONCE] for k in range(0, len(keys), PAIRS_AT_ONCE))
        both = np.concatenate([(block @ MIX)[block[:, 0] % np.uint64(parts) == part]
                               for block in blocks])
        repeated += len(both) - len(np.unique(both))
    return repeated


def _tenths(folder):
    """How many tenths of few pairs go to test, and as many to dev; None for enough pairs."""
    keys = {split: np.fromfile(folder / f"{split}.keys", np.uint64).reshape(-1, 2)
            for split in SPLITS}
    if _are_enough(keys["dev"][:, 1]) and _are_enough(keys["test"][:, 1]):
        return None
    inputs, replies = np.concatenate([*keys.values()]).T
    for tenths in (1, 2):
        part = inputs % 10 // tenths                          # as `split_of` cuts
        if _are_enough(replies[part == 0]) and _are_enough(replies[part == 1]):
            return tenths
    return 3


def _are_enough(replies):
    """Whether each reply has FEWEST wrong ones beside it. replies: (n,) keys of their texts"""
    _, counts = np.unique(replies, return_counts=True)
    return len(replies) - counts.max(initial=0) >= FEWEST


def _check_enough(paths, kept, vocabulary):
    if min(kept.values()) < FEWEST:
        enough = "500" if vocabulary else "3,500 (500 with --init RUN)"
        raise UserError(f"{', '.join(map(str, paths))}: {kept.total():,} pairs are left after the "
                        f"filters (train {kept['train']}, dev {kept['dev']}, test {kept['test']}); "
                        f"expected at least {FEWEST} in each, about {enough} in all: add files to "
                        "--pairs")


def _tokenize_files(paths, filters_off, columns, sentences, folder, tenths=None):
    """The first pass: a file of sentences, three of keys in the folder; → train's words, report."""
    counts = Counter()
    kept = Counter(dict.fromkeys(SPLITS, 0))                  # a log may hold no pair at all
    report = {"read": 0, "malformed": 0, "kept": kept, "removed": Counter(), "examples": []}
    total = sum(Path(path).stat().st_size for path in paths)
    off = [name.replace("_", " ") for name in filters_off]    # as RULES names them
    tokenize_chunk = partial(_tokenize_chunk, off=off, tenths=tenths)
    advice = "stop what else uses it and run the same command again"
    with (ExitStack() as files, local_processes(os.cpu_count(), advice) as workers,
          progress(total=total, desc="reading", unit="B", unit_scale=True) as bar):
        tokenized = files.enter_context(open(sentences, "wb"))
        keys = {split: files.enter_context(open(folder / f"{split}.keys", "wb"))
                for split in SPLITS}
        for path in paths:
            before = bar.n
            chunks = read_chunks(path, lambda position: bar.update(before + position - bar.n),
                                 columns)
            # few ahead, or results would pile up before they are written
            parts = map_in_order(workers, tokenize_chunk, chunks, 4 * os.cpu_count())
            for part in watched(path, parts):
                report["read"] += part.records
                report["malformed"] += len(part.malformed)
                report["removed"] += part.removed
                report["examples"] = (report["examples"] + part.examples)[:EXAMPLES]
                counts.update(part.counts)
                prune(counts, MOST_WORDS_COUNTED)
                tokenized.write(part.sentences)
                for split in SPLITS:
                    kept[split] += len(part.keys[split])
                    keys[split].write(part.keys[split])
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


def _tokenize_chunk(chunk, off=(), tenths=None):
    """What one process does with a Chunk: parse, filter, tokenise, hash, split; → Tokenized."""
    pairs, malformed = parsed(chunk, parse)
    removed, examples = Counter(), []
    numbers = {"": 0}    # word → its number in this chunk; "" stands for an empty sentence
    sentences = {split: [] for split in SPLITS}
    keys = {split: [] for split in SPLITS}
    for pair in pairs:
        if rule := removed_by(pair.input, pair.input_author, off):
            removed[f"input: {rule}"] += 1
            continue
        if rule := removed_by(pair.response, pair.response_author, off):
            removed[f"response: {rule}"] += 1
            continue
        if len(examples) < EXAMPLES:
            examples.append((pair.input, pair.response))
        sides = [tokenize(pair.input), tokenize(pair.response)]
        pair_keys = [text_key(" ".join(tokens)) for tokens in sides]
        split = split_of(pair_keys[0], tenths)
        keys[split].append(pair_keys)
        sentences[split] += [[numbers.setdefault(word, len(numbers)) for word in tokens or [""]]
                             for tokens in sides]
    packed = {split: Packed(np.array([*chain.from_iterable(of_split)], np.int32),
                            offsets_of([*map(len, of_split)]))
              for split, of_split in sentences.items()}
    words = list(numbers)
    often = np.bincount(packed["train"].ids, minlength=len(words))
    counts = {words[i]: int(often[i]) for i in np.flatnonzero(often) if i}
    keys = {split: np.array(rows, np.uint64).reshape(-1, 2) for split, rows in keys.items()}
    return Tokenized(len(chunk.records), malformed, removed, examples, counts,
                     pickle.dumps((words, packed)), keys)


def _encode(path, folder, vocabulary):
    """The second pass: a file of sentences to files of ids and offsets, one of each by split."""
    base = dict.fromkeys(SPLITS, 0)
    with open(path, "rb") as parts, ExitStack() as files:
        out = {(split, name): files.enter_context(open(folder / f"{split}.{name}", "wb"))
               for split in SPLITS for name in ("ids", "offsets")}
        for split in SPLITS:
            out[split, "offsets"].write(np.zeros(1, np.int64))
        while parts.peek(1):
            words, sentences = pickle.load(parts)
            id_of = np.array([UNKNOWN, *map(vocabulary.id, words[1:])], np.int32)
            for split, packed in sentences.items():
                out[split, "ids"].write(id_of.take(packed.ids))
                out[split, "offsets"].write(packed.offsets[1:] + base[split])
                base[split] += packed.offsets[-1]
