"""Pairs on disk as packed ids: filtered, split, encoded once, memory-mapped ever after.

A prepared corpus is a folder in the cache with the vocabulary and, for each of the splits train,
dev and test, three flat files: the ids of all sentences end to end (input, response, input, …), the
offsets of the sentences, and a hash of each text. `meta.json`, written last, holds sizes and
checksums. Memory does not grow with the corpus.
"""

import hashlib
import json
import os
import pickle
import sys
from collections import Counter, defaultdict
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from ..cli import UserError, progress, user_errors
from ..files import checksum, checksum_of
from ..processes import local_processes, map_in_order
from ..workspace import locked, workplace
from .corpus import SPLITS, Corpus, Split, split_of, text_key
from .packed import Packed, offsets_of
from .pairs import EXPECTED, default_corpus, parse, read_chunks, removed_by
from .text import UNKNOWN, Vocabulary, prune, stable_hash, tokenize

FORMAT = 3
FILES = {"ids": np.int32, "offsets": np.int64, "keys": np.uint64}
MOST_WORDS_COUNTED = 5_000_000
FEWEST, EXAMPLES = 100, 3
DAMAGE = (OSError, ValueError, KeyError, TypeError, RecursionError)    # what damage raises


def open_corpus(config, vocabulary=None):
    """The corpus that a Config names: its pair files, or chitchat-dataset where it names none.

    vocabulary: of the run that is to read it; one that began without --init has the corpus's own
    """
    corpus = load_corpus(config.pairs or [default_corpus()], config.text, config.cache,
                         config.columns, vocabulary if config.init else None)
    return corpus._replace(train=corpus.train.share(config.pairs_fraction, config.seed))


