"""Pairs on disk as packed ids: filtered, split and encoded once.

A prepared corpus is a file in the cache, with three arrays for each of train, dev and test: the ids
of all sentences end to end (input, response, input, …), their offsets, and a hash of each text. It
also holds the vocabulary and a report. The arrays are mapped: a batch reads its part of the file.
"""

import dataclasses
import hashlib
import json
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..common.files import locked, workplace
from ..common.cli import UserError, one_line, path_of, say, user_errors
from ..common.show import table
from ..common.arrays_file import UNREADABLE, load_arrays, save_arrays
from ..core.batches import Split, share_of
from ..core.text import Vocabulary
from .filters import RULES
from .formats import default_corpus, parts_of
from .layouts import FIELDS, Reading
from .passes import read_splits, read_texts, word_counts
from .split import FEWEST, SPLITS, overlap, split_pairs
from .units import BLOCK, LONG

FORMAT = 19
ARRAYS = [f"{split}.{name}" for split in SPLITS for name in Split._fields[:3]]


class Corpus(NamedTuple):
    """A prepared corpus."""

    vocabulary: Vocabulary
    train: Split
    dev: Split
    test: Split
    report: dict     # what preparing it counted
    checksum: int


def sources(config):
    """The files with the pairs of a Config, and the Reading of them."""
    return config.pairs or [default_corpus()], Reading(config.columns, config.encoding)


def open_corpus(config, vocabulary=None):
    """The Corpus of a Config's pairs. With --init, `vocabulary` gives the ids."""
    paths, reading = sources(config)
    corpus = load_corpus(paths, config.text, config.cache, reading,
                         vocabulary if config.init else None)
    if config.pairs_fraction == 1:
        return corpus
    return corpus._replace(train=share_of(corpus.train, config.pairs_fraction, config.seed))


def load_corpus(paths, text, cache, reading=Reading(), vocabulary=None):
    """Open a corpus from the cache; if it is missing or damaged, prepare it first.

    paths: files of pairs; reading: as in `read_rows`; vocabulary: gives the ids; None: the corpus
    gets its own. Raises UserError if files cannot be read or hold too few pairs.
    """
    folder = path_of(cache)
    path = folder / f"{_cache_key(paths, text, reading, vocabulary)}.safetensors"
    if corpus := _open(path):
        return corpus
    with user_errors(f"{folder}: cannot be written",
                     "make room there or choose another folder with --cache"):
        folder.mkdir(parents=True, exist_ok=True)
        # if two processes need the same corpus, the second waits and opens what the first prepared
        with locked(folder, name=f"{path.stem}.lock"):
            if not (corpus := _open(path)):
                with workplace(folder) as private:
                    save_arrays(path, *_prepare(paths, text, reading, vocabulary, private))
                corpus = _open(path)
    return corpus


def corpus_report(report):
    """What became of the pairs that were read, as a table."""
    counts = [("pairs read", report["read"]), ("malformed", report["malformed"]),
              *((f"removed, {side}: {text}", report["removed"].get(f"{side}: {rule}", 0))
                for rule, text in RULES.items() for side in FIELDS),
              *((f"kept for {split}, from {report['conversations'][split]:,} conversations", number)
                for split, number in report["kept"].items()),
              (f"texts of test, {LONG} characters or more", report["texts"]),
              ("such texts that train holds too, from others", report["known"])]
    if report["cut"]:
        counts += [(f"conversations too long for one split, cut every {BLOCK} pairs",
                    report["cut"]), ("left out: between two splits", report["between"])]
    rows = [[what, f"{number:,}"] for what, number in counts]
    rows += [["wrong candidates from the same conversation, test", f"{report['same']:.1%}"],
             ["words of train with letters that the run does not know", f"{report['unknown']:.1%}"]]
    shown = "".join(f"  {one_line(text, 50)} → {one_line(reply, 50)}\n"
                    for text, reply in report["examples"])
    lost = []
    for rule in [*RULES][1:]:                                 # all but no_text
        of_rule = [name for name in report["lost"] if name.endswith(rule)]    # "input: long", …
        if sum(report["removed"][name] for name in of_rule) > report["read"] / 100:
            side, pair = of_rule[0].partition(":")[0], report["lost"][of_rule[0]]
            text = dict(zip(FIELDS, pair))[side]
            lost.append(f"Removed, for example (--text.filters_off {rule} keeps such texts): "
                        f"{one_line(text, 100)}")
    counted = table(["the corpus, after the paper's filters", ""], rows)
    return "\n\n".join(filter(None, [counted, "\n".join(lost), f"The first pairs:\n{shown}"]))


