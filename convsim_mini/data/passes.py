"""The passes that prepare a corpus: pairs → words, in several processes; then words → pieces.

What they read and write stays in files, so that memory grows with the number of different words
alone, and by some 30 bytes a pair while split.py decides.
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
from ..core.text import UNKNOWN, tokenize
from .formats import parts_of
from .pairs import left_out, read_rows
from .split import LONG, SPLITS, Origins, in_parts, text_key

EXAMPLES = 3
RAW = {"ids": np.int32, "offsets": np.int64, "keys": np.dtype((np.uint64, 2)),
       "names": np.dtype((np.uint64, 2)), "long": np.dtype((bool, 2))}    # of the files of `append`


class Texts(NamedTuple):
    """The n pairs that the filters keep, as words. All but the words is in files."""

    words: list         # each once
    packed: Packed      # of all 2n sentences; ids are places in `words`
    origins: Origins

    def parts(self):
        """Yield (Packed, slice) for each part of the pairs: its sentences, which pairs it is."""
        for pairs in in_parts(len(self.origins.keys)):
            yield self.packed.part(2 * pairs.start, 2 * pairs.stop), pairs


def read_texts(paths, off, reading, folder):
    """Do the first pass, and write files into a folder; → Texts, a report.

    off: filters to skip. Processes hand over results in files, because Python waits forever if a
    process is killed while it is sending one.
    """
    places = {}
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
          progress(total=sum(Path(part).stat().st_size for path in paths
                             for part in parts_of(path)),
                   desc="reading", unit="B", unit_scale=True) as bar):
        works = ((folder / f"{number:09}", *work) for number, work in enumerate(pairs_of_files()))
        # only a few ahead; otherwise pairs would pile up before they are tokenised
        for path in map_in_order(workers, partial(_tokenize, off=off), works, 4 * os.cpu_count()):
            packed, words, origins, removed, lost, examples = pickle.loads(path.read_bytes())
            path.unlink()
            ours = np.array([places.setdefault(word, len(places)) for word in words], np.int32)
            append(folder / "all", packed._replace(ids=ours[packed.ids]), **origins._asdict())
            report["removed"].update(removed)
            report["lost"] = lost | report["lost"]
            report["examples"] = (report["examples"] + examples)[:EXAMPLES]
    return Texts([*places], Packed(*mapped(folder / "all", Packed._fields)),
                 Origins(*mapped(folder / "all", Origins._fields))), report


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
    for packed, pairs in texts.parts():
        inside = np.repeat(np.repeat(which[pairs], 2), packed.lengths)
        counts += np.bincount(packed.ids[inside], minlength=len(counts))
    return Counter({word: number for word, number in zip(texts.words, counts.tolist())
                    if word and number})


def read_splits(texts, vocabulary, codes, folder):
    """The pairs of Texts as pieces, mapped files in a folder; codes: (n,), from `split_pairs`.

    → dict, split's name → Split; the share of train's pieces that are unknown
    """
    of_words = vocabulary.pack([word] for word in texts.words)            # "" becomes UNKNOWN
    unknown = 0
    for packed, pairs in texts.parts():
        pieces = of_words.take(packed.ids)                    # a word's, the next one's, …
        lengths, of_pairs = np.diff(pieces.offsets[packed.offsets]), codes[pairs]
        of_sentences = np.repeat(of_pairs, 2)
        of_pieces = np.repeat(of_sentences, lengths)
        unknown += np.count_nonzero((pieces.ids == UNKNOWN) & (of_pieces == 0))
        for code, split in enumerate(SPLITS):
            some = Packed(pieces.ids[of_pieces == code], offsets_of(lengths[of_sentences == code]))
            append(folder / split, some, keys=texts.origins.keys[pairs][of_pairs == code])
    splits = {split: Split(*mapped(folder / split, Split._fields[:3])) for split in SPLITS}
    return splits, unknown / max(1, len(splits["train"].ids))


def places_of_share(number, fraction, seed):
    """A random share of 0 … number − 1; with equal seeds, a smaller one is in a larger one."""
    order = np.random.Generator(np.random.Philox(seed)).permutation(number)
    return np.sort(order[:max(1, round(fraction * number))])


def share_of(split, fraction, seed):
    """A share of a Split's pairs, as in `places_of_share`, as a Split in memory."""
    which = places_of_share(split.pairs, fraction, seed)
    return Split(*split.sentences((2 * which[:, None] + np.arange(2)).ravel()), split.keys[which])


# ---------------------------------------------------------------- raw files between the passes

def append(path, packed, **pairs):
    """Append sentences, and arrays with two values a pair, to raw files named PATH.ids and so on.

    `mapped` opens them, so nothing has to be in memory. A full disk raises an OSError.
    """
    begin = 0
    for name, array in {**packed._asdict(), **pairs}.items() if len(packed.ids) else ():
        with open(f"{path}.{name}", "ab") as file:
            if name == "ids":
                begin = file.tell() // array.itemsize
            if name == "offsets":
                array = array[min(begin, 1):] + begin
            file.write(np.ascontiguousarray(array))


def mapped(path, names):
    """Arrays in the files of `append`, mapped: they are read where they are used."""
    for name in names:
        file, dtype = Path(f"{path}.{name}"), RAW[name]
        # an empty file cannot be mapped
        yield np.asarray(np.memmap(file, dtype, "r")) if file.exists() else np.empty(0, dtype)
