"""Pairs on disk as packed ids: filtered, split and encoded once, then mapped into memory.

A prepared corpus is a folder in the cache. It holds three files for each of the splits train, dev
and test: the ids of all sentences end to end (input, response, input, …), their offsets, and a hash
of each text. `meta.json` holds the vocabulary, a report, the files' checksums and one of its own.
Memory grows with the corpus by 16 bytes a pair.
"""

import dataclasses
import hashlib
import json
import os
import pickle
import shutil
import sys
import zlib
from collections import Counter
from contextlib import ExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from textwrap import shorten

import numpy as np

from ..common.cli import UserError, progress, user_errors
from ..common.files import UNREADABLE, checksum, locked, new_folder
from ..common.processes import local_processes, map_in_order
from ..common.tables import table
from ..core.packed import offsets_of
from ..core.pairs import Split
from ..core.text import Vocabulary, tokenize
from .corpus import SPLITS, Corpus, share_of, some_pairs, split_of, text_key
from .pairs import RULES, left_out, read_rows
from .tables_and_logs import Reading, default_corpus

FORMAT = 10
FILES = {"ids": np.int32, "offsets": np.int64, "keys": np.uint64}
MOST_WORDS_COUNTED = 5_000_000
FEWEST = 100    # pairs in a split, and replies to choose among
EXAMPLES = 3


def open_corpus(config, vocabulary=None):
    """The Corpus of a Config's pairs. With --init `vocabulary` gives its ids."""
    corpus = load_corpus(config.pairs or [default_corpus()], config.text, config.cache,
                         Reading(config.columns, config.encoding),
                         vocabulary if config.init else None)
    if config.pairs_fraction == 1:
        return corpus
    kept = share_of(corpus.train.pairs, config.pairs_fraction, config.seed)
    return corpus._replace(train=some_pairs(corpus.train, kept))


def load_corpus(paths, text, cache, reading=Reading(), vocabulary=None):
    """Open a corpus from the cache; where it is not there or is damaged, prepare it first.

    paths: pair files; reading: as in `read_rows`; vocabulary: gives the ids, or None for the
    corpus's own. Raises UserError for files that cannot be read, or hold too few pairs.
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
        # of two processes that prepare it, the second takes the first's
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
    shown = "".join(f"  {shorten(text, 50)} → {shorten(reply, 50)}\n"
                    for text, reply in report["examples"])
    counted = table(["the corpus, after the paper's filters", ""], rows)
    return f"{counted}\n\nThe first pairs:\n{shown}"


def _cache_key(paths, text, reading):
    files = []
    for path in map(Path, paths):
        with user_errors(f"{path}: cannot be read", "name a pair file", (OSError, ValueError)):
            stat = path.stat()
        named = str(path.parent.resolve() / path.name)        # a link's own name tells the kind
        # `cp -p`, `rsync -t` and tar keep mtime though the text is another; nothing can set ctime
        files.append([named, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino])
    key = json.dumps([FORMAT, files, text.pieces, text.filters_off, reading])
    return hashlib.blake2b(key.encode(), digest_size=10).hexdigest()


def _open(folder):
    """The Corpus of a cache folder, mapped into memory, or None; a damaged one is deleted."""
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
        print(f"{folder}: the prepared corpus is damaged ({error}); it is prepared again",
              file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _prepare(paths, text, reading, vocabulary, folder):
    """Fill a folder in two passes: filter, tokenise and count; split, and cut words into pieces."""
    parts = folder.with_name("parts")
    parts.mkdir()
    counts, report = _tokenize_files(paths, text.filters_off, reading, parts)
    own = vocabulary or Vocabulary.of_pieces(counts, text.pieces)
    keys = np.concatenate([np.empty((0, 2), np.uint64), *(kept.keys for _, kept in _kept(parts))])
    kept = report["kept"] = _encode(parts, folder, own, _tenths(keys) if vocabulary else None)
    if min(kept.values()) < FEWEST:
        enough = "500" if vocabulary else "3,500 (500 with --init RUN)"
        raise UserError(f"{', '.join(map(str, paths))}: {len(keys):,} of {report['read']:,} pairs "
                        f"are left (train {kept['train']}, dev {kept['dev']}, test {kept['test']})"
                        f"; expected at least {FEWEST} in each, about {enough} in all: "
                        f"{_where_pairs_went(report, keys[:, 0])}")
    files = {path.name: checksum(path) for path in sorted(folder.iterdir())}
    about = json.dumps({"files": files, "vocabulary": dataclasses.asdict(own), "report": report})
    meta = json.dumps([zlib.crc32(about.encode()), about])
    (folder / "meta.json").write_text(meta, encoding="utf-8")


def _where_pairs_went(report, inputs):
    """What to do where too few pairs are left. inputs: (n,), a key of each one's input."""
    went = []
    for name, number in report["removed"].most_common(2):
        side, _, rule = name.partition(": ")
        off = f" (keep them: --text.filters_off {rule.replace(' ', '_')})" * (rule != "no text")
        went.append(f"{number:,} were removed by their {side}: {RULES[rule]}{off}")
    if len(inputs) > FEWEST > (different := len(np.unique(inputs))):
        went.append(f"there are {different} different inputs, and equal ones are in one split: are "
                    "the columns swapped?")
    return "; ".join([*went, "or add files to --pairs"]).removeprefix("or ")


