"""The passes that prepare a corpus: pairs → words, in several processes; then words → pieces.

What they read and write stays in files, so that memory grows with the number of different words
alone, and by some 30 bytes a pair while split.py decides.
"""

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
from ..fast.host import number_of_cores
from .formats import parts_of
from .pairs import left_out, read_rows
from .split import SPLITS
from .units import Origins, origins_of, slices

EXAMPLES = 3
# the types of the raw files of `append`, by the last part of their names
RAW = {"ids": np.int32, "offsets": np.int64, "keys": np.dtype((np.uint64, 2)),
       "names": np.dtype((np.uint64, 2)), "long": np.dtype((bool, 2))}


class Texts(NamedTuple):
    """The n pairs that the filters keep, as words. All but the words is in files."""

    words: list         # each once
    packed: Packed      # of all 2n sentences; ids are places in `words`
    origins: Origins

    def slices(self):
        """Yield (Packed, slice) for some of the pairs at a time: sentences, and their pairs."""
        for pairs in slices(len(self.origins.keys)):
            yield self.packed.part(2 * pairs.start, 2 * pairs.stop), pairs


class Tokenized(NamedTuple):
    """What a process makes of a chunk of pairs: those that the filters keep, what they remove."""

    packed: Packed       # of the sentences that are kept; ids are places in `words`
    words: list          # each once
    origins: Origins
    removed: Counter     # how many pairs, by side and rule
    lost: dict           # the last pair of each such, as written
    examples: list       # the first pairs that are kept, as written


# ---------------------------------------------------------------- the first pass

def read_texts(paths, off, reading, folder):
    """Do the first pass, and write files into a folder; → Texts, a report. off: filters to skip."""
    places = {}    # word → its place
    report = {"read": 0, "malformed": 0, "removed": Counter(), "lost": {}, "examples": []}
    advice = "stop other programs to free memory, and run the same command again"
    size = sum(Path(part).stat().st_size for path in paths for part in parts_of(path))
    with (local_processes(number_of_cores(), advice) as workers,
          progress(total=size, desc="reading", unit="B", unit_scale=True) as bar):
        works = ((folder / f"{number:09}", file, pairs)
                 for number, (file, pairs) in enumerate(_pairs_of(paths, reading, report, bar)))
        # only a few ahead; otherwise pairs would pile up before they are tokenised
        for path in map_in_order(workers, partial(_filter_and_tokenize, off=off), works,
                                 4 * number_of_cores()):
            part = pickle.loads(path.read_bytes())
            path.unlink()
            place = np.array([places.setdefault(word, len(places)) for word in part.words],
                             np.int32)
            append(folder / "all", part.packed._replace(ids=place[part.packed.ids]),
                   **part.origins._asdict())
            report["removed"].update(part.removed)
            report["lost"] = part.lost | report["lost"]
            report["examples"] = (report["examples"] + part.examples)[:EXAMPLES]
    return Texts([*places], Packed(*mapped(folder / "all", Packed._fields)),
                 Origins(*mapped(folder / "all", Origins._fields))), report


def _pairs_of(paths, reading, report, bar):
    """Yield (a file's number, some of its Pairs); count them in the report, bytes in the bar."""
    for file, path in enumerate(paths):
        before = bar.n
        for chunk in read_rows(path, lambda at: bar.update(before + at - bar.n), reading):
            report["read"] += chunk.records
            report["malformed"] += chunk.records - len(chunk.pairs)
            yield file, chunk.pairs


def _filter_and_tokenize(work, off=()):
    """Do a process's work on (path, the file's number, Pairs): as Tokenized, pickled; → the path.

    In a file, because Python waits forever if a process is killed while it is sending a result.
    """
    path, file, pairs = work
    rules = [left_out(pair, off) for pair in pairs]
    kept = [pair for pair, rule in zip(pairs, rules) if not rule]
    sentences = [tokenize(text) or [""] for pair in kept for text in pair[:2]]
    places = {word: place for place, word in enumerate(dict.fromkeys(chain(*sentences)))}
    ids = np.array([places[word] for tokens in sentences for word in tokens], np.int32)
    path.write_bytes(pickle.dumps(Tokenized(
        Packed(ids, offsets_of([*map(len, sentences)])), [*places],
        origins_of(sentences, [pair.conversation for pair in kept], file),
        Counter(filter(None, rules)), {rule: pair[:2] for pair, rule in zip(pairs, rules) if rule},
        [pair[:2] for pair in kept[:EXAMPLES]])))
    return path


# ---------------------------------------------------------------- the second pass

def word_counts(texts, which):
    """How often each word occurs in some of the pairs: a Counter. which: bool (n,)"""
    counts = np.zeros(len(texts.words), np.int64)
    for packed, pairs in texts.slices():
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
    for packed, pairs in texts.slices():
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


# ---------------------------------------------------------------- raw files between the passes

def append(path, packed, **pairs):
    """Append sentences, and arrays with two values a pair, to raw files named PATH.ids and so on.

    `mapped` opens them, so nothing has to be in memory. A full disk raises an OSError.
    """
    if not len(packed.ids):
        return
    with open(f"{path}.ids", "ab") as file:
        before = file.tell() // packed.ids.itemsize           # ids that are there
    offsets = packed.offsets[min(before, 1):] + before
    for name, array in {"ids": packed.ids, "offsets": offsets, **pairs}.items():
        with open(f"{path}.{name}", "ab") as file:
            file.write(np.ascontiguousarray(array))


def mapped(path, names):
    """Arrays in the files of `append`, mapped: they are read where they are used."""
    for name in names:
        file, dtype = Path(f"{path}.{name}"), RAW[name]
        # an empty file cannot be mapped
        yield np.asarray(np.memmap(file, dtype, "r")) if file.exists() else np.empty(0, dtype)
