"""Is a file of a data set the official one? Its rows are counted and its first pair is compared.

A count proves little: a translation of the STS Benchmark with the same number of rows is in
circulation.
"""

import hashlib
from itertools import chain, islice
from typing import NamedTuple

from convsim_mini.common.cli import UserError
from convsim_mini.evaluation.cqa import read as read_questions
from convsim_mini.evaluation.sts import read as read_sts
from convsim_mini.common.files import parse_json, read_lines


class Checked(NamedTuple):
    """told: what was found, in words; the others: whether it is as expected, True if not known."""

    told: str
    rows_right: bool
    first_right: bool


def check(path, file, kind):
    """Compare a file with its registry entry; → Checked.

    Raises UserError for a file that cannot be read as this kind.
    """
    rows, pair = READERS[kind](path)
    found = fingerprint(pair)
    if file.rows is None:
        told = f"{rows:,} rows (not checked: their number is not known)"
    else:
        told = f"{rows:,} rows"
        told += "" if rows == file.rows else f" where the official file has {file.rows:,}"
    if file.first is None:
        told += "; first pair not checked: not known"
    elif file.first == found:
        told += "; first pair as expected"
    else:
        told += (f'; the first pair is "{_short(pair[0])}" and "{_short(pair[1])}", not the '
                 f"official one ({found}, not {file.first})")
    return Checked(told, file.rows in (None, rows), file.first in (None, found))


def fingerprint(pair):
    """16 digits of the sha256 of two texts' letters and digits, so that tokenised copies agree."""
    letters = "|".join("".join(filter(str.isalnum, text.casefold())) for text in pair)
    return hashlib.sha256(letters.encode("utf-8")).hexdigest()[:16]


def _short(text):
    return text if len(text) <= 60 else text[:59] + "…"


# ---------------------------------------------------------------- path → (rows, first pair)

def _sts(path):
    sts = read_sts(path)
    return len(sts.labels), (sts.sentences1[0], sts.sentences2[0])


def _cqa(path):
    questions = read_questions(path)
    pair = questions[0].text, questions[0].candidates[0].text
    return sum(len(question.candidates) for question in questions), pair


def _snli(path):
    return _json_lines(path, "sentence1", "sentence2")


def _convokit(path):
    return _json_lines(path, "speaker", "text")               # a first utterance has no partner


def _json_lines(path, *fields):
    first, lines = _first(path, read_lines(path))
    try:
        record = parse_json(first)
        pair = tuple(str(record[field]) for field in fields)
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path}, line 1: expected a JSON object with the fields "
                        f"{' and '.join(fields)}") from None
    return sum(1 for _ in lines), pair


def _sick(path):
    """A table with a header."""
    header, lines = _first(path, read_lines(path))
    first, lines = _first(path, islice(lines, 1, None))
    record = dict(zip(_columns(path, header), _columns(path, first)))
    if not {"sentence_A", "sentence_B"} <= record.keys():
        raise UserError(f"{path}, line 1: expected a header with the columns sentence_A and "
                        "sentence_B, tab-separated")
    return sum(1 for _ in lines), (record["sentence_A"], record["sentence_B"])


def _sts_year(path):
    """Pairs, or one score a line; an empty line stands for a pair without a score."""
    first, lines = _first(path, read_lines(path))
    columns = (_columns(path, first) + ["", ""])[:2]
    return sum(1 for _ in lines), tuple(columns)


def _first(path, lines):
    """The first line that is not blank, and an iterator of all such lines."""
    lines = (line for line in lines if line.strip())
    first = next(lines, None)
    if first is None:
        raise UserError(f"{path}: holds no row")
    return first, chain([first], lines)


def _columns(path, line):
    try:
        return line.decode("utf-8-sig").split("\t")
    except UnicodeDecodeError:
        raise UserError(f"{path}: is no UTF-8 text") from None


def _senteval_lines(path):
    """A sentence a line, perhaps with its label. Empty lines are rows; the first two are a pair."""
    rows = path.read_bytes().decode("latin-1").removesuffix("\n").split("\n")
    return len(rows), (rows[0], *rows[1:2])


def _mrpc(path):
    """A table with a header."""
    header, lines = _first(path, read_lines(path))
    first, lines = _first(path, islice(lines, 1, None))
    if len(columns := _columns(path, first)) != 5:
        raise UserError(f"{path}, line 2: {len(columns)} columns, expected 5, tab-separated")
    return sum(1 for _ in lines), tuple(columns[3:])


READERS = {"sts": _sts, "snli": _snli, "cqa": _cqa, "sick": _sick, "sts_year": _sts_year,
           "convokit": _convokit, "lines": _senteval_lines, "mrpc": _mrpc}