def _tenths(keys):
    """How many tenths of few pairs go to test, and as many to dev; None for enough pairs.

    Each reply in them has FEWEST wrong ones beside it, if that can be.
    """
    for tenths in (None, 1, 2):
        names = _splits_of(keys[:, 0], tenths)
        replies = [keys[names == split, 1] for split in ("dev", "test")]
        if all(len(some) - np.unique(some, return_counts=True)[1].max(initial=0) >= FEWEST
               for some in replies):
            return tenths
    return 3


def _splits_of(keys, tenths):
    """The names of the splits (n,) of pairs whose inputs have these keys (n,)."""
    return np.array([split_of(key, tenths) for key in keys.tolist()], "U5")


def _tokenize_files(paths, filters_off, reading, parts):
    """The first pass, into files in the folder `parts`; → the words of train with counts, a report.

    What processes find goes through files: Python waits for ever for a result from one that is
    killed while it sends it.
    """
    counts, removed = Counter(), Counter()
    report = {"read": 0, "malformed": 0, "removed": removed, "examples": []}
    off = [name.replace("_", " ") for name in filters_off]    # as RULES names them
    advice = "stop what else uses it and run the same command again"

    def pairs_of_files():
        for path in paths:
            before = bar.n
            for part in read_rows(path, lambda at: bar.update(before + at - bar.n), reading):
                report["read"] += part.records
                report["malformed"] += part.records - len(part.pairs)
                yield part.pairs

    with (local_processes(os.cpu_count(), advice) as workers,
          progress(total=sum(Path(path).stat().st_size for path in paths), desc="reading", unit="B",
                   unit_scale=True) as bar):
        tasks = ((parts / f"{number:09}", pairs) for number, pairs in enumerate(pairs_of_files()))
        # few ahead, or pairs would pile up before they are tokenised
        for path in map_in_order(workers, partial(_tokenize, off=off), tasks, 4 * os.cpu_count()):
            with open(path, "rb") as file:
                some_removed, examples, some_counts = pickle.load(file)
            removed.update(some_removed)
            report["examples"] = (report["examples"] + examples)[:EXAMPLES]
            counts.update(some_counts)
            if len(counts) > MOST_WORDS_COUNTED:              # in memory; the rarest half goes
                counts = Counter(dict(counts.most_common(MOST_WORDS_COUNTED // 2)))
    return counts, report


def _tokenize(task, off=()):
    """What one process does with a task, a path and Pairs: filter, tokenise, hash; → the path.

    Two values are pickled there. The first: what the filters removed, with its number; the first
    pairs that are kept, as written; the words of train, with their number. The second: a list of
    words, and a Split of numbers into it.
    """
    path, pairs = task
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
    with open(path, "wb") as file:
        pickle.dump((removed, examples, counts), file)
        pickle.dump(([*numbers], kept), file)
    return path


def _kept(parts):
    """Yield what the first pass kept: a list of words, and a Split of numbers into it."""
    for path in sorted(parts.iterdir()):
        with open(path, "rb") as file:
            pickle.load(file)
            yield pickle.load(file)


def _encode(parts, folder, vocabulary, tenths):
    """The second pass: write ids, offsets and keys of each split; → split → number of pairs."""
    base, pairs = dict.fromkeys(SPLITS, 0), dict.fromkeys(SPLITS, 0)
    with ExitStack() as files:
        out = {(split, name): files.enter_context(open(folder / f"{split}.{name}", "wb"))
               for split in SPLITS for name in FILES}
        for split in SPLITS:
            out[split, "offsets"].write(np.zeros(1, np.int64))
        for words, kept in _kept(parts):
            of_words = vocabulary.pack([word] for word in words)          # "" becomes UNKNOWN
            names = _splits_of(kept.keys[:, 0], tenths)
            for split in SPLITS:
                some = some_pairs(kept, np.flatnonzero(names == split))
                pieces = of_words.take(some.ids)              # a word's pieces, then the next's
                offsets = pieces.offsets[some.offsets]
                out[split, "ids"].write(pieces.ids)
                out[split, "offsets"].write(offsets[1:] + base[split])
                out[split, "keys"].write(some.keys)
                base[split] += offsets[-1]
                pairs[split] += some.pairs
    return pairs
