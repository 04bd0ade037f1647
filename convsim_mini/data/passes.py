"""The passes that prepare a corpus: pairs → words, in several processes; then words → pieces.

For every few thousand pairs, the first pass pickles its results into a file, whose sentences the
later passes read again.
"""

import os
import pickle
from collections import Counter
from functools import partial
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import progress
from ..common.processes import local_processes, map_in_order
from ..core.packed import Packed, offsets_of
from ..core.batches import Split
from ..core.text import tokenize
from .pairs import left_out, read_rows
from .split import LONG, SPLITS, Origins, text_key

EXAMPLES = 3


class Texts(NamedTuple):
    """The n pairs that the filters keep, as words."""

    words: list         # each once
    parts: list         # (file from `_tokenize`, places in `words` of its words)
    origins: Origins    # of all n pairs

    def read_parts(self):
        """Yield a Packed for each part, the places of its words, and a slice: which pairs it is."""
        first = 0
        for file, places in self.parts:
            packed = pickle.loads(file.read_bytes())[0]
            last = first + len(packed.lengths) // 2
            yield packed, places, slice(first, last)
            first = last


def read_texts(paths, off, reading, folder):
    """Do the first pass, and write files into a folder; → Texts, a report.

    off: filters to skip. Processes hand over results in files, because Python waits forever if a
    process is killed while it is sending one.
    """
    places, parts, none = {}, [], np.empty((0, 2), np.uint64)
    origins = [Origins(none, none, none.astype(bool))]
    report = {"read": 0, "malformed": 0, "removed": Counter(), "lost": {}, "examples": []}

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
            _, words, of_part, removed, lost, examples = pickle.loads(path.read_bytes())
            ours = [places.setdefault(word, len(places)) for word in words]
            parts.append((path, np.array(ours, np.int32)))
            origins.append(of_part)
            report["removed"].update(removed)
            report["lost"] = lost | report["lost"]
            report["examples"] = (report["examples"] + examples)[:EXAMPLES]
    return Texts([*places], parts, Origins(*map(np.concatenate, zip(*origins)))), report


def _tokenize(work, off=()):
    """Do a process's work on (path, the file's number, Pairs); → the path.

    It pickles of the pairs that are kept the sentences, as a Packed of places in a list of words;
    this list; their Origins; how many are removed, by side and rule; the last of each such; and the
    first that are kept, as written.
    """
    path, file, pairs = work
    rules = [left_out(pair, off) for pair in pairs]
    kept = [pair for pair, rule in zip(pairs, rules) if not rule]
    sentences = [tokenize(text) or [""] for pair in kept for text in pair[:2]]
    places = {word: place for place, word in enumerate(dict.fromkeys(chain(*sentences)))}
    ids = np.array([places[word] for tokens in sentences for word in tokens], np.int32)
    path.write_bytes(pickle.dumps((
        Packed(ids, offsets_of([*map(len, sentences)])), [*places],
        origins_of(sentences, [pair.conversation for pair in kept], file),
        Counter(filter(None, rules)), {rule: pair[:2] for pair, rule in zip(pairs, rules) if rule},
        [pair[:2] for pair in kept[:EXAMPLES]])))
    return path


def origins_of(sentences, conversations, file=0):
    """The Origins of n pairs.

    sentences: their 2n texts as lists of tokens; conversations: as in Pair; file: its number, so
    that files do not mix their ids
    """
    texts = [" ".join(tokens) for tokens in sentences]
    of_name = {name: text_key(f"{file} {name}") if name else 0 for name in {*chain(*conversations)}}
    keys = np.array([*map(text_key, texts)], np.uint64)
    names = np.array([of_name[name] for name in chain(*conversations)], np.uint64)
    long = np.array([len(text) >= LONG for text in texts], bool)
    return Origins(*(values.reshape(-1, 2) for values in (keys, names, long)))


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
    found = {split: [] for split in SPLITS}
    for packed, places, pairs in texts.read_parts():
        for split, parts in found.items():
            which = np.flatnonzero(names[pairs] == split)
            some = some_pairs(Split(packed.ids, packed.offsets, texts.origins.keys[pairs]), which)
            pieces = of_words.take(places[some.ids])          # a word's, the next one's, …
            parts.append((pieces.ids, np.diff(pieces.offsets[some.offsets]), some.keys))
    splits = {}
    for split, parts in found.items():
        ids, lengths, keys = map(np.concatenate, zip(*parts))
        splits[split] = Split(ids, offsets_of(lengths), keys)
    return splits


def share_of(number, fraction, seed):
    """A random share of 0 … number − 1; with equal seeds, a smaller one is part of a larger one."""
    order = np.random.Generator(np.random.Philox(seed)).permutation(number)
    return np.sort(order[:max(1, round(fraction * number))])


def some_pairs(split, which):
    """Some pairs of a Split, as a Split in memory; which: their numbers, (m,)."""
    return Split(*split.sentences((2 * which[:, None] + np.arange(2)).ravel()), split.keys[which])
