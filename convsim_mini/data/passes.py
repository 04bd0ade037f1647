"""The passes that prepare a corpus: pairs → words, in several processes; then words → pieces.

For every few thousand pairs, the first pass pickles two files: a Counted, and the sentences as
numbers of words, which the later passes read.
"""

import os
import pickle
from collections import Counter
from functools import lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import progress
from ..common.processes import local_processes, map_in_order
from ..core.packed import Packed, offsets_of
from ..core.batches import Split
from ..core.text import tokenize
from .corpus import some_pairs, text_key
from .pairs import left_out, read_rows
from .split import LONG, SPLITS, Origins

EXAMPLES = 3
WORDS = ".words"    # ends the name of the second file


class Counted(NamedTuple):
    """The first pass's results for a few thousand pairs."""

    removed: Counter    # "input: long" … → number of pairs removed
    examples: list      # the first pairs that are kept, as written
    words: list         # of the pairs that are kept, each once
    origins: Origins    # of the pairs that are kept


class Texts(NamedTuple):
    """The n pairs that the filters keep, as words."""

    words: list         # each once; the first is "", for an empty sentence
    parts: list         # (file, places in `words` of the words in this file)
    origins: Origins    # of all n pairs

    def read_parts(self):
        """Yield a Packed for each part, the places of its words, and a slice: which pairs it is."""
        first = 0
        for file, places in self.parts:
            packed = pickle.loads(file.read_bytes())
            last = first + len(packed.lengths) // 2
            yield packed, places, slice(first, last)
            first = last


def read_texts(paths, off, reading, folder):
    """Do the first pass, and write files into a folder; → Texts, a report.

    off: filters to skip. Processes hand over results in files, because Python waits forever if a
    process is killed while it is sending one.
    """
    places, parts, none = {"": 0}, [], np.empty((0, 2), np.uint64)
    origins = [Origins(none, none, none.astype(bool))]
    report = {"read": 0, "malformed": 0, "removed": Counter(), "examples": []}

    def pairs_of_files():
        for file, path in enumerate(paths):
            before = bar.n
            for part in read_rows(path, lambda at: bar.update(before + at - bar.n), reading):
                report["read"] += part.records
                report["malformed"] += part.records - len(part.pairs)
                yield file, part.pairs

    advice = "stop other programs to free memory, and run the same command again"
    with (local_processes(os.cpu_count(), advice) as workers,
          progress(total=sum(Path(path).stat().st_size for path in paths), desc="reading", unit="B",
                   unit_scale=True) as bar):
        works = ((folder / f"{number:09}", *work) for number, work in enumerate(pairs_of_files()))
        # only a few ahead; otherwise pairs would pile up before they are tokenised
        for path in map_in_order(workers, partial(_tokenize, off=off), works, 4 * os.cpu_count()):
            counted = pickle.loads(path.read_bytes())
            of_part = [places.setdefault(word, len(places)) for word in counted.words]
            parts.append((path.with_suffix(WORDS), np.array(of_part, np.int32)))
            origins.append(counted.origins)
            report["removed"].update(counted.removed)
            report["examples"] = (report["examples"] + counted.examples)[:EXAMPLES]
    return Texts([*places], parts, Origins(*map(np.concatenate, zip(*origins)))), report


def _tokenize(work, off=()):
    """Do a process's work on (path, the file's number, Pairs): write two files; → the path."""
    path, file, pairs = work
    rules = [left_out(pair, off) for pair in pairs]
    kept = [pair for pair, rule in zip(pairs, rules) if not rule]
    sentences = [tokenize(text) for pair in kept for text in pair[:2]]
    places = {word: i for i, word in enumerate(dict.fromkeys(chain([""], *sentences)))}
    ids = np.array([places[word] for tokens in sentences for word in tokens or [""]], np.int32)
    packed = Packed(ids, offsets_of([len(tokens) or 1 for tokens in sentences]))
    path.with_suffix(WORDS).write_bytes(pickle.dumps(packed))
    examples = [pair[:2] for pair in kept[:EXAMPLES]]
    origins = origins_of(sentences, [pair.conversation for pair in kept], file)
    path.write_bytes(pickle.dumps(Counted(Counter(filter(None, rules)), examples, [*places],
                                          origins)))
    return path


def origins_of(sentences, conversations, file=0):
    """The Origins of n pairs.

    sentences: their 2n texts as lists of tokens; conversations: as in Pair; file: its number, so
    that files do not mix their ids
    """
    texts = [" ".join(tokens) for tokens in sentences]
    keys = np.array([*map(text_key, texts)], np.uint64)
    names = np.array([_name_key(file, name) for pair in conversations for name in pair], np.uint64)
    long = np.array([len(text) >= LONG for text in texts], bool)
    return Origins(*(values.reshape(-1, 2) for values in (keys, names, long)))


@lru_cache(1_000)
def _name_key(file, name):
    return text_key(f"{file} {name}") if name else 0


def word_counts(texts, which):
    """How often each word occurs in some of the pairs: a Counter. which: bool (n,)"""
    counts = np.zeros(len(texts.words), np.int64)
    for packed, places, pairs in texts.read_parts():
        inside = np.repeat(np.repeat(which[pairs], 2), packed.lengths)
        counts[places] += np.bincount(packed.ids[inside], minlength=len(places))
    return Counter({word: number for word, number in zip(texts.words, counts.tolist())
                    if word and number})


def read_splits(texts, vocabulary, names):
    """The pairs of Texts as pieces: dict, split's name → Split. names: (n,), from `split_pairs`"""
    of_words = vocabulary.pack([word] for word in texts.words)            # "" becomes UNKNOWN
    lengths = np.concatenate([                                # of all sentences, in pieces
        np.add.reduceat(of_words.lengths[places[packed.ids]], packed.offsets[:-1])
        for packed, places, _ in texts.read_parts()])
    splits, filled = {}, dict.fromkeys(SPLITS, 0)
    for split in SPLITS:
        offsets = offsets_of(lengths[np.repeat(names == split, 2)])
        splits[split] = Split(np.empty(offsets[-1], np.int32), offsets,
                              texts.origins.keys[names == split])
    for packed, places, pairs in texts.read_parts():
        part = Split(places[packed.ids], packed.offsets, texts.origins.keys[pairs])
        for split, found in splits.items():
            some = some_pairs(part, np.flatnonzero(names[pairs] == split))
            ids, begin = of_words.take(some.ids).ids, filled[split]       # a word's pieces, the
            found.ids[begin:begin + len(ids)] = ids                       # next one's, …
            filled[split] += len(ids)
    return splits
