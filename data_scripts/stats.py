"""Describe what prepare_reddit made: pairs, lengths, vocabulary, what was left out.

    python -m data_scripts.stats DIR

Lengths are in pieces of words, as the encoder counts them. Coverage is the share of the training
text that its most frequent pieces make up.
"""

if not __package__:
    raise SystemExit("run it by name, in the repository: python -m data_scripts.stats")

from pathlib import Path

import numpy as np

from convsim_mini.common.cli import Parser, UserError, errors_in_one_line
from convsim_mini.config import TextConfig
from convsim_mini.data.split import SPLITS
from convsim_mini.data.prepare import load_corpus
from convsim_mini.common.lines import parse_object
from data_scripts.prepare_reddit import table

PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
SIDES = ("input", "response")
AT_A_TIME = 1 << 20    # pairs whose lengths are counted at a time
LONGEST = 350          # pieces; longer texts, which are rare, count as this long


def main(arguments=None):
    """The command."""
    parser = Parser("data_scripts.stats", __doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="the --out of prepare_reddit")
    folder = parser.parse_args(arguments).folder.resolve()
    try:
        report = parse_object((folder / "report.json").read_text(encoding="utf-8"))
        counted = table(report)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise UserError(f"{folder / 'report.json'}: cannot be read ({error}); name the --out of a "
                        "prepare_reddit that has finished") from None
    print("\n".join(counted))
    if "packed" not in report:
        raise UserError(f"{folder}: holds {report['pairs']:,} pairs, too few to be packed and "
                        "counted; add dumps")
    print("\npacked for training: " + ", ".join(
        f"{split} {report['packed']['kept'][split]:,}" for split in SPLITS))
    vocabulary, lengths = packed(folder)
    print_lengths(lengths)
    print_coverage(vocabulary)


# ---------------------------------------------------------------- counting

def packed(folder):
    """The vocabulary of the packed corpus, and each side's histogram of lengths in pieces."""
    corpus = load_corpus([folder / "pairs.jsonl.zst"], TextConfig(), folder / "cache")
    lengths = np.zeros((2, LONGEST + 1), np.int64)
    for split in (corpus.train, corpus.dev, corpus.test):
        for start in range(0, 2 * split.pairs, 2 * AT_A_TIME):
            some = np.diff(split.offsets[start:start + 2 * AT_A_TIME + 1]).clip(max=LONGEST)
            for side in range(2):
                lengths[side] += np.bincount(some[side::2], minlength=LONGEST + 1)
    return corpus.vocabulary, dict(zip(SIDES, lengths))


def percentile(histogram, per_cent):
    """The smallest length that at least this percentage of the texts do not exceed."""
    cumulative = np.cumsum(histogram)
    return int(np.searchsorted(cumulative, cumulative[-1] * per_cent / 100))


def coverage(vocabulary):
    """Share of the text that the 1, 2, 3, … most frequent pieces cover: float64 (pieces,)."""
    return np.cumsum(vocabulary.probabilities()[1:])


# ---------------------------------------------------------------- showing

def print_lengths(lengths):
    """Percentiles of both sides' lengths."""
    print("\npieces, percentile" + "".join(f"{p:6}" for p in PERCENTILES))
    for side in SIDES:
        print(f"{side:18}" + "".join(f"{percentile(lengths[side], p):6}" for p in PERCENTILES))


def print_coverage(vocabulary):
    """The coverage of the 100, 1,000 and 10,000 most frequent pieces."""
    shares = coverage(vocabulary)
    for size in (100, 1_000, 10_000):
        if size <= len(shares):
            print(f"the {size:,} most frequent pieces cover {shares[size - 1]:.1%} of the text")


if __name__ == "__main__":
    with errors_in_one_line():
        main()