def load_corpus(paths, text, cache, columns=(), vocabulary=None):
    """Open a corpus from the cache; where it is not there or is damaged, prepare it first.

    paths: pair files; text: TextConfig; cache: folder; columns: as in `read_chunks`; vocabulary:
    whose ids to use, or None for the corpus's own. Raises UserError for files that cannot be read,
    or with too few pairs to train and measure on.
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
                corpus = _published(work / "new", folder)
    return corpus


def _published(new, folder):
    """The Corpus in `folder`, which `new` becomes unless another process has been faster."""
    with locked(folder.parent):
        if not folder.exists():
            os.replace(new, folder)
        with user_errors(f"{folder}: cannot be read back", "check the disk", DAMAGE):
            return _read(folder)


@contextmanager
def told_if_cut(corpus):
    """Turn an error into a UserError where a file of a Corpus has been cut since it was opened."""
    try:
        yield
    except (IndexError, ValueError):                          # of numbers that are now zeros
        for mapped in (array for split in corpus[1:4] for array in split):
            path = getattr(mapped, "filename", None)
            if path and (not os.path.exists(path) or os.path.getsize(path) < mapped.nbytes):
                raise UserError(f"{path}: was cut while this training read it; go on with "
                                "--resume, which prepares it again") from None
        raise


def _cache_key(paths, text, columns):
    sources = []
    for path in map(Path, paths):
        try:
            stat = path.stat()
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}; name a pair file") from None
        named = str(path.parent.resolve() / path.name)        # a link's own name tells the kind
        sources.append([named, stat.st_size, stat.st_mtime_ns])
    key = json.dumps([FORMAT, sources, text.words, text.oov_buckets, text.filters_off, columns])
    return hashlib.blake2b(key.encode(), digest_size=10).hexdigest()


def _open(folder):
    """The corpus in a cache folder, or None if there is none. A damaged one is deleted and told."""
    if not folder.exists():
        return None
    try:
        return _read(folder)
    except DAMAGE as error:
        print(f"{folder}: the prepared corpus is damaged ({error}); it is prepared again. The "
              "system may have ended a training that had it open, without a word", file=sys.stderr)
    with workplace(folder.parent) as work, locked(folder.parent), suppress(FileNotFoundError):
        os.replace(folder, work / "damaged")                  # unless another process did so
    return None


def _read(folder):
    """The corpus in a cache folder, its files mapped into memory. Raises an error of DAMAGE."""
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    for name, size, crc in meta["files"]:
        if (found := (folder / name).stat().st_size) != size:
            raise ValueError(f"{name} has {found:,} bytes, expected {size:,}")
        if checksum(folder / name) != crc:
            raise ValueError(f"the checksum of {name} is wrong")
    if meta.get("crc32") not in (None, checksum_of(meta["report"])):    # older ones have none
        raise ValueError("the checksum of the report in meta.json is wrong")
    words = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
    splits = [Split(*(np.memmap(folder / f"{split}.{name}", dtype, "r")
                      for name, dtype in FILES.items())) for split in SPLITS]
    splits = [split._replace(keys=split.keys.reshape(-1, 2)) for split in splits]
    return Corpus(Vocabulary(**words), *splits, meta["report"], checksum_of(meta["files"]))


# ---------------------------------------------------------------- two passes over the files

class Tokenized(NamedTuple):
    """What a worker makes of one Chunk."""

    records: int
    malformed: list       # (line number, reason)
    removed: Counter      # by (rule, side)
    examples: list        # the first pairs that are kept, as written
    counts: dict          # how often each word stands in the train split
    sentences: bytes      # pickled: words, split → Packed of numbers into them (input, response, …)
    keys: dict            # split → (n, 2) uint64


def _prepare(paths, text, columns, vocabulary, folder):
    """Two passes: filter, split, tokenise and count, on all cores; then words become ids.

    folder: empty, in a workplace, which deletes what is left beside it
    """
    scratch = folder.with_name("scratch")
    scratch.mkdir()
    read = partial(_tokenize_files, paths, text.filters_off, columns, scratch)
    counts, report = read()
    if vocabulary and (tenths := _tenths(scratch)):
        counts, report = read(tenths)
    _check_enough(paths, report["kept"], vocabulary)
    vocabulary = vocabulary or Vocabulary.from_counts(counts, text.words, text.oov_buckets)
    _encode(scratch / "tokenized", folder, vocabulary)
    for split in SPLITS:
        os.replace(scratch / f"{split}.keys", folder / f"{split}.keys")
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary.to_dict()), encoding="utf-8")
    files = [(path.name, path.stat().st_size, checksum(path)) for path in sorted(folder.iterdir())]
    meta = json.dumps({"files": files, "report": report, "crc32": checksum_of(report)})
    (folder / "meta.json").write_text(meta, encoding="utf-8")


def _tenths(scratch):
    """How many tenths of few pairs are for test, and for dev: so many that P@N can be measured.

    Beside a true reply it needs wrong ones, which a frequent reply is not. → None: not few
    """
    keys_of = lambda split: np.fromfile(scratch / f"{split}.keys", np.uint64).reshape(-1, 2)
    enough = lambda replies: len(replies) - np.unique(
        replies, return_counts=True)[1].max(initial=0) >= FEWEST
    if all(enough(keys_of(split)[:, 1]) for split in ("dev", "test")):
        return None
    inputs, replies = np.concatenate([keys_of(split) for split in SPLITS]).T
    for tenths in (1, 2):
        part = inputs % 10 // tenths
        if enough(replies[part == 0]) and enough(replies[part == 1]):
            return tenths
    return 3


def _check_enough(paths, kept, vocabulary):
    if min(kept.values()) < FEWEST:
        enough = 500 if vocabulary else "3,500"
        instead = "" if vocabulary else "; or start from a run, for which 500 do: --init RUN"
        raise UserError(f"{', '.join(map(str, paths))}: {kept.total():,} pairs are left after the "
                        f"filters (train {kept['train']}, dev {kept['dev']}, test {kept['test']}); "
                        f"expected at least {FEWEST} in each, about {enough} in all: add files to "
                        f"--pairs{instead}")


def _tokenize_files(paths, filters_off, columns, scratch, tenths=None):
    """First pass, into one file of Tokenized parts and three of keys. → words of train, report."""
    counts, removed, read, malformed = Counter(), Counter(), 0, 0
    kept = Counter(dict.fromkeys(SPLITS, 0))                  # a log may hold no pair at all
    tokenized = open(scratch / "tokenized", "wb")
    keys = {split: open(scratch / f"{split}.keys", "wb") for split in SPLITS}
    total = sum(Path(path).stat().st_size for path in paths)
    off = [name.replace("_", " ") for name in filters_off]    # as RULES names them
    examples, work = [], partial(_tokenize_chunk, off=off, tenths=tenths)
    bar = progress(total=total, desc="reading", unit="B", unit_scale=True)
    advice = "stop what else uses it and run the same command again"
    with local_processes(os.cpu_count(), advice) as workers, bar:
        for path in paths:
            before = bar.n
            chunks = read_chunks(path, lambda position: bar.update(before + position - bar.n),
                                 columns)
            # no more than some ahead, or results would pile up unwritten
            for part in _watched(path, map_in_order(workers, work, chunks, 4 * os.cpu_count())):
                read += part.records
                examples = (examples + part.examples)[:EXAMPLES]
                malformed += len(part.malformed)
                removed += part.removed
                counts.update(part.counts)
                prune(counts, MOST_WORDS_COUNTED)
                tokenized.write(part.sentences)
                for split in SPLITS:
                    kept[split] += len(part.keys[split])
                    part.keys[split].tofile(keys[split])
    for file in [tokenized, *keys.values()]:
        file.close()
    removed = {f"{side}: {rule}": number for (rule, side), number in sorted(removed.items())}
    return counts, {"read": read, "malformed": malformed, "kept": kept, "removed": removed,
                    "examples": examples}


def _watched(path, parts):
    """Yield every Tokenized of one file; show the first five malformed lines, and their number.

    Raises UserError if more than 1 line in 100 is malformed, checked from 1,000 lines on.
    """
    lines, bad, first = 0, 0, None
    plain = Path(str(path).lower().removesuffix(".gz").removesuffix(".zst"))
    place = "row" if plain.suffix in (".csv", ".parquet") else "line"

    def check():
        if bad * 100 > lines:
            raise UserError(f"{path}: {bad} of the first {lines} {place}s are malformed, more than "
                            f"1 in 100 (first: {first}); expected {EXPECTED}")

    for part in parts:
        lines += part.records
        for line, reason in part.malformed:
            bad, first = bad + 1, first or f"{place} {line}: {reason}"
            if bad <= 5:
                tqdm.write(f"{path}, {place} {line}: left out: {reason}", file=sys.stderr)
        if lines >= 1_000:
            check()
        yield part
    check()
    if bad > 5:
        print(f"{path}: {bad} malformed {place}s left out in all", file=sys.stderr)


def _tokenize_chunk(chunk, off=(), tenths=None):
    """Work of one process: parse, filter, tokenise, hash, split."""
    malformed, removed, examples = [], Counter(), []
    numbers = defaultdict(None, {"": 0})    # of words, in the order of their first use
    numbers.default_factory = numbers.__len__
    ids, lengths, keys = ({split: [] for split in SPLITS} for _ in range(3))
    for line, record in enumerate(chunk.records, start=chunk.first):
        try:
            pair = parse(chunk.kind, record, chunk.fields)
        except ValueError as error:
            malformed.append((line, str(error)))
            continue
        if rule := removed_by(pair.input, pair.input_author, off):
            removed[rule, "input"] += 1
        elif rule := removed_by(pair.response, pair.response_author, off):
            removed[rule, "response"] += 1
        else:
            examples += [pair[:2]] if len(examples) < EXAMPLES else []
            sides = [tokenize(pair.input), tokenize(pair.response)]
            pair_keys = [text_key(" ".join(tokens)) for tokens in sides]
            split = split_of(pair_keys[0], tenths)
            keys[split].append(pair_keys)
            for tokens in sides:
                lengths[split].append(len(tokens) or 1)
                ids[split] += map(numbers.__getitem__, tokens or [""])
    sentences = {split: Packed(np.array(ids[split], np.int32), offsets_of(lengths[split]))
                 for split in SPLITS}
    words = list(numbers)
    often = np.bincount(sentences["train"].ids, minlength=len(words))
    counts = {words[i]: int(often[i]) for i in np.flatnonzero(often) if i}
    keys = {split: np.array(rows, np.uint64).reshape(-1, 2) for split, rows in keys.items()}
    return Tokenized(len(chunk.records), malformed, removed, examples, counts,
                     pickle.dumps((words, sentences)), keys)


def _encode(path, folder, vocabulary):
    """Second pass: the words of a file of Tokenized parts to ids and offsets, by split."""
    base = dict.fromkeys(SPLITS, 0)
    with open(path, "rb") as parts, ExitStack() as files:
        out = {(split, name): files.enter_context(open(folder / f"{split}.{name}", "wb"))
               for split in SPLITS for name in ("ids", "offsets")}
        for split in SPLITS:
            np.zeros(1, np.int64).tofile(out[split, "offsets"])
        while parts.peek(1):
            words, sentences = pickle.load(parts)
            id_of = np.array([UNKNOWN, *map(vocabulary.id, words[1:])], np.int32)
            for split, packed in sentences.items():
                id_of.take(packed.ids).tofile(out[split, "ids"])
                (packed.offsets[1:] + base[split]).tofile(out[split, "offsets"])
                base[split] += packed.offsets[-1]