def _cache_key(paths, text, reading, vocabulary):
    files = []
    for path in map(Path, chain.from_iterable(map(parts_of, paths))):
        with user_errors(f"{path}: cannot be read", "name a file of pairs", (OSError, ValueError)):
            stat = path.stat()
            if not path.is_file():
                raise OSError("it is a pipe or a folder")
        named = str(path.parent.resolve() / path.name)        # a link's own name shows the kind
        # `cp -p`, `rsync -t` and tar set mtime even if the text has changed; nothing can set ctime
        files.append([named, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino])
    key = json.dumps([FORMAT, files, text.pieces, text.filters_off, reading.columns,
                      reading.encoding, repr(vocabulary)])
    return hashlib.blake2b(key.encode(), digest_size=10).hexdigest()


def _open(path):
    """The Corpus in a file of the cache; None if it is missing or damaged, and then deleted."""
    if not path.exists():
        return None
    again = "it will be prepared again"
    try:
        with user_errors(f"{path}: is not a prepared corpus", again, UNREADABLE):
            arrays, about = load_arrays(path, again, mapped=ARRAYS, check=True)
            splits = [Split(*(arrays[name] for name in ARRAYS[k:k + 3])) for k in (0, 3, 6)]
            return Corpus(Vocabulary(**about["vocabulary"]), *splits, about["report"],
                          about["checksum"])
    except UserError as error:
        say(str(error))
        with suppress(OSError):
            path.unlink()
        return None


def _prepare(paths, text, reading, vocabulary, folder):
    """A corpus as arrays and a dict: filter and tokenise; split by conversations; cut into pieces.

    folder: an empty one, for the files of these arrays
    """
    texts, report = read_texts(paths, text.filters_off, reading, folder)
    names = ", ".join(map(str, paths))
    _check_differences(names, texts.origins.keys)
    splits = split_pairs(texts.origins)
    report["kept"] = {split: int((splits.codes == k).sum()) for k, split in enumerate(SPLITS)}
    report |= overlap(texts.origins, splits)
    _check_numbers(names, report, len(splits.codes))
    own = vocabulary or Vocabulary.of_pieces(word_counts(texts, splits.codes == 0), text.pieces)
    found, report["unknown"] = read_splits(texts, own, splits.codes, folder)
    arrays = [array for split in found.values() for array in split[:3]]
    return dict(zip(ARRAYS, arrays)), {"vocabulary": dataclasses.asdict(own), "report": report}


def _check_differences(names, keys):
    """Raise UserError if most texts are equal. keys: as in Origins"""
    alike = {"inputs": keys[:, 0] == keys[:1, 0], "responses": keys[:, 1] == keys[:1, 1],
             "inputs and their responses": keys[:, 0] == keys[:, 1]}
    for what, equal in alike.items():
        if 2 * equal.sum() > max(len(keys), 10):
            raise UserError(f"{names}: {equal.sum():,} of {len(keys):,} {what} are the same text; "
                            "expected messages and different replies; name two other columns: "
                            "--columns INPUT RESPONSE")


def _check_numbers(names, report, pairs):
    """Raise UserError if a split has too few pairs. pairs: the number that the filters keep"""
    kept = report["kept"]
    if min(kept.values()) >= FEWEST:
        return
    went = ""
    for name, number in report["removed"].most_common(2):
        side, rule = name.split(": ")
        off = f" (to keep them: --text.filters_off {rule})" * (rule != "no_text")
        went += f"{number:,} of the rest were removed due to their {side}: {RULES[rule]}{off}; "
    raise UserError(f"{names}: {pairs:,} of {report['read']:,} pairs are left (train "
                    f"{kept['train']}, dev {kept['dev']}, test {kept['test']}); expected at least "
                    f"{FEWEST} in each, about 500 in all; {went}add files to --pairs, or pairs "
                    "with other inputs")
