"""The two passes that prepare a corpus: pairs → words, in several processes, and words → pieces.

For every few thousand pairs, the first pass pickles a Counted to a file that the second pass reads.
"""

import os
import pickle
from collections import Counter
from functools import partial
from itertools import chain, compress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..common.cli import progress
from ..common.processes import local_processes, map_in_order
from ..core.packed import offsets_of
from ..core.pairs import Split
from ..core.text import tokenize
from .corpus import SPLITS, some_pairs, split_of, text_key
from .pairs import left_out, read_rows

MOST_WORDS_COUNTED = 5_000_000
EXAMPLES = 3


class Counted(NamedTuple):
    """The first pass's results for a few thousand pairs."""

    removed: Counter    # "input: long" … → number of pairs removed
    examples: list      # the first pairs that are kept, as written
    counts: Counter     # the words of pairs for train
    words: list         # each word once; the first is "", for an empty sentence
    kept: Split         # the pairs that are kept; its ids are places in `words`


def count_words(paths, off, reading, folder):
    """Do the first pass, and write files into a folder; → counts of train's words, keys, a report.

    off: filters to skip; keys: uint64 (n, 2), of the n pairs that are kept. Processes hand over
    results in files, because Python waits forever if a process is killed while it is sending one.
    """
    counts, keys = Counter(), [np.empty((0, 2), np.uint64)]
    report = {"read": 0, "malformed": 0, "removed": Counter(), "examples": []}

    def pairs_of_files():
        for path in paths:
            before = bar.n
            for part in read_rows(path, lambda at: bar.update(before + at - bar.n), reading):
                report["read"] += part.records
                report["malformed"] += part.records - len(part.pairs)
                yield part.pairs

    advice = "stop other programs to free memory, and run the same command again"
    with (local_processes(os.cpu_count(), advice) as workers,
          progress(total=sum(Path(path).stat().st_size for path in paths), desc="reading", unit="B",
                   unit_scale=True) as bar):
        works = ((folder / f"{number:09}", pairs) for number, pairs in enumerate(pairs_of_files()))
        # only a few ahead; otherwise pairs would pile up before they are tokenised
        for path in map_in_order(workers, partial(_tokenize, off=off), works, 4 * os.cpu_count()):
            counted = pickle.loads(path.read_bytes())
            keys.append(counted.kept.keys)
            report["removed"].update(counted.removed)
            report["examples"] = (report["examples"] + counted.examples)[:EXAMPLES]
            counts.update(counted.counts)
            if len(counts) > MOST_WORDS_COUNTED:              # to save memory, drop the rarest half
                counts = Counter(dict(counts.most_common(MOST_WORDS_COUNTED // 2)))
    return counts, np.concatenate(keys), report


def _tokenize(work, off=()):
    """Do a process's work on (path, Pairs): write their Counted to the path; → the path."""
    path, pairs = work
    rules = [left_out(pair, off) for pair in pairs]
    texts = [pair[:2] for pair, rule in zip(pairs, rules) if not rule]
    sentences = [tokenize(text) for text in chain(*texts)]
    keys = np.array([text_key(" ".join(tokens)) for tokens in sentences], np.uint64).reshape(-1, 2)
    in_train = np.repeat(split_of(keys[:, 0]) == "train", 2)
    counts = Counter(chain(*compress(sentences, in_train)))
    numbers = {word: i for i, word in enumerate(dict.fromkeys(chain([""], *sentences)))}
    ids = np.array([numbers[word] for tokens in sentences for word in tokens or [""]], np.int32)
    kept = Split(ids, offsets_of([len(tokens) or 1 for tokens in sentences]), keys)
    removed = Counter(filter(None, rules))
    path.write_bytes(pickle.dumps(Counted(removed, texts[:EXAMPLES], counts, [*numbers], kept)))
    return path


def read_splits(parts, vocabulary, tenths):
    """Do the second pass, from `parts` to pieces; → dict: split's name → Split."""
    found = {split: ([], [], []) for split in SPLITS}         # ids, lengths of sentences, keys
    for path in sorted(parts.iterdir()):
        counted = pickle.loads(path.read_bytes())
        of_words = vocabulary.pack([word] for word in counted.words)         # "" becomes UNKNOWN
        names = split_of(counted.kept.keys[:, 0], tenths)
        for split, (ids, lengths, keys) in found.items():
            some = some_pairs(counted.kept, np.flatnonzero(names == split))
            pieces = of_words.take(some.ids)                  # a word's pieces, then the next's
            ids.append(pieces.ids)
            lengths.append(np.diff(pieces.offsets[some.offsets]))
            keys.append(some.keys)
    return {split: Split(np.concatenate(ids), offsets_of(np.concatenate(lengths)),
                         np.concatenate(keys)) for split, (ids, lengths, keys) in found.items()}
